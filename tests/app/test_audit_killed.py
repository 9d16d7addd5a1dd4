"""Processes that change things are killed at any instant: the audit log stays one whole chain.

And it says of each schedule just what was done to it, because an entry is written with the change.
On SQLite.
"""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from duly.app import Store, migrate_store, open_store
from duly.clock import now, sleep
from tests.app.programs import Program, Programs
from tests.factories import plan

PEOPLE = ("ada", "grace", "edsger")
ROUNDS = 3


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


async def test_killed_in_the_middle_the_chain_is_whole_and_says_what_was_done(
    store: Store, home: str, programs: Programs
) -> None:
    await store.schedules.add([plan(who, "every 1000h") for who in PEOPLE])
    dice, said = random.Random(now().timestamp()), dict.fromkeys(PEOPLE, 0)
    for _ in range(ROUNDS):
        running = {who: programs.start("-m", "tests.app.steering", home, who) for who in PEOPLE}
        for program in running.values():
            await asyncio.to_thread(program.hear, "done\ndone")
        for who, program in running.items():
            await sleep(dice.uniform(0, 0.05))
            await asyncio.to_thread(program.kill)
            said[who] += count(program)
        assert await store.access.verify_audit() is None
    entries = await store.access.audit(limit=100_000)
    assert [entry.number for entry in entries] == list(range(len(entries), 0, -1))
    for who in PEOPLE:
        done = await store.access.audit(limit=100_000, subject=f"schedule:{who}")
        changes = await store.schedules.changes(who, limit=100_000)
        # One that was not paused is not resumed, which is no change, but somebody did it.
        noted = [one for one in done if one.action == "schedules.pause"]
        assert len(noted) == sum(what == "paused" for _, _, what in changes)
        assert said[who] <= len(done) <= said[who] + ROUNDS, "each that was told, and the last"
        assert {one.who for one in done} == {who}


def count(program: Program) -> int:
    return program.said.count("done")
