"""What somebody has said is not a problem needs nobody, until something new happens."""

from datetime import timedelta

from duly.errors import InvalidValue, PayloadError
from duly.model.access import Acknowledgement, Actor, Matter
from duly.model.fire import Cause
from duly.model.outcome import Mismatched, Raised
from duly.model.states import State
from duly.store.activity import NotKept
from tests.conformance.expect import equal, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

ADA = Actor("ada", "person")
REFUSED = Raised(error="ConnectionError", message="refused")
LATER = timedelta(microseconds=1)


async def acknowledge(world: World, subject: str, kind: str, until: timedelta) -> Acknowledgement:
    matter = Matter(subject=subject, kind=kind, until=START + until)
    return await world.store.acting(ADA).access.acknowledge(matter, note="known")


async def not_kept(world: World) -> list[NotKept]:
    return await world.store.activity.not_kept(START)


@check
async def an_acknowledgement_says_who_when_and_why_and_can_be_taken_back(world: World) -> None:
    world.wait(HOUR)
    made = await acknowledge(world, "schedule:report", "failed", MINUTE)
    matter = Matter(subject="schedule:report", kind="failed", until=START + MINUTE)
    equal(made, Acknowledgement(matter=matter, who="ada", at=START + HOUR, note="known"))
    equal(await world.store.access.acknowledged(), [made])
    world.wait(MINUTE)
    again = await acknowledge(world, "schedule:report", "failed", timedelta())
    equal(again.matter.until, START + MINUTE, "what was seen stays seen")
    equal(await world.store.access.acknowledged(), [again])
    forget = world.store.acting(ADA).access.forget_acknowledgement
    equal([await forget("schedule:report", kind) for kind in ("failed", "failed")], [True, False])
    equal(await world.store.access.acknowledged(), [])
    said = [entry.action for entry in await world.store.access.audit(subject="schedule:report")]
    equal(said[::-1], ["needs.acknowledge"] * 2 + ["needs.forget"] * 2)


@check
async def a_schedule_that_failed_needs_nobody_until_it_fails_again(world: World) -> None:
    await world.add(plan(), plan("other", "every 1h"))
    await world.fire_after(MINUTE)
    job = await world.begin()
    await world.end(job, REFUSED)
    [bad] = await not_kept(world)
    equal((bad.last, bad.state), (START + MINUTE, State.FAILED))
    await acknowledge(world, "schedule:other", "failed", MINUTE)
    await acknowledge(world, "schedule:report", "overlap", MINUTE)
    equal(len(await not_kept(world)), 1, "another schedule, and another kind")
    await acknowledge(world, "schedule:report", "failed", MINUTE)
    equal(await not_kept(world), [])
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), REFUSED)
    [bad] = await not_kept(world)
    equal((bad.moments, bad.first, bad.due_at), (1, START + 2 * MINUTE, START + 2 * MINUTE))
    await world.store.access.forget_acknowledgement("schedule:report", "failed")
    equal([one.moments for one in await not_kept(world)], [2])


@check
async def a_run_that_is_retried_and_fails_again_is_new(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    await world.fire_after(HOUR)
    job = await world.begin()
    await world.end(job, REFUSED)
    await acknowledge(world, "schedule:report", "failed", HOUR)
    equal(await not_kept(world), [])
    world.wait(MINUTE)
    await world.store.jobs.retry(job.id)
    await world.end(await world.begin(), REFUSED)
    [bad] = await not_kept(world)
    equal((bad.due_at, bad.last), (START + HOUR, START + HOUR + MINUTE))


@check
async def a_moment_that_was_skipped_needs_nobody_until_the_next_is(world: World) -> None:
    await world.add(plan())
    await world.fire_after(MINUTE)
    await world.begin()
    await world.fire_after(MINUTE)
    [bad] = await not_kept(world)
    equal((bad.cause, bad.last), (Cause.OVERLAP, START + 2 * MINUTE))
    await acknowledge(world, "schedule:report", "overlap", 2 * MINUTE)
    equal(await not_kept(world), [])
    await world.fire_after(MINUTE)
    equal([one.moments for one in await not_kept(world)], [1])


@check
async def failed_jobs_of_a_task_need_nobody_until_another_fails(world: World) -> None:
    failed_tasks = world.store.activity.failed_tasks
    for _ in range(2):
        await world.enqueue(call())
        await world.end(await world.begin(), REFUSED)
    await acknowledge(world, "task:other", "failed", timedelta())
    equal([one.jobs for one in await failed_tasks(START)], [2])
    await acknowledge(world, "task:work", "failed", timedelta())
    equal(await failed_tasks(START), [])
    world.wait(MINUTE)
    await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)
    equal([(one.jobs, one.ended_at) for one in await failed_tasks(START)], [(1, START + MINUTE)])


@check
async def jobs_that_wait_need_nobody_until_another_waits(world: World) -> None:
    waiting = world.store.activity.waiting
    await world.enqueue(call())
    await world.end(await world.begin(), Mismatched(signature="other", reason="no parameter day"))
    await world.enqueue(call("send"))
    world.wait(HOUR)
    await acknowledge(world, "task:send", "signature", timedelta())
    await acknowledge(world, "task:work", "no worker", timedelta())
    equal([one.last for one in await waiting(patience=MINUTE)], [START, START])
    await acknowledge(world, "task:send", "no worker", timedelta())
    equal([one.task for one in await waiting(patience=MINUTE)], ["work"])
    await acknowledge(world, "task:work", "signature", timedelta())
    equal(await waiting(patience=MINUTE), [])
    await world.enqueue(call("send"), call("send"))
    world.wait(MINUTE)
    equal([(one.task, one.jobs) for one in await waiting(patience=MINUTE)], [("send", 2)])


@check
async def what_has_not_happened_cannot_be_acknowledged(world: World) -> None:
    with refused(InvalidValue, saying="the future cannot be acknowledged"):
        await acknowledge(world, "schedule:report", "failed", LATER)
    long = (("s" * 1_001, "failed", ""), ("s", "k" * 101, ""), ("s", "k", "n" * 501))
    for subject, kind, note in long:
        with refused(PayloadError):
            matter = Matter(subject=subject, kind=kind, until=START)
            await world.store.access.acknowledge(matter, note=note)
    equal((await world.store.access.acknowledged(), await world.store.access.audit()), ([], []))
