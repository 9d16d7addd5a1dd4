"""A child does not outlive its worker, however that ends, nor its lease.

Four times over, because a job that still runs while another worker repeats it is the one thing
that must not be:

* The kernel kills the child when its parent dies (Linux).
* The kernel kills the whole group, with all that the task has started, when the last holder of the
  lifeline's other end is gone, which is the worker (Linux). It does so while the worker is still
  dying: once it cannot be found any more, none of its children can.
* The child kills its group when the socket ends. That works anywhere, if the child is able to run.
* The child kills its group when the worker's lease ends and no word of another one came: a worker
  that is stopped, or frozen, is not dead, and others repeat its jobs even so.
"""

import fcntl
import os
import select
import signal
import sys

from duly.engine.process_identity import die_with_parent

_F_SETSIG = 10  # fcntl has no name for it


def bind(parent: str, *, lifeline: int) -> None:
    """Tie this process, and its group, to the parent: or end, if that is gone already."""
    die_with_parent(parent)
    if sys.platform == "linux":
        _die_with(lifeline)
    if _is_cut(lifeline):
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
