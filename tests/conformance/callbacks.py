"""A task that is to follow the end of a job is enqueued when the job ends, by the same commit."""

from datetime import timedelta
from typing import Any

from duly.errors import OutcomeUnknown
from duly.model.job import JobRequest, StoredJob
from duly.model.outcome import (
    Late,
    Mismatched,
    Outcome,
    Raised,
    Returned,
    Stopped,
    Succeeded,
    TimedOut,
)
from duly.model.payload import decode
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.policy.retry import NEVER, Retry
from duly.store.database import Operation, T
from duly.store.ids import Ids
from duly.store.job_endings import settle
from duly.store.store import SqlStore
from duly.store.values import Settled
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, World
from tests.factories import call, plan

RETRY = Retry(attempts=2, backoff="constant", first="1m", jitter=False).as_json()
FATAL = Raised("Oops", permanent=True)
TERMS = Terms(
    on_success=Callback(task="good"),
    on_failure=Callback(task="bad"),
    on_cancelled=Callback(task="gone"),
)


def _called(**changes: Any) -> JobRequest:
    return call(terms=TERMS, **changes)


async def _following(world: World) -> list[tuple[str, object]]:
    """The tasks that were enqueued to follow, with the number that each is given."""
    jobs = [job for job in await world.live() if job.task != "work"]
    return [(job.task, decode(job.args)) for job in jobs]


@check
async def each_end_is_followed_by_its_own_task(world: World) -> None:
    for outcome, task in (
        (Succeeded(), "good"),
        (FATAL, "bad"),
        (Raised("Oops"), "bad"),
        (TimedOut(MINUTE), "bad"),
        (Late(), "bad"),
        (Stopped("deploy"), "gone"),
    ):
        number = await world.enqueue(_called())
        await world.end(await world.begin(), outcome)
        equal(await _following(world), [(task, {"job_id": number})], f"after {outcome}")
        [following] = await world.live()
        await world.store.jobs.cancel(following.id)


@check
async def what_follows_is_a_job_like_any_other(world: World) -> None:
    callback = Callback(
        task="after", queue="the queue", priority=7, retry=NEVER.as_json(), argument="report"
    )
    number = await world.enqueue(call(tenant="acme", terms=Terms(on_success=callback)))
    world.wait(MINUTE)
    await world.end(await world.begin())
    [job] = await world.live()
    equal((job.task, job.queue, job.priority, job.retry, job.tenant),
          ("after", "the queue", 7, NEVER.as_json(), "acme"))  # fmt: skip
    equal((decode(job.args), job.title), ({"report": number}, f"after job {number}"))
    equal((job.parent, job.step), (number, None))
    equal((job.state, job.created_at, job.due_at, job.ready_at), (State.READY, *[world.now] * 3))
    [claimed] = await world.claim(1, queue="the queue", tasks=["after"])
    await world.end(claimed)
    equal(await world.live(), [], "and nothing follows it")


@check
async def who_runs_what_follows_is_told(world: World) -> None:
    terms = Terms(
        on_success=Callback(task="good", queue="one"),
        on_cancelled=Callback(task="gone", queue="two"),
    )
    await world.enqueue(call(terms=terms), call(terms=terms))
    well, stopped = await world.claim(2)
    told = world.listen()
    await world.end(well)
    holds("ready:one" in told, f"of {told}")
    await world.store.jobs.cancel(stopped.id)
    await world.end(stopped, Returned())
    holds("ready:two" not in told, "it has not ended")
    await world.dispatch()
    equal((await world.job(stopped.id)).state, State.CANCELLED)
    holds("ready:two" in told, f"of {told}")


@check
async def nothing_follows_an_end_for_which_nothing_was_asked(world: World) -> None:
    await world.enqueue(call(terms=Terms(on_failure=Callback(task="bad"))), call())
    for job in await world.claim(2):
        await world.end(job)
    equal(await world.live(), [])


@check
async def nothing_follows_before_the_end(world: World) -> None:
    number = await world.enqueue(_called(retry=RETRY))
    before: list[Outcome] = [Returned(), Mismatched("it has two", "old"), Raised("Oops")]
    for outcome in before:
        await world.end(await world.begin(), outcome)
        await world.new_worker(signatures={"work": "new"})
        await world.free_unfit()
        equal(await _following(world), [], f"after {outcome}")
    world.wait(MINUTE)
    await world.dispatch()
    await world.lose(await world.begin())
    equal(await _following(world), [], "it is run again")
    await world.end(await world.begin(), FATAL)
    equal(await _following(world), [("bad", {"job_id": number})])


@check
async def what_is_lost_too_often_has_failed_and_is_followed(world: World) -> None:
    number = await world.enqueue(_called())
    for _ in range(3):
        equal(await _following(world), [])
        await world.lose(await world.begin())
    equal((await world.job(number)).state, State.FAILED)
    equal(await _following(world), [("bad", {"job_id": number})])


@check
async def what_expires_while_it_waits_is_followed(world: World) -> None:
    number = await world.enqueue(_called(start_within=MINUTE))
    world.wait(2 * MINUTE)
    equal((await world.dispatch()).expired, 1)
    equal(await _following(world), [("bad", {"job_id": number})])


@check
async def what_is_cancelled_while_it_waits_is_followed_once(world: World) -> None:
    later = timedelta(hours=1)
    numbers = await world.store.jobs.enqueue(
        [_called(), _called(run_after=later), _called(key="k")]
    )
    for number in numbers[:2]:
        await world.store.jobs.cancel(number)
        await world.store.jobs.cancel(number)
    await world.store.jobs.cancel_key("work", "k")
    await world.store.jobs.cancel_key("work", "k")
    equal(await _following(world), [("gone", {"job_id": number}) for number in numbers])


@check
async def what_was_cancelled_while_it_ran_and_waits_again_is_followed(world: World) -> None:
    number = await world.enqueue(_called(retry=RETRY))
    job = await world.begin()
    await world.store.jobs.cancel(number)
    equal(await _following(world), [], "it runs still")
    await world.end(job, Raised("Oops"))
    await world.dispatch()
    equal(await _following(world), [("gone", {"job_id": number})])


@check
async def a_settlement_that_is_refused_is_followed_by_nothing(world: World) -> None:
    number = await world.enqueue(_called())
    zombie = await world.begin()
    await world.lose(zombie)
    for outcome in (Succeeded(), FATAL, Stopped()):
        equal((await world.end(zombie, outcome)).refused, [number])
    successor = await world.begin()
    equal((await world.end(zombie)).refused, [number])
    equal(await _following(world), [])
    await world.end(successor)
    equal((await world.end(zombie, FATAL)).refused, [number])
    equal(await _following(world), [("good", {"job_id": number})])


@check
async def a_settlement_that_is_repeated_is_followed_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = World(SqlStore(losing), world.clock)
    number = await world.enqueue(_called())
    job = await world.begin()
    losing.lose("hold_jobs", times=2)
    for _ in range(2):
        with refused(OutcomeUnknown):
            await node.end(job)
    equal((await node.end(job)).kept, [number])
    equal(await _following(world), [("good", {"job_id": number})])


@check
async def an_end_without_what_follows_is_not_written(world: World) -> None:
    number = await world.enqueue(_called())
    job = await world.begin()
    with refused(_Torn):
        await world.write(lambda ids: _torn(_settled(world, job, ids), before="enqueue_as"))
    equal(await world.job(number), job, "it runs still")
    equal(await _following(world), [])
    await world.end(job)
    equal(await _following(world), [("good", {"job_id": number})])


@check
async def of_many_that_end_together_each_is_followed(world: World) -> None:
    numbers = await world.store.jobs.enqueue([_called(key=f"{n}") for n in range(4)])
    outcomes: list[Outcome] = [Succeeded(), FATAL, Stopped(), Succeeded()]
    jobs = await world.claim(4)
    await world.store.work.settle(
        [world.settlement(j, o) for j, o in zip(jobs, outcomes, strict=True)]
    )
    tasks = ["good", "bad", "gone", "good"]
    wanted = [(t, {"job_id": n}) for t, n in zip(tasks, numbers, strict=True)]
    equal(sorted(await _following(world), key=str), sorted(wanted, key=str))


@check
async def a_job_that_is_given_another_chance_is_followed_again(world: World) -> None:
    number = await world.enqueue(_called())
    await world.end(await world.begin(), FATAL)
    await world.store.jobs.retry(number)
    await world.end(await world.begin())
    equal(await _following(world), [("bad", {"job_id": number}), ("good", {"job_id": number})])


@check
async def jobs_of_a_schedule_are_followed_as_it_says(world: World) -> None:
    await world.add(plan(terms=TERMS))
    [fire] = await world.fired_after(MINUTE)
    await world.end(await world.begin())
    equal(await _following(world), [("good", {"job_id": fire.job_id})])


class _Torn(Exception):
    """What happens to a transaction when the process dies in it."""


def _settled(world: World, job: StoredJob, ids: Ids) -> Operation[Settled]:
    return settle([world.settlement(job)], ids=ids)


def _torn(operation: Operation[T], before: str) -> Operation[T]:
    try:
        ask = next(operation)
        while ask.statement != before:
            ask = operation.send((yield ask))
        raise _Torn
    except StopIteration as end:
        result: T = end.value
        return result
