"""Starting a child: a fresh interpreter, in a session and a group of its own.

Not a fork: this program has threads, and their locks would be inherited without their threads. Not
``multiprocessing`` either, which speaks pickle.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from duly.engine.executors.process.body import KernelProcess
from duly.engine.process_identity import identity

_MODULE = "duly.engine.executors.process.child"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    body: KernelProcess
    socket: socket.socket
    lifeline: int  # what a child holds the other end of, and dies when it is closed


def spawn(target: str, *, environment: Mapping[str, str], output: int) -> Spawned:
    """Start a child that imports ``target`` and writes to ``output`` while it has no job.

    The kernel kills the child when the *thread* ends that started it (PR_SET_PDEATHSIG), so this is
    called by the event loop's own thread, which outlives the pool.
    """
    with ExitStack() as ours, ExitStack() as theirs:
        here, there = socket.socketpair()
        ours.enter_context(here)
        theirs.enter_context(there)
        reading, writing = os.pipe()
        ours.callback(os.close, writing)
        theirs.callback(os.close, reading)
        here.setblocking(False)  # noqa: FBT003 – it has no name
        process = subprocess.Popen(  # noqa: S603 – our own interpreter
            _command(target, socket=there.fileno(), lifeline=reading),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(there.fileno(), reading),
            start_new_session=True,
            env={**os.environ, **environment},
        )
        ours.pop_all()
    return Spawned(body=KernelProcess(process), socket=here, lifeline=writing)


def _command(target: str, *, socket: int, lifeline: int) -> list[str]:
    # Who finds this worker dead can tell its children by their command line.
    parent = identity(os.getpid())
    wires = ["--socket", str(socket), "--lifeline", str(lifeline)]
    return [sys.executable, "-m", _MODULE, "--parent", parent, *wires, "--", target]
