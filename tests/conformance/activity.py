"""What explains things can be read: who was in the way, who decided when, what is not kept."""

from datetime import timedelta

from duly.instants import HORIZON
from duly.model.fire import Cause, Outcome
from duly.model.outcome import Mismatched, Raised, Succeeded
from duly.model.policies import Missed
from duly.model.states import State
from duly.store.values import RunTimes
from tests.conformance.expect import equal
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

DAY = timedelta(days=1)
LATE = timedelta(minutes=1)
REFUSED = Raised(error="ConnectionError", message="refused")


@check
async def a_schedule_is_found_by_its_number(world: World) -> None:
    added = await world.add(plan())
    equal(await world.store.activity.schedule(added.id), await world.schedule())
    await world.store.schedules.remove("report")
    equal(await world.store.activity.schedule(added.id), None)


@check
async def the_run_in_the_way_is_the_oldest_that_was_there_and_had_not_ended(world: World) -> None:
    schedule = await world.add(plan(overlap="allow"))
    in_the_way = world.store.activity.run_in_the_way
    equal(await in_the_way(schedule.id, world.now), None)
    await world.fire_after(MINUTE)
    first = await world.begin()
    await world.fire_after(MINUTE)
    both = world.now
    second = await world.begin()
    equal((await in_the_way(schedule.id, both)), await world.job(first.id))
    world.wait(MINUTE)
    await world.end(first)
    equal((await in_the_way(schedule.id, both)), await world.job(first.id), "it had not, then")
    equal((await in_the_way(schedule.id, world.now)), await world.job(second.id))
    world.wait(MINUTE)
    await world.end(second, REFUSED)
    equal(await in_the_way(schedule.id, world.now), None)
    failed = await in_the_way(schedule.id, both + MINUTE)
    equal(failed and (failed.id, failed.state), (second.id, State.FAILED))


@check
async def past_runs_are_those_that_ended_well_the_newest_first(world: World) -> None:
    schedule = await world.add(plan())
    for length, outcome in ((1, Succeeded()), (2, REFUSED), (3, Succeeded()), (4, Succeeded())):
        await world.fire_after(MINUTE)
        job = await world.begin()
        world.wait(timedelta(seconds=length))
        await world.end(job, outcome)
    lengths = await world.store.activity.past_runs(schedule.id, limit=2)
    equal(lengths, [timedelta(seconds=4), timedelta(seconds=3)])


@check
async def a_merged_moment_finds_the_run_that_stands_for_it(world: World) -> None:
    schedule = await world.add(plan())
    await world.fire_after(5 * MINUTE)
    found = await world.store.activity.run_after(schedule.id, START + 2 * MINUTE)
    equal(found and (found.due_at, found.outcome), (START + 5 * MINUTE, Outcome.QUEUED))
    equal(await world.store.activity.run_after(schedule.id, START + 5 * MINUTE), None)


@check
async def the_last_decision_is_the_clocks_and_nobody_elses(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    equal(await world.store.activity.last_decision(world.now), None)
    await world.fire_after(HOUR)
    decided = world.now
    world.wait(MINUTE)
    await world.store.schedules.run("report")
    await world.store.schedules.skip_next("report")
    world.wait(MINUTE)
    equal(await world.store.activity.last_decision(world.now), decided)
    equal(await world.store.activity.last_decision(decided), None)


@check
async def jobs_ahead_are_those_that_are_claimed_before(world: World) -> None:
    calls = [call(), call(), call(priority=10), call(queue="other"), call(priority=-50)]
    first, second, urgent, other, low = await world.store.jobs.enqueue(calls)
    ahead = [await world.store.activity.count_ahead(n) for n in (urgent, first, second, other, low)]
    equal(ahead, [0, 1, 2, 0, 3])


@check
async def what_runs_is_counted_in_its_queue_and_listed_the_longest_first(world: World) -> None:
    await world.enqueue(call())
    first = await world.begin()
    world.wait(MINUTE)
    await world.enqueue(call())
    second = await world.begin()
    equal(await world.store.activity.running_in("default"), 2)
    equal(await world.store.activity.running_in("other"), 0)
    listed = await world.store.activity.running(limit=2)
    equal(listed, [await world.job(first.id), await world.job(second.id)])
    equal(len(await world.store.activity.running(limit=1)), 1)


@check
async def why_a_job_was_asked_to_stop_is_known_while_it_runs(world: World) -> None:
    number = await world.enqueue(call())
    await world.begin()
    equal(await world.store.activity.asked_to_stop(number), None)
    await world.store.jobs.cancel(number, reason="wrong day")
    equal(await world.store.activity.asked_to_stop(number), "cancelled: wrong day")


@check
async def moments_are_counted_by_what_became_of_them(world: World) -> None:
    await world.add(plan())
    await world.fire_after(3 * MINUTE)  # two are merged into the third, which is late
    job = await world.begin()
    await world.fire_after(MINUTE)  # skipped, because that runs
    await world.end(job)
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), REFUSED)
    await world.store.schedules.run("report")  # by hand: no moment of the clock
    found = await world.store.activity.tallies(START, late=timedelta(seconds=10))
    equal(
        {(one.outcome, one.cause, one.state): (one.moments, one.late) for one in found},
        {
            (Outcome.MERGED, None, State.SUCCEEDED): (2, 0),
            (Outcome.QUEUED, None, State.SUCCEEDED): (1, 0),
            (Outcome.QUEUED, None, State.FAILED): (1, 0),
            (Outcome.SKIPPED, Cause.OVERLAP, None): (1, 0),
        },
    )


@check
async def moments_that_were_kept_late_are_counted_as_such(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    await world.fire_after(HOUR)
    world.wait(2 * MINUTE)
    await world.end(await world.begin())
    [late] = await world.store.activity.tallies(START, late=LATE)
    equal((late.moments, late.late), (1, 1))
    [in_time] = await world.store.activity.tallies(START, late=HOUR)
    equal((in_time.moments, in_time.late), (1, 0))


@check
async def the_last_moments_that_were_kept_late_are_named(world: World) -> None:
    await world.add(plan(rule="every 1h", overlap="allow"))
    for wait in (timedelta(), 2 * MINUTE, 3 * MINUTE):
        await world.fire_after(HOUR - timedelta(minutes=world.now.minute))
        world.wait(wait)
        await world.end(await world.begin())
    await world.fire_after(HOUR - timedelta(minutes=world.now.minute))
    world.wait(4 * MINUTE)
    await world.end(await world.begin(), REFUSED)  # late, and not kept
    late = world.store.activity.late_moments
    found = await late(START, world.now, late=LATE)
    equal([fire.due_at for fire in found], [START + 3 * HOUR, START + 2 * HOUR])
    equal(await late(START, world.now, late=LATE, limit=1), found[:1])
    equal(await late(START, START + 3 * HOUR, late=LATE), found[1:])
    equal(await late(START, world.now, late=HOUR), [])


@check
async def what_was_not_kept_is_found_by_schedule_and_way_the_last_of_each(world: World) -> None:
    await world.add(plan(), plan("other", "every 1h"), plan("chosen", missed=Missed("skip")))
    await world.store.schedules.pause("chosen")
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), REFUSED)
    await world.fire_after(MINUTE)
    job = await world.begin()
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)
    await world.end(job)
    await world.store.schedules.resume("chosen")
    found = await world.store.activity.not_kept(START)
    equal(
        [(one.schedule, one.cause, one.state, one.moments, one.first, one.due_at) for one in found],
        [
            ("report", Cause.OVERLAP, None, 2, START + 3 * MINUTE, START + 4 * MINUTE),
            ("report", None, State.FAILED, 1, START + MINUTE, START + MINUTE),
        ],
    )
    equal(found[1].error, "ConnectionError: refused")
    equal((await world.job(found[1].job_id)).state, State.FAILED)
    equal(await world.store.activity.not_kept(START + 2 * HOUR), [])


@check
async def failed_jobs_of_no_schedule_are_found_by_their_task(world: World) -> None:
    await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)
    world.wait(MINUTE)
    last = await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)
    await world.add(plan())
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), REFUSED)  # its schedule speaks for it
    [found] = await world.store.activity.failed_tasks(START)
    equal((found.task, found.jobs, found.job_id), ("work", 2, last))
    equal((found.ended_at, found.error), (START + MINUTE, "ConnectionError: refused"))
    equal(await world.store.activity.failed_tasks(START + DAY), [])


@check
async def what_waits_for_a_worker_is_found_by_what_it_needs_the_oldest_first(world: World) -> None:
    unfit = await world.enqueue(call())
    mismatched = Mismatched(signature="other", reason="no parameter day")
    await world.end(await world.begin(), mismatched)
    world.wait(MINUTE)
    first = await world.enqueue(call(queue="mail"), call(queue="mail"))
    needy = await world.enqueue(call(needs={"gpu": 1}))
    await world.enqueue(call(run_after=HOUR))
    equal(len(await world.store.activity.waiting(patience=MINUTE)), 1, "only what has waited")
    world.wait(MINUTE)
    await world.enqueue(call("newer"))
    found = await world.store.activity.waiting(patience=MINUTE)
    equal(
        [(one.queue, one.jobs, one.waits, one.needs, one.job_id) for one in found],
        [
            ("default", 1, "signature", {}, unfit),
            ("default", 1, None, {"gpu": 1}, needy),
            ("mail", 2, None, {}, first),
        ],
    )
    equal((found[0].reason, found[0].since), ("no parameter day", START))


@check
async def what_comes_next_is_not_paused_and_begins_with_what_is_overdue(world: World) -> None:
    await world.add(
        plan("third", "every 3h"),
        plan("first", "every 1h"),
        plan("second", "every 2h"),
        plan("paused", "every 1h"),
    )
    await world.store.schedules.pause("paused", until=START + MINUTE)
    found = await world.store.activity.due_before(HORIZON, limit=2)
    equal([one.plan.name for one in found], ["first", "second"])
    world.wait(HOUR + MINUTE)
    later = await world.store.activity.due_before(HORIZON, limit=5)
    equal([one.plan.name for one in later], ["first", "second", "third"])


@check
async def a_run_is_told_from_its_first_beginning_to_its_end(world: World) -> None:
    await world.add(plan(retry='{"attempts": 3}'))
    await world.fire_after(MINUTE)
    [fire] = await world.fires()
    number = fire.job_id or 0
    equal((await world.store.activity.runs_of([number]))[number], RunTimes(state=State.READY))
    begun = world.now
    job = await world.begin()
    world.wait(MINUTE)
    await world.end(job, REFUSED)
    world.wait(HOUR)
    await world.dispatch()
    again = await world.begin()
    last = world.now
    world.wait(MINUTE)
    await world.end(again)
    equal(
        await world.store.activity.runs_of([number, 1]),
        {
            number: RunTimes(
                state=State.SUCCEEDED, first_at=begun, started_at=last, ended_at=last + MINUTE
            )
        },
    )
