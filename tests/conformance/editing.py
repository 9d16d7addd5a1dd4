"""An edit neither swallows a moment that was due nor invents one that was missed."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from duly.errors import InvalidValue
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.decision import Facts, Firing
from duly.policy.firing import decide
from duly.store import rows
from duly.store import schedule_changes as held
from duly.store.database import Ask, Operation
from duly.store.ids import Ids
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan


@check
async def a_changed_rule_begins_now_and_invents_nothing(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    world.wait(30 * MINUTE)
    edited = await _retimed(world, "every 1m")
    equal((edited.next_at, edited.cursor), (world.now + MINUTE, world.now))
    await world.fire_after(MINUTE)
    equal([fire.due_at for fire in await world.fires()], [START + 31 * MINUTE])


@check
async def what_was_due_before_an_edit_is_decided_by_the_old_plan(world: World) -> None:
    await world.add(plan(title="old"))
    world.wait(2 * MINUTE)
    await world.by("ann").schedules.edit(
        "report", lambda old: replace(old, title="new", rule="every 1h")
    )
    equal([(f.due_at, str(f.outcome)) for f in await world.fires()],
          [(START + MINUTE, "merged"), (START + 2 * MINUTE, "queued")])  # fmt: skip
    equal([job.title for job in await world.live()], ["old"])
    equal((await world.schedule()).plan.title, "new")


@check
async def an_edit_that_leaves_the_rule_alone_leaves_the_next_moment_alone(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    world.wait(30 * MINUTE)
    before = await world.schedule()
    edited = await world.store.schedules.edit("report", lambda old: replace(old, priority=5))
    equal((edited.next_at, edited.cursor), (before.next_at, before.cursor))
    equal(edited.plan, replace(before.plan, priority=5))
    holds(edited.revision > before.revision, "the revision rises")


@check
async def every_field_of_a_plan_can_be_edited_but_its_name(world: World) -> None:
    await world.add(plan())
    wanted = plan(
        rule="every 7m",
        task="t",
        queue="q",
        priority=3,
        tenant="te",
        submitter="s",
        title="ti",
        tags=("x", "y"),
        version=9,
        overlap="replace",
        missed=Missed("all", at_most=5),
    )
    equal((await world.store.schedules.edit("report", lambda _: wanted)).plan, wanted)
    with refused(InvalidValue, "a schedule is identified by its name"):
        await world.store.schedules.edit("report", lambda old: replace(old, name="other"))
    equal((await world.schedule()).plan, wanted)


@check
async def an_edit_that_raises_changes_nothing(world: World) -> None:
    def spoil(old: Plan) -> Plan:
        raise InvalidValue(f"no change of {old.name}")

    await world.add(plan())
    before = await world.schedule()
    with refused(InvalidValue, "no change of report"):
        await world.store.schedules.edit("report", spoil)
    equal(await world.schedule(), before)


@check
async def a_rule_that_is_edited_during_a_pause_counts_what_the_old_one_skipped(
    world: World,
) -> None:
    await world.add(plan(rule="every 1h"))
    await world.store.schedules.pause("report")
    world.wait(3 * HOUR)
    await _retimed(world, "every 1m")
    world.wait(2 * MINUTE)
    await world.store.schedules.resume("report")
    equal([(f.count, str(f.cause)) for f in await world.fires()], [(3, "paused"), (2, "paused")])


@check
async def a_pause_with_an_end_survives_an_edit(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    await world.store.schedules.pause("report", until=START + 2 * HOUR)
    await _retimed(world, "every 10m")
    equal((await world.schedule()).next_at, START + 2 * HOUR)
    await world.fire_after(2 * HOUR)
    equal((await world.schedule()).next_at, START + 2 * HOUR + 10 * MINUTE)


@check
async def a_moment_of_an_older_rule_is_still_accounted_for(world: World) -> None:
    await world.add(plan())
    await world.fire_after(5 * MINUTE)
    await _retimed(world, "0 0 * * * UTC")
    merged = (await world.fires())[0]
    equal(await world.store.ledger.covering("report", START + 2 * MINUTE), merged)


@check
async def one_bad_schedule_does_not_stop_its_batch_and_is_set_aside(world: World) -> None:
    await world.add(plan("a"), plan("bad"), plan("c"))
    await world.write(lambda _: _corrupt("bad"))
    world.wait(MINUTE)
    fired = await world.fire()
    equal((fired.schedules, [name for name, _ in fired.faults]), (2, ["bad"]))
    equal([job.due_at for job in await world.live()], [START + MINUTE] * 2)
    equal((await world.schedule("bad")).next_at, START + 2 * MINUTE, "it is tried again")
    world.wait(MINUTE)
    equal([name for name, _ in (await world.fire()).faults], ["bad"])
    equal((await world.schedule("bad")).next_at, START + 4 * MINUTE, "less and less often")
    names = [found.plan.name for found in await world.store.schedules.page()]
    equal(names, ["a", "bad", "c"], "it can be seen")
    mended = await world.store.schedules.edit("bad", lambda old: replace(old, rule="every 1m"))
    equal((mended.fault, mended.next_at), (None, START + MINUTE), "and mended")


@check
async def a_schedule_that_cannot_be_decided_says_why_whatever_the_words(world: World) -> None:
    await world.add(plan("a"), plan("bad"))
    await _spoil(world)
    found = await world.schedule("bad")
    holds(found.fault and "no luck" in found.fault, "the fault is kept")
    equal((found.cursor, found.next_at), (START, START + 2 * MINUTE), "and nothing is lost")
    equal(len(await world.live()), 1)


@check
async def a_fault_of_one_node_does_not_outlive_the_next_good_decision(world: World) -> None:
    await world.add(plan("a"), plan("bad", missed=Missed("all")))
    await _spoil(world)
    await world.by("ann").schedules.pause("bad")
    holds((await world.schedule("bad")).fault, "a pause does not hide it")
    await world.store.schedules.resume("bad")
    world.wait(MINUTE)
    await world.fire()
    equal((await world.schedule("bad")).fault, None)


@check
async def choices_of_a_newer_version_survive_a_pause_and_an_edit(world: World) -> None:
    await world.add(plan("bad", overlap="queue_one"))
    stored = '{"fresh_policy": 5, "overlap": "queue_one"}'
    await world.write(lambda _: _corrupt("bad", policies=stored))
    await world.store.schedules.pause("bad")
    await world.store.schedules.resume("bad")
    equal(await world.write(lambda _: _policies("bad")), stored, "as it was")
    choice = Policies(overlap="allow")
    await world.store.schedules.edit("bad", lambda old: replace(old, policies=choice))
    changed = '{"fresh_policy": 5, "overlap": "allow"}'
    equal(await world.write(lambda _: _policies("bad")), changed, "beside what was edited")


@check
async def what_is_stored_and_cannot_be_read_can_be_shown_and_removed(world: World) -> None:
    await world.add(plan("a"), plan("bad"))
    for wrong in ({"policies": '{"jitter":"2399976h"}'}, {"tags": "not a list"}, {"owner": "bob"}):
        await world.write(partial(_corrupted, wrong))
        equal(len(await world.store.schedules.page()), 2)
        world.wait(2 * HOUR)
        equal([name for name, _ in (await world.fire()).faults], ["bad"])
    await world.store.schedules.remove("bad")
    equal([found.plan.name for found in await world.store.schedules.page()], ["a"])


@check
async def a_schedule_whose_rule_cannot_be_read_is_run_by_hand(world: World) -> None:
    await world.add(plan("bad", overlap="allow"))
    await world.write(lambda _: _corrupt("bad"))
    await world.store.schedules.run("bad")
    await world.claim(1)
    [job] = await world.store.work.claimed_by(world.worker)
    equal(job.is_plain, False, "something may wait for its end")


@check
async def the_ledger_of_a_removed_schedule_can_still_be_read(world: World) -> None:
    await world.add(plan())
    await world.fire_after(MINUTE)
    await world.by("ann").schedules.remove("report")
    equal([f.due_at for f in await world.store.ledger.fires("report")], [START + MINUTE])
    equal((await world.store.schedules.changes("report"))[0][1:], ("ann", "removed"))


@check
async def a_schedule_that_was_set_aside_goes_on_after_an_edit_and_forgets_nothing(
    world: World,
) -> None:
    await world.add(plan("bad", missed=Missed("all")), plan("a"))
    await _spoil(world)
    world.wait(MINUTE)
    edited = await world.store.schedules.edit("bad", lambda old: replace(old, title="x"))
    equal(edited.fault, None)
    await world.fire()
    equal([f.due_at for f in await world.fires("bad")], [START + MINUTE, START + 2 * MINUTE])


async def _retimed(world: World, rule: str) -> StoredSchedule:
    return await world.store.schedules.edit("report", lambda old: replace(old, rule=rule))


def _corrupt(name: str, **columns: str) -> Operation[None]:
    """Write what this version cannot read, as a newer one might: by default, a rule."""
    [row] = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    wrong = columns or {"rule": "at the back of beyond"}
    yield Ask("change_schedule", held.values_of(row) | wrong)


def _corrupted(columns: dict[str, str], _: Ids) -> Operation[None]:
    yield from _corrupt("bad", **columns)


def _policies(name: str) -> Operation[str]:
    [row] = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    return row.policies


async def _spoil(world: World) -> None:
    """Let a minute pass in which the schedule "bad" cannot be decided."""

    def spoiled(facts: Facts, now: datetime) -> Firing:
        if facts.schedule.plan.name == "bad":
            raise ValueError("no luck: \0 \ud800 " + "x" * 10_000)
        return decide(facts, now)

    world.wait(MINUTE)
    fired = await world.fire(decide=spoiled)
    equal((fired.schedules, len(fired.faults)), (1, 1))
