"""Cases about jobs: what is there, who acts on it, and what must hold in every order."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from duly.errors import WrongState
from duly.model.job import Claimed, IfExists, JobRequest
from duly.model.outcome import Outcome
from duly.model.policies import Late
from duly.model.states import State
from duly.store import maintenance
from duly.store.enqueueing import EndedAlready
from duly.store.maintenance import TakenBack
from duly.store.values import SUSPECT, FinishedAndClaimed, Settled
from tests.factories import call
from tests.interleaving.interleave import Explored, Order, Program, once
from tests.store.postgres.interleavings.actors import (
    LEASE,
    RETURNED,
    SUCCESSOR,
    WORKER,
    Broken,
    Scene,
    cancel,
    claim,
    enqueue,
    expect,
    finish,
    numbers,
    take_back,
)

JOB, OTHER = 100, 200
LATER = timedelta(hours=1)


def keyed(
    if_exists: IfExists = "replace", run_after: timedelta | None = None, **label: str
) -> JobRequest:
    return call(key="k", if_exists=if_exists, run_after=run_after, **label)


async def ready(scene: Scene, wanted: JobRequest | None = None) -> None:
    """A job that can be claimed, and a worker who can."""
    await scene.worker()
    await scene.enqueue(JOB, wanted or call())


async def running(scene: Scene, wanted: JobRequest | None = None) -> Claimed:
    await ready(scene, wanted)
    return await scene.begin()


async def two_claims(scene: Scene) -> Explored:
    await ready(scene)
    await scene.worker(SUCCESSOR)
    await scene.enqueue(OTHER, call())

    async def nobody_has_the_others(order: Order) -> Broken:
        claimed = [job.id for found in order.results.values() for job in jobs_in(found)]
        return expect(len(claimed) == len(set(claimed)), f"claimed: {claimed}")

    return await scene.play(
        nobody_has_the_others,
        one=once(lambda: claim(WORKER, limit=2)),
        two=once(lambda: claim(SUCCESSOR, limit=2)),
    )


async def a_claim_and_one_that_is_given_back(
    scene: Scene, one: Callable[[], Program] | None = None
) -> Explored:
    await ready(scene)
    await scene.worker(SUCCESSOR)
    # Whoever had it before read a clock that was ahead.
    [before] = await scene.column("update duly.job set fence = 2000000000000000 returning fence")

    def claims_and_gives_back() -> Program:
        claimed = yield lambda: claim(SUCCESSOR)
        if claimed:
            yield lambda: finish(*claimed, outcome=RETURNED)
        return claimed

    async def the_last_is_the_highest(order: Order) -> Broken:
        drawn = [job.fence for result in order.results.values() for job in jobs_in(result)]
        [last] = await scene.column("select fence from duly.job")
        rose = min(drawn, default=last) > before and last == max(drawn, default=last)
        rose = rose and len(set(drawn)) == len(drawn)
        return expect(not drawn or rose, f"from {before}, claimed under {drawn}, it is {last}")

    return await scene.play(
        the_last_is_the_highest, one=one or once(claim), two=claims_and_gives_back
    )


async def a_zombie_and_its_successor(scene: Scene) -> Explored:
    await scene.worker(lease=LEASE)
    await scene.worker(SUCCESSOR)
    await scene.enqueue(JOB, call())
    job = await scene.begin()
    scene.wait(60)

    def takes_back_and_claims() -> Program:
        taken = yield take_back
        return taken, (yield lambda: claim(SUCCESSOR, shelf=SUSPECT))

    return await scene.play(
        one_of_them_has_it(scene),
        most=70,
        zombie=once(lambda: finish(job)),
        reaper=takes_back_and_claims,
    )


def one_of_them_has_it(scene: Scene) -> Callable[[Order], Awaitable[Broken]]:
    async def check(order: Order) -> Broken:
        settled, reaper = order.results["zombie"], order.results["reaper"]
        assert isinstance(settled, Settled)
        assert isinstance(reaper, tuple)
        taken, claimed = reaper
        assert isinstance(taken, TakenBack)
        state = (await scene.states())[JOB]
        return [
            *expect(len(settled.kept) + taken.lost == 1, "both or neither had it"),
            *expect((state == "succeeded") == bool(settled.kept), f"it is {state}"),
            *expect(not claimed or state == "running", f"it runs again, and is {state}"),
        ]

    return check


async def a_cancellation_and_a_claim(scene: Scene) -> Explored:
    await ready(scene)

    async def is_told(order: Order) -> Broken:
        state, claimed = (await scene.states())[JOB], jobs_in(order.results["worker"])
        told = await scene.column("select job_id from duly.signal") == [JOB]
        if order.results["person"] is State.CANCELLED:
            return expect(state == "cancelled" and not claimed, f"it is {state}")
        return expect(state == "running" and claimed and told, f"it is {state}, told: {told}")

    return await scene.play(is_told, most=70, person=once(lambda: cancel(JOB)), worker=once(claim))


async def a_move_and_a_claim(scene: Scene) -> Explored:
    await ready(scene, keyed())

    async def is_kept(order: Order) -> Broken:
        claimed = jobs_in(order.results["worker"])
        states = await scene.states()
        if not claimed:
            return expect(states == {JOB: "scheduled"}, f"moved, and it is {states}")
        ran = claimed[0].id
        moved_first = ran == JOB and order.results["person"] == [OTHER]
        return expect(moved_first and states[OTHER] == "scheduled", f"claimed, and it is {states}")

    return await scene.play(
        is_kept,
        person=once(lambda: enqueue((OTHER, keyed(run_after=LATER)))),
        worker=once(claim),
    )


async def two_calls_under_one_key(scene: Scene) -> Explored:
    async def is_one(order: Order) -> Broken:
        states = await scene.states()
        answers = {tuple(listed(result)) for result in order.results.values()}
        return expect(len(states) == 1 and len(answers) == 1, f"{answers}: {states}")

    return await scene.play(
        is_one,
        one=once(lambda: enqueue((JOB, keyed()))),
        two=once(lambda: enqueue((OTHER, keyed()))),
    )


async def a_move_and_a_dispatcher(scene: Scene) -> Explored:
    await scene.enqueue(JOB, keyed(run_after=timedelta(seconds=5)))
    scene.wait(60)

    async def waits_for_its_moment(order: Order) -> Broken:
        return expect(
            (await scene.states()) == {JOB: "scheduled"}, f"{await scene.states()}: too early"
        )

    return await scene.play(
        waits_for_its_moment,
        most=70,
        dispatcher=dispatch,
        person=once(lambda: enqueue((OTHER, keyed(run_after=LATER)))),
    )


async def a_cancellation_and_an_end(scene: Scene, wanted: JobRequest | None = None) -> Explored:
    job = await running(scene, wanted)

    async def has_ended(order: Order) -> Broken:
        answer = order.results["person"]
        honest = isinstance(answer, WrongState) or answer is State.RUNNING
        return expect(
            honest and (await scene.states())[JOB] == "succeeded", f"{answer!r} is not true"
        )

    return await scene.play(
        has_ended,
        person=once(lambda: cancel(JOB)),
        worker=once(lambda: finish(job)),
    )


async def a_move_and_an_end(scene: Scene, outcome: Outcome | None = None) -> Explored:
    job = await running(scene, keyed())

    async def is_kept(order: Order) -> Broken:
        states = await scene.states()
        [answer] = listed(order.results["person"])
        return expect(states.get(answer) == "scheduled", f"{answer} was promised: {states}")

    return await scene.play(
        is_kept,
        most=70,
        person=once(lambda: enqueue((OTHER, keyed(run_after=LATER)))),
        worker=once(lambda: finish(job, outcome=outcome)),
    )


async def a_repeated_call(scene: Scene, wanted: JobRequest | None = None) -> Explored:
    """The answer to the first call was lost, and a worker runs the job while it is repeated."""
    wanted = wanted or call()
    await ready(scene, wanted)

    async def is_one(order: Order) -> Broken:
        answer = order.results["caller"]
        states = await scene.states()
        return expect(
            states == {JOB: "succeeded"} and (answer == [JOB] or isinstance(answer, EndedAlready)),
            f"{answer!r}: {states}",
        )

    return await scene.play(
        is_one, most=70, caller=once(lambda: enqueue((JOB, wanted), again=True)), worker=runs
    )


async def a_move_and_a_late_dispatcher(scene: Scene, late: Late = "skip") -> Explored:
    def promised(after: timedelta) -> JobRequest:
        return call(key="k", run_after=after, start_within=timedelta(seconds=5), late=late)

    await scene.enqueue(JOB, promised(timedelta(seconds=1)))
    scene.wait(60)

    async def is_kept(order: Order) -> Broken:
        [answer] = listed(order.results["person"])
        found = await scene.stage.look(
            "select state, deadline is not null, priority from duly.job where id = %(id)s",
            {"id": answer},
        )
        return expect(found == [("scheduled", True, 0)], f"{answer} was promised: {found}")

    return await scene.play(
        is_kept,
        most=70,
        dispatcher=dispatch,
        person=once(lambda: enqueue((OTHER, promised(LATER)))),
    )


async def two_batches(scene: Scene) -> Explored:
    """Both want two keys, in opposite order, and a third has one of them when they begin."""
    one, two = call(key="one"), call(key="two")
    await scene.enqueue(JOB, one)
    return await scene.play(
        most=100,
        third=once(lambda: enqueue((JOB + 1, one))),
        rising=once(lambda: enqueue((OTHER, one), (OTHER + 1, two))),
        falling=once(lambda: enqueue((OTHER + 2, two), (OTHER + 3, one))),
    )


def runs() -> Program:
    """A worker that claims a job and ends it well."""
    claimed = yield claim
    if claimed:
        yield lambda: finish(*claimed)
    return claimed


def dispatch() -> Program:
    queues = yield lambda: maintenance.ready(10)
    yield lambda: maintenance.overdue(10, ids=numbers(73))
    return queues


def jobs_in(result: object) -> list[Claimed]:
    result = list(result.jobs) if isinstance(result, FinishedAndClaimed) else result
    return [job for job in result if isinstance(job, Claimed)] if isinstance(result, list) else []


def listed(result: object) -> list[int]:
    assert isinstance(result, list), result
    return result
