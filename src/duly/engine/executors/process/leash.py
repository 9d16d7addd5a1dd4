"""A child does not outlive its worker, however that ends.

Three times over, because a job that still runs while another worker repeats it is the one thing
that must not be:

* The kernel kills the child when its parent dies (Linux).
* The kernel kills the whole group, with all that the task has started, when the last holder of the
  lifeline's other end is gone, which is the worker (Linux). It does so while the worker is still
  dying: once it cannot be found any more, none of its children can.
* The child kills its group when the socket ends. That works anywhere, if the child is able to run.
"""

import ctypes
import fcntl
import os
import select
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_F_SETSIG = 10  # fcntl has no name for it


def identity(pid: int) -> str:
    """``pid:start``. A number is given to the next process some day; with its start it is not."""
    try:
        # The name of a program, in parentheses, may hold anything, also spaces and parentheses.
        start = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        start = "0"
    return f"{pid}:{start}"


def bind(parent: str, *, lifeline: int) -> None:
    """Tie this process, and its group, to the parent: or end, if that is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _die_with(lifeline)
    if identity(os.getppid()) != parent or _is_cut(lifeline):
        os._exit(os.EX_UNAVAILABLE)


def cut() -> None:
    """End this process, and everything it started."""
    os.killpg(0, signal.SIGKILL)


def _die_with(lifeline: int) -> None:
    """Have the kernel send SIGKILL to the group when something happens to the lifeline.

    Nothing is ever written to it, so what happens is that its other end is closed.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _is_cut(lifeline: int) -> bool:
    readable, _, _ = select.select([lifeline], [], [], 0)
    return bool(readable)
