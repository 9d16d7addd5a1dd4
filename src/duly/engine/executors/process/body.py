"""A child as the kernel knows it: a process that leads a group of its own.

Everything here may be called from any thread, at any time. A signal is never sent to a number that
may meanwhile belong to somebody else: while the dead child is not waited for, its number is taken,
so waiting and killing exclude each other.
"""

import contextlib
import os
import signal
import subprocess
import threading

from duly.engine.executors.process import limits


class KernelProcess:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._lock = threading.Lock()
        self.is_buried = False
        self.given_up = False  # ended for a reason that is not the job's

    def send(self, number: signal.Signals) -> None:
        """Send it to the child and to everything it started, as far as that stayed in its group."""
        with self._lock:
            if not self.is_buried:
                self._signal(number)

    def give_up(self) -> None:
        with self._lock:
            if not self.is_buried:
                self.given_up = True
                self._signal(signal.SIGKILL)

    def bury(self) -> int | None:
        """How it ended (a signal as its negative), or nothing if it lives.

        What is left in its group dies first: it worked for a job that nobody runs any more.
        """
        with self._lock:
            if not self.is_buried:
                if not self._is_dead():
                    return None
                self._process.wait()
                self.is_buried = True
            return self._process.returncode

    def resident(self) -> int:
        return limits.resident(self.pid)

    def _is_dead(self) -> bool:
        """Whether it is; if so, its group is dead too, and its number still its own."""
        if not hasattr(os, "waitid"):  # macOS, before Python 3.13
            return self._process.poll() is not None
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True  # something in this program waits for children that are not its own
        if found is not None:
            self._signal(signal.SIGKILL)
        return found is not None

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def how_it_ended(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"
