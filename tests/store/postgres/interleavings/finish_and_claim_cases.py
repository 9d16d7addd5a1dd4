"""Cases about finishing and claiming in one statement, and what must hold in every order."""

from duly.store.values import SUSPECT, FinishedAndClaimed
from tests.factories import call
from tests.interleaving.interleave import Explored, Order, Program, once
from tests.store.postgres.interleavings.actors import (
    LEASE,
    SUCCESSOR,
    WORKER,
    Broken,
    Scene,
    claim,
    expect,
    take_back,
    turn,
)
from tests.store.postgres.interleavings.job_cases import (
    JOB,
    OTHER,
    a_claim_and_one_that_is_given_back,
)


async def two_turns(scene: Scene) -> Explored:
    """Each finishes a job and takes what there is, in one statement."""
    await scene.worker()
    await scene.worker(SUCCESSOR)
    await scene.enqueue(JOB, call())
    await scene.enqueue(OTHER, call())
    mine, theirs = await scene.begin(), await scene.begin(SUCCESSOR)
    for number in (OTHER + 1, OTHER + 2):
        await scene.enqueue(number, call())

    async def nobody_has_the_others(order: Order) -> Broken:
        turns = [turn for turn in order.results.values() if isinstance(turn, FinishedAndClaimed)]
        claimed = [job.id for turn in turns for job in turn.jobs]
        kept = sorted(number for turn in turns for number in turn.kept)
        return [
            *expect(kept == [JOB, OTHER], f"finished: {kept}"),
            *expect(len(claimed) == len(set(claimed)), f"claimed: {claimed}"),
        ]

    return await scene.play(
        nobody_has_the_others,
        one=once(lambda: turn(mine, limit=2)),
        two=once(lambda: turn(theirs, worker=SUCCESSOR, limit=2)),
        third=once(lambda: claim(WORKER)),
    )


async def a_turn_and_one_that_is_given_back(scene: Scene) -> Explored:
    return await a_claim_and_one_that_is_given_back(scene, once(turn))


async def a_zombie_in_passing_and_its_successor(scene: Scene) -> Explored:
    await scene.worker(lease=LEASE)
    await scene.worker(SUCCESSOR)
    await scene.enqueue(JOB, call())
    job = await scene.begin()
    scene.wait(60)

    def takes_back_and_claims() -> Program:
        taken = yield take_back
        return taken, (yield lambda: claim(SUCCESSOR, shelf=SUSPECT))

    async def one_of_them_has_it(order: Order) -> Broken:
        zombie, reaper = order.results["zombie"], order.results["reaper"]
        assert isinstance(zombie, FinishedAndClaimed)
        assert isinstance(reaper, tuple)
        state = (await scene.states())[JOB]
        return [
            *expect(len(zombie.kept) + reaper[0].lost == 1, "both or neither had it"),
            *expect((state == "succeeded") == bool(zombie.kept), f"it is {state}"),
            *expect(not reaper[1] or state == "running", f"it runs again, and is {state}"),
        ]

    return await scene.play(
        one_of_them_has_it,
        most=70,
        zombie=once(lambda: turn(job)),
        reaper=takes_back_and_claims,
    )
