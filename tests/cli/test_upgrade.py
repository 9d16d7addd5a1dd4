"""A store is migrated by a newer duly while a node of this one runs on it."""

from pathlib import Path

import pytest

from duly.model.states import State
from duly.store.connect import connect
from duly.store.database import Migration
from duly.store.migrate import migrate, migrations
from tests.cli.test_up import said, started
from tests.factories import call
from tests.infrastructure.loops import finished
from tests.store.homes import furnish

TASKS = """
import os, sys, time
from pathlib import Path
from duly import Duly
duly = Duly(os.environ["STORE"])

count = 0

@duly.schedule("every 1s", overlap="allow")
@duly.task
def hello() -> None:
    global count
    count += 1
    print("hello", count, flush=True)

@duly.task
def long() -> str:
    print("long has begun", flush=True)
    while not Path("go").exists():
        time.sleep(0.05)
    return "long has ended"
"""
# What a later version may bring: one that this version can live with, and one that it cannot.
ADDED = Migration(2, "added", "create table {schema}added (x int)")
BREAKING = Migration(3, "breaking", "drop table {schema}added", minimum=3)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, pg_dsn: str) -> str:
    return pg_dsn if request.param == "postgres" else str(tmp_path / "duly.db")


async def upgraded(url: str, *added: Migration) -> None:
    """As a newer duly does it, which knows more migrations."""
    newer = connect(url).database
    schema = "duly." if newer.dialect.name == "postgres" else "duly_"
    steps = [one._replace(script=one.script.format(schema=schema)) for one in added]
    await newer.open()
    await migrate(newer, known=[*migrations(newer.dialect), *steps])
    await newer.close()


async def asked_for(url: str, task: str) -> int:
    store = connect(url)
    await store.open()
    [number] = await store.jobs.enqueue([call(task)])
    await store.close()
    return number


async def ended(url: str, number: int) -> tuple[State, str | None]:
    store = connect(url, create=False)
    await store.open()
    job = await store.jobs.get(number)
    await store.close()
    return job.state, job.result


def test_a_node_goes_on_through_a_migration_and_stops_in_order_when_it_is_outgrown(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE", store)
    finished(furnish(store))
    (tmp_path / "tasks.py").write_text(TASKS)
    with started(tmp_path, "up", "tasks.py") as process:
        said(tmp_path, "hello 1")
        finished(upgraded(store, ADDED))
        done = int((tmp_path / "log").read_text().rpartition("hello ")[2].split()[0])
        said(tmp_path, f"hello {done + 2}")
        number = finished(asked_for(store, "long"))
        said(tmp_path, "long has begun")
        finished(upgraded(store, ADDED, BREAKING))
        said(tmp_path, "finishing the running jobs, then stopping")
        (tmp_path / "go").touch()
        assert process.wait(30) == 1
    log = (tmp_path / "log").read_text()
    assert (
        "the database is too new for this version of duly: it needs one that knows migration 3"
        in log
    )
    assert "upgrade duly on this machine" in log.splitlines()[-1]
    assert finished(ended(store, number)) == (State.SUCCEEDED, '"long has ended"')
    with started(tmp_path, "up", "tasks.py") as process:
        assert process.wait(30) == 1
    assert "the database is too new for this version of duly" in (tmp_path / "log").read_text()
