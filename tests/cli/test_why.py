"""``duly why``: the sentence on stdout, and an exit code that means something."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner, Result

from duly.app import connect, migrate_tables
from duly.cli.main import main
from duly.clock import now
from duly.testing.clock import VirtualClock
from tests.conformance.world import World
from tests.factories import call, plan

T = TypeVar("T")


def why(*words: str, store: Path) -> Result:
    return CliRunner().invoke(main, ["why", *words, "--store", str(store)])


def prepared(path: Path, work: Callable[[World], Awaitable[T]]) -> T:
    """Do something in a store, an hour ago."""

    async def there() -> T:
        clock = VirtualClock(now() - timedelta(hours=1))
        store = connect(str(path), clock=clock)
        await store.open()
        try:
            await migrate_tables(store)
            return await work(World(store, clock))
        finally:
            await store.close()

    return asyncio.run(there())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


async def _kept(world: World) -> int:
    await world.add(plan("report", "every 1000h"), plan("2026", "every 1000h"))
    fire = await world.store.schedules.run("report")
    await world.end(await world.begin())
    return fire.job_id or 0


def test_a_schedule_is_explained_on_stdout_and_the_store_named_on_stderr(path: Path) -> None:
    number = prepared(path, _kept)
    done = why("report", store=path)
    assert done.exit_code == 0
    sentence, evidence, step = done.stdout.splitlines()
    assert sentence.startswith("report was run by hand ")
    assert " and ran on time (0 ms late, took 0 ms). Next: " in sentence
    assert evidence == f"  job {number} on worker"
    assert step == f"  see it   duly jobs show {number}"
    assert done.stderr == f"database: {path}\n"


def test_a_number_is_a_job_unless_a_schedule_is_called_so(path: Path) -> None:
    number = prepared(path, _kept)
    assert why(str(number), store=path).stdout.startswith(f"job {number} (work) was due ")
    assert why("2026", store=path).stdout.startswith("2026 has not been due yet.")


def test_a_time_may_be_several_words(path: Path) -> None:
    prepared(path, _kept)
    done = why("report", "2020-11-13", "02:00", store=path)
    assert done.exit_code == 0
    assert done.stdout.startswith("report did not exist yet Fri 2020-11-13 02:00 UTC: ")


def test_what_is_not_there_is_exit_code_3(path: Path) -> None:
    prepared(path, _kept)
    unknown = why("reprot", store=path)
    assert (unknown.exit_code, unknown.stdout) == (3, "")
    assert unknown.stderr.endswith('Error: there is no schedule "reprot"; did you mean "report"?\n')
    job = why("77", store=path)
    assert job.exit_code == 3
    assert "there is no job 77" in job.stderr


def test_a_time_that_cannot_be_read_is_exit_code_2(path: Path) -> None:
    prepared(path, _kept)
    done = why("report", "noon-ish", store=path)
    assert done.exit_code == 2
    assert 'as "02:00", "Thu 02:00" or "2026-11-13 02:00"' in done.stderr


def test_asking_makes_no_store(path: Path) -> None:
    assert why("report", store=path).exit_code == 5
    assert not path.exists()


def test_a_program_gets_the_parts(path: Path) -> None:
    async def waiting(world: World) -> int:
        return await world.enqueue(call("send"))

    number = prepared(path, waiting)
    found = json.loads(why(str(number), "-o", "json", store=path).stdout)
    assert found["sentence"].endswith("and waits for a worker: none is running.")
    assert found["commands"] == [
        {"what": "start one", "line": "duly worker", "job_id": None},
        {"what": "call it off", "line": f"duly jobs cancel {number}", "job_id": number},
    ]


def test_a_schedule_that_is_only_declared_is_said_to_be(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    (path.parent / "reports.py").write_text(
        'from duly import Duly\n\nduly = Duly()\n\n@duly.schedule("every 1h")\n@duly.task\n'
        "def weekly() -> None: ...\n"
    )
    monkeypatch.setenv("DULY_APP", "reports.py")
    prepared(path, _kept)
    done = why("weekly", store=path)
    assert done.exit_code == 3
    assert done.stderr.splitlines()[-1] == (
        'Error: the schedule "weekly" is declared in reports.py, but not in the database yet: a '
        "scheduler writes it when it starts (duly up reports.py)"
    )
    assert 'there is no schedule "monthly"' in why("monthly", store=path).stderr
