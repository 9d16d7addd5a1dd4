"""Those who ask for jobs, move and cancel them, against those who run them and take them back.

Where the two ways of locking do not differ, a case is played with one of them.
"""

from datetime import timedelta

import pytest

from duly.errors import KeyTaken
from duly.model.job import JobRequest
from duly.model.outcome import Outcome
from duly.model.policies import Late
from duly.model.states import State
from duly.store import job_changes
from duly.store.database import Ask, alone
from tests.factories import call
from tests.interleaving.interleave import Order, Program, once
from tests.store.postgres.interleavings.actors import (
    FATAL,
    RAISED,
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
from tests.store.postgres.interleavings.job_cases import (
    JOB,
    LATER,
    OTHER,
    a_cancellation_and_a_claim,
    a_cancellation_and_an_end,
    a_claim_and_one_that_is_given_back,
    a_move_and_a_claim,
    a_move_and_a_dispatcher,
    a_move_and_a_late_dispatcher,
    a_move_and_an_end,
    a_repeated_call,
    a_zombie_and_its_successor,
    dispatch,
    jobs_in,
    keyed,
    listed,
    ready,
    running,
    two_batches,
    two_calls_under_one_key,
    two_claims,
)


async def test_a_job_is_claimed_by_one_worker(scene: Scene) -> None:
    found = await two_claims(scene)
    assert not found.broken, found


async def test_a_fence_never_falls(scene: Scene) -> None:
    found = await a_claim_and_one_that_is_given_back(scene)
    assert not found.broken, found


async def test_either_the_worker_finishes_or_the_job_is_taken_back(locking: Scene) -> None:
    found = await a_zombie_and_its_successor(locking)
    assert not found.broken, found


async def test_a_cancelled_job_is_not_run(scene: Scene) -> None:
    found = await a_cancellation_and_a_claim(scene)
    assert not found.broken, found


@pytest.mark.parametrize("wanted", [call(), keyed()], ids=["plain", "keyed"])
async def test_a_job_that_ends_while_it_is_cancelled_leaves_no_signal(
    locking: Scene, wanted: JobRequest
) -> None:
    found = await a_cancellation_and_an_end(locking, wanted)
    assert not found.broken, found


async def test_a_job_that_fails_while_it_is_cancelled_is_tried_no_more(locking: Scene) -> None:
    job = await running(locking)

    async def is_told(order: Order) -> Broken:
        state = (await locking.states())[JOB]
        told = await locking.column("select job_id from duly.signal") == [JOB]
        if order.results["person"] is State.CANCELLED:
            return expect(state == "cancelled", f"it is {state}")
        return expect(told, f"it is {state}, and nobody is told")

    found = await locking.play(
        is_told,
        person=once(lambda: cancel(JOB)),
        worker=once(lambda: finish(job, outcome=RAISED)),
    )
    assert not found.broken, found


async def test_a_key_moves_a_waiting_job_or_begins_another(scene: Scene) -> None:
    found = await a_move_and_a_claim(scene)
    assert not found.broken, found


@pytest.mark.parametrize("outcome", [None, RAISED, FATAL], ids=["ends", "again", "fails"])
async def test_a_key_is_not_lost_with_a_job_that_ends(
    locking: Scene, outcome: Outcome | None
) -> None:
    found = await a_move_and_an_end(locking, outcome)
    assert not found.broken, found


async def test_two_calls_under_one_key_are_one_job(locking: Scene) -> None:
    found = await two_calls_under_one_key(locking)
    assert not found.broken, found


async def test_of_two_calls_that_want_to_be_the_first_one_is_refused(locking: Scene) -> None:
    async def is_one(order: Order) -> Broken:
        refused = [r for r in order.results.values() if isinstance(r, KeyTaken)]
        return expect(len(refused) == 1 and len(await locking.states()) == 1, f"{order.results}")

    found = await locking.play(
        is_one,
        one=once(lambda: enqueue((JOB, keyed("error")))),
        two=once(lambda: enqueue((OTHER, keyed("error")))),
    )
    assert not found.broken, found


async def test_batches_that_share_keys_do_not_wait_for_each_other_in_a_ring(
    locking: Scene,
) -> None:
    found = await two_batches(locking)
    assert not found.broken, found
    assert found.deadlocks == 0


async def test_what_is_asked_after_a_cancellation_is_kept(locking: Scene) -> None:
    await ready(locking, keyed())

    async def is_true(order: Order) -> Broken:
        [answer] = listed(order.results["one"])
        states = await locking.states()
        moved_and_cancelled = {JOB: "cancelled"}
        cancelled_and_new = {JOB: "cancelled", OTHER: "ready"}
        wanted = moved_and_cancelled if answer == JOB else cancelled_and_new
        return [
            *expect(order.results["two"] is True, "there was nothing to cancel"),
            *expect(states == wanted, f"{answer} was promised: {states}"),
        ]

    found = await locking.play(
        is_true,
        one=once(lambda: enqueue((OTHER, keyed()))),
        two=once(lambda: job_changes.cancel_key("work", "k", "no", ids=numbers(74))),
    )
    assert not found.broken, found


@pytest.mark.parametrize("wanted", [call(), keyed("error")], ids=["plain", "keyed"])
async def test_a_repeated_call_runs_its_job_once(locking: Scene, wanted: JobRequest) -> None:
    found = await a_repeated_call(locking, wanted)
    assert not found.broken, found


async def test_a_repeated_call_does_not_touch_the_promise_that_followed_it(locking: Scene) -> None:
    mine, theirs = keyed(title="mine"), keyed(title="theirs", run_after=LATER)
    await running(locking, mine)

    async def both_are_kept(order: Order) -> Broken:
        titles = await locking.column("select title from duly.job order by id")
        return [
            *expect(order.results["mine"] == [JOB], f"{order.results['mine']!r} is not mine"),
            *expect(titles == ["mine", "theirs"], f"{titles} are left"),
        ]

    found = await locking.play(
        both_are_kept,
        mine=once(lambda: enqueue((JOB, mine), again=True)),
        theirs=once(lambda: enqueue((OTHER, theirs))),
    )
    assert not found.broken, found


async def test_a_job_is_either_dispatched_or_cancelled(scene: Scene) -> None:
    await scene.enqueue(JOB, call(run_after=timedelta(seconds=5)))
    scene.wait(60)

    async def is_cancelled(order: Order) -> Broken:
        state = (await scene.states())[JOB]
        return expect(state == "cancelled", f"it is {state}")

    found = await scene.play(
        is_cancelled, most=70, dispatcher=dispatch, person=once(lambda: cancel(JOB))
    )
    assert not found.broken, found


async def test_a_job_that_was_moved_is_not_made_ready_early(scene: Scene) -> None:
    found = await a_move_and_a_dispatcher(scene)
    assert not found.broken, found


@pytest.mark.parametrize("late", ["skip", "hurry"])
async def test_a_job_that_was_moved_is_not_late(scene: Scene, late: Late) -> None:
    found = await a_move_and_a_late_dispatcher(scene, late)
    assert not found.broken, found


async def test_a_job_that_was_moved_is_claimed_from_its_new_queue_only(scene: Scene) -> None:
    await ready(scene, keyed())

    async def is_elsewhere(order: Order) -> Broken:
        claimed = jobs_in(order.results["worker"])
        return expect(all(job.queue == "default" for job in claimed), "claimed from another queue")

    found = await scene.play(
        is_elsewhere,
        person=once(lambda: enqueue((OTHER, keyed(queue="other")))),
        worker=once(claim),
    )
    assert not found.broken, found


async def test_a_worker_whose_lease_is_ended_leaves_nothing_behind(scene: Scene) -> None:
    await ready(scene)

    def ends_and_takes_back() -> Program:
        yield lambda: alone(Ask("end_lease", {"id": WORKER, "died": 0}))
        return (yield take_back)

    async def is_found(order: Order) -> Broken:
        scene.wait(10)
        await scene.stage.run(take_back)
        state = (await scene.states())[JOB]
        return expect(state == "ready", f"it is {state}, and nobody runs it")

    found = await scene.play(is_found, reaper=ends_and_takes_back, worker=once(claim))
    assert not found.broken, found
