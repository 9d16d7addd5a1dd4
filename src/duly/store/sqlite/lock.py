"""The lock that every write on the machine is made under: a ``flock`` on ``<database>.lock``.

Until version 3.51.3, two connections of which one checkpoints and the other starts the log anew can
lose a commit. Under this lock no two of ours ever do. It also ends the starvation of writers that
SQLite's own waiting knows: its naps grow to 100 ms, and whoever naps is overtaken.

The kernel releases the lock when its holder dies, however it dies. It belongs to the open file, and
a forked child has that file open too: it must close it, and must not unlock it.
"""

import fcntl
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic

from duly.errors import StoreUnavailable

_CLOSED = -1


class FileLock:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _CLOSED
        self._nap = Event()  # never set

    def open(self) -> None:
        """Open the file, which is never removed: a lock on a removed file excludes nobody."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"cannot open the lock {self.path}: {error.strerror}") from error

    def close(self) -> None:
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED

    @contextmanager
    def held(self, patience: timedelta) -> Iterator[None]:
        """Hold the lock, or raise ``StoreUnavailable`` when patience ends."""
        self._acquire(monotonic() + patience.total_seconds(), patience)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _acquire(self, until: float, patience: timedelta) -> None:
        """Ask again and again: a ``flock`` that waits in the kernel cannot be called back.

        Four processes that do nothing but write waited 67 ms at worst, and 35 ms in the kernel.
        """
        while not self._acquired():
            if monotonic() >= until:
                raise StoreUnavailable(
                    f"another process has held {self.path} for {patience.total_seconds():g} s, "
                    f"and nothing was written; find it with: fuser {self.path}"
                )
            self._nap.wait(random.uniform(0.0005, 0.0015))  # noqa: S311 - so that no two keep step

    def _acquired(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
