"""What somebody has said is not a problem needs nobody, until something new happens. On SQLite."""

from collections.abc import AsyncIterator

import pytest

from duly.model.access import Actor
from duly.model.outcome import Mismatched, Raised
from duly.views import attention
from duly.views.attention import Need
from duly.views.fires import Counts
from duly.views.today import Status, status
from tests.app.test_why import opened
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

REFUSED = Raised(error="ConnectionError", message="refused")


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    async with opened(url) as there:
        yield there


async def look(world: World) -> Status:
    return await status(world.store)


async def the_need(world: World) -> Need:
    [need] = (await look(world)).needs
    return need


async def acknowledge(world: World, need: Need) -> Status:
    """``[Not a problem]``; how things stand then."""
    assert need.matter is not None
    store = world.store.acting(Actor("ada", "person"))
    await store.access.acknowledge(need.matter, note="known")
    return await look(world)


async def test_a_run_that_failed_comes_back_when_the_next_one_fails(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.fire_after(HOUR)
    await world.end(await world.begin(), REFUSED)
    found = await acknowledge(world, await the_need(world))
    assert (found.ok, found.counts) == (True, Counts(failed=1)), "it is counted all the same"
    assert found.headline() == (
        "0 of 1 due since yesterday 13:00 were OK, and nothing needs attention."
    )
    await world.fire_after(HOUR)
    await world.end(await world.begin())
    assert (await look(world)).ok
    await world.fire_after(HOUR)
    await world.end(await world.begin(), REFUSED)
    found = await look(world)
    assert found.headline() == "1 item needs attention (3 due since yesterday 15:00, 1 OK)."
    assert found.needs[0].moments == 1, "the one before was seen"


async def test_skipped_and_failed_are_two_matters(world: World) -> None:
    await world.add(plan("report", "every 1h", overlap="skip"))
    await world.fire_after(HOUR)
    job = await world.begin()
    await world.fire_after(HOUR)
    await world.end(job, REFUSED)
    skipped, failed = (await look(world)).needs
    assert (skipped.kind, failed.kind) == ("skipped", "failed")
    found = await acknowledge(world, skipped)
    assert [need.kind for need in found.needs] == ["failed"]
    assert (await acknowledge(world, failed)).ok


async def test_failed_jobs_of_a_task_come_back_when_another_fails(world: World) -> None:
    for _ in range(2):
        await world.enqueue(call())
        await world.end(await world.begin(), REFUSED)
        need = await the_need(world)
        assert (need.name, need.kind, need.moments) == ("work", "failed", 1)
        assert (await acknowledge(world, need)).ok
        world.wait(MINUTE)


async def test_jobs_that_nobody_can_take_come_back_when_another_waits(world: World) -> None:
    await world.enqueue(call("send"))
    world.wait(MINUTE)
    need = await the_need(world)
    assert need.kind == "no worker"
    assert (await acknowledge(world, need)).ok
    await world.enqueue(call("send"))
    assert (await look(world)).ok
    world.wait(MINUTE)
    assert (await the_need(world)).moments == 1


async def test_jobs_that_do_not_fit_are_acknowledged(world: World) -> None:
    await world.enqueue(call())
    await world.end(await world.begin(), Mismatched(signature="other", reason="no parameter day"))
    world.wait(MINUTE)
    assert (await acknowledge(world, await the_need(world))).ok


async def test_a_schedule_that_stands_still_comes_back_when_it_does_so_again(world: World) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such calendar")

    await world.add(plan("report", "every 1h"))
    world.wait(HOUR)
    await world.fire(decide=broken)  # type: ignore[arg-type]
    assert (await acknowledge(world, await the_need(world))).ok
    world.wait(HOUR)
    await world.fire(decide=broken)  # type: ignore[arg-type]
    assert (await look(world)).ok, "it still stands where it stood"
    await world.store.schedules.edit("report", lambda old: old)  # and so it was mended
    await world.fire()
    await world.end(await world.begin())
    world.wait(HOUR)
    await world.fire(decide=broken)  # type: ignore[arg-type]
    assert (await the_need(world)).kind == "fault"


async def test_acknowledged_faults_hide_no_other_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such calendar")

    monkeypatch.setattr(attention, "MOST_NEEDS", 1)
    await world.add(plan("archive", "every 1h"), plan("report", "every 1h"))
    world.wait(HOUR)
    await world.fire(decide=broken)  # type: ignore[arg-type]
    first = (await look(world)).needs[0]
    assert first.name == "archive"
    assert [need.name for need in (await acknowledge(world, first)).needs] == ["report"]


async def test_that_no_scheduler_is_running_cannot_be_acknowledged(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    world.wait(HOUR + 14 * MINUTE)
    assert (await the_need(world)).matter is None


async def test_an_acknowledgement_that_is_taken_back_leaves_it_as_it_was(world: World) -> None:
    await world.add(plan("report", "every 1h"))
    await world.fire_after(HOUR)
    await world.end(await world.begin(), REFUSED)
    before = await look(world)
    await acknowledge(world, before.needs[0])
    [known] = await world.store.access.acknowledged()
    assert (known.who, known.note, known.matter) == ("ada", "known", before.needs[0].matter)
    await world.store.access.forget_acknowledgement(known.matter.subject, known.matter.kind)
    assert await look(world) == before
