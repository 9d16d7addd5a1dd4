"""What became of a job is written once, under the fence of its claim, and kept."""

from datetime import timedelta

from duly.model.outcome import Outcome, Raised, Returned, Stopped, Succeeded, TimedOut
from duly.model.payload import encode
from duly.model.states import State
from duly.policy.retry import Retry
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, LEASE, MARGIN, MINUTE, START, World
from tests.factories import call

RETRY = Retry(attempts=3, backoff="constant", first="5m", jitter=False).as_json()


@check
async def a_success_is_kept_with_its_result(world: World) -> None:
    number = await world.enqueue(call())
    running = await world.begin()
    world.wait(MINUTE)
    settled = await world.end(running, Succeeded(encode({"rows": 3})))
    equal((settled.kept, settled.refused), ([number], []))
    job = await world.job(number)
    equal((job.state, job.ended_at, job.result, job.error),
          (State.SUCCEEDED, world.now, '{"rows":3}', None))  # fmt: skip
    equal((job.claimed_at, job.worker, job.fence, job.attempt),
          (START, running.worker, running.fence, 1))  # fmt: skip
    equal(await world.live(), [])
    equal(await world.store.jobs.attempts(number), [], "the job itself is the record")


@check
async def a_failed_attempt_is_kept_and_the_job_waits(world: World) -> None:
    number = await world.enqueue(call(retry=RETRY))
    running = await world.begin()
    world.wait(MINUTE)
    await world.end(running, Raised("ValueError", "no luck"))
    job = await world.job(number)
    equal((job.state, job.attempt, job.ready_at, job.due_at, job.worker),
          (State.SCHEDULED, 1, world.now + 5 * MINUTE, START, None))  # fmt: skip
    [attempt] = await world.store.jobs.attempts(number)
    equal((attempt.job_id, attempt.number, attempt.worker, attempt.fence),
          (number, 1, running.worker, running.fence))  # fmt: skip
    equal((attempt.started_at, attempt.ended_at, attempt.outcome, attempt.error),
          (START, world.now, "raised", "ValueError: no luck"))  # fmt: skip
    holds("next try in 5m" in attempt.reason, "it says what follows")


@check
async def the_last_attempt_fails_the_job_and_all_are_kept(world: World) -> None:
    number = await world.enqueue(call(retry=RETRY))
    for _ in range(3):
        await world.end(await world.begin(), TimedOut(MINUTE))
        world.wait(5 * MINUTE)
        await world.dispatch()
    job = await world.job(number)
    equal((job.state, job.attempt, job.error),
          (State.FAILED, 3, "TimedOut: ran longer than 1m"))  # fmt: skip
    attempts = await world.store.jobs.attempts(number)
    equal([(a.number, a.outcome) for a in attempts], [(n, "timedout") for n in (1, 2, 3)])
    equal([j.id for j in await world.store.jobs.ended(State.FAILED)], [number])


@check
async def a_retried_job_ranks_from_when_it_is_ready_again(world: World) -> None:
    await world.enqueue(call(title="retried", retry=RETRY))
    await world.end(await world.begin(), Raised("Oops"))
    world.wait(4 * MINUTE)
    await world.enqueue(call(title="between"))
    world.wait(MINUTE)
    await world.dispatch()
    equal([job.title for job in await world.claim(2)], ["between", "retried"])


@check
async def a_job_that_is_given_back_was_never_tried(world: World) -> None:
    number = await world.enqueue(call())
    await world.end(await world.begin(), Returned())
    job = await world.job(number)
    equal((job.state, job.attempt, job.crashes, job.worker), (State.READY, 0, 0, None))
    equal(await world.store.jobs.attempts(number), [])
    equal((await world.begin()).attempt, 1)


@check
async def a_stopped_job_is_cancelled_and_says_why(world: World) -> None:
    number = await world.enqueue(call())
    await world.end(await world.begin(), Stopped("deploy"))
    job = await world.job(number)
    equal((job.state, "deploy" in job.reason), (State.CANCELLED, True))
    equal([a.outcome for a in await world.store.jobs.attempts(number)], ["stopped"])


@check
async def many_are_settled_in_one_call(world: World) -> None:
    await world.enqueue(*(call(retry=RETRY, key=f"{n}" if n % 2 else None) for n in range(6)))
    jobs = await world.claim(6)
    failures: list[Outcome] = [Raised("A"), Raised("B", permanent=True), Stopped()]
    outcomes: list[Outcome] = [Succeeded(), *failures, Returned(), Succeeded(encode(1))]
    settled = await world.store.work.settle(
        [world.settlement(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    )
    equal((sorted(settled.kept), settled.refused), ([job.id for job in jobs], []))
    equal([str((await world.job(job.id)).state) for job in jobs],
          ["succeeded", "scheduled", "failed", "cancelled", "ready", "succeeded"])  # fmt: skip


@check
async def a_zombie_cannot_finish_what_was_taken_back(world: World) -> None:
    number = await world.enqueue(call())
    zombie = await world.begin()
    await world.lose(zombie)
    settled = await world.end(zombie)
    equal((settled.kept, settled.refused), ([], [number]))
    equal((await world.job(number)).state, State.READY)


@check
async def a_zombie_cannot_finish_what_another_runs_or_has_finished(world: World) -> None:
    number = await world.enqueue(call())
    zombie = await world.begin()
    await world.lose(zombie)
    successor = await world.begin()
    for outcome in (Succeeded(encode("zombie")), Raised("Zombie"), Returned()):
        equal((await world.end(zombie, outcome)).refused, [number])
    equal(await world.job(number), successor, "the successor is not disturbed")
    await world.end(successor, Succeeded(encode("mine")))
    equal((await world.end(zombie, Succeeded(encode("zombie")))).refused, [number])
    equal((await world.job(number)).result, '"mine"')


@check
async def a_zombie_does_not_spoil_the_rest_of_its_batch(world: World) -> None:
    first, second = await world.store.jobs.enqueue([call(), call()])
    dying = await world.new_worker()
    [lost] = await world.claim(1, worker=dying)
    world.wait(LEASE + MARGIN)
    await world.take_back()
    [again, mine] = await world.claim(2)
    holds(again.id in (first, second), "both run")
    kept = mine if mine.id != lost.id else again
    settled = await world.store.work.settle([world.settlement(lost), world.settlement(kept)])
    equal((settled.kept, settled.refused), ([kept.id], [lost.id]))


@check
async def what_was_moved_by_its_key_is_not_taken_for_what_a_zombie_would_have_written(
    world: World,
) -> None:
    number = await world.enqueue(call(key="k", retry=RETRY))
    zombie = await world.begin()
    await world.lose(zombie)
    equal(await world.enqueue(call(key="k", run_after=HOUR)), number)
    equal((await world.job(number)).state, State.SCHEDULED)
    equal((await world.end(zombie, Raised("Oops"))).refused, [number])


@check
async def a_cancellation_of_a_waiting_job_is_not_taken_for_the_one_of_a_zombie(
    world: World,
) -> None:
    number = await world.enqueue(call(retry=RETRY))
    zombie = await world.begin()
    await world.lose(zombie)
    equal(await world.store.jobs.cancel(number), State.CANCELLED)
    equal((await world.job(number)).fence, zombie.fence, "nobody has claimed it since")
    equal((await world.end(zombie, Stopped("cancelled"))).refused, [number])


@check
async def a_worker_whose_lease_is_over_may_finish_what_nobody_took_back(world: World) -> None:
    await world.enqueue(call())
    worker = await world.new_worker()
    [job] = await world.claim(1, worker=worker)
    world.wait(timedelta(days=1))
    equal((await world.end(job)).kept, [job.id])


@check
async def a_settlement_that_is_repeated_is_found_done(world: World) -> None:
    await world.enqueue(*(call(retry=RETRY) for _ in range(4)))
    jobs = await world.claim(4)
    outcomes: list[Outcome] = [
        Succeeded(encode(1)),
        Raised("A"),
        Raised("B", permanent=True),
        Stopped(),
    ]
    settlements = [world.settlement(j, o) for j, o in zip(jobs, outcomes, strict=True)]
    await world.store.work.settle(settlements)
    before = [await world.job(job.id) for job in jobs]
    world.wait(MINUTE)
    again = await world.store.work.settle(settlements)
    equal((sorted(again.kept), again.refused), ([job.id for job in jobs], []))
    equal([await world.job(job.id) for job in jobs], before)
    for job in jobs[1:]:
        equal(len(await world.store.jobs.attempts(job.id)), 1, "one record for one attempt")


@check
async def nothing_is_settled_by_an_empty_call(world: World) -> None:
    settled = await world.store.work.settle([])
    equal((list(settled.kept), list(settled.refused)), ([], []))


@check
async def success_clears_the_crashes(world: World) -> None:
    number = await world.enqueue(call())
    await world.lose(await world.begin())
    await world.end(await world.begin())
    equal((await world.job(number)).crashes, 0)


@check
async def a_job_that_was_cancelled_while_it_ran_does_not_run_again(world: World) -> None:
    for ends in (lambda job: world.end(job, Raised("Oops")), world.lose):
        number = await world.enqueue(call(retry=RETRY))
        job = await world.begin()
        equal(await world.store.jobs.cancel(number, reason="not wanted"), State.RUNNING)
        await ends(job)
        await world.dispatch()
        found = await world.job(number)
        equal((found.state, found.reason), (State.CANCELLED, "cancelled: not wanted"))


@check
async def a_promise_that_is_made_anew_forgets_that_it_was_cancelled(world: World) -> None:
    number = await world.enqueue(call(key="k"))
    job = await world.begin()
    await world.store.jobs.cancel(number)
    await world.lose(job)
    equal(await world.enqueue(call(key="k", title="wanted after all")), number)
    await world.dispatch()
    again = await world.begin()
    equal((again.title, await world.signals(again.worker or 0)), ("wanted after all", {}))
