"""Cases about finishing and claiming in one statement, and what must hold in every order."""

from dataclasses import replace

from duly.model.schedule import Plan
from duly.policy.firing import decide
from duly.store import schedule_changes
from duly.store.job_endings import settle, unsettled
from duly.store.transactions import Editor
from duly.store.values import SUSPECT, FinishedAndClaimed, JobDone
from tests.factories import call, plan
from tests.interleaving.interleave import Explored, Order, Program, once
from tests.store.postgres.interleavings.actors import (
    LEASE,
    SUCCESSOR,
    WORKER,
    Broken,
    Scene,
    claim,
    expect,
    numbers,
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


async def an_edit_and_an_end_in_passing(scene: Scene) -> Explored:
    """A schedule stops to overlap while its job ends, and its next job waits for that end."""
    await scene.add(plan(rule="every 1h", overlap="allow"))
    await scene.worker()
    scene.wait(3600)
    await scene.fire()
    job = await scene.begin()
    editor = Editor("me", decide, numbers(3))

    def in_line(old: Plan) -> Plan:
        return replace(old, policies=replace(old.policies, overlap="queue_one"))

    def stops_to_overlap_and_runs() -> Program:
        yield lambda: schedule_changes.edit("report", in_line, editor)
        return (yield lambda: schedule_changes.run("report", 4_000, editor))

    def ends() -> Program:
        taken = yield lambda: turn(job)
        assert isinstance(taken, FinishedAndClaimed)
        if job.id in taken.kept:
            return taken
        left = yield lambda: unsettled([JobDone(job.id, job.fence)])
        assert isinstance(left, list)
        return (yield lambda: settle(left, ids=numbers(70)))

    async def it_has_ended(order: Order) -> Broken:
        state = (await scene.states())[job.id]
        return expect(state == "succeeded", f"the job that ended is {state}")

    return await scene.play(it_has_ended, most=80, editor=stops_to_overlap_and_runs, worker=ends)
