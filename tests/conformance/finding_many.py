"""What is done to all jobs that match is done to all of them, and to each once."""

from datetime import timedelta

from duly.model.job_filter import EVERYTHING, parse_filter
from duly.model.states import LIVE, State
from duly.store.database import Start, T
from duly.store.store import SqlStore
from tests.conformance.expect import equal, holds
from tests.conformance.finding import OOPS, ended, found, one_of_each
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import World
from tests.factories import call


@check
async def what_is_found_and_has_failed_is_retried_from_the_first_on(world: World) -> None:
    numbers = [await ended(world, call(tags=("mine",)), OOPS) for _ in range(5)]
    other = await ended(world, call(), OOPS)
    await ended(world, call(tags=("mine",)))
    retry = world.by("ada").jobs.retry_found
    equal(await retry(parse_filter("tag:mine"), first=2), numbers[:2])
    equal((await world.job(numbers[0])).reason, "retried by ada")
    equal(await retry(parse_filter("tag:mine state:succeeded,running")), [])
    equal(await retry(parse_filter("tag:mine state:failed")), numbers[2:])
    equal(await found(world, "state:failed"), [other])


@check
async def what_fails_again_while_others_are_retried_is_retried_once(world: World) -> None:
    writes = []

    class FailingAtOnce(LosingAnswers):
        """A database on which whatever is revived has failed when one looks again."""

        async def write(self, start: Start[T], /) -> T:
            result = await super().write(start)
            writes.append(world.now)
            holds(len(writes) < 10, "it comes to an end")
            for job in await world.claim(1_000):
                await world.end(job, OOPS)
            return result

    numbers = [await ended(world, call(), OOPS) for _ in range(3)]
    node = SqlStore(FailingAtOnce(world.database))
    equal(await node.jobs.retry_found(EVERYTHING), numbers)
    equal(await found(world, "state:failed"), numbers[::-1])


@check
async def what_is_found_and_has_not_ended_is_cancelled(world: World) -> None:
    numbers = await one_of_each(world, queue="mail")
    other = await world.enqueue(call())
    cancel = world.store.jobs.cancel_found
    equal(await cancel(parse_filter("queue:mail state:succeeded,failed")), [])
    waiting = sorted((numbers[s] for s in (State.READY, State.SCHEDULED)), reverse=True)
    equal(await cancel(parse_filter("queue:mail state:ready,scheduled"), reason="no"), waiting)
    equal((await world.job(waiting[0])).reason, "cancelled: no")
    equal(await cancel(parse_filter("queue:mail")), [numbers[State.RUNNING]])
    equal(await world.signals(), {numbers[State.RUNNING]: "cancelled"})
    alive = f"state:{','.join(LIVE)}"
    equal(await found(world, alive), [other, numbers[State.RUNNING]])


@check
async def hundreds_are_cancelled_in_one_call(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call() for _ in range(250)])
    equal(await world.store.jobs.cancel_found(EVERYTHING), numbers[::-1])
    equal(await world.live(), [])
    world.wait(timedelta(seconds=1))
    equal(await world.store.jobs.cancel_found(EVERYTHING), [])
