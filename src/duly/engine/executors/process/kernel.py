"""A child as the kernel knows it: its process group, its end, its memory.

Memory has two limits, because neither is enough. The kernel limits the address space: one huge
allocation fails as ``MemoryError``, with a traceback that shows where. But address space is not
memory: stacks, arenas and mapped files reserve gigabytes and never touch them, so this limit is
generous. The worker checks the memory in use once a second and kills a job above its limit.
"""

import contextlib
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator

_MARGIN = 256 * 1024 * 1024  # some thirty threads, of eight megabytes of stack each


class KernelProcess:
    """The process and its group. Every method may be called from any thread.

    A signal is never sent to a PID that may belong to another process by now: until the dead child
    is reaped its PID is taken, so reaping and killing exclude each other.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid: int = process.pid
        self._process = process
        self._lock = threading.Lock()
        self.is_reaped: bool = False
        self.killed_by_worker: bool = False  # for a reason that has nothing to do with the job

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the child's process group."""
        with self._lock:
            if not self.is_reaped:
                self._signal(number)

    def kill_now(self) -> None:
        with self._lock:
            if not self.is_reaped:
                self.killed_by_worker = True
                self._signal(signal.SIGKILL)

    def reap(self) -> int | None:
        """Reap the child if it is dead; return its exit status (negative: a signal), or None.

        The rest of its group is killed first: it worked for a job that no longer runs.
        """
        with self._lock:
            if not self.is_reaped:
                if not self._is_dead():
                    return None
                self._process.wait()
                self.is_reaped = True
            return self._process.returncode

    def resident(self) -> int:
        return resident(self.pid)

    def _is_dead(self) -> bool:
        """Return whether it is dead; if so, kill its group while its PID is still reserved."""
        if not hasattr(os, "waitid"):  # macOS, before Python 3.13
            return self._process.poll() is not None
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True  # other code in this program has reaped our child
        if found is not None:
            self._signal(signal.SIGKILL)
        return found is not None

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def describe_exit(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


def resident(pid: int | str = "self") -> int:
    """Return the bytes of memory in use, or 0 where the system does not tell."""
    return _statm(pid)[1]


@contextlib.contextmanager
def address_space(memory: int | None) -> Iterator[None]:
    """Limit the address space to ``memory`` plus what is mapped and unused now."""
    if memory is None:
        yield
        return
    mapped, used = _statm("self")
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = max(mapped, memory + mapped - used) + _MARGIN
    if before != resource.RLIM_INFINITY:
        allowed = min(allowed, before)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def shown(size: int) -> str:
    """Format a size: 2.1 GB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size:,} bytes"


def _statm(pid: int | str) -> tuple[int, int]:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 – once a second for every job
            mapped, used, *_ = file.read().split()
    except (OSError, ValueError):
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(mapped) * page, int(used) * page
