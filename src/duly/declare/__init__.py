"""What a file of schedules says: read, written, and compared with what is there.

Text in, values or text out: nothing here opens a file or asks a store.
"""

from duly.declare.schedule_file import LimitEntry, QueueEntry, ScheduleEntry, ScheduleFile

__all__ = ["LimitEntry", "QueueEntry", "ScheduleEntry", "ScheduleFile"]
