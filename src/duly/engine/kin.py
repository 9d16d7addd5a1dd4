"""Which process is which, and how one is made to die with its parent.

The number of a process is given to the next one some day; together with the moment of its start it
is not. Where the system does not tell, nothing is known: see who asks for what follows from that.
"""

import ctypes
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
# In /proc/PID/stat, counted behind the name of the program.
_STATE, _BORN = 0, 19
_GONE = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Vitals:
    born: int  # in ticks since the machine started
    is_gone: bool  # dead, and only not waited for


def vitals(pid: int) -> Vitals:
    """Of a process that is there; an ``OSError`` if none is shown."""
    # The name, in parentheses, may hold anything, also spaces and parentheses.
    text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    found = text.rpartition(")")[2].split()
    return Vitals(int(found[_BORN]), found[_STATE] in _GONE)


def identity(pid: int) -> str:
    """``pid:start``."""
    try:
        born = vitals(pid).born
    except (OSError, ValueError, IndexError):
        born = 0
    return f"{pid}:{born}"


def die_with_parent(parent: str) -> None:
    """Have the kernel kill this process when its parent dies (Linux); end if that is gone already.

    More exactly, when the *thread* dies that started it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if identity(os.getppid()) != parent:
        os._exit(os.EX_UNAVAILABLE)
