"""At most so many runs: a run is a due moment of the clock that makes a job."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from duly.model.policies import Missed
from duly.model.schedule import Plan
from tests.conformance.expect import equal
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan

A_DAY = timedelta(days=1)


async def _outcomes(world: World) -> list[str]:
    return [str(fire.outcome) for fire in await world.fires()]


async def _work(world: World) -> None:
    await world.end(await world.begin())


def _most(number: int | None) -> Callable[[Plan], Plan]:
    def change(old: Plan) -> Plan:
        return replace(old, policies=replace(old.policies, max_runs=number))

    return change


@check
async def after_its_last_run_a_schedule_is_finished(world: World) -> None:
    await world.add(plan(max_runs=2))
    for left in (1, 0):
        await world.fire_after(MINUTE)
        equal((await world.schedule()).runs_left, left)
        await _work(world)
    found = await world.schedule()
    equal((found.next_at, found.is_finished), (None, True))
    await world.fire_after(A_DAY)
    equal(await _outcomes(world), ["queued", "queued"])


@check
async def a_fixed_delay_is_counted_in_runs(world: World) -> None:
    await world.add(plan(rule="spaced 10m", max_runs=2))
    await world.fire()
    await _work(world)
    equal((await world.schedule()).next_at, world.now + 10 * MINUTE)
    await world.fire_after(10 * MINUTE)
    equal((await world.schedule()).is_finished, False)  # it waits for the end of the run
    await _work(world)
    found = await world.schedule()
    equal((found.next_at, found.awaiting, found.is_finished), (None, None, True))


@check
async def skipped_moments_are_no_runs(world: World) -> None:
    await world.add(plan(max_runs=2))
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)  # the first run has not ended
    await world.store.schedules.skip_next("report")
    await world.fire_after(MINUTE)
    await _work(world)
    equal((await world.schedule()).runs_left, 1)
    await world.fire_after(MINUTE)
    equal(await _outcomes(world), ["queued", "skipped", "skipped", "queued"])
    equal((await world.schedule()).is_finished, True)


@check
async def catching_up_makes_no_more_runs_than_are_left(world: World) -> None:
    await world.add(plan(max_runs=3, missed=Missed("all"), overlap="allow"))
    await world.fire_after(5 * MINUTE)
    equal([fire.due_at for fire in await world.fires()], [START + n * MINUTE for n in (1, 2, 3)])
    equal((await world.schedule()).is_finished, True)


@check
async def a_moment_that_takes_over_a_waiting_job_is_no_second_run(world: World) -> None:
    await world.add(plan(max_runs=3, overlap="queue_one"))
    await world.fire_after(MINUTE)
    await world.begin()
    for _ in range(4):
        await world.fire_after(MINUTE)
    equal((await world.schedule()).runs_left, 1)
    equal(len(await world.live()), 2)


@check
async def runs_by_hand_and_backfills_do_not_count(world: World) -> None:
    await world.add(plan(max_runs=1, overlap="allow"))
    await world.store.schedules.run("report")
    await world.fire_after(MINUTE)
    await world.store.schedules.run("report")
    await world.store.schedules.backfill(
        "report", since=START - HOUR, until=START - HOUR + 2 * MINUTE
    )
    equal((await world.schedule()).runs_left, 0)
    equal(len(await world.live()), 5)


@check
async def the_count_survives_edits_pauses_and_a_rewind(world: World) -> None:
    await world.add(plan(max_runs=3))
    calls = world.store.schedules
    await world.fire_after(MINUTE)
    await _work(world)
    await calls.edit("report", lambda old: replace(old, rule="every 2m", title="other"))
    await calls.pause("report")
    await calls.resume("report")
    await calls.rewind("report", to=START)
    await world.store.ledger.refresh()
    equal((await world.schedule()).runs_left, 2)


@check
async def a_higher_maximum_lets_a_finished_schedule_go_on(world: World) -> None:
    await world.add(plan(max_runs=1))
    await world.fire_after(MINUTE)
    await _work(world)
    await world.fire_after(HOUR)
    edited = await world.store.schedules.edit("report", _most(2))
    equal((edited.runs_left, edited.next_at), (1, world.now + MINUTE))
    await world.fire_after(MINUTE)
    equal(await _outcomes(world), ["queued", "queued"])


@check
async def a_lower_maximum_finishes_it_and_a_new_one_counts_from_now(world: World) -> None:
    await world.add(plan(max_runs=5, overlap="allow"))
    for _ in range(2):
        await world.fire_after(MINUTE)
    calls = world.store.schedules
    lower = await calls.edit("report", _most(2))
    equal((lower.runs_left, lower.next_at, lower.is_finished), (0, None, True))
    free = await calls.edit("report", _most(None))
    equal((free.runs_left, free.next_at), (None, world.now + MINUTE))
    again = await calls.edit("report", _most(2))
    equal((again.runs_left, again.next_at), (2, world.now + MINUTE))


@check
async def a_finished_schedule_stays_finished_through_pause_and_resume(world: World) -> None:
    await world.add(plan(max_runs=1))
    await world.fire_after(MINUTE)
    calls = world.store.schedules
    await calls.pause("report", until=world.now + HOUR)
    await world.fire_after(2 * HOUR)
    await calls.pause("report")
    world.wait(HOUR)
    equal((await calls.resume("report")).next_at, None)
    equal(await calls.skip_next("report"), [])
    equal(await _outcomes(world), ["queued"])
