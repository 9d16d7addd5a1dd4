"""What happens is told as it happens, each thing once, and nobody falls behind."""

from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from duly.errors import InvalidValue
from duly.instants import to_us
from duly.model.outcome import Raised
from duly.store.activity import Happening
from duly.views.activity import FURTHEST, MOST, ActivityWatch
from tests.app.test_why import opened
from tests.conformance.world import MINUTE, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
REFUSED = Raised(error="ConnectionError", message="refused")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened(":memory:") as there:
        yield there


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[World]:
    async with opened(postgres_url) as there:
        yield there


def told(found: list[Happening]) -> list[tuple[str, str]]:
    return [(one.kind, one.state) for one in found]


async def ended(world: World, count: int = 1) -> list[int]:
    """Jobs that ended at once, all at the same instant."""
    await world.store.jobs.enqueue([call()] * count)
    jobs = await world.claim(count)
    await world.store.work.settle([world.settlement(job) for job in jobs])
    return [job.id for job in jobs]


async def test_each_thing_is_told_once(world: World) -> None:
    await _see_each_thing_once(world)


async def test_each_thing_is_told_once_on_postgresql(postgres: World) -> None:
    await _see_each_thing_once(postgres)


async def _see_each_thing_once(world: World) -> None:
    await world.add(plan())
    watch = ActivityWatch()
    assert await watch.look(world.store) == []
    await world.fire_after(MINUTE)
    assert told(await watch.look(world.store)) == [("moment", "queued")]
    job = await world.begin()
    assert told(await watch.look(world.store)) == [("began", "running")]
    assert await watch.look(world.store) == []
    await world.end(job, REFUSED)
    assert told(await watch.look(world.store)) == [("ended", "failed")]
    world.wait(SECOND)
    assert await watch.look(world.store) == []
    assert watch.left_out == 0


async def test_a_watch_begins_with_the_last_seconds(world: World) -> None:
    await ended(world)
    world.wait(MINUTE)
    [late] = await ended(world)
    world.wait(SECOND)
    assert [one.number for one in await ActivityWatch().look(world.store)] == [late]


async def test_what_a_slow_transaction_wrote_is_told_when_it_ends(
    postgres: World, postgres_url: str
) -> None:
    [first] = await ended(postgres)
    slow = to_us(postgres.now)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "insert into duly.history select (jsonb_populate_record(history, jsonb_build_object("
            "'id', 7, 'ended_at', %s::bigint))).* from duly.history where id = %s",
            (slow, first),
        )
        watch = ActivityWatch()
        postgres.wait(SECOND)
        [second] = await ended(postgres)
        assert [one.number for one in await watch.look(postgres.store)] == [first, second]
        connection.commit()
    assert [(one.number, to_us(one.at)) for one in await watch.look(postgres.store)] == [(7, slow)]
    assert await watch.look(postgres.store) == []


async def test_of_too_much_the_newest_is_told_and_the_rest_is_counted(world: World) -> None:
    await _see_too_much(world)


async def test_of_too_much_the_newest_is_told_and_the_rest_is_counted_on_postgresql(
    postgres: World,
) -> None:
    await _see_too_much(postgres)


async def _see_too_much(world: World) -> None:
    watch = ActivityWatch()
    await ended(world, 300)
    assert len(await watch.look(world.store)) == 300
    world.wait(SECOND)
    await ended(world, 700)
    world.wait(SECOND)
    newest = await ended(world, 800)
    found = await watch.look(world.store)
    assert (len(found), watch.left_out) == (MOST, 500)
    assert {one.number for one in found[-800:]} == set(newest)
    assert (await watch.look(world.store), watch.left_out) == ([], 0)
    [last] = await ended(world)
    assert [one.number for one in await watch.look(world.store)] == [last]


async def test_who_comes_again_is_told_what_was_told_meanwhile(world: World) -> None:
    watch = ActivityWatch()
    [first] = await ended(world)
    [heard] = await watch.look(world.store)
    assert (heard.number, heard.id) == (first, f"{to_us(world.now)}-{first}")
    others = await ended(world, 2)
    await watch.look(world.store)
    world.wait(SECOND)
    await ended(world)
    missed = await watch.resume(world.store, heard.id)
    assert sorted(one.number for one in missed) == others, "the next look tells the last"
    assert len(await watch.look(world.store)) == 1


async def test_another_process_tells_who_comes_again_what_is_in_the_store(world: World) -> None:
    [first] = await ended(world)
    heard = f"{to_us(world.now)}-{first}"
    numbers = []
    for _ in range(3):
        world.wait(MINUTE)
        numbers += await ended(world)
    watch = ActivityWatch()
    missed = await watch.resume(world.store, heard)
    assert [one.number for one in missed] == numbers[:2]
    assert [one.number for one in await watch.look(world.store)] == numbers[2:]


async def test_who_was_away_for_long_is_told_the_last_minutes(world: World) -> None:
    [first] = await ended(world)
    heard = f"{to_us(world.now)}-{first}"
    world.wait(MINUTE)
    await ended(world)
    world.wait(FURTHEST)
    [near] = await ended(world)
    world.wait(MINUTE)
    assert [one.number for one in await ActivityWatch().resume(world.store, heard)] == [near]


@pytest.mark.parametrize("text", ["", "yesterday", "17", "1-2-3", "9" * 18 + "-1", "-5-1", "٣-1"])
async def test_an_id_that_nobody_was_given_is_refused(world: World, text: str) -> None:
    with pytest.raises(InvalidValue, match="is not the id of anything that happened"):
        await ActivityWatch().resume(world.store, text)
