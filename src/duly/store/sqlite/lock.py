"""The lock for all writes on this machine: a ``flock`` on ``<database>.lock``.

Until version 3.51.3, two connections of which one checkpoints and the other starts the log anew can
lose a commit. Under this lock no two of ours ever do. It also prevents the starvation of writers
that SQLite's busy handler causes: its sleeps grow to 100 ms, and a sleeping writer is overtaken.

The kernel releases the lock when its holder dies, however it dies. It belongs to the open file, and
a forked child has that file open too: it must close it, and must not unlock it.

Other programs do not know this lock. While one of them holds SQLite's own (a VACUUM, a transaction
that is left open in a shell), the duly process that holds this lock waits, and the others wait for
it. That is noted in the file as a ``Stall``: no duly process could write, so no lease could be
renewed and no job claimed. Leases are prolonged by as much before anything else is written.
"""

import errno
import fcntl
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic
from weakref import WeakSet

from duly.clock import boottime
from duly.errors import StoreUnavailable, WriteBlocked

_CLOSED = -1
_LONGEST = 200  # bytes of a note
# A process that waits for another program notes it more often than this.
_FRESH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Stall:
    """A period in which no duly process could write; times are ``duly.clock.boottime``."""

    since: float
    until: float  # it was seen last
    seconds: float  # how much of it a process has waited

    def blocked(self, path: Path) -> WriteBlocked:
        return WriteBlocked(
            f"another program has held the write lock of {path} for {self.seconds:.0f} s, and "
            f"nothing was written; find it with: fuser {path}",
            since=self.since,
            seconds=self.seconds,
        )


def reason(error: OSError) -> str:
    """Return why a file cannot be created, and for a read-only folder what to do."""
    said = error.strerror or str(error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        said += "; duly must be able to write to this folder: allow it, or name another (--store)"
    return said


class FileLock:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _CLOSED
        self._nap = Event()  # never set

    def open(self) -> None:
        """Open the lock file. It is never removed: a lock on a removed file excludes no process."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"cannot open the lock {self.path}: {reason(error)}") from error
        _OPEN.add(self)

    def close(self) -> None:
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED

    def stall(self) -> Stall | None:
        """Return the noted stall, if any; with or without the lock."""
        found = os.pread(self._file, _LONGEST, 0).split()
        return Stall(*map(float, found)) if len(found) == 3 else None

    def note(self, stall: Stall | None) -> None:
        """Note that another program blocks all writes, or that this is over; needs the lock."""
        if stall is None:
            os.ftruncate(self._file, 0)
        else:
            said = f"{stall.since!r} {stall.until!r} {stall.seconds!r}"
            os.pwrite(self._file, said.ljust(_LONGEST - 1).encode() + b"\n", 0)

    @contextmanager
    def held(self, patience: timedelta) -> Iterator[None]:
        """Hold the lock, or raise ``StoreUnavailable`` when patience ends."""
        self._acquire(monotonic() + patience.total_seconds(), patience)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _acquire(self, until: float, patience: timedelta) -> None:
        """Poll for the lock: a ``flock`` that waits in the kernel cannot be cancelled.

        Four processes that do nothing but write waited 67 ms at worst, and 35 ms in the kernel.
        """
        while not self._acquired():
            if monotonic() >= until:
                stall = self.stall()
                if stall is not None and boottime() - stall.until < _FRESH_SECONDS:
                    raise stall.blocked(self.path.with_suffix(""))
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


_OPEN: WeakSet[FileLock] = WeakSet()


def _close_all() -> None:
    for lock in list(_OPEN):
        lock.close()


os.register_at_fork(after_in_child=_close_all)
