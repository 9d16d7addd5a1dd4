"""Jobs that have ended are forgotten when somebody says so, and those that have not are not."""

from duly.errors import NotFound, WrongState
from duly.model.job_filter import EVERYTHING, parse_filter
from duly.model.states import ENDED, LIVE, State
from duly.store.store import SqlStore
from tests.conformance.expect import equal, refused
from tests.conformance.finding import OOPS, ended, one_of_each
from tests.conformance.journal import line, note
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import World
from tests.factories import call


@check
async def a_job_that_has_ended_is_forgotten_with_what_it_said(world: World) -> None:
    for outcome in (None, OOPS):
        number = await world.enqueue(call())
        job = await world.begin()
        await world.store.journal.write([line(world, job, "hello"), note(job, 50)])
        await world.end(job, outcome)
        await world.store.jobs.remove(number)
        with refused(NotFound, f"there is no job {number}"):
            await world.job(number)
        equal(await world.store.jobs.attempts(number), [])
        equal(await world.store.journal.logs(number), [])
        equal(await world.store.journal.note(number), None)


@check
async def a_job_that_has_not_ended_is_to_be_cancelled_first(world: World) -> None:
    numbers = await one_of_each(world)
    for state in (State.SCHEDULED, State.READY, State.RUNNING):
        with refused(WrongState, f"job {numbers[state]} is {state}: cancel it first"):
            await world.store.jobs.remove(numbers[state])
    with refused(NotFound):
        await world.store.jobs.remove(4)
    equal(await world.store.jobs.count(EVERYTHING), len(numbers))


@check
async def what_is_found_and_has_ended_is_forgotten(world: World) -> None:
    numbers = await one_of_each(world, queue="mail")
    other = await ended(world, call(), OOPS)
    remove = world.store.jobs.remove_found
    equal(await remove(parse_filter("queue:mail state:ready,running")), [])
    equal(await remove(parse_filter("queue:mail state:failed")), [numbers[State.FAILED]])
    rest = sorted((numbers[s] for s in ENDED if s is not State.FAILED), reverse=True)
    equal(await remove(parse_filter("queue:mail")), rest)
    left = [*sorted((numbers[s] for s in LIVE if s in numbers), reverse=True), other]
    equal([job.id for job in (await world.store.jobs.find(EVERYTHING)).jobs], left)


@check
async def hundreds_are_forgotten_in_one_call(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call() for _ in range(250)])
    await world.store.jobs.cancel_found(EVERYTHING)
    equal(await world.store.jobs.remove_found(EVERYTHING), numbers[::-1])
    equal(await world.store.jobs.count(EVERYTHING), 0)


@check
async def what_is_retried_before_it_is_removed_stays(world: World) -> None:
    number = await ended(world, call(), OOPS)
    await world.store.jobs.retry(number)
    with refused(WrongState, "cancel it first"):
        await world.store.jobs.remove(number)
    equal(await world.store.jobs.remove_found(EVERYTHING), [])
    equal([job.id for job in await world.claim(9)], [number])


@check
async def a_lost_answer_does_not_leave_some_behind(world: World) -> None:
    numbers = [await ended(world, call(), OOPS) for _ in range(3)]
    losing = LosingAnswers(world.database)
    losing.lose("remove_failed")
    equal(await SqlStore(losing).jobs.remove_found(EVERYTHING), numbers[::-1])
    equal((losing.lost, await world.store.jobs.count(EVERYTHING)), (1, 0))
