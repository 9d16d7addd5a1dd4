"""Importers from crontab, systemd timers, Celery Beat and APScheduler to a file of schedules.

Pure code: nothing here opens a file, imports a program or unpickles a row. Everything that cannot
be imported becomes a note: one sentence with its place and what to do.
"""

from duly.files.importers.collector import Imported

__all__ = ["Imported"]
