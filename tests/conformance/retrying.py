"""Failed jobs are given another chance, all that match or the first few."""

from datetime import timedelta
from typing import Any

from duly.errors import InvalidValue
from duly.model.job import JobRequest
from duly.model.job_filter import Filter
from duly.model.outcome import Raised
from duly.model.states import State
from duly.store.database import Start, T
from duly.store.store import SqlStore
from duly.store.values import CAREFUL, IDLE, LOW, NORMAL
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, START, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
OOPS = Raised("Oops")


async def fail(world: World, *calls: JobRequest, outcome: Raised = OOPS) -> list[int]:
    """Let jobs fail one after the other, a second apart."""
    numbers = await world.store.jobs.enqueue(calls)
    for number, one in zip(numbers, calls, strict=True):
        world.wait(SECOND)
        [job] = await world.claim(1, queue=one.queue, tasks=[one.task])
        equal(job.id, number)
        await world.end(job, outcome)
    return numbers


async def failed(world: World) -> list[int]:
    """The oldest first."""
    return [job.id for job in await world.store.jobs.ended(State.FAILED, limit=20_000)][::-1]


async def retry(world: World, **asked: Any) -> list[int]:
    """Retry, and see that as many were counted before."""
    counted = await count_failed(world, **asked)
    revived = await retried(world, **asked)
    equal(len(revived), counted, "as many as were counted")
    equal(await count_failed(world, **asked), 0)
    return revived


async def retried(
    world: World, *, first: int | None = None, who: str = "", **asked: Any
) -> list[int]:
    return await world.by(who).jobs.retry_found(Filter(**asked), first=first)


async def count_failed(world: World, **asked: Any) -> int:
    return await world.store.jobs.count(Filter(states=(State.FAILED,), **asked))


@check
async def all_failed_jobs_are_retried_the_oldest_first(world: World) -> None:
    numbers = await fail(world, call(), call(), call())
    waiting = await world.enqueue(call(run_after=MINUTE))
    world.wait(SECOND)
    equal(await retried(world, who="ada"), numbers)
    equal(await failed(world), [])
    equal(await world.states(), ["ready", "ready", "ready", "scheduled"])
    again = await world.job(numbers[0])
    equal((again.reason, again.attempt, again.ready_at), ("retried by ada", 0, world.now))
    equal([job.id for job in await world.claim(9)], numbers)
    equal((await world.job(waiting)).state, State.SCHEDULED)


@check
async def what_is_retried_is_where_workers_look_for_it(world: World) -> None:
    calls = [call(), call(priority=-50), call(priority=-100), call(needs={"gpu": 1})]
    await world.store.jobs.enqueue(calls)
    while jobs := await world.claim(9, free={"gpu": 1}):  # crashes, until they are given up
        for job in jobs:
            await world.lose(job)
    equal(len(await retry(world)), len(calls))
    shelves = await world.ready()
    equal(sorted(shelves), [("default", shelf) for shelf in (NORMAL, LOW, IDLE, CAREFUL)])


@check
async def nothing_failed_means_nothing_to_retry(world: World) -> None:
    await world.enqueue(call())
    await world.end(await world.begin())
    equal(await retry(world), [])


@check
async def what_is_meant_can_be_said_by_task_queue_and_tenant(world: World) -> None:
    plain, task, queue, tenant = await fail(
        world, call(), call("the task"), call(queue="mail"), call(tenant="acme")
    )
    equal(await retry(world, task="the task", queue="mail"), [])
    equal(await retry(world, task="the task"), [task])
    equal(await retry(world, queue="mail"), [queue])
    equal(await retry(world, tenant="acme", task="work", queue="default"), [tenant])
    equal(await failed(world), [plain])
    equal(await retry(world, tenant=""), [plain])


@check
async def an_error_is_found_by_a_part_of_it(world: World) -> None:
    [first] = await fail(world, call(), outcome=Raised("TimeoutError", "100% of_it gone"))
    [second] = await fail(world, call(), outcome=Raised("KeyError", "Größe", "line 7\nin there"))
    for pattern in ("1_0", "%gone", "time.*out", "nothing", "größE x"):
        equal(await count_failed(world, error=pattern), 0, pattern)
    equal(await count_failed(world, error="größe"), 1)
    equal(await count_failed(world, error="ERROR"), 2)
    equal(await retry(world, error="IN THERE"), [second])
    equal(await retry(world, error="100% OF_"), [first])


@check
async def an_error_is_found_by_a_part_of_the_reason(world: World) -> None:
    [number] = await fail(world, call(), outcome=Raised("KeyError", permanent=True))
    reason, error = (await world.job(number)).reason, (await world.job(number)).error
    said = next(word for word in reason.split() if word.upper() not in (error or "").upper())
    equal(await retry(world, error=said.upper()), [number])


@check
async def what_failed_earlier_stays(world: World) -> None:
    early, late = await fail(world, call(), call())
    equal(await retry(world, since=START + 2 * SECOND), [late])
    equal(await failed(world), [early])


@check
async def the_first_few_are_the_oldest(world: World) -> None:
    numbers = await fail(world, *(call() for _ in range(4)))
    equal(await retried(world, first=0), [])
    equal(await retried(world, first=3), numbers[:3])
    equal(await failed(world), numbers[3:])
    equal(await retried(world, first=3), numbers[3:])
    for wrong in (-1, True, 1.5):
        with refused(InvalidValue, f"first={wrong!r}"):
            await retried(world, first=wrong)  # type: ignore[arg-type]


@check
async def the_oldest_is_what_failed_first_whatever_its_number(world: World) -> None:
    jobs, states = world.store.jobs, Filter(states=(State.FAILED,))
    await jobs.enqueue([call(), call(), call()])
    first, second, third = await world.claim(3)
    for job in (third, second, first):
        world.wait(SECOND)
        await world.end(job, OOPS)
    world.wait(SECOND)
    equal(await jobs.retry_found(Filter(), first=1), [third.id])
    equal(await jobs.retry_found(states, first=1), [second.id], "whichever way it is asked for")
    equal(await failed(world), [first.id])


@check
async def hundreds_are_retried_in_one_call(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call() for _ in range(250)])
    for job in await world.claim(250):
        await world.end(job, OOPS)
    equal(await retried(world, first=220), numbers[:220])
    equal(await retry(world), numbers[220:])
    equal(len(await world.live()), 250)


@check
async def those_of_one_schedule_come_one_after_the_other(world: World) -> None:
    numbers = []
    await world.add(plan(overlap="queue_all"))
    for _ in range(3):
        await world.fire_after(MINUTE)
        job = await world.begin()
        await world.end(job, OOPS)
        numbers.append(job.id)
    equal(await retried(world, first=2), numbers[:2])
    equal(await world.states(), ["ready", "blocked"])
    equal(await retried(world), numbers[2:])
    equal(await world.states(), ["ready", "blocked", "blocked"])
    for number in numbers:
        job = await world.begin()
        equal(job.id, number)
        await world.end(job)
    equal(await world.live(), [])


@check
async def those_that_may_overlap_come_at_once(world: World) -> None:
    await world.add(plan(overlap="allow"))
    for _ in range(2):
        await world.fire_after(MINUTE)
        await world.end(await world.begin(), OOPS)
    equal(len(await retry(world)), 2)
    equal(await world.states(), ["ready", "ready"])


@check
async def those_of_a_schedule_that_is_gone_come_at_once(world: World) -> None:
    await world.add(plan(overlap="queue_all"))
    for _ in range(2):
        await world.fire_after(MINUTE)
        await world.end(await world.begin(), OOPS)
    await world.store.schedules.remove("report")
    equal(len(await retry(world)), 2)
    equal(await world.states(), ["ready", "ready"])


@check
async def a_retry_whose_answer_was_lost_retries_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = World(SqlStore(losing), world.clock)
    numbers = await fail(world, call(), call(), call())
    losing.lose("revive_jobs")
    equal(await node.store.jobs.retry_found(Filter(), first=2), numbers[:2])
    equal((losing.lost, await failed(world)), (1, numbers[2:]))
    equal([job.id for job in await world.live()], numbers[:2])


@check
async def what_fails_again_meanwhile_is_not_retried_for_ever(world: World) -> None:
    writes = []

    class FailingAtOnce(LosingAnswers):
        """A database on which whatever is revived has failed when one looks again."""

        async def write(self, start: Start[T], /) -> T:
            result = await super().write(start)
            writes.append(world.now)
            holds(len(writes) < 10, "it comes to an end")
            world.wait(SECOND)
            for job in await world.claim(1_000):
                await world.end(job, OOPS)
            return result

    numbers = await fail(world, call(), call(), call())
    node = SqlStore(FailingAtOnce(world.database))
    equal(sorted(await node.jobs.retry_found(Filter())), numbers)
    equal(sorted(await failed(world)), numbers)
