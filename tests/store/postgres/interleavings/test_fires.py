"""Schedulers against each other, and against those who change a schedule or end its jobs."""

from dataclasses import replace

import pytest

from duly.errors import ScheduleExists
from duly.instants import to_us
from duly.model.fire import StoredFire
from duly.model.job import Claimed, StoredJob
from duly.model.policies import Overlap
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.firing import decide
from duly.store import job_changes, maintenance, schedule_changes
from duly.store.transactions import Editor
from duly.store.values import CLOCK
from tests.factories import plan
from tests.interleaving.interleave import Order, once
from tests.interleaving.stage import START
from tests.store.postgres.interleavings.actors import (
    FATAL,
    Broken,
    Scene,
    claim,
    expect,
    finish,
    numbers,
)
from tests.store.postgres.interleavings.schedule_cases import (
    EVERY,
    SLOW,
    a_pause,
    a_pause_and_a_scheduler,
    a_scheduler,
    a_scheduler_and_a_claim,
    a_scheduler_and_an_end,
    another_scheduler,
    scheduled,
    two_nodes_declare,
    two_schedulers,
    with_a_running_job,
)


async def test_the_set_in_force_is_the_one_that_is_written(scene: Scene) -> None:
    found = await two_nodes_declare(scene)
    assert not found.broken, found


async def test_two_schedulers_fire_every_moment_once(scene: Scene) -> None:
    found = await two_schedulers(scene)
    assert not found.broken, found
    assert found.preemptions is None


@pytest.mark.parametrize("overlap", ["queue_one", "replace"])
async def test_two_schedulers_agree_about_overlap(scene: Scene, overlap: Overlap) -> None:
    await with_a_running_job(scene, overlap, behind=1)
    found = await scene.play(tick=SLOW, most=50, a=a_scheduler, b=another_scheduler)
    assert not found.broken, found


def edit(change: dict[str, object]) -> object:
    def changed(old: Plan) -> Plan:
        return replace(old, **change)  # type: ignore[arg-type]

    return once(lambda: schedule_changes.edit("report", changed, Editor("me", decide, numbers(3))))


async def test_an_edit_neither_swallows_nor_invents_a_moment(scene: Scene) -> None:
    await scheduled(scene)
    found = await scene.play(tick=SLOW, most=80, a=a_scheduler, editor=edit({"version": 2}))
    assert not found.broken, found


async def test_a_new_rule_holds_from_the_edit_on(scene: Scene) -> None:
    await scheduled(scene)

    async def both_rules_are_kept(order: Order) -> Broken:
        edited = order.results["editor"]
        assert isinstance(edited, StoredSchedule)
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
        most=80,
        a=a_scheduler,
        editor=edit({"rule": "every 20s"}),
    )
    assert not found.broken, found


async def test_a_pause_holds_once_it_is_given(scene: Scene) -> None:
    found = await a_pause_and_a_scheduler(scene)
    assert not found.broken, found


@pytest.mark.parametrize("overlap", ["skip", "queue_one"])
async def test_a_run_by_hand_obeys_the_overlap(scene: Scene, overlap: Overlap) -> None:
    await scheduled(scene, overlap)
    run = once(lambda: schedule_changes.run("report", 7, Editor("me", decide, numbers(3))))

    async def is_written(order: Order) -> Broken:
        return expect(isinstance(order.results["person"], StoredFire), str(order.results["person"]))

    found = await scene.play(is_written, most=60, a=a_scheduler, person=run)
    assert not found.broken, found


@pytest.mark.parametrize(
    ("overlap", "behind"), [("skip", 0), ("queue_one", 0), ("queue_all", 1), ("replace", 1)]
)
async def test_nobody_waits_for_ever_behind_a_job_that_ends(
    scene: Scene, overlap: Overlap, behind: int
) -> None:
    found = await a_scheduler_and_an_end(scene, overlap, behind)
    assert not found.broken, found


async def test_the_job_that_takes_over_a_moment_is_one_that_has_not_begun(scene: Scene) -> None:
    found = await a_scheduler_and_a_claim(scene)
    assert not found.broken, found


async def test_a_retried_job_and_a_fired_one_do_not_run_at_once(scene: Scene) -> None:
    job = await with_a_running_job(scene, "skip")
    await scene.stage.run(lambda: finish(job, outcome=FATAL))

    async def is_alive(order: Order) -> Broken:
        return expect(isinstance(order.results["person"], StoredJob), str(order.results["person"]))

    found = await scene.play(
        is_alive, most=50, a=a_scheduler, person=once(lambda: job_changes.retry(job.id, "me"))
    )
    assert not found.broken, found


async def test_two_retries_of_one_job_are_one(scene: Scene) -> None:
    job = await with_a_running_job(scene, "skip")
    await scene.stage.run(lambda: finish(job, outcome=FATAL))
    found = await scene.play(
        most=50,
        one=once(lambda: job_changes.retry(job.id, "one")),
        two=once(lambda: job_changes.retry(job.id, "two")),
    )
    assert not found.broken, found


async def with_a_spaced_run(scene: Scene) -> Claimed:
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
        most=50,
        worker=once(lambda: finish(job)),
        dispatcher=once(lambda: maintenance.sweep(10)),
        a=a_scheduler,
    )
    assert not found.broken, found


async def test_two_sweeps_begin_a_stranded_delay_once(scene: Scene) -> None:
    await with_a_spaced_run(scene)
    await scene.stage.look("update duly.schedule set awaiting = 4711 returning id")
    found = await scene.play(
        one=once(lambda: maintenance.sweep(10)), two=once(lambda: maintenance.sweep(10)), most=50
    )
    assert not found.broken, found


async def test_a_sweep_does_not_end_a_pause(scene: Scene) -> None:
    await with_a_spaced_run(scene)
    await scene.stage.look("update duly.schedule set awaiting = 4711 returning id")
    found = await scene.play(
        most=50, sweeper=once(lambda: maintenance.sweep(10)), pauser=a_pause, a=a_scheduler
    )
    assert not found.broken, found


async def test_nobody_waits_for_ever_behind_a_schedule_that_is_removed(scene: Scene) -> None:
    job = await with_a_running_job(scene, "queue_all", behind=1)
    remove = once(lambda: schedule_changes.remove("report", Editor("me", decide, numbers(3))))
    found = await scene.play(most=80, person=remove, worker=once(lambda: finish(job)))
    assert not found.broken, found


async def test_two_schedulers_and_an_edit(scene: Scene) -> None:
    await scheduled(scene)
    found = await scene.play(
        tick=SLOW, most=120, a=a_scheduler, b=another_scheduler, editor=edit({"version": 2})
    )
    assert not found.broken, found


async def test_a_scheduler_an_end_and_a_claim(scene: Scene) -> None:
    job = await with_a_running_job(scene, "queue_one", behind=1)
    found = await scene.play(
        most=120,
        a=a_scheduler,
        worker=once(lambda: finish(job)),
        claimer=once(lambda: claim(shelf=CLOCK)),
    )
    assert not found.broken, found


async def test_a_name_that_is_removed_while_it_is_wanted_can_be_had(scene: Scene) -> None:
    await scheduled(scene)
    remove = once(lambda: schedule_changes.remove("report", Editor("me", decide, numbers(3))))

    async def is_added_or_refused(order: Order) -> Broken:
        answer = order.results["other"]
        names = await scene.column("select id from duly.schedule")
        if isinstance(answer, ScheduleExists):
            return expect(names == [], f"{names} are there")
        return expect(isinstance(answer, list) and names == [9], f"{answer!r}, and {names}")

    found = await scene.play(
        is_added_or_refused,
        most=50,
        person=remove,
        other=once(lambda: schedule_changes.add([plan(rule=EVERY)], [9])),
    )
    assert not found.broken, found
