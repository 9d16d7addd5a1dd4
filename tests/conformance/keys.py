"""A key is a promise's name, unique for its task among unfinished jobs."""

from datetime import timedelta

from duly.errors import KeyTaken
from duly.model.job import IfExists
from duly.model.outcome import Raised
from duly.model.payload import encode
from duly.model.states import State
from duly.policy.retry import Retry
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call

RETRY = Retry(attempts=3, backoff="constant", first="30m", jitter=False).as_json()


async def _first(world: World, state: str) -> int:
    """A job with the key "k", in this state."""
    run_after = MINUTE if state == "scheduled" else None
    number = await world.enqueue(call(key="k", run_after=run_after, title="first", retry=RETRY))
    if state in ("running", "retrying", "ended"):
        job = await world.begin()
        if state == "retrying":
            await world.end(job, Raised("Oops"))
        if state == "ended":
            await world.end(job)
    return number


async def _again(world: World, if_exists: IfExists) -> int:
    return await world.enqueue(
        call(key="k", if_exists=if_exists, run_after=HOUR, title="second", args=encode([2]))
    )


async def _moves(world: World, state: str) -> None:
    first = await _first(world, state)
    equal(await _again(world, "replace"), first)
    [job] = await world.live()
    equal((job.id, job.title, job.args, job.due_at, job.ready_at, job.state),
          (first, "second", "[2]", START + HOUR, START + HOUR, State.SCHEDULED))  # fmt: skip
    equal((job.attempt, job.crashes, job.retry, job.key), (0, 0, None, "k"))


async def _new_one(world: World, state: str, if_exists: IfExists) -> None:
    first = await _first(world, state)
    second = await _again(world, if_exists)
    holds(second != first, "another job")
    job = await world.job(second)
    equal((job.title, job.state, job.key), ("second", State.SCHEDULED, "k"))


async def _stays(world: World, state: str, if_exists: IfExists) -> None:
    first = await _first(world, state)
    before = await world.live()
    if if_exists == "keep":
        equal(await _again(world, "keep"), first)
    else:
        with refused(KeyTaken, f"job {first}"):
            await _again(world, "error")
    equal(await world.live(), before, "nothing has changed")


@check
async def replace_moves_a_scheduled_job(world: World) -> None:
    await _moves(world, "scheduled")


@check
async def replace_moves_a_ready_job(world: World) -> None:
    await _moves(world, "ready")


@check
async def replace_moves_a_job_that_waits_for_its_next_try(world: World) -> None:
    await _moves(world, "retrying")


@check
async def replace_promises_a_new_job_while_the_old_one_runs(world: World) -> None:
    await _new_one(world, "running", "replace")


@check
async def replace_promises_a_new_job_after_the_old_one_ended(world: World) -> None:
    await _new_one(world, "ended", "replace")


@check
async def keep_keeps_a_scheduled_job(world: World) -> None:
    await _stays(world, "scheduled", "keep")


@check
async def keep_keeps_a_ready_job(world: World) -> None:
    await _stays(world, "ready", "keep")


@check
async def keep_keeps_a_running_job(world: World) -> None:
    await _stays(world, "running", "keep")


@check
async def keep_promises_a_new_job_after_the_old_one_ended(world: World) -> None:
    await _new_one(world, "ended", "keep")


@check
async def error_refuses_beside_a_scheduled_job(world: World) -> None:
    await _stays(world, "scheduled", "error")


@check
async def error_refuses_beside_a_ready_job(world: World) -> None:
    await _stays(world, "ready", "error")


@check
async def error_refuses_beside_a_running_job(world: World) -> None:
    await _stays(world, "running", "error")


@check
async def error_promises_a_new_job_after_the_old_one_ended(world: World) -> None:
    await _new_one(world, "ended", "error")


@check
async def a_refused_key_refuses_the_whole_call(world: World) -> None:
    first = await _first(world, "ready")
    with refused(KeyTaken):
        await world.enqueue(call(title="a"), call(key="free"), call(key="k", if_exists="error"))
    equal([job.id for job in await world.live()], [first])
    equal((await world.job(await world.enqueue(call(key="free")))).title, "", "the key is free")


@check
async def a_moved_job_may_be_due_at_once(world: World) -> None:
    await _first(world, "scheduled")
    await world.enqueue(call(key="k", title="now"))
    [job] = await world.claim(10)
    equal((job.title, job.due_at), ("now", START))


@check
async def a_moved_job_takes_the_rank_of_its_new_moment(world: World) -> None:
    await world.enqueue(call(key="k", title="moved"))
    await world.enqueue(call(title="other"))
    world.wait(timedelta(seconds=1))
    await world.enqueue(call(key="k", title="moved"))
    equal([job.title for job in await world.claim(10)], ["other", "moved"])


@check
async def a_moved_job_begins_its_crashes_anew(world: World) -> None:
    number = await world.enqueue(call(key="k"))
    await world.lose(await world.begin())
    await world.enqueue(call(key="k"))
    job = await world.job(number)
    equal((job.attempt, job.crashes), (0, 0))


@check
async def a_key_belongs_to_its_task(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call("a", key="k"), call("b", key="k"), call("a")])
    equal(len(set(numbers)), 3)


@check
async def a_key_that_comes_twice_in_one_call_is_one_promise(world: World) -> None:
    numbers = await world.store.jobs.enqueue(
        [call(key="k", title="1"), call(title="plain"), call(key="k", title="2"),
         call(key="other"), call(key="k", title="3")]
    )  # fmt: skip
    equal({numbers[0], numbers[2], numbers[4]}, {numbers[0]}, "one number for one promise")
    equal((await world.job(numbers[0])).title, "3", "the last word counts")
    equal(len(await world.live()), 3)


@check
async def a_key_that_comes_twice_may_keep_the_first(world: World) -> None:
    numbers = await world.store.jobs.enqueue(
        [call(key="k", title="1"), call(key="k", title="2", if_exists="keep")]
    )
    equal([job.title for job in await world.live()], ["1"])
    equal(numbers[0], numbers[1])


@check
async def a_key_that_comes_twice_may_be_an_error(world: World) -> None:
    with refused(KeyTaken):
        await world.enqueue(call(key="k"), call(key="k", if_exists="error"))
    equal(await world.live(), [])


@check
async def an_old_job_that_ends_does_not_free_the_key_of_the_new_one(world: World) -> None:
    first = await _first(world, "running")
    second = await _again(world, "replace")
    await world.end(await world.job(first))
    with refused(KeyTaken, f"job {second}"):
        await _again(world, "error")


@check
async def a_key_is_free_after_every_end(world: World) -> None:
    cancelled = await _first(world, "ready")
    await world.store.jobs.cancel(cancelled)
    await world.enqueue(call(key="k", if_exists="error", retry=Retry(attempts=1).as_json()))
    await world.end(await world.begin(), Raised("Oops"))
    await world.enqueue(call(key="k", if_exists="error", start_within=MINUTE))
    world.wait(2 * MINUTE)
    equal((await world.dispatch()).expired, 1)
    await world.enqueue(call(key="k", if_exists="error"))


@check
async def a_failed_job_that_is_retried_has_lost_its_key(world: World) -> None:
    failed = await world.enqueue(call(key="k"))
    await world.end(await world.begin(), Raised("Oops"))
    second = await world.enqueue(call(key="k"))
    equal((await world.store.jobs.retry(failed)).key, None)
    await world.store.jobs.cancel(failed)
    with refused(KeyTaken, f"job {second}"):
        await _again(world, "error")


@check
async def a_promise_is_cancelled_by_its_key(world: World) -> None:
    number = await _first(world, "scheduled")
    cancel_key = world.store.jobs.cancel_key
    holds(not await cancel_key("other", "k"), "no such task has the key")
    holds(not await cancel_key("work", "other"), "no such key is known")
    holds(await cancel_key("work", "k", reason="changed"), "it is cancelled")
    job = await world.job(number)
    equal((job.state, "changed" in job.reason), (State.CANCELLED, True))
    holds(not await cancel_key("work", "k"), "once")


@check
async def a_promise_that_runs_is_asked_to_end_by_its_key(world: World) -> None:
    number = await _first(world, "running")
    holds(await world.store.jobs.cancel_key("work", "k"), "it was asked")
    equal(list(await world.signals()), [number])
