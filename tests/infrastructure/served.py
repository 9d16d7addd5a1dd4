"""A real web side in a process of its own, as people start it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

LAUNCH = "duly_" + "x" * 43


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """``secret`` opens everything."""

    process: subprocess.Popen[str]
    url: str
    secret: str = LAUNCH

    @property
    def address(self) -> str:
        return urlsplit(self.url).netloc

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> "Answer":
        with self.stream(path, method=method, body=body, **headers) as answer:
            return Answer(answer.status, answer.headers, answer.read())

    @contextmanager
    def stream(
        self, path: str, *, method: str = "GET", body: str | None = None, **headers: str
    ) -> Iterator[HTTPResponse]:
        """An answer that may not end by itself."""
        with closing(HTTPConnection(self.address, timeout=20)) as connection:
            said = {"authorization": f"Bearer {self.secret}"}
            said |= {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, said)
            with connection.getresponse() as answer:
                yield answer

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@contextmanager
def served(store: str | Path, *words: str, folder: Path | None = None) -> Iterator[Served]:
    command = [sys.executable, "-m", "duly", "web", *words, "--store", str(store), "--port", "0"]
    environment = {**os.environ, "DULY_LAUNCH": LAUNCH}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        assert process.stderr is not None
        try:
            yield Served(process, _address(process))
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith("dashboard: "):
            return line.split()[1].partition("/login")[0].rstrip("/")
    raise AssertionError(f"it ended with {process.wait()}:\n{said}")


@contextmanager
def running_shop(store: str, folder: Path) -> Iterator[Served]:
    """The demo at work, with its dashboard beside it."""
    command = [sys.executable, "-m", "duly", "up", "duly.demo", "--web", "--port", "0", "--migrate"]
    environment = {**os.environ, "DULY_LAUNCH": LAUNCH, "DULY_STORE_OF_COMMAND": store}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        try:
            yield Served(process, _address(process))
        finally:
            process.terminate()
            process.communicate(timeout=30)
