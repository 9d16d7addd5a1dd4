"""The judge of the stories sees what it is there for."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from duly.app import migrate_store, open_store
from duly.instants import to_us
from duly.model.schedule import StoredSchedule
from duly.store.store import Store
from tests.acceptance.fleet import Fleet
from tests.acceptance.ledger import every_second, judge_every_moment
from tests.acceptance.report import Report

LINES = {
    "lost: ": "",
    "ran and was never due: ": "begin {schedule} {never} 1 {never} 1 1\n",
    "ran before its time: ": "begin {schedule} {due} 1 {early} 1 1\n",
    "doubled: ": "end {schedule} {due} 1 {due} 1 1\nend {schedule} {due} 2 {due} 1 1\n",
    "completed twice: ": "end {schedule} {due} 1 {due} 1 1\nend {schedule} {due} 1 {due} 2 2\n",
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = str(tmp_path / "duly.db")
    await migrate_store(url)
    store = await open_store(url)
    yield store
    await store.close()


@pytest.fixture
async def schedule(store: Store) -> StoredSchedule:
    end = await store.diagnostics.now() + timedelta(seconds=5)
    [added] = await store.schedules.add(every_second(1, end=end, everything=True))
    return added


@pytest.mark.parametrize("found", LINES)
async def test_each_kind_of_broken_promise_is_seen(
    store: Store, schedule: StoredSchedule, tmp_path: Path, found: str
) -> None:
    assert schedule.next_at
    due, second = to_us(schedule.next_at), 1_000_000
    times = {"due": due, "early": due - 1, "never": due + 100 * second}
    file = tmp_path / "witness"
    file.write_text(LINES[found].format(schedule=schedule.id, **times))
    report = Report()
    await judge_every_moment(store, [schedule], Fleet("", file), report=report)
    # Nothing has run, so everything is lost as well.
    assert {line.partition(":")[0] + ": " for line in report.broken} == {"lost: ", found}
