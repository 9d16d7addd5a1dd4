"""A real web side in a process of its own, as people start it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import NamedTuple, TextIO
from urllib.parse import urlsplit

from tests.infrastructure.commands import Forked

LAUNCH = "duly_" + "x" * 43


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """``secret`` opens everything."""

    process: "Forked | subprocess.Popen[str]"
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
def served(
    store: str | Path, *words: str, folder: Path | None = None, program: str = "duly"
) -> Iterator[Served]:
    command = [program, "web", *words, "--store", str(store), "--port", "0"]
    with started(command, folder, end=signal.SIGKILL) as found:
        yield found


@contextmanager
def running_shop(store: str, folder: Path) -> Iterator[Served]:
    """The demo at work, with its dashboard beside it."""
    command = ["duly", "up", "duly.demo", "--web", "--port", "0", "--migrate"]
    with started(command, folder, end=signal.SIGTERM, DULY_STORE_OF_COMMAND=store) as found:
        yield found


@contextmanager
def started(
    command: list[str], folder: Path | None, *, end: signal.Signals, **variables: str
) -> Iterator[Served]:
    environment = {**os.environ, "DULY_LAUNCH": LAUNCH, **variables}
    hearing, saying = os.pipe()
    with open(hearing) as said:  # noqa: PTH123 - a pipe has no path
        process = Forked(command, stdout=1, stderr=saying, folder=folder, environment=environment)
        os.close(saying)
        try:
            yield Served(process, _address(process, said))
        finally:
            process.send_signal(end)
            said.read()
            process.wait(30)


def _address(process: Forked, stream: TextIO) -> str:
    said = ""
    for line in stream:
        said += line
        if line.startswith("dashboard: "):
            return line.split()[1].partition("/login")[0].rstrip("/")
    raise AssertionError(f"it ended with {process.wait(30)}:\n{said}")
