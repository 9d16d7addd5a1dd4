"""Every column arrives where it should, through every table a job passes."""

from dataclasses import fields, replace
from datetime import timedelta

from duly.model.job import Label, StoredJob
from duly.model.outcome import Raised, Succeeded
from duly.model.payload import encode
from duly.model.schedule import Pause
from duly.model.states import State
from duly.model.terms import Terms
from duly.rules import zone_data_version
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import NEEDED, distinct_call, distinct_plan

YEARS = timedelta(days=2_000)
LABEL = tuple(field.name for field in fields(Label))


@check
async def a_schedule_keeps_every_column(world: World) -> None:
    plan = distinct_plan(START + YEARS)
    await world.add(plan)
    found = await world.schedule(plan.name)
    equal(found.plan, plan)
    equal(found.zone_data, zone_data_version())
    equal(await world.store.schedules.page(), [found])


@check
async def a_pause_keeps_every_column(world: World) -> None:
    await world.add(distinct_plan(START + YEARS))
    world.wait(MINUTE)
    until = START + 3 * HOUR
    found = await world.by("the pauser").schedules.pause(
        "the name", until=until, note="the note", catch_up=True
    )
    wanted = Pause(since=world.now, until=until, by="the pauser", note="the note", catch_up=True)
    equal(found.pause, wanted)
    equal((found.plan, found.created_at), (distinct_plan(START + YEARS), START))


@check
async def a_schedule_keeps_every_column_through_each_change(world: World) -> None:
    plan = distinct_plan(START + YEARS)
    await world.add(plan)
    calls = world.store.schedules
    await calls.pause(plan.name)
    await calls.resume(plan.name)
    await calls.skip_next(plan.name)
    await calls.run(plan.name)
    world.wait(HOUR)
    await world.fire()
    await calls.rewind(plan.name, to=START)
    await world.store.ledger.refresh()
    equal((await calls.edit(plan.name, lambda old: old)).plan, plan)
    changed = replace(plan, title="another title", tags=("third tag",))
    equal((await calls.edit(plan.name, lambda _: changed)).plan, changed)


@check
async def a_job_of_a_schedule_keeps_every_column_to_its_end_and_back(world: World) -> None:
    plan = distinct_plan(START + YEARS)
    schedule = await world.add(plan)
    world.clock.set(schedule.next_at or START)
    await world.fire()
    [fire] = await world.fires(plan.name)
    made = await world.job(fire.job_id)
    equal(_label(made), {name: getattr(plan, name) for name in LABEL})
    equal((made.schedule_id, made.fire_id, made.id), (schedule.id, fire.id, fire.job_id))
    equal((made.due_at, made.created_at, made.late, made.retry, made.key),
          (fire.due_at, world.now, "hurry", plan.policies.retry, None))  # fmt: skip
    equal(made.deadline, fire.due_at + timedelta(minutes=17))
    await _to_its_end_and_back(world, made)


@check
async def a_job_that_was_called_keeps_every_column_to_its_end_and_back(world: World) -> None:
    call = distinct_call(run_after=START + MINUTE)
    made = await world.job(await world.enqueue(call))
    equal(_label(made), {name: getattr(call, name) for name in LABEL})
    equal((made.key, made.late, made.retry), ("the key", "hurry", call.retry))
    equal((made.created_at, made.due_at, made.ready_at), (START, START + MINUTE, START + MINUTE))
    equal(made.deadline, START + MINUTE + timedelta(minutes=23))
    await _to_its_end_and_back(world, made)


@check
async def a_moved_job_takes_every_column_of_the_new_call(world: World) -> None:
    call = replace(distinct_call(run_after=START + HOUR), if_exists="replace")
    world.wait(-HOUR)
    number = await world.enqueue(replace(call, args=encode(0), queue="q", priority=0, tenant="",
                                         submitter="", title="", tags=(), version=1,
                                         owner=distinct_plan(START).owner, late="run",
                                         limits=(), needs={}, terms=Terms(),
                                         retry=None, run_after=None))  # fmt: skip
    created = world.now
    world.wait(HOUR)
    equal(await world.enqueue(call), number)
    moved = await world.job(number)
    equal(_label(moved), {name: getattr(call, name) for name in LABEL})
    equal((moved.key, moved.late, moved.retry, moved.created_at),
          ("the key", "hurry", call.retry, created))  # fmt: skip
    equal((moved.due_at, moved.ready_at, moved.deadline),
          (START + HOUR, START + HOUR, START + HOUR + timedelta(minutes=23)))  # fmt: skip


async def _to_its_end_and_back(world: World, made: StoredJob) -> None:
    """Claim, retry, fail, revive and succeed: at each step only what must change has changed."""
    world.clock.set(made.ready_at)
    await world.dispatch()
    [running] = await world.claim(1, queue="the queue", free=NEEDED)
    _only_changed(made, running, "state", "attempt", "worker", "fence", "claimed_at")
    world.wait(timedelta(seconds=3))
    await world.end(running, Raised("First", "error"))
    again = await world.job(made.id)
    _only_changed(running, again, "state", "worker", "claimed_at", "ready_at", "reason", "deadline")
    equal(again.ready_at, world.now + timedelta(seconds=29))
    world.clock.set(again.ready_at)
    await world.dispatch()
    [second] = await world.claim(1, queue="the queue", free=NEEDED)
    _only_changed(again, second, "state", "attempt", "worker", "fence", "claimed_at", "reason")
    world.wait(timedelta(seconds=5))
    await world.end(second, Raised("Second", "error"))
    failed = await world.job(made.id)
    _only_changed(second, failed, "state", "reason", "ended_at", "error")
    equal((failed.ended_at, failed.error), (world.now, "Second: error"))
    equal(await world.store.jobs.ended(State.FAILED), [failed])
    await _revived(world, failed)


async def _revived(world: World, failed: StoredJob) -> None:
    world.wait(timedelta(seconds=7))
    back = await world.store.jobs.retry(failed.id)
    _only_changed(failed, back, "state", "reason", "ended_at", "error", "attempt", "worker",
                  "claimed_at", "ready_at", "deadline", "key")  # fmt: skip
    [third] = await world.claim(1, queue="the queue", free=NEEDED)
    world.wait(timedelta(seconds=11))
    await world.end(third, Succeeded(encode("the result")))
    ended = await world.job(failed.id)
    _only_changed(third, ended, "state", "reason", "ended_at", "result")
    equal((ended.ended_at, ended.result), (world.now, '"the result"'))
    equal(await world.store.jobs.ended(State.SUCCEEDED), [ended])
    attempts = await world.store.jobs.attempts(failed.id)
    equal([(a.number, a.error) for a in attempts], [(1, "First: error"), (2, "Second: error")])
    holds(attempts[0].fence < attempts[1].fence, "each attempt has its fence")


def _label(job: StoredJob) -> dict[str, object]:
    return {name: getattr(job, name) for name in LABEL}


def _only_changed(before: StoredJob, after: StoredJob, *names: str) -> None:
    allowed = set(names)
    changed = {
        field.name
        for field in fields(StoredJob)
        if getattr(before, field.name) != getattr(after, field.name)
    }
    equal(changed - allowed, set(), f"columns that changed from {before.state} to {after.state}")
