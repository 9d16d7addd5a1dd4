"""``duly up`` as a process while its database is away, blocked or replaced: it stays, and says so.

Everything here is real: the command, its threads, signals, a PostgreSQL that is stopped.
"""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly import Duly
from duly.clock import boottime
from duly.model.states import State
from tests.infrastructure.cluster import Cluster, installed_programs, running_cluster
from tests.infrastructure.postgres import CHOSEN

PATIENCE = 60.0
on_the_other = pytest.mark.thorough("repeats on the other database")
of_the_other = pytest.mark.thorough("repeats with the other kind of function")
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

    def __init__(self, folder: Path, url: str, *words: str, more: str = "") -> None:
        self.folder = folder
        self.url = url
        (folder / "tasks.py").write_text(TASKS + more)
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

    def enqueue(self, sign: str) -> int:
        """Have a job held until ``sign`` is put up."""
        app = Duly(self.url)
        try:
            return app.task(hold).enqueue(str(self.folder / sign)).id
        finally:
            app.close()

    def crunch(self, rounds: int) -> int:
        app = Duly(self.url)
        try:
            return app.task(crunch).enqueue(rounds).id
        finally:
            app.close()

    def has_ended(self, job: int) -> bool:
        app = Duly(self.url)
        try:
            return app.jobs.get(job).state in (State.SUCCEEDED, State.FAILED)
        finally:
            app.close()

    def signs(self, of: str) -> list[str]:
        return sorted(path.name for path in self.folder.glob(f"{of}.*.began"))

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def hold(sign: str) -> None:
    """The task of that name above, for whoever only asks for a job."""


def crunch(rounds: int) -> None:
    """… and one that a test adds."""


def rest(seconds: float) -> None:
    threading.Event().wait(seconds)


@contextlib.contextmanager
def up(folder: Path, url: str, *words: str, more: str = "") -> Iterator[Up]:
    there = Up(folder, url, *words, more=more)
    try:
        there.hear("registered as number")
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
        node.hear("the database answers again")
        lost, found = node.said.removeprefix(before).splitlines()
        assert lost.startswith("the database does not answer (")
        assert found.startswith("the database answers again, after 1")
        assert node.end() == 0


def test_a_node_that_stops_fires_nothing_and_is_seen_to_stop(tmp_path: Path) -> None:
    url = str(tmp_path / "duly.db")
    with up(tmp_path, url) as node:
        app = Duly(url)
        node.until(lambda: app.schedules.history("tick"), "a fire")
        node.enqueue("sign")
        node.until(lambda: node.signs("sign"), "the job to begin")
        node.process.send_signal(signal.SIGTERM)
        node.hear("finishing 1 job within 25s")
        node.until(lambda: [one.order for one in app.workers.list()] == ["stop"], "it to be told")
        fired = app.schedules.history("tick")[0]
        rest(3.5)  # three moments are due meanwhile
        assert app.schedules.history("tick")[0] == fired
        (tmp_path / "sign").touch()
        assert node.process.wait(PATIENCE) == 0
    app.close()


def test_a_warm_stop_turns_cold_when_its_time_is_over(tmp_path: Path) -> None:
    with up(tmp_path, str(tmp_path / "duly.db"), "--stop-timeout", "1s") as node:
        node.enqueue("sign")
        node.until(lambda: node.signs("sign"), "the job to begin")
        assert node.end() == 0
        assert "not finished within 1s: stopping 1 job" in node.said
        assert not (tmp_path / "sign.ended").exists()


# A node that loses its lease while it runs what cannot be stopped: its process goes, it stays.


def newest_fire(app: Duly) -> int:
    """Return the number of the newest fire, or 0 while there is none."""
    return max((fire.id for fire in app.schedules.history("tick")), default=0)


def goes_on(node: Up, *, workers: int) -> None:
    """Another process has taken the place of the one that ran the job, and does all that it did."""
    node.hear("this process restarts")
    node.hear("registered as number", times=workers)
    app = Duly(node.url)
    try:
        before = newest_fire(app)
        node.until(lambda: newest_fire(app) != before, "a fire")
        node.until(lambda: len(node.signs("sign")) > 1, "the job to begin again")
        (node.folder / "sign").touch()
        node.until((node.folder / "sign.ended").exists, "the job to end")
        node.until(lambda: not app.jobs.count("state:running"), "nothing to run")
    finally:
        app.close()
    assert (node.folder / "sign.ended").read_text() == "x", "it has ended once"
    assert node.said.count("this process restarts") == 1
    assert "Traceback" not in node.said
    assert node.end() == 0


def test_an_outage_longer_than_the_lease_does_not_end_the_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    with up(tmp_path, cluster.dsn, "--lease", "4s") as node:
        node.enqueue("sign")
        node.until(lambda: node.signs("sign"), "the job to begin")
        cluster.stop()
        node.hear("this process restarts")
        node.hear("the database does not answer (start)")
        cluster.start()
        goes_on(node, workers=2)


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=on_the_other)])
def test_a_node_that_was_suspended_past_its_lease_goes_on(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    cluster = request.getfixturevalue("cluster") if store == "postgres" else None
    url = str(tmp_path / "duly.db") if cluster is None else cluster.dsn
    with up(tmp_path, url, "--lease", "4s") as node:
        node.enqueue("sign")
        node.until(lambda: node.signs("sign"), "the job to begin")
        node.process.send_signal(signal.SIGSTOP)
        rest(7)
        node.process.send_signal(signal.SIGCONT)
        goes_on(node, workers=2)


def test_a_node_can_be_stopped_while_it_waits_for_its_store_to_come_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    with up(tmp_path, cluster.dsn, "--lease", "4s") as node:
        node.enqueue("sign")
        node.until(lambda: node.signs("sign"), "the job to begin")
        cluster.stop()
        node.hear("the database does not answer (start)")
        assert node.end() == 0


def test_a_write_lock_held_by_another_program_costs_no_job_its_run(tmp_path: Path) -> None:
    url = str(tmp_path / "duly.db")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        up(tmp_path / "one", url, "--lease", "4s") as node,
        up(tmp_path / "two", url, "--lease", "4s", "--queues", "other") as other,
    ):
        job = node.enqueue("sign")
        node.until(lambda: node.signs("sign"), "the job to begin")
        with contextlib.closing(sqlite3.connect(url, isolation_level=None)) as shell:
            shell.execute("begin immediate")
            rest(10)  # longer than the lease, and than what anybody grants it
            shell.execute("rollback")
        app = Duly(url)
        fired = newest_fire(app)
        node.until(lambda: newest_fire(app) != fired, "somebody to write again")
        (node.folder / "sign").touch()
        try:
            node.until(lambda: app.jobs.get(job).state is State.SUCCEEDED, "the job to succeed")
        finally:
            app.close()
        assert len(node.signs("sign")) == 1, "it has begun once"
        for one in (node, other):
            assert "lease" not in one.said
            assert "took" not in one.said
            assert one.end() == 0


@pytest.mark.parametrize("kind", ["def", pytest.param("async def", marks=of_the_other)])
def test_a_task_that_holds_the_interpreter_past_the_lease_is_named(
    tmp_path: Path, kind: str
) -> None:
    crunch = f"\n@duly.task\n{kind} crunch(rounds: int) -> None:\n    sum(range(rounds))\n"
    with up(tmp_path, str(tmp_path / "duly.db"), "--lease", "2s", more=crunch) as node:
        for name in ("one", "two"):
            node.enqueue(name)
        node.until(lambda: node.signs("one") and node.signs("two"), "two others to begin")
        job, rounds = 0, 10**8
        while "held the interpreter" not in node.said:
            job = node.crunch(rounds)
            node.until(lambda job=job: node.has_ended(job) or "held the" in node.said, "an end")
            rounds *= 2  # this machine is faster than that
        line, *_ = [one for one in node.said.splitlines() if "held the interpreter" in one]
        assert line.startswith(f"job {job} crunch held the interpreter (the GIL) for ")
        assert re.findall(r"job (\d+)", line) == [str(job)], "the two others are not blamed"
