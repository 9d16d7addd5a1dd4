"""From other schedulers: what a crontab, timers, Celery Beat or APScheduler say, as a sheet.

Text or plain values in, a sheet and notes out: nothing here opens a file, imports a program or
unpickles a row. What could not be carried is a note, one sentence with its place and what to do.
"""

from duly.declare.importers.collector import Imported

__all__ = ["Imported"]
