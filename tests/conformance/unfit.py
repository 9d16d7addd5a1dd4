"""Jobs that no worker can run wait out of the way, visibly, and no try is burnt."""

from datetime import timedelta

from duly.model.job import StoredJob
from duly.model.limit import NamedLimit
from duly.model.outcome import Mismatched
from duly.model.states import State
from duly.store.database import Ask, alone
from tests.conformance.expect import equal
from tests.conformance.registry import check
from tests.conformance.world import LEASE, MINUTE, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
LONG = timedelta(days=1)


async def _hold(world: World, patience: timedelta = MINUTE, limit: int = 100) -> int:
    return await world.store.maintenance.hold_unknown(patience=patience, limit=limit)


async def _waiting_for_somebody(world: World) -> StoredJob:
    """A job whose task nobody knows, set aside."""
    number = await world.enqueue(call("strange"))
    world.wait(2 * MINUTE)
    equal(await _hold(world), 1)
    return await world.job(number)


async def _parked(world: World, signature: str = "old") -> StoredJob:
    """A job whose arguments did not fit the function of the worker that began it."""
    await world.end(await world.begin(), Mismatched("it has `to`, not `address`", signature))
    [job] = await world.live()
    return job


@check
async def a_job_whose_task_nobody_knows_is_set_aside_and_says_so(world: World) -> None:
    await world.new_worker(lease=LONG)
    number = await world.enqueue(call("strange"), call())
    world.wait(MINUTE)
    equal(await _hold(world), 0, "somebody may be on the way")
    world.wait(SECOND)
    equal(await _hold(world), 1)
    job = await world.job(number)
    equal((job.state, job.waits, job.waits_for), (State.BLOCKED, "worker", "strange"))
    equal(job.reason, "no running worker knows the task strange")
    equal((await world.begin()).task, "work", "the others are where they were")
    equal(await _hold(world), 0)


@check
async def what_only_the_dead_know_nobody_knows(world: World) -> None:
    await world.enqueue(call())
    await world.new_worker()
    ended = await world.new_worker(lease=LONG)
    await world.store.work.end_lease(ended)
    world.wait(LEASE - SECOND)
    equal(await _hold(world, patience=SECOND), 0)
    world.wait(SECOND)
    equal(await _hold(world, patience=SECOND), 1)


@check
async def the_heads_of_all_queues_and_shelves_are_looked_at(world: World) -> None:
    named_limit = NamedLimit(name="crm", template="crm", concurrency=1)
    await world.enqueue(
        call("strange", queue="a"),
        call("strange", queue="b", priority=-100),
        call("strange", queue="b", limits=(named_limit,)),
        call("strange", queue="c", run_after=timedelta(days=1)),
    )
    world.wait(2 * MINUTE)
    equal(await _hold(world), 3)
    equal(await world.states(), ["blocked"] * 3 + ["scheduled"])


@check
async def no_more_are_set_aside_at_once_than_asked_for(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call("strange") for _ in range(5)])
    world.wait(2 * MINUTE)
    equal(await _hold(world, limit=2), 2)
    equal([str((await world.job(n)).state) for n in numbers], ["blocked"] * 2 + ["ready"] * 3)
    equal([await _hold(world, limit=2) for _ in range(3)], [2, 1, 0])


@check
async def whoever_knows_the_task_sets_it_free(world: World) -> None:
    held = await _waiting_for_somebody(world)
    await world.new_worker()
    equal(await world.free_unfit(), 0, "that one did not know it")
    equal(await world.store.maintenance.sweep(limit=100), 0, "and the net leaves it")
    worker = await world.new_worker(tasks=["another", "strange"])
    equal(await world.free_unfit(), 1)
    job = await world.job(held.id)
    equal((job.state, job.waits, job.waits_for, job.reason), (State.READY, None, None, ""))
    [claimed] = await world.claim(1, worker=worker, tasks=["strange"])
    equal((claimed.id, claimed.attempt), (held.id, 1))


@check
async def a_job_that_is_set_aside_can_be_cancelled_moved_and_expire(world: World) -> None:
    held = await _waiting_for_somebody(world)
    equal(await world.store.jobs.cancel(held.id), State.CANCELLED)
    deadline = await world.enqueue(call("strange", start_within=5 * MINUTE))
    keyed = await world.enqueue(call("strange", key="k"))
    world.wait(2 * MINUTE)
    equal(await _hold(world), 2)
    equal(await world.enqueue(call("strange", key="k", title="moved")), keyed)
    moved = await world.job(keyed)
    equal((moved.state, moved.waits, moved.waits_for, moved.title),
          (State.READY, None, None, "moved"))  # fmt: skip
    world.wait(4 * MINUTE)
    await world.dispatch()
    equal((await world.job(deadline)).state, State.EXPIRED)


@check
async def arguments_that_do_not_fit_park_the_job_and_burn_no_try(world: World) -> None:
    number = await world.enqueue(call())
    job = await _parked(world)
    equal((job.id, job.state, job.waits, job.waits_for),
          (number, State.BLOCKED, "signature", "old"))  # fmt: skip
    equal((job.reason, job.attempt, job.crashes, job.worker, job.claimed_at),
          ("it has `to`, not `address`", 0, 0, None, None))  # fmt: skip
    equal(await world.store.jobs.attempts(number), [])
    equal(await world.claim(10), [])


@check
async def another_signature_sets_a_parked_job_free_and_the_same_does_not(world: World) -> None:
    await world.enqueue(call())
    job = await _parked(world)
    await world.store.work.end_lease(world.worker)
    await world.new_worker(signatures={"work": "old", "other": "new"})
    equal(await world.free_unfit(), 0)
    await world.new_worker(signatures={"other": "new"})
    equal(await world.free_unfit(), 0, "that one does not know the task")
    world.worker = await world.new_worker(signatures={"work": "new"})
    equal(await world.free_unfit(), 1)
    again = await world.begin()
    equal((again.id, again.attempt), (job.id, 1), "its first try")
    await world.end(again)
    equal((await world.job(job.id)).state, State.SUCCEEDED)


@check
async def a_job_that_fits_nowhere_is_parked_again_by_each(world: World) -> None:
    number = await world.enqueue(call())
    for signature in ("first", "second", "third"):
        world.worker = await world.new_worker(signatures={"work": signature})
        await world.free_unfit()
        job = await _parked(world, signature)
        equal((job.id, job.waits_for, job.attempt), (number, signature, 0))
        await world.store.work.end_lease(world.worker)
    await world.new_worker(signatures={"work": "third"})
    equal(await world.free_unfit(), 0)
    equal(await world.states(), ["blocked"])


@check
async def a_parked_job_still_has_its_deadline(world: World) -> None:
    number = await world.enqueue(call(start_within=5 * MINUTE))
    deadline = (await world.job(number)).deadline
    equal((await _parked(world)).deadline, deadline)
    world.wait(6 * MINUTE)
    equal((await world.dispatch()).expired, 1)
    equal((await world.job(number)).state, State.EXPIRED)


@check
async def a_job_of_a_schedule_that_is_parked_is_in_the_way_of_the_next(world: World) -> None:
    await world.add(plan(overlap="queue_all"))
    await world.fire_after(MINUTE)
    job = await _parked(world)
    [second] = await world.fired_after(MINUTE)
    await world.fire_after(MINUTE)
    equal([j.waits for j in await world.live()], ["signature", None, None])
    equal(await world.store.maintenance.sweep(limit=100), 0, "the others wait behind the first")
    await world.store.jobs.cancel(second.job_id or 0)
    equal(await world.states(), ["blocked", "blocked"], "as does the third, behind the first")
    await world.store.jobs.cancel(job.id)
    equal(await world.states(), ["ready"])


@check
async def a_job_that_waits_behind_another_is_not_set_free_by_a_worker(world: World) -> None:
    await world.add(plan(overlap="queue_all"))
    await world.fire_after(MINUTE)
    await world.begin()
    await world.fire_after(MINUTE)
    await world.new_worker(signatures={"work": "another"})
    equal(await world.free_unfit(), 0)
    equal(await world.states(), ["running", "blocked"])


@check
async def those_who_are_set_free_come_in_their_order(world: World) -> None:
    await world.enqueue(*(call("strange", title=title) for title in "abc"))
    world.wait(2 * MINUTE)
    equal(await _hold(world), 3)
    worker = await world.new_worker(tasks=["strange"])
    await world.enqueue(call("strange", title="younger"))
    world.wait(SECOND)
    equal(await world.free_unfit(), 3)
    found = await world.claim(4, worker=worker, tasks=["strange"])
    equal([job.title for job in found], ["a", "b", "c", "younger"], "as they were enqueued")


@check
async def a_parked_job_comes_before_younger_ones_when_it_is_set_free(world: World) -> None:
    await world.enqueue(call(title="parked"))
    job = await world.begin()
    world.wait(MINUTE)
    await world.enqueue(call(title="younger"))
    world.wait(MINUTE)
    await world.end(job, Mismatched("it has two", "old"))
    world.wait(MINUTE)
    worker = await world.new_worker(signatures={"work": "new"})
    equal(await world.free_unfit(), 1)
    equal([job.title for job in await world.claim(2, worker=worker)], ["parked", "younger"])


@check
async def enlisting_costs_the_same_however_many_are_set_aside(world: World) -> None:
    """They are set free later, by somebody else, so many at a time."""
    await world.enqueue(*(call("strange") for _ in range(5)))
    world.wait(2 * MINUTE)
    equal(await _hold(world), 5)
    await world.new_worker(tasks=["strange"], lease=LONG)
    equal(await world.states(), ["blocked"] * 5)
    equal([await world.free_unfit(limit=2) for _ in range(4)], [2, 2, 1, 0])
    equal(await world.states(), ["ready"] * 5)


@check
async def two_forms_of_a_task_are_counted_once(world: World) -> None:
    await world.enqueue(*(call() for _ in range(5)))
    for job in await world.claim(5):
        await world.end(job, Mismatched("does not fit", "old"))
    for signature in ("new", "newer"):
        await world.new_worker(signatures={"work": signature}, lease=LONG)
    equal([await world.free_unfit(limit=3) for _ in range(3)], [3, 2, 0])


@check
async def what_is_parked_after_the_new_worker_came_is_set_free_too(world: World) -> None:
    """An old worker may still claim what only the new one can run."""
    await world.enqueue(call())
    world.worker = await world.new_worker(signatures={"work": "old"})
    await world.new_worker(signatures={"work": "new"})
    equal(await world.free_unfit(), 0)
    await _parked(world)
    equal(await world.free_unfit(), 1)


@check
async def what_is_set_aside_while_somebody_comes_is_set_free_too(world: World) -> None:
    """Whoever set it aside had looked for workers before that one came."""
    number = await world.enqueue(call("strange"))
    await world.new_worker(tasks=["strange"])
    setting_aside = Ask("hold_unknown_jobs", {"ids": [number]})
    await world.database.write(lambda: alone(setting_aside))
    equal(await world.states(), ["blocked"])
    equal(await world.free_unfit(), 1)


@check
async def nobody_is_set_free_for_a_worker_that_is_dead(world: World) -> None:
    held = await _waiting_for_somebody(world)
    await world.new_worker(tasks=["strange"])
    world.wait(LEASE)
    equal(await world.free_unfit(), 0)
    ended = await world.new_worker(tasks=["strange"])
    await world.store.work.end_lease(ended)
    equal(await world.free_unfit(), 0)
    equal((await world.job(held.id)).state, State.BLOCKED)


@check
async def workers_hear_of_what_is_set_free(world: World) -> None:
    await world.enqueue(call("strange", queue="bulk"))
    world.wait(2 * MINUTE)
    equal(await _hold(world), 1)
    await world.new_worker(tasks=["strange"])
    heard = world.listen()
    equal(await world.free_unfit(), 1)
    equal(heard, ["ready:bulk"])
