"""Whatever is repeated because the answer to its commit was lost is found done."""

from collections.abc import Awaitable, Callable

from duly.errors import OutcomeUnknown
from duly.model.outcome import Outcome, Raised, Succeeded
from duly.model.payload import encode
from duly.model.states import State
from duly.policy.retry import Retry
from duly.store.store import SqlStore
from tests.conformance.expect import equal, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

RETRY = Retry(attempts=3, backoff="constant", first="5m", jitter=False).as_json()


def _losing(world: World) -> tuple[World, LosingAnswers]:
    """A second node on the same database, whose answers can be lost."""
    losing = LosingAnswers(world.database)
    return World(SqlStore(losing), world.clock), losing


@check
async def an_enqueue_whose_answer_was_lost_enqueues_once(world: World) -> None:
    node, losing = _losing(world)
    losing.lose("enqueue_one", times=3)
    numbers = await node.store.jobs.enqueue([call(title="a"), call(title="b", key="k")])
    equal(losing.lost, 3)
    equal(
        [(job.id, job.title) for job in await world.live()], list(zip(numbers, "ab", strict=True))
    )


@check
async def an_enqueue_whose_job_has_ended_meanwhile_enqueues_once(world: World) -> None:
    async def run_all() -> None:
        for job in await world.claim(10):
            await world.end(job, Succeeded() if job.title == "a" else Raised("Oops"))

    for key in (None, "k"):
        node, losing = _losing(world)
        losing.lose("enqueue", meanwhile=run_all)
        numbers = await node.store.jobs.enqueue(
            [call(title="a", key=key), call(title="b"), call(title="c", run_after=HOUR)]
        )
        states = [str((await world.job(number)).state) for number in numbers]
        equal(states, ["succeeded", "failed", "scheduled"])
        equal(await world.states(), ["scheduled"])
        await world.store.jobs.cancel(numbers[2])
    equal(len(await world.store.jobs.ended(State.SUCCEEDED)), 2)


@check
async def a_key_is_free_after_a_repeated_enqueue_whose_job_has_ended(world: World) -> None:
    async def run_all() -> None:
        await world.end(await world.begin())

    node, losing = _losing(world)
    losing.lose("enqueue_one", meanwhile=run_all)
    first = await node.enqueue(call(key="k"))
    second = await world.enqueue(call(key="k", if_exists="error"))
    equal((await world.job(first)).state, State.SUCCEEDED)
    equal([job.id for job in await world.live()], [second])


@check
async def an_enqueue_that_never_hears_an_answer_says_so(world: World) -> None:
    node, losing = _losing(world)
    losing.lose("enqueue_one", times=1_000)
    with refused(OutcomeUnknown):
        await node.enqueue(call())
    equal(len(await world.live()), 1)


@check
async def a_moved_promise_is_moved_once(world: World) -> None:
    number = await world.enqueue(call(key="k"))
    node, losing = _losing(world)
    losing.lose("move_jobs")
    equal(await node.enqueue(call(key="k", run_after=MINUTE, title="moved")), number)
    equal([(job.id, job.title) for job in await world.live()], [(number, "moved")])


@check
async def a_moved_promise_that_was_kept_meanwhile_is_not_made_again(world: World) -> None:
    async def run_it() -> None:
        await world.end(await world.begin())

    for outcome in ("replaced", "and again"):
        number = await world.enqueue(call(key="k", run_after=HOUR))
        node, losing = _losing(world)
        losing.lose("move_jobs", meanwhile=run_it)
        equal(await node.enqueue(call(key="k", title=outcome)), number)
        equal((await world.job(number)).title, outcome)
        equal(await world.live(), [])


@check
async def a_claim_whose_answer_was_lost_can_be_asked_for(world: World) -> None:
    number = await world.enqueue(call())
    node, losing = _losing(world)
    worker = await node.new_worker()
    losing.lose("claim_held")
    with refused(OutcomeUnknown):
        await node.claim(worker=worker)
    [job] = await world.store.work.claimed_by(worker)
    equal((job.id, job.state, job.worker), (number, State.RUNNING, worker))


@check
async def a_key_taken_from_a_running_job_is_taken_once(world: World) -> None:
    first = await world.enqueue(call(key="k"))
    await world.begin()
    node, losing = _losing(world)
    losing.lose("enqueue_one", times=2)
    second = await node.enqueue(call(key="k"))
    equal([job.id for job in await world.live()], [first, second])


@check
async def a_repeated_enqueue_leaves_the_key_to_whoever_has_it_by_now(world: World) -> None:
    later: list[int] = []

    async def run_and_ask_again() -> None:
        await world.begin()
        later.append(await world.enqueue(call(key="k", title="later", run_after=HOUR)))

    node, losing = _losing(world)
    losing.lose("enqueue_one", meanwhile=run_and_ask_again)
    first = await node.enqueue(call(key="k", title="first"))
    equal([(job.id, job.title) for job in await world.live()],
          [(first, "first"), (later[0], "later")])  # fmt: skip


@check
async def a_schedule_is_added_once(world: World) -> None:
    node, losing = _losing(world)
    losing.lose("add_schedules", times=2)
    added = await node.store.schedules.add([plan("a"), plan("b")])
    equal((losing.lost, await world.store.schedules.page()), (2, added))


@check
async def a_fire_whose_answer_was_lost_is_found_done(world: World) -> None:
    node, losing = _losing(world)
    await world.add(plan())
    world.wait(MINUTE)
    losing.lose("write_fires" if losing.dialect.writes_at_once else "record_fires")
    with refused(OutcomeUnknown):
        await node.fire()
    equal((await node.fire()).schedules, 0)
    equal((len(await world.fires()), len(await world.live())), (1, 1))


@check
async def a_manual_run_whose_answer_was_lost_runs_once(world: World) -> None:
    node, losing = _losing(world)
    await world.add(plan(overlap="allow"))
    losing.lose("add_fired_jobs", times=2)
    fire = await node.store.schedules.run("report")
    equal((losing.lost, await world.fires()), (1, [fire]))
    equal([job.id for job in await world.live()], [fire.job_id])


@check
async def a_worker_whose_registration_was_not_answered_is_one_worker(world: World) -> None:
    node, losing = _losing(world)
    losing.lose("register_worker", times=2)
    worker = await node.new_worker()
    equal([info.id for info in await world.store.work.workers()], [worker])


@check
async def settlements_whose_answer_was_lost_are_found_done(world: World) -> None:
    node, losing = _losing(world)
    await world.enqueue(*(call(retry=RETRY, key=f"k{n}") for n in range(3)))
    jobs = await world.claim(3)
    outcomes: list[Outcome] = [Succeeded(encode(1)), Raised("A"), Raised("B", permanent=True)]
    settlements = [world.settlement(j, o) for j, o in zip(jobs, outcomes, strict=True)]
    losing.lose("hold_jobs")
    with refused(OutcomeUnknown):
        await node.store.work.settle(settlements)
    before = [await world.job(job.id) for job in jobs]
    settled = await node.store.work.settle(settlements)
    equal((sorted(settled.kept), settled.refused), ([job.id for job in jobs], []))
    equal([await world.job(job.id) for job in jobs], before)


@check
async def a_claim_whose_answer_was_lost_is_undone_with_the_lease(world: World) -> None:
    node, losing = _losing(world)
    number = await world.enqueue(call())
    worker = await node.new_worker()
    losing.lose("claim_held")
    with refused(OutcomeUnknown):
        await node.claim(1, worker=worker)
    await world.lose(await world.job(number))
    equal((await world.begin()).id, number)


@check
async def a_cancel_whose_answer_was_lost_may_be_repeated(world: World) -> None:
    node, losing = _losing(world)
    waiting = await world.enqueue(call())
    losing.lose("forget_jobs")
    with refused(OutcomeUnknown):
        await node.store.jobs.cancel(waiting)
    equal(await node.store.jobs.cancel(waiting), State.CANCELLED)


@check
async def changes_of_a_schedule_may_be_repeated(world: World) -> None:
    node, losing = _losing(world)
    await world.add(plan())
    calls = node.store.schedules
    changes: tuple[tuple[str, Callable[[], Awaitable[object]]], ...] = (
        ("change_schedule", lambda: calls.pause("report")),
        ("change_schedule", lambda: calls.resume("report")),
        ("rewind_schedule", lambda: calls.rewind("report", to=world.now)),
    )
    for statement, change in changes:
        losing.lose(statement)
        world.wait(MINUTE / 10)
        with refused(OutcomeUnknown):
            await change()
        before = await world.schedule()
        await change()
        after = await world.schedule()
        equal((after.next_at, after.cursor, after.pause),
              (before.next_at, before.cursor, before.pause))  # fmt: skip
    equal(await world.fires(), [])


@check
async def a_skip_whose_answer_was_lost_skips_no_more_than_was_asked(world: World) -> None:
    node, losing = _losing(world)
    await world.add(plan())
    losing.lose("settle_until", times=2)
    skipped = await node.store.schedules.skip_next("report", count=2)
    equal((losing.lost, skipped), (1, [START + MINUTE, START + 2 * MINUTE]))
    equal([fire.due_at for fire in await world.fires()], skipped)
