"""The identity of a process, and how a process is made to die with its parent.

A PID is reused some day; a PID with the start time of its process is not. Both are relative to a
namespace: a PID namespace has its own PIDs, and a time namespace its own start times. Where the
system does not tell, nothing is known, and the callers decide what follows.

Two machines that were resumed from one memory snapshot are equal by all of these. So a worker also
shows the number that its store has given it, as the name of a thread: that name is read in this
kernel or nowhere.
"""

import contextlib
import ctypes
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_LONGEST_NAME = 15
# In /proc/PID/stat, counted behind the name of the program.
_STATE, _USER, _SYSTEM, _BORN = 0, 11, 12, 19
_GONE = ("Z", "X")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    born: int  # in clock ticks since boot
    is_gone: bool  # a zombie


def process_stat(pid: int) -> ProcessStat:
    """Read /proc/PID/stat of a process; ``OSError`` if it does not exist."""
    if str((PROC / "self").readlink()) != str(os.getpid()):
        # The /proc of another PID namespace, in which our PIDs belong to other processes.
        raise PermissionError(f"{PROC} does not show the processes of this namespace")
    # The name, in parentheses, may hold anything, also spaces and parentheses.
    text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    found = text.rpartition(")")[2].split()
    return ProcessStat(int(found[_BORN]), found[_STATE] in _GONE)


def identity(pid: int) -> str:
    """``pid:start``."""
    try:
        born = process_stat(pid).born
    except (OSError, ValueError, IndexError):
        born = 0
    return f"{pid}:{born}"


def namespaces() -> str:
    """Return the namespaces in which the number and the start of this process mean something."""
    found = [PROC / "self/ns" / kind for kind in ("pid", "time")]
    return " ".join(str(one.readlink()) for one in found if one.is_symlink())


def show_number(worker: int) -> None:
    """Name this thread after a worker, for ``shows_number`` in other processes (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NAME, _thread_name(worker).encode())


def shows_number(pid: int, worker: int) -> bool:
    """Return whether a thread of the process is named after the worker."""
    name = _thread_name(worker).encode()
    for thread in (PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if (thread / "comm").read_bytes().rstrip() == name:
                return True
    return False


def _thread_name(worker: int) -> str:
    return f"duly-{worker}"[-_LONGEST_NAME:]


def thread_times() -> dict[int, float]:
    """Return the CPU seconds of each thread, by native id; empty if the system does not tell."""
    found = {}
    with contextlib.suppress(OSError):
        for thread in (PROC / "self/task").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                text = (thread / "stat").read_text(encoding="utf-8", errors="replace")
                ticks = text.rpartition(")")[2].split()
                used = int(ticks[_USER]) + int(ticks[_SYSTEM])
                found[int(thread.name)] = used / os.sysconf("SC_CLK_TCK")
    return found


def close_in_forks(descriptor: int) -> None:
    """Close the descriptor in forks, so that its other end notices when this process ends."""
    _NOT_INHERITED.add(descriptor)


def may_be_inherited(descriptor: int) -> None:
    """Undo ``close_in_forks``, before the descriptor is closed: its number may be reused."""
    _NOT_INHERITED.discard(descriptor)


def _close_inherited() -> None:
    for descriptor in _NOT_INHERITED:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _NOT_INHERITED.clear()


_NOT_INHERITED: set[int] = set()
os.register_at_fork(after_in_child=_close_inherited)


def die_with_parent(parent: str) -> None:
    """Have the kernel kill this process when its parent dies (Linux); end if that is gone already.

    More exactly, when the *thread* dies that started it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if identity(os.getppid()) != parent:
        os._exit(os.EX_UNAVAILABLE)
