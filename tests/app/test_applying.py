"""A draft is applied on what it was made on, all of it or nothing. On SQLite."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from duly.app import Store, migrate_store, open_store
from duly.app.schedule_files import apply, draft
from duly.errors import InvalidValue, WrongState
from duly.files import ScheduleFile
from duly.files.file_text import read
from duly.model.access import Actor

SHEET = read(
    """
    [schedules.one]
    rule = "every 1h"
    shell = "true"
    [schedules.two]
    rule = "every 2h"
    shell = "true"
    paused = true
    note = "not yet"
    [queues.web]
    concurrency = 3
    [limits.crm]
    rate = "5/s"
    """
)
FASTER = replace(SHEET, schedules={
    **SHEET.schedules, "one": replace(SHEET.schedules["one"], rule="every 1m")
})  # fmt: skip
DYING = """
import asyncio, os, signal, sys
from duly.app import open_store
from duly.app.schedule_files import apply, draft
from tests.app.test_applying import SHEET

async def main(url, statement):
    store = await open_store(url)
    made = await draft(store, SHEET, file="schedules.toml")
    write = store.database.write

    def dying(start):
        def begun():
            operation = start()
            ask = next(operation)
            try:
                while True:
                    if ask.statement == statement:
                        os.kill(os.getpid(), signal.SIGKILL)
                    ask = operation.send((yield ask))
            except StopIteration as end:
                return end.value
        return write(begun)

    store.database.write = dying
    await apply(store, made)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def home(url: str) -> str:
    if not url.startswith("postgresql:"):
        asyncio.run(migrate_store(url))
    return url


@pytest.fixture
async def store(home: str) -> AsyncIterator[Store]:
    store = await open_store(home)
    yield store
    await store.close()


def as_user(store: Store, who: str) -> Store:
    return store.acting(Actor(who, "program"))


async def applied(store: Store, sheet: ScheduleFile) -> None:
    await apply(as_user(store, "ada"), await draft(store, sheet, file="schedules.toml"))


async def rules(store: Store) -> list[str]:
    return [schedule.plan.rule for schedule in await store.schedules.page()]


async def test_what_was_applied_leaves_nothing_to_do(store: Store) -> None:
    first = await draft(store, SHEET, file="schedules.toml")
    assert (first.plan.counts["add"], first.expected, first.is_written) == (4, None, False)
    await apply(as_user(store, "ada"), first)
    again = await draft(store, SHEET, file="schedules.toml")
    assert (again.plan.is_empty, again.plan.has_drift, again.is_written) == (True, False, True)


async def test_of_two_who_planned_at_once_the_second_plans_again(store: Store) -> None:
    one = await draft(store, SHEET, file="schedules.toml")
    other = await draft(store, FASTER, file="schedules.toml")
    await apply(as_user(store, "ada"), one)
    with pytest.raises(
        WrongState, match="somebody applied schedules\\.toml in the meantime: plan again"
    ):
        await apply(as_user(store, "grace"), other)
    assert await rules(store) == ["every 1h", "every 2h"]
    await applied(store, FASTER)
    assert await rules(store) == ["every 1m", "every 2h"]


async def test_two_files_that_want_one_name_do_not_take_it_from_each_other(store: Store) -> None:
    one = await draft(store, SHEET, file="one.toml")
    other = await draft(store, FASTER, file="other.toml")
    done = await asyncio.gather(
        apply(as_user(store, "ada"), one),
        apply(as_user(store, "grace"), other),
        return_exceptions=True,
    )
    assert [type(result) for result in done if result] == [WrongState]


async def test_what_a_person_does_after_the_plan_is_not_overwritten(store: Store) -> None:
    await applied(store, SHEET)
    made = await draft(store, FASTER, file="schedules.toml")
    await store.acting(Actor("grace", "program")).schedules.edit(
        "one", lambda old: replace(old, rule="every 9h")
    )
    with pytest.raises(WrongState, match='somebody changed schedule "one" in the meantime'):
        await apply(as_user(store, "ada"), made)
    assert await rules(store) == ["every 9h", "every 2h"]
    assert (await draft(store, FASTER, file="schedules.toml")).plan.has_drift


async def test_a_task_without_its_app_is_refused_and_nothing_is_written(store: Store) -> None:
    greeting = read('[schedules.hi]\nrule = "every 1h"\ntask = "greet"')
    made = await draft(store, greeting, file="schedules.toml")
    assert made.needing_an_app() == ["hi"]
    with pytest.raises(InvalidValue, match=r"\[schedules.hi\] task = \"greet\": name the app"):
        await apply(as_user(store, "ada"), made)
    assert await rules(store) == []


@pytest.mark.parametrize("statement", ["add_schedules", "set_queue", "keep_applied"])
async def test_killed_in_the_middle_nothing_is_written_and_it_can_be_repeated(
    store: Store, home: str, statement: str
) -> None:
    command = [sys.executable, "-c", DYING, home, statement]
    died = await asyncio.to_thread(
        subprocess.run, command, cwd=Path(__file__).parents[2], capture_output=True, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    standing = await store.schedules.standing(["one", "two"])
    assert (standing.schedules, standing.queues, standing.limits) == ({}, {}, {})
    assert await store.schedules.applied("schedules.toml") is None
    await applied(store, SHEET)
    assert (await draft(store, SHEET, file="schedules.toml")).is_written
