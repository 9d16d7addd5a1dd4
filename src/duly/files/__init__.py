"""Files of schedules: reading, writing, and comparing them with the store.

Pure code: nothing here opens a file or talks to a store.
"""

from duly.files.schedule_file import LimitEntry, QueueEntry, ScheduleEntry, ScheduleFile

__all__ = ["LimitEntry", "QueueEntry", "ScheduleEntry", "ScheduleFile"]
