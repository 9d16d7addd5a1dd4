"""Nodes are replaced one by one by nodes of a newer version, while jobs and schedules go on."""

import importlib
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from threading import Event, Thread

import pytest

from duly import Duly, Job
from duly.version import __version__
from tests.app import noted
from tests.app.programs import PATIENCE, ROOT, Program, Programs
from tests.app.waiting import eventually
from tests.infrastructure.tables import with_tables

NEXT = "99.0.0"
# What a release brings as a rule: a column of a busy table, and a table.
MIGRATION = "alter table duly.job add column added text;\ncreate table duly.added (x int);\n"


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """Return the folder of a newer duly: this one with another version and one more migration."""
    folder = tmp_path / "newer"
    shutil.copytree(ROOT / "src" / "duly", folder / "duly")
    version = folder / "duly" / "version.py"
    version.write_text(version.read_text().replace(__version__, NEXT))
    migrations = folder / "duly" / "store" / "migrations"
    (migrations / "9999_added.sql").write_text(MIGRATION)
    return str(folder)


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    if request.param == "sqlite":
        return str(with_tables(tmp_path / "duly.db"))
    return postgres_url


@pytest.fixture
def app(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Duly:
    (tmp_path / "notes").touch()
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("DULY_URL", url)
    importlib.reload(noted)
    return noted.duly


@pytest.mark.thorough("replaces three nodes of the kind that tests/cli/test_upgrade.py keeps")
def test_nodes_are_replaced_one_by_one_and_nothing_is_lost_or_doubled(
    app: Duly, newer: str, programs: Programs
) -> None:
    old = [node(programs) for _ in range(3)]
    with load() as jobs:
        eventually(lambda: noted.notes("tick") and noted.notes("count"), "work to begin")
        migrated = subprocess.run(
            [sys.executable, "-m", "duly", "db", "migrate"],
            env={"PYTHONPATH": newer, "DULY_URL": app.url},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        assert "applied  9999 added" in migrated.stdout
        for replaced in old:
            node(programs, PYTHONPATH=newer)
            done = len(noted.notes("count"))
            eventually(lambda: len(noted.notes("count")) > done + 200, "both to work")  # noqa: B023
            replaced.signal()
            assert replaced.end() == 0, replaced.said
            assert "not finished within" not in replaced.said, "all jobs ended"
        assert {one.profile.version for one in app.workers.list()} == {NEXT}
    for job in jobs:
        job.result(timeout="20s")
    assert Counter(map(int, noted.notes("count"))) == Counter(range(len(jobs)))

    fires = app.schedules.history("tick", limit=500)
    ledger = sorted(int(fire.due_at.timestamp()) for fire in fires)
    assert ledger == [*range(ledger[0], ledger[-1] + 1)], "no second is missing or doubled"
    eventually(lambda: len(noted.notes("tick")) >= len(ledger), "the last run")
    runs = Counter(map(int, noted.notes("tick")))
    assert [runs[at] for at in ledger] == [1] * len(ledger)


def node(programs: Programs, **environment: str) -> Program:
    """Start a node, of the version that PYTHONPATH names."""
    # Not by -m alone, which the tests would fork from a process that has imported this version.
    found = programs.start("-u", "-m", "duly", "up", "tests.app.noted", **environment)
    found.hear("registered as number")
    return found


@contextmanager
def load() -> Iterator[list[Job[int]]]:
    """Enqueue some hundred jobs a second without a break, a tenth of which take half a second."""
    stop, jobs = Event(), list[Job[int]]()

    def enqueue() -> None:
        numbers = count()
        while not stop.wait(0.04):
            batch = list(islice(numbers, 10))
            calls = [noted.count.bind(number, 0 if number % 10 else 0.5) for number in batch]
            jobs.extend(noted.duly.enqueue_many(calls))

    thread = Thread(target=enqueue)
    thread.start()
    try:
        yield jobs
    finally:
        stop.set()
        thread.join()
