"""Programs that tests start: the command, a script, and what they say."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

from tests.app.waiting import eventually
from tests.infrastructure.commands import Forked

ROOT = Path(__file__).parents[2]
PATIENCE = 15.0


class Program:
    """A process of its own group, and what it writes to its standard error."""

    def __init__(self, words: list[str], said: Path, environment: dict[str, str]) -> None:
        self._said = said
        with said.open("wb") as stream:
            self._process = started(
                words,
                stream.fileno(),
                {**os.environ, "PYTHONWARNINGS": "error::ResourceWarning", **environment},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        return self._said.read_text()

    def hear(self, text: str) -> None:
        """Wait until it has said that."""
        eventually(lambda: text in self.said or not self.is_alive, f"{text!r} to be said")
        assert text in self.said, f"it ended with {self._process.returncode}:\n{self.said}"

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for its end: the exit code."""
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.said}") from None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def started(
    words: list[str], stream: int, environment: dict[str, str]
) -> "subprocess.Popen[bytes] | Forked":
    if words[0] == "-m":
        return Forked(words[1:], stdout=stream, stderr=stream, folder=ROOT, environment=environment)
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        stdout=stream,
        stderr=stream,
        start_new_session=True,
    )


class Programs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Program] = []

    def start(self, *words: str, **environment: str) -> Program:
        said = self._folder / f"program-{len(self._started)}.txt"
        program = Program(list(words), said, environment)
        self._started.append(program)
        return program

    def worker(self, *words: str, **environment: str) -> Program:
        """``duly worker`` on the shop; it has been given its number when this returns."""
        program = self.start("-m", "duly", "worker", "tests.app.shop", *words, **environment)
        program.hear("registered as number")
        return program

    def kill_all(self) -> None:
        for program in self._started:
            program.kill()


@contextlib.contextmanager
def programs_in(folder: Path) -> Iterator[Programs]:
    programs = Programs(folder)
    try:
        yield programs
    finally:
        programs.kill_all()


def seconds_until(condition: Callable[[], object], what: str) -> float:
    began = monotonic()
    eventually(condition, what)
    return monotonic() - began
