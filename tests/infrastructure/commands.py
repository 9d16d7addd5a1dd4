"""Programs of ours, many times: each of them a fork of a process that has imported what they need.

Python takes more than half a second of a processor to import ``duly``, and the tests start some
hundred programs. Such a fork has words, folder, environment, output, session, number and end of its
own, as ``python -m`` gives them to a program; only that what it imports is there already.

What is about how Python starts, about a terminal, or about flags of Python starts a Python.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

# Between it and each program stands a process that waits for the program's end, and tells it.
FORKING = """
import gc, importlib, json, os, pkgutil, runpy, signal, socket, sys, time, warnings
import duly.app, duly.cli, duly.store, duly.web

def run(module, words, folder, environment):
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    warnings._processoptions(list(filter(None, environment.get("PYTHONWARNINGS", "").split(","))))
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = open(
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    os.chdir(folder)
    sys.path[0], sys.argv = folder, [module, *words]
    importlib.invalidate_caches()
    runpy.run_module(module, run_name="__main__", alter_sys=True)

for room in (duly.app, duly.cli, duly.store, duly.web):
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        importlib.import_module(module.name)
gc.freeze()  # or each fork looks through all of it when it ends
asked = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
while True:
    said, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    if not said or not os.fork():
        break
    for stream in streams:
        os.close(stream)
asked.close()
if said:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, *streams = streams
    child = os.fork()
    if not child:
        os.close(told)
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    if not child:
        run(*json.loads(said))
    else:
        os.write(told, child.to_bytes(8, "big"))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(told, code.to_bytes(8, "big", signed=True))
        os._exit(0)
"""


class Forked:
    """``python -m module``, in a session of its own, as :class:`subprocess.Popen` would have it."""

    def __init__(
        self,
        words: list[str],
        *,
        stdout: int,
        stderr: int,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        module, *rest = words
        said = [module, rest, str(folder or Path.cwd()), dict(environment or os.environ)]
        self.args = words
        self.returncode: int | None = None
        self._heard, telling = os.pipe()
        socket.send_fds(_forking()[0], [json.dumps(said).encode()], [telling, stdout, stderr])
        os.close(telling)
        self.pid = int.from_bytes(os.read(self._heard, 8), "big")
        assert self.pid, "it could not be forked"

    def poll(self) -> int | None:
        return self._end(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._end(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may end between the two
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._heard], [], [], timeout)[0]:
            self.returncode = int.from_bytes(os.read(self._heard, 8), "big", signed=True)
            os.close(self._heard)
        return self.returncode


def typed(*words: str) -> "subprocess.CompletedProcess[str]":
    """What ``duly`` says to programs, here and now, and how it ends."""
    return completed("duly", *words)


def completed(
    *words: str, folder: Path | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m`` with the words to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = Forked(
            list(words),
            stdout=out.fileno(),
            stderr=err.fileno(),
            folder=folder,
            environment={**os.environ, **variables},
        )
        code = command.wait()
        said = [os.pread(one.fileno(), 1 << 24, 0).decode() for one in (out, err)]
    return subprocess.CompletedProcess(words, code, *said)


def pytest_unconfigure() -> None:
    if _forking.cache_info().currsize:
        here, process = _forking()
        here.close()
        process.wait()
        _forking.cache_clear()


@cache
def _forking() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        number = there.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", FORKING, str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[number],
            start_new_session=True,  # Ctrl-C is for pytest, which then ends us in order
        )
    return here, process
