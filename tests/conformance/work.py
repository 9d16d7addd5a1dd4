"""Workers: a lease, claims under it, and what happens when it is gone."""

from datetime import datetime, timedelta

from duly.model.outcome import Returned
from duly.policy.verdict import Verdict
from duly.store.values import LostJob
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import (
    LEASE,
    MARGIN,
    MINUTE,
    START,
    World,
    judge_lost,
)
from tests.factories import call, profile

SECOND = timedelta(seconds=1)


@check
async def a_worker_is_known_with_its_lease(world: World) -> None:
    asked = profile("host:1", queues=("a", "b"), tasks=("x", "y"))
    info = await world.store.work.register(asked, lease=LEASE)
    equal((info.name, info.queues, info.tasks, info.started_at, info.lease_until),
          ("host:1", ("a", "b"), ("x", "y"), START, START + LEASE))  # fmt: skip
    equal(await world.store.work.workers(), [info])


@check
async def two_workers_of_one_name_are_two(world: World) -> None:
    first, second = await world.new_worker(), await world.new_worker()
    holds(second > first, "numbers rise")
    equal(len(await world.store.work.workers()), 2)


@check
async def a_lease_is_renewed_while_it_lasts(world: World) -> None:
    worker = await world.new_worker()
    world.wait(LEASE - SECOND)
    holds(await world.store.work.renew(worker, LEASE), "it is renewed")
    [info] = await world.store.work.workers()
    equal(info.lease_until, world.now + LEASE)


@check
async def a_lease_that_has_expired_is_never_renewed(world: World) -> None:
    worker = await world.new_worker()
    world.wait(LEASE)
    holds(not await world.store.work.renew(worker, LEASE), "this worker is dead")
    holds(not await world.store.work.renew(4711, LEASE), "there is no such worker")


@check
async def a_lease_that_was_ended_is_over_at_once(world: World) -> None:
    worker = await world.new_worker()
    await world.store.work.end_lease(worker)
    holds(not await world.store.work.renew(worker, LEASE), "this worker is dead")
    [info] = await world.store.work.workers()
    holds(info.lease_until < START - timedelta(days=365), "without a margin")
    world.wait(MINUTE)
    await world.store.work.end_lease(worker)
    equal(await world.store.work.workers(), [info], "and does not move")


@check
async def a_claimed_job_is_run_by_its_worker(world: World) -> None:
    number = await world.enqueue(call())
    world.wait(SECOND)
    job = await world.begin()
    equal((job.id, str(job.state), job.attempt, job.worker, job.claimed_at),
          (number, "running", 1, world.worker, world.now))  # fmt: skip
    equal(await world.job(number), job)


@check
async def a_job_is_claimed_once(world: World) -> None:
    await world.enqueue(*(call() for _ in range(5)))
    other = world.another_node()
    claimed = [job.id for node in (world, other, world) for job in await node.claim(2)]
    equal(len(set(claimed)), 5)


@check
async def the_fence_of_a_job_rises_with_every_claim(world: World) -> None:
    number = await world.enqueue(call())
    other = world.another_node()
    fences: list[int] = []
    for node in (world, other, world, other):
        job = await node.begin()
        fences.append(job.fence)
        await node.end(job, Returned())
    equal(fences, sorted(set(fences)), "though no time passes")
    equal((await world.job(number)).fence, fences[-1])


@check
async def a_fence_is_not_given_again_by_a_database_that_was_put_back(world: World) -> None:
    await world.enqueue(call())
    before = await world.begin()
    world.wait(timedelta(milliseconds=1))
    await world.enqueue(call())
    after = await world.begin()
    equal(after.fence - before.fence, 1_000, "it is the moment of the claim, in microseconds")


@check
async def only_known_tasks_are_claimed_and_the_others_stay(world: World) -> None:
    await world.enqueue(call("unknown", priority=50), call("work"), call("also"))
    equal([job.task for job in await world.claim(10, tasks=["work", "also"])], ["work", "also"])
    equal([job.task for job in await world.live() if job.worker is None], ["unknown"])
    equal(await world.claim(10, tasks=[]), [])
    equal(len(await world.claim(10, tasks=["unknown"])), 1)


@check
async def only_the_queue_that_was_asked_for_is_claimed_from(world: World) -> None:
    await world.enqueue(call(queue="a"), call(queue="b"))
    equal([job.queue for job in await world.claim(10, queue="b")], ["b"])


@check
async def what_has_waited_longest_comes_first(world: World) -> None:
    for title in ("1", "2", "3"):
        await world.enqueue(call(title=title))
        world.wait(timedelta(microseconds=1))
    equal([job.title for job in await world.claim(3)], ["1", "2", "3"])


@check
async def jobs_of_one_moment_come_in_the_order_of_their_numbers(world: World) -> None:
    await world.enqueue(*(call(title=str(n)) for n in range(5)))
    equal([job.title for job in await world.claim(2)], ["0", "1"])
    equal([job.title for job in await world.claim(9)], ["2", "3", "4"])


@check
async def a_higher_priority_comes_first(world: World) -> None:
    await world.enqueue(*(call(title=str(p), priority=p) for p in (0, -100, 100, 5)))
    equal([job.title for job in await world.claim(2)], ["100", "5"])
    equal([job.title for job in await world.claim(2)], ["0", "-100"])


@check
async def what_waits_rises_by_one_for_each_second(world: World) -> None:
    await world.enqueue(call(title="old", priority=0))
    world.wait(10 * SECOND)
    await world.enqueue(call(title="nine", priority=9), call(title="eleven", priority=11))
    equal([job.title for job in await world.claim(3)], ["eleven", "old", "nine"])


@check
async def a_job_that_was_due_later_ranks_from_when_it_was_due(world: World) -> None:
    await world.enqueue(call(title="due", run_after=MINUTE))
    world.wait(MINUTE - SECOND)
    await world.enqueue(call(title="before"))
    world.wait(2 * SECOND)
    await world.enqueue(call(title="after"))
    await world.dispatch()
    equal([job.title for job in await world.claim(3)], ["before", "due", "after"])


@check
async def no_more_than_asked_for_is_claimed(world: World) -> None:
    await world.enqueue(*(call() for _ in range(3)))
    equal(len(await world.claim(2)), 2)
    equal(len(await world.claim(2)), 1)
    equal(await world.claim(2), [])


@check
async def a_worker_without_a_lease_claims_nothing(world: World) -> None:
    await world.enqueue(call())
    worker = await world.new_worker()
    world.wait(LEASE)
    equal(await world.claim(1, worker=worker), [])
    equal(await world.claim(1, worker=4711), [])
    equal(await world.states(), ["ready"])


@check
async def a_job_is_not_taken_back_while_its_worker_has_a_lease(world: World) -> None:
    await world.enqueue(call())
    worker = await world.new_worker()
    await world.claim(1, worker=worker)
    for _ in range(5):
        world.wait(LEASE - SECOND)
        await world.store.work.renew(worker, LEASE)
        equal((await world.take_back()).lost, 0, "however long it runs")
    world.wait(LEASE + MARGIN - SECOND)
    equal((await world.take_back()).lost, 0, "the margin is kept")
    world.wait(SECOND)
    equal((await world.take_back()).lost, 1)


@check
async def a_job_that_was_taken_back_is_ready_at_once_and_costs_no_try(world: World) -> None:
    number = await world.enqueue(call())
    taken = await world.lose(await world.begin())
    equal((taken.lost, taken.poisoned), (1, 0))
    job = await world.job(number)
    equal((str(job.state), job.worker, job.claimed_at, job.crashes, job.ready_at),
          ("ready", None, None, 1, world.now))  # fmt: skip
    holds("lost" in job.reason, "it says what happened")
    [attempt] = await world.store.jobs.attempts(number)
    equal((attempt.number, attempt.outcome, attempt.ended_at), (1, "lost", world.now))


@check
async def who_lost_a_job_is_known_by_name_and_whether_it_has_ended(world: World) -> None:
    told: list[tuple[int | None, str, bool]] = []

    def judged(job: LostJob, now: datetime) -> Verdict:
        told.append((job.worker, job.worker_name, job.has_ended))
        return judge_lost(job, now)

    async def take_back() -> None:
        await world.store.maintenance.take_back(judged, after=0, margin=MARGIN, limit=10)

    await world.enqueue(call())
    silent = await world.new_worker(name="silent")
    await world.claim(1, worker=silent)
    world.wait(LEASE + MARGIN)
    await take_back()
    ended = await world.new_worker(name="ended")
    await world.claim(1, worker=ended)
    await world.store.work.end_lease(ended)
    await take_back()
    equal(told, [(silent, "silent", False), (ended, "ended", True)])


@check
async def a_job_that_crashed_three_times_is_run_no_more(world: World) -> None:
    number = await world.enqueue(call())
    for _ in range(2):
        equal((await world.lose(await world.begin())).poisoned, 0)
    equal((await world.lose(await world.begin())).poisoned, 1)
    job = await world.job(number)
    equal((str(job.state), job.crashes, job.attempt), ("failed", 3, 3))
    holds("3 times" in job.reason, "it says why")
    equal([a.outcome for a in await world.store.jobs.attempts(number)], ["lost"] * 3)


@check
async def lost_jobs_are_taken_back_a_page_at_a_time(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call() for _ in range(5)])
    await world.claim(5)
    await world.store.work.end_lease(world.worker)
    world.wait(MARGIN)
    first = await world.take_back(limit=3)
    equal((first.lost, first.last), (3, numbers[2]))
    second = await world.take_back(after=first.last, limit=3)
    equal((second.lost, second.last), (2, 0))


@check
async def the_jobs_of_others_are_left_alone(world: World) -> None:
    await world.enqueue(call(), call())
    dying = await world.new_worker()
    [lost] = await world.claim(1, worker=dying)
    kept = await world.begin()
    world.wait(LEASE + MARGIN)
    equal((await world.take_back()).lost, 1)
    equal(((await world.job(lost.id)).worker, (await world.job(kept.id)).worker),
          (None, world.worker))  # fmt: skip
