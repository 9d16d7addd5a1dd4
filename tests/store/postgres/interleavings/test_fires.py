"""Schedulers against each other, and against those who change a schedule or end its jobs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from duly.model.fire import Fire
from duly.model.job import Job
from duly.model.policies import Overlap
from duly.model.schedule import Pause, Plan, Schedule
from duly.policy.firing import decide
from duly.rules.instants import EPOCH, to_us
from duly.store import jobs, schedules, upkeep
from duly.testing.factories import plan
from duly.testing.interleave import Order, once
from duly.testing.stage import START
from tests.store.postgres.interleavings.actors import (
    FATAL,
    Broken,
    Scene,
    claim,
    expect,
    finish,
    fire,
    numbers,
)

EVERY = "every 10s"

# So long a step that schedulers see different sets of due moments.
SLOW = timedelta(seconds=4)

a_scheduler = once(lambda: fire(1))
another_scheduler = once(lambda: fire(2))


async def scheduled(scene: Scene, overlap: Overlap = "allow", rule: str = EVERY) -> Schedule:
    """A schedule with two moments that are due."""
    added = await scene.add(plan(rule=rule, overlap=overlap))
    scene.wait(25)
    return added


async def with_a_running_job(scene: Scene, overlap: Overlap, *, behind: int = 0) -> Job:
    """A schedule that is due, with a job that runs and as many as there can be that wait."""
    await scene.add(plan(rule=EVERY, overlap=overlap))
    await scene.worker()
    scene.wait(10)
    await scene.fire(block=80)
    job = await scene.begin()
    for place in range(behind):
        scene.wait(10)
        await scene.fire(block=81 + place)
    scene.wait(15)
    return job


async def test_two_schedulers_fire_every_moment_once(scene: Scene) -> None:
    await scheduled(scene)
    found = await scene.play(tick=SLOW, a=a_scheduler, b=another_scheduler)
    assert not found.broken, found
    assert found.preemptions is None


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all", "replace"])
async def test_two_schedulers_agree_about_overlap(scene: Scene, overlap: Overlap) -> None:
    await with_a_running_job(scene, overlap, behind=1)
    found = await scene.play(tick=SLOW, most=60, a=a_scheduler, b=another_scheduler)
    assert not found.broken, found


def edit(change: dict[str, object]) -> object:
    def changed(old: Plan) -> Plan:
        return replace(old, **change)  # type: ignore[arg-type]

    return once(lambda: schedules.edit("report", changed, who="me", decide=decide, ids=numbers(3)))


async def test_an_edit_neither_swallows_nor_invents_a_moment(scene: Scene) -> None:
    await scheduled(scene)
    found = await scene.play(tick=SLOW, most=150, a=a_scheduler, editor=edit({"version": 2}))
    assert not found.broken, found


async def test_a_new_rule_holds_from_the_edit_on(scene: Scene) -> None:
    await scheduled(scene)

    async def both_rules_are_kept(order: Order) -> Broken:
        edited = order.results["editor"]
        assert isinstance(edited, Schedule)
        [(cursor, next_at, covered)] = await scene.stage.look(
            "select cursor, next_at, (select sum(count) from duly.fire) from duly.schedule"
        )
        until, ten, twenty = to_us(edited.cursor), 10_000_000, 20_000_000
        due = until // ten - to_us(START) // ten + cursor // twenty - until // twenty
        return [
            *expect(covered == due, f"{due} moments were due, {covered} are covered"),
            *expect(next_at == (cursor // twenty + 1) * twenty, f"{next_at} is due after {cursor}"),
        ]

    found = await scene.play(
        both_rules_are_kept,
        tick=SLOW,
        most=150,
        a=a_scheduler,
        editor=edit({"rule": "every 20s"}),
    )
    assert not found.broken, found


async def test_a_pause_holds_once_it_is_given(scene: Scene) -> None:
    await scheduled(scene)
    pause = once(
        lambda: schedules.pause(
            "report", Pause(since=EPOCH), who="me", decide=decide, ids=numbers(3)
        )
    )

    async def is_paused(order: Order) -> Broken:
        return expect(
            await scene.column("select pause is not null from duly.schedule") == [True],
            "the pause is gone",
        )

    found = await scene.play(is_paused, tick=SLOW, most=150, a=a_scheduler, pauser=pause)
    assert not found.broken, found


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all", "replace", "allow"])
async def test_a_run_by_hand_obeys_the_overlap(scene: Scene, overlap: Overlap) -> None:
    await scheduled(scene, overlap)
    run = once(lambda: schedules.run("report", 7, who="me", decide=decide, ids=numbers(3)))

    async def is_written(order: Order) -> Broken:
        return expect(isinstance(order.results["person"], Fire), str(order.results["person"]))

    found = await scene.play(is_written, most=60, a=a_scheduler, person=run)
    assert not found.broken, found


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all", "replace"])
async def test_nobody_waits_for_ever_behind_a_job_that_ends(
    scene: Scene, overlap: Overlap, behind: int
) -> None:
    job = await with_a_running_job(scene, overlap, behind=behind)
    found = await scene.play(most=80, a=a_scheduler, worker=once(lambda: finish(job)))
    assert not found.broken, found


async def test_the_job_that_takes_over_a_moment_is_one_that_has_not_begun(scene: Scene) -> None:
    await scene.add(plan(rule=EVERY, overlap="queue_one"))
    await scene.worker()
    scene.wait(10)
    await scene.fire(block=80)
    scene.wait(15)
    found = await scene.play(a=a_scheduler, worker=once(claim))
    assert not found.broken, found


async def test_a_retried_job_and_a_fired_one_do_not_run_at_once(scene: Scene) -> None:
    job = await with_a_running_job(scene, "skip")
    await scene.stage.run(lambda: finish(job, outcome=FATAL))

    async def is_alive(order: Order) -> Broken:
        return expect(isinstance(order.results["person"], Job), str(order.results["person"]))

    found = await scene.play(
        is_alive, most=100, a=a_scheduler, person=once(lambda: jobs.retry(job.id, "me"))
    )
    assert not found.broken, found


async def test_two_retries_of_one_job_are_one(scene: Scene) -> None:
    job = await with_a_running_job(scene, "skip")
    await scene.stage.run(lambda: finish(job, outcome=FATAL))
    found = await scene.play(
        most=100,
        one=once(lambda: jobs.retry(job.id, "one")),
        two=once(lambda: jobs.retry(job.id, "two")),
    )
    assert not found.broken, found


async def with_a_spaced_run(scene: Scene) -> Job:
    await scene.add(plan(rule="spaced 10s", overlap="skip"))
    await scene.worker()
    scene.wait(10)
    await scene.fire(block=80)
    job = await scene.begin()
    scene.wait(60)
    return job


async def test_the_end_of_a_run_begins_its_delay_once(scene: Scene) -> None:
    job = await with_a_spaced_run(scene)
    found = await scene.play(
        most=100,
        worker=once(lambda: finish(job)),
        dispatcher=once(lambda: upkeep.sweep(10)),
        a=a_scheduler,
    )
    assert not found.broken, found


async def test_two_sweeps_begin_a_stranded_delay_once(scene: Scene) -> None:
    await with_a_spaced_run(scene)
    await scene.stage.look("update duly.schedule set awaiting = 4711 returning id")
    found = await scene.play(
        one=once(lambda: upkeep.sweep(10)), two=once(lambda: upkeep.sweep(10)), most=100
    )
    assert not found.broken, found


async def test_two_schedulers_and_an_edit(scene: Scene) -> None:
    await scheduled(scene)
    found = await scene.play(
        tick=SLOW, most=150, a=a_scheduler, b=another_scheduler, editor=edit({"version": 2})
    )
    assert not found.broken, found


@pytest.mark.parametrize("overlap", ["queue_one", "replace"])
async def test_a_scheduler_an_end_and_a_claim(scene: Scene, overlap: Overlap) -> None:
    job = await with_a_running_job(scene, overlap, behind=1)
    found = await scene.play(
        most=120, a=a_scheduler, worker=once(lambda: finish(job)), claimer=once(claim)
    )
    assert not found.broken, found
