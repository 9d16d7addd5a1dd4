"""``duly up`` as a process while its database is away, blocked or replaced: it stays, and says so.

Everything here is real: the command, its threads, signals, a PostgreSQL that is stopped.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.clock import boottime
from tests.infrastructure.cluster import Cluster, installed_programs, running_cluster
from tests.infrastructure.postgres import CHOSEN

PATIENCE = 60.0
TASKS = """
import os, time
from pathlib import Path
from duly import Duly, current

duly = Duly()

@duly.schedule("every 1s")
@duly.task
async def tick() -> None: ...

@duly.task
def hold(sign: str) -> None:
    '''Run until somebody puts up a sign, in a thread, which nobody can stop.'''
    Path(f"{sign}.{os.getpid()}.{current().attempt}.began").touch()
    while not Path(sign).exists():
        time.sleep(0.05)
    with Path(f"{sign}.ended").open("a") as file:
        file.write("x")
"""


class Up:
    """``duly up`` on the tasks above, and what it says."""

    def __init__(self, folder: Path, url: str, *words: str) -> None:
        self.folder = folder
        self.url = url
        (folder / "tasks.py").write_text(TASKS)
        self._log = folder / "log"
        command = [sys.executable, "-m", "duly", "up", "tasks.py", "--store", url, "--migrate"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--no-web", *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def hear(self, text: str, *, times: int = 1) -> None:
        self.until(lambda: self.said.count(text) >= times, f"{text!r} to be said")

    def until(self, condition: object, what: str) -> None:
        assert callable(condition)
        end = boottime() + PATIENCE
        while not condition():
            code = self.process.poll()
            assert code is None, f"it ended with {code}, before {what}:\n{self.said}"
            assert boottime() < end, f"waited in vain for {what}:\n{self.said}"
            rest(0.05)

    def signs(self, of: str) -> list[str]:
        return sorted(path.name for path in self.folder.glob(f"{of}.*.began"))

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def rest(seconds: float) -> None:
    threading.Event().wait(seconds)


@contextlib.contextmanager
def up(folder: Path, url: str, *words: str) -> Iterator[Up]:
    there = Up(folder, url, *words)
    try:
        there.hear("is number")
        yield there
    finally:
        there.kill()


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    *_, programs = (request.config.stash[CHOSEN] or installed_programs()).values()
    # A server that does not wait for its disk forgets what it promised when it crashes.
    with running_cluster(programs, durable=True) as cluster:
        yield cluster


def test_a_database_that_stops_for_a_while_is_two_lines_in_the_log(
    cluster: Cluster, tmp_path: Path
) -> None:
    with up(tmp_path, cluster.dsn) as node:
        before = node.said
        cluster.stop()
        rest(10)  # it is really away that long
        cluster.start()
        node.hear("the store answers again")
        lost, found = node.said.removeprefix(before).splitlines()
        assert lost.startswith("the store does not answer (")
        assert found.startswith("the store answers again, after 1")
        assert node.end() == 0
