"""What a file of schedules says: read, written, and compared with what is there.

Text in, values or text out: nothing here opens a file or asks a store.
"""

from duly.declare.sheet import Entry, LimitEntry, QueueEntry, Sheet

__all__ = ["Entry", "LimitEntry", "QueueEntry", "Sheet"]
