"""A flow as it is seen, on real stores: its steps, where a job stands in it, and who needs you."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.errors import NotFound, WrongState
from duly.model.flow import Awaited, FlowPlan, FlowProgress
from duly.model.job_filter import parse_filter
from duly.model.outcome import Opened, Raised, Stopped, Succeeded
from duly.model.payload import encode
from duly.views.flow import AWAITING, flow_detail, flow_progress, lineage_of, step_parts
from duly.views.job import job_list
from duly.views.today import status
from duly.views.why import why_job
from tests.app import test_why
from tests.conformance.flow_plans import begun, chain, diamond, done, fan, opened, step
from tests.conformance.world import MINUTE, World
from tests.factories import call

REFUSED = Raised(error="ConnectionError", message="refused", traceback="Traceback …")


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    async with test_why.opened(url) as there:
        yield there


async def words(world: World, number: int) -> list[tuple[str, str]]:
    found = await flow_detail(world.store, number)
    return [(one.name, one.word) for one in found.items]


async def lineage(world: World, number: int) -> str:
    return str(lineage_of(await world.store.records.job(number)))


async def test_each_step_says_where_it_stands(world: World) -> None:
    number = await opened(world, diamond())
    await done(world, "first")
    await begun(world, "left")
    assert await words(world, number) == [
        ("first", "succeeded"),
        ("left", "running"),
        ("right", "ready"),
        ("last", "waiting"),
    ]


async def test_the_critical_path_is_what_was_waited_for_longest(world: World) -> None:
    number = await opened(world, diamond())
    await done(world, "first")
    await done(world, "right")
    world.wait(MINUTE)
    await done(world, "left")
    found = await flow_detail(world.store, number)
    assert [one.name for one in found.critical] == ["first", "left", "last"]
    await done(world, "last")
    found = await flow_detail(world.store, number)
    assert [one.name for one in found.critical] == ["first", "left", "last"]
    assert found.items[1].length == MINUTE
    assert found.sentence == "4 of 4 steps are done"


async def test_what_was_cancelled_with_the_rest_decided_nothing(world: World) -> None:
    number = await opened(world, diamond())
    await done(world, "first")
    left, right = sorted(await world.claim(2), key=lambda job: job.title)
    world.wait(MINUTE)
    await world.end(left, REFUSED)
    world.wait(MINUTE)
    await world.end(right, Stopped("told"))
    found = await flow_detail(world.store, number)
    assert [one.name for one in found.critical] == ["first", "left"]
    assert found.first_failed == 2
    failed = found.items[found.first_failed - 1]
    assert failed.name == "left"
    assert "refused" in failed.reason


async def test_what_helped_when_it_failed_waited_for_what_failed(world: World) -> None:
    steps = (
        step("a"),
        step("b", 0),
        step("never", 0, 1),
        step("help", 2, when="any_failed", rescue=True),
    )
    number = await opened(world, FlowPlan(steps=steps))
    await done(world, "a")
    await done(world, "b", REFUSED)
    await done(world, "help")
    found = await flow_detail(world.store, number)
    assert [one.name for one in found.critical] == ["a", "b", "help"]


async def test_of_a_list_what_succeeded_counts(world: World) -> None:
    number = await opened(world, fan(if_failed="go_on"))
    await done(world, "list", Succeeded(encode([1, 2, 3])))
    good, bad, _ = await world.claim(3)
    await world.end(good)
    await world.end(bad, REFUSED)
    found = await flow_detail(world.store, number)
    assert (found.items[1].word, found.items[1].progress) == ("running", "1/3")


async def test_a_step_knows_its_flow_and_a_part_its_place(world: World) -> None:
    number = await opened(world, fan(), title="the night")
    await done(world, "list", Succeeded(encode([1, 2, 3])))
    jobs = sorted(await world.claim(3), key=lambda job: job.part or 0)
    assert [await lineage(world, job.id) for job in jobs] == [
        f"step 2 (each, part {part} of 3) of flow {number} the night" for part in (1, 2, 3)
    ]
    assert await lineage(world, number) == "None"
    page = await step_parts(world.store, number, 2, after=0, limit=2)
    assert ([one.job_id for one in page.items], page.next) == ([job.id for job in jobs[:2]], "2")
    page = await step_parts(world.store, number, 2, after=2, limit=2)
    assert ([one.job_id for one in page.items], page.next) == ([jobs[2].id], None)
    found = await flow_detail(world.store, number)
    assert found.items[1].progress == "0/3"


async def test_who_asks_for_what_is_not_there_is_told_what_is(world: World) -> None:
    plain = await world.enqueue(call(task="send"))
    with pytest.raises(WrongState, match=rf"job {plain} \(send\) has no steps"):
        await flow_detail(world.store, plain)
    await world.store.jobs.cancel(plain)
    number = await opened(world, chain(2))
    with pytest.raises(NotFound, match="no such step: they are numbers, 1 to 2"):
        await step_parts(world.store, number, 3, after=0, limit=1)
    with pytest.raises(NotFound):
        await flow_detail(world.store, number, tenant="acme")


async def test_a_flow_within_a_flow_tells_how_far_it_is(world: World) -> None:
    number = await opened(world, FlowPlan(steps=(step("inner"),)))
    inner = await begun(world, "inner")
    await world.end(inner, Opened(chain(4)))
    await done(world, "step 0")
    found = await flow_detail(world.store, number)
    assert (found.items[0].word, found.items[0].progress) == ("running", "1/4 steps")


async def test_a_step_that_asks_says_for_what(world: World) -> None:
    asked = step("approval", awaited=Awaited("report.approved", "k", timedelta(hours=8)))
    number = await opened(world, FlowPlan(steps=(asked,)))
    found = await flow_detail(world.store, number)
    assert found.items[0].word == AWAITING
    awaits = found.items[0].awaits
    assert awaits is not None
    assert (awaits.event, awaits.key) == ("report.approved", "k")
    assert awaits.until == world.now + timedelta(hours=8)
    said = await why_job(world.store, found.items[0].job_id or 0)
    assert "waits for the event report.approved about k, until" in said
    assert "duly events emit report.approved --key k" in said


async def test_a_failed_step_is_its_flows_matter(world: World) -> None:
    await opened(world, FlowPlan(steps=(step("a", call=call(task="the task")),)), task="work")
    await done(world, "", REFUSED)
    found = await status(world.store)
    [need] = found.needs
    assert need.name == "work"
    assert 'step "a": ' in need.sentence
    assert "refused" in need.sentence


async def test_a_flow_that_runs_shows_its_steps_where_others_show_their_progress(
    world: World,
) -> None:
    number = await opened(world, chain(4), title="the night")
    await done(world, "step 0")
    [running] = (await status(world.store)).running
    assert (running.id, running.name) == (number, "the night")
    assert (running.percent, running.message) == (25.0, "1 of 4 steps")


async def test_the_steps_of_a_flow_are_found_by_its_number(world: World) -> None:
    number = await opened(world, diamond())
    await done(world, "first")
    await done(world, "left", REFUSED)
    other = await opened(world, chain(1), priority=7)
    found = await job_list(world.store, parse_filter(f"flow:{number}"))
    assert sorted(row.name for row in found.items) == ["first", "left", "right"]
    wanted = parse_filter(f"flow:{number} state:failed")
    assert await world.store.jobs.count(wanted, at_most=10) == 1
    everything = await job_list(world.store, parse_filter(""))
    told = {row.id: row.summary for row in everything.items}
    assert (told[number], told[other]) == ("1 of 4 steps failed", "0/1 step")


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (FlowProgress(5, 2, 0), "3/5 steps"),
        (FlowProgress(5, 0, 0), "5 steps"),
        (FlowProgress(1, 0, 0), "1 step"),
        (FlowProgress(10_000, 0, 2), "2 of 10,000 steps failed"),
    ],
)
def test_in_a_list_a_flow_says_how_far_it_is(flow: FlowProgress, said: str) -> None:
    assert flow_progress(flow) == said
