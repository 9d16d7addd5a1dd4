"""What is shown while it happens can be read: what happened, how long it took, what is waiting."""

from bisect import bisect_right
from datetime import timedelta

from duly.model.fire import Outcome
from duly.model.limit import NamedLimit
from duly.model.outcome import Raised
from duly.model.policies import Missed
from duly.model.states import State
from duly.store.activity import LENGTHS, Depth
from tests.conformance.expect import equal
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

LATE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
REFUSED = Raised(error="ConnectionError", message="refused")


@check
async def moments_are_counted_up_to_an_end(world: World) -> None:
    await world.add(plan(overlap="allow"))
    for _ in range(5):
        await world.fire_after(MINUTE)
    [found] = await world.store.activity.tallies(START, until=START + 3 * MINUTE, late=LATE)
    equal((found.outcome, found.state, found.moments), (Outcome.QUEUED, State.READY, 2))


@check
async def moments_are_counted_by_the_hour_in_which_they_were_due(world: World) -> None:
    await world.add(plan(rule="every 30m", overlap="allow", missed=Missed("all")))
    await world.fire_after(2 * HOUR)
    decided = world.now
    world.wait(MINUTE)
    await world.end(await world.begin(), REFUSED)
    for _ in range(3):
        await world.end(await world.begin())
    await world.fire_after(29 * MINUTE)
    tallies = world.store.activity.hour_tallies
    found = await tallies(decided, until=decided + MINUTE, due_since=START, late=90 * MINUTE)
    equal(
        [(one.hour, one.state, one.moments, one.late) for one in found],
        [
            (START, State.FAILED, 1, 0),
            (START + HOUR, State.SUCCEEDED, 2, 0),
            (START + 2 * HOUR, State.SUCCEEDED, 1, 0),
        ],
    )
    found = await tallies(decided, until=world.now + MINUTE, due_since=START + 2 * HOUR, late=LATE)
    equal([(one.state, one.moments) for one in found], [(State.READY, 1), (State.SUCCEEDED, 1)])
    late = await tallies(decided, until=decided + MINUTE, due_since=START + HOUR, late=40 * MINUTE)
    equal([one.late for one in late], [1, 0])


@check
async def what_happened_is_told_in_order_with_its_reason(world: World) -> None:
    await world.add(plan(queue="nightly", title="The report", tenant="acme", overlap="skip"))
    await world.fire_after(MINUTE)
    world.wait(SECOND)
    [job] = await world.claim(queue="nightly")
    await world.fire_after(MINUTE)
    found = await world.store.activity.happened(START)
    equal(
        [(one.at - START, one.kind, one.state, one.job_id) for one in found],
        [
            (MINUTE, "moment", "queued", job.id),
            (MINUTE + SECOND, "began", "running", job.id),
            (2 * MINUTE + SECOND, "moment", "skipped", None),
        ],
    )
    for one in found:
        told = (one.schedule, one.task, one.title, one.queue, one.tenant)
        equal(told, ("report", "work", "The report", "nightly", "acme"))
    equal(found[2].reason, (await world.fires())[-1].reason)
    equal([one.due_at - START for one in found], [MINUTE, MINUTE, 2 * MINUTE])
    await world.end(job, REFUSED)
    await world.enqueue(call())
    other = await world.begin()
    world.wait(SECOND)
    await world.end(other)
    ended = [one for one in await world.store.activity.happened(START) if one.kind == "ended"]
    equal(
        [(one.number, one.state, one.schedule) for one in ended],
        [(job.id, "failed", "report"), (other.id, "succeeded", "")],
    )


@check
async def of_what_happened_the_last_is_told_and_all_is_counted(world: World) -> None:
    numbers = [await world.enqueue(call()) for _ in range(5)]
    for _ in numbers:
        world.wait(SECOND)
        await world.end(await world.begin(), REFUSED if world.now.second == 5 else None)
    await world.enqueue(call())
    numbers.append((await world.begin()).id)
    activity = world.store.activity
    equal([one.number for one in await activity.happened(START, limit=2)], numbers[-2:])
    equal(await activity.count_happened(START), 6)
    since, until = START + 2 * SECOND, START + 4 * SECOND
    equal([one.number for one in await activity.happened(since, until=until)], numbers[1:3])
    equal(await activity.count_happened(since, until=until), 2)
    world.wait(-2 * SECOND)
    ahead = "what a clock that ran ahead has written waits"
    equal(await activity.count_happened(START), 3, ahead)
    equal([one.number for one in await activity.happened(START)], numbers[:3], ahead)


@check
async def what_ended_is_counted_by_stretch_queue_and_state(world: World) -> None:
    for queue in ("default", "mail", "default"):
        await world.enqueue(call(queue=queue))
    first, second = await world.claim(2)
    await world.end(first)
    await world.end(second, REFUSED)
    world.wait(2 * MINUTE)
    await world.store.jobs.cancel((await world.live())[0].id)
    found = await world.store.activity.minutes(START, START + HOUR)
    equal(
        [(one.start, one.queue, one.succeeded, one.failed, one.others) for one in found],
        [(START, "default", 1, 1, 0), (START + 2 * MINUTE, "mail", 0, 0, 1)],
    )
    equal([sum(one.waiting) for one in found], [2, 0], "what never began has not waited to begin")
    equal(await world.store.activity.minutes(START + MINUTE, START + 2 * MINUTE), [])
    [_, mail] = await world.store.activity.minutes(START, START + HOUR, step=HOUR)
    equal((mail.start, mail.others), (START, 1))


@check
async def lengths_are_counted_between_their_bounds(world: World) -> None:
    lengths = [0, 999, 1_000, 1_999, 2_000, 4_999, 5_000, 9_999, 10_000, 70_000, 1_500_000]
    lengths += [2_000_000, 3_600_000_000, 4_999_999_999, 5_000_000_000, 200_000_000_000]
    for length in lengths:
        await world.enqueue(call())
        world.wait(length * MICROSECOND)
        job = await world.begin()
        world.wait(2 * length * MICROSECOND)
        await world.end(job)
    found = await world.store.activity.minutes(START, world.now + HOUR, step=240 * HOUR)
    waiting = [sum(counts) for counts in zip(*(one.waiting for one in found), strict=True)]
    running = [sum(counts) for counts in zip(*(one.running for one in found), strict=True)]
    equal(waiting, histogram(lengths))
    equal(running, histogram([2 * length for length in lengths]))
    equal(sum(sum(one.lateness) for one in found), 0, "no schedule made them")


@check
async def lateness_is_counted_from_the_moment_of_the_schedule(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    await world.fire_after(HOUR + 3 * SECOND)
    world.wait(4 * SECOND)
    await world.end(await world.begin())
    [found] = await world.store.activity.minutes(START, world.now + MINUTE)
    equal(list(found.lateness), histogram([7_000_000]))


def histogram(lengths: list[int]) -> list[int]:
    places = [bisect_right(LENGTHS, length) for length in lengths]
    return [places.count(place) for place in range(len(LENGTHS) + 1)]


@check
async def queues_are_as_deep_as_what_is_in_them(world: World) -> None:
    equal(await world.store.activity.depths(), [])
    alone = (NamedLimit(name="crm", template="crm", concurrency=1),)
    await world.enqueue(call(queue="crm", limits=alone), call(queue="crm", limits=alone))
    await world.claim(queue="crm")
    await world.add(
        plan(queue="nightly", overlap="queue_all"), plan("billing", queue="crm", limits=alone)
    )
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)
    await world.claim(3, queue="crm")  # which is full: they wait for it
    await world.enqueue(call(run_after=HOUR), call(), call(), call(queue="mail"))
    await world.begin()
    deep = START + 2 * MINUTE
    equal(
        await world.store.activity.depths(),
        [
            Depth(queue="crm", running=1, blocked=2),
            Depth(queue="default", ready=1, scheduled=1, running=1, oldest_ready_at=deep),
            Depth(queue="mail", ready=1, oldest_ready_at=deep),
            Depth(queue="nightly", ready=1, blocked=1, oldest_ready_at=START + MINUTE),
        ],
    )


@check
async def ended_jobs_are_counted_by_queue_if_that_is_asked(world: World) -> None:
    await world.enqueue(*[call(queue="mail")] * 3, call(queue="crm"), call(start_within=MINUTE))
    first, *others = await world.claim(3, queue="mail")
    await world.end(first, REFUSED)
    for job in others:
        await world.end(job)
    [other] = [one for one in await world.live() if one.queue == "crm"]
    await world.store.jobs.cancel(other.id)
    world.wait(2 * MINUTE)
    await world.dispatch()
    equal(await world.store.activity.depths(), [])
    equal(
        await world.store.activity.depths(ended=True),
        [
            Depth(queue="crm", cancelled=1),
            Depth(queue="default", expired=1),
            Depth(queue="mail", succeeded=2, failed=1),
        ],
    )


@check
async def a_deep_queue_is_counted_no_further_than_anybody_reads(world: World) -> None:
    await world.store.jobs.enqueue([call(queue="mail")] * 10_050)
    await world.store.jobs.enqueue([call(queue="later", run_after=HOUR)] * 10_050)
    later, mail = await world.store.activity.depths()
    equal((mail.ready, mail.oldest_ready_at), (10_001, START))
    equal((later.scheduled, later.whole), (10_001, False))


@check
async def what_is_due_before_an_instant_may_be_overdue_and_is_not_paused(world: World) -> None:
    await world.add(plan("soon", "every 1h"), plan("next day", "every 24h"), plan("paused"))
    await world.store.schedules.pause("paused")
    world.wait(2 * HOUR)
    found = await world.store.activity.due_before(START + 12 * HOUR)
    equal([one.plan.name for one in found], ["soon"])
    found = await world.store.activity.due_before(START + 13 * HOUR)
    equal([one.plan.name for one in found], ["soon", "next day"])
    found = await world.store.activity.due_before(START + 13 * HOUR, limit=1)
    equal([one.plan.name for one in found], ["soon"])
