"""Kills the process groups of jobs when their worker dies or its lease ends without renewal.

A program that a job has started must not run beside the same job elsewhere. A worker that is killed
cannot end it, nor can one that is stopped (SIGSTOP, a frozen container) while its lease runs out.
So a helper process does: one for each worker, started for the first group.
"""

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

from duly.clock import boottime
from duly.engine.process_identity import close_in_forks, identity, may_be_inherited

_PROGRAM = Path(__file__).with_name("watchdog_process.py")
_END_SECONDS = 1.0


class Watchdog:
    """Guards process groups by a helper process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._groups: set[int] = set()
        self._until: float | None = None

    def guard(self) -> "GroupGuard":
        """Return a guard for a group that is about to be started."""
        with self._lock:
            if self._process is None:
                self._start()
        return GroupGuard(self)

    def watch(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if not self._send(f"+{group}"):
                self._start()

    def release(self, group: int) -> None:
        """Stop guarding a group, before its number may be reused."""
        with self._lock:
            self._groups.discard(group)
            self._send(f"-{group}")

    def lease_until(self, moment: float) -> None:
        with self._lock:
            self._until = moment
            if not self._send(f"={moment!r}") and self._groups:
                self._start()  # the helper was killed

    @property
    def lease_is_over(self) -> bool:
        return self._until is not None and boottime() >= self._until

    def kill(self) -> None:
        """Kill every group at once."""
        with self._lock:
            self._send("!")

    def close(self) -> None:
        with self._lock:
            self._end()

    def _start(self) -> None:
        """Start the helper process, or go without one if no process can be started."""
        self._end()
        with contextlib.suppress(OSError):
            reading, writing = os.pipe()
            try:
                os.set_blocking(writing, False)
                # Before the start: the helper knows its groups even if this worker dies meanwhile.
                lease = [] if self._until is None else [f"={self._until!r}\n"]
                groups = [f"+{group}\n" for group in self._groups]
                os.write(writing, "".join([*lease, *groups]).encode())
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
                    # By --parent the death watch recognises the helper of a dead worker.
                    [sys.executable, "-I", "-S", _PROGRAM, "--parent", identity(os.getpid())],
                    stdin=reading,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except BaseException:
                os.close(writing)
                raise
            finally:
                os.close(reading)
            close_in_forks(writing)
            self._pipe = writing

    def _send(self, line: str) -> bool:
        """Write a line; return whether the helper lives. Short lines are written whole."""
        if self._process is None:
            return False
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except OSError:
            return False
        return True

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        may_be_inherited(self._pipe)
        os.close(self._pipe)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class GroupGuard:
    """Guards one group."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._group: int | None = None

    def watch(self, group: int) -> None:
        """Have the group killed when this process dies or its lease ends."""
        self._group = group
        self._watchdog.watch(group)

    @property
    def lease_is_over(self) -> bool:
        """Return whether the group was or will be killed because the lease ended."""
        return self._watchdog.lease_is_over

    def release(self) -> None:
        if self._group is not None:
            self._watchdog.release(self._group)
