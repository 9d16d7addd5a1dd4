"""What code declares is written once, by the newest set, and takes nothing away from people."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from duly.errors import NotFound
from duly.model.job import Owner
from duly.model.schedule import Plan
from duly.store.declarations import Declared, WantedSchedule
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import plan

APP = "shop.tasks:duly"
TEN_SECONDS = timedelta(seconds=10)


def code(name: str = "report", rule: str = "every 1m", **changes: Any) -> Plan:
    return plan(name, rule, owner=Owner.CODE, **changes)


async def declare(
    world: World,
    mark: str,
    *plans: Plan,
    app: str = APP,
    whole: bool = True,
    was_in_force: bool = False,
    **aliases: str,
) -> Declared:
    wanted = [
        WantedSchedule(one, (aliases[one.name],) if one.name in aliases else ()) for one in plans
    ]
    return await world.store.schedules.declare(
        app, mark, wanted, whole=whole, was_in_force=was_in_force
    )


@check
async def a_first_declaration_begins_after_now_and_makes_up_for_nothing(world: World) -> None:
    world.wait(timedelta(seconds=30))
    said = await declare(world, "one", code())
    equal((said.written, said.superseded, said.added), (True, False, ["report"]))
    found = await world.schedule()
    equal((found.plan, found.cursor), (code(), world.now))
    equal(await world.fires(), [])


@check
async def the_same_set_again_changes_nothing(world: World) -> None:
    await declare(world, "one", code())
    before = await world.schedule()
    world.wait(TEN_SECONDS)
    again = await declare(world, "one", code())
    equal((again.written, again.superseded, again.added), (False, False, []))
    equal(await world.schedule(), before)


@check
async def a_changed_rule_keeps_the_history_and_invents_nothing(world: World) -> None:
    await declare(world, "one", code(rule="every 1h"))
    await world.fire_after(HOUR)
    fired = await world.fires()
    world.wait(30 * MINUTE)
    said = await declare(world, "two", code(rule="every 1m"))
    equal(said.changed, ["report"])
    equal((await world.schedule()).next_at, world.now + MINUTE)
    equal(await world.fires(), fired)


@check
async def what_a_person_edited_stays_and_is_told(world: World) -> None:
    await declare(world, "one", code(priority=1, overlap="skip"))
    await world.by("ada").schedules.edit(
        "report",
        lambda old: replace(old, priority=7, policies=replace(old.policies, late="run")),
    )
    said = await declare(
        world, "two", code(priority=2, queue="other", overlap="allow", late="hurry")
    )
    found = (await world.schedule()).plan
    equal((found.priority, found.queue), (7, "other"))
    equal((found.policies.overlap, found.policies.late), ("allow", "run"))
    equal(sorted(said.drift["report"]), ["late", "priority"])


@check
async def what_a_person_took_back_is_the_codes_again(world: World) -> None:
    await declare(world, "one", code(priority=1))
    for priority in (7, 1):
        await world.by("ada").schedules.edit("report", _prioritised(priority))
    said = await declare(world, "two", code(priority=2))
    equal(((await world.schedule()).plan.priority, dict(said.drift)), (2, {}))


@check
async def what_is_not_declared_any_more_is_paused_and_comes_back(world: World) -> None:
    await declare(world, "one", code(), code("other"))
    said = await declare(world, "two", code("other"))
    gone = await world.schedule()
    equal((said.paused, gone.next_at), (["report"], None))
    assert gone.pause is not None
    holds(gone.pause.note.startswith(f"no longer in {APP} since 2026-03-02 12:00"), gone.pause.note)
    back = await declare(world, "three", code(), code("other"))
    equal((back.resumed, (await world.schedule()).pause), (["report"], None))


@check
async def what_a_person_paused_stays_paused(world: World) -> None:
    await declare(world, "one", code())
    await world.by("ada").schedules.pause("report", note="hands off")
    await declare(world, "two")
    await declare(world, "three", code(rule="every 2m"))
    found = await world.schedule()
    assert found.pause is not None
    equal((found.pause.note, found.plan.rule), ("hands off", "every 2m"))


@check
async def an_old_node_that_restarts_changes_nothing(world: World) -> None:
    await declare(world, "old", code(rule="every 1h"))
    world.wait(TEN_SECONDS)
    await declare(world, "new", code(rule="every 2h"))
    world.wait(TEN_SECONDS)
    said = await declare(world, "old", code(rule="every 1h"))
    equal((said.superseded, said.written), (True, False))
    equal((await world.schedule()).plan.rule, "every 2h")


@check
async def a_deploy_that_was_rolled_back_is_rolled_back_here(world: World) -> None:
    await declare(world, "old", code(rule="every 1h"))
    await declare(world, "new", code(rule="every 2h"))
    superseded = []
    for _ in range(4):
        world.wait(TEN_SECONDS)
        superseded.append((await declare(world, "old", code(rule="every 1h"))).superseded)
    equal(superseded, [True, True, False, False])  # nobody holds the newer set any more
    equal((await world.schedule()).plan.rule, "every 1h")
    holds((await declare(world, "new", code(rule="every 2h"))).superseded, "it is the old one now")


@check
async def an_outage_does_not_give_the_word_to_old_code(world: World) -> None:
    old, new = code(rule="every 1h"), code(rule="every 2h")
    await declare(world, "old", old)
    await declare(world, "new", new)
    world.wait(TEN_SECONDS)
    await declare(world, "old", old)
    world.wait(5 * MINUTE)  # in which nobody could write
    for _ in range(5):
        holds((await declare(world, "old", old)).superseded, "the old one is heard first")
        holds(not (await declare(world, "new", new)).superseded, "the new one is still there")
        world.wait(TEN_SECONDS)
    equal((await world.schedule()).plan.rule, "every 2h")


@check
async def a_clock_that_jumps_does_not_give_the_word_to_old_code(world: World) -> None:
    old, new = code(rule="every 1h"), code(rule="every 2h")
    await declare(world, "old", old)
    await declare(world, "new", new)
    for jump in (HOUR, -HOUR):
        world.wait(jump)
        for _ in range(5):
            holds((await declare(world, "old", old)).superseded, "the clock is no rollback")
            await declare(world, "new", new)
            world.wait(TEN_SECONDS)
    superseded = []
    for _ in range(5):  # and now it is rolled back
        superseded.append((await declare(world, "old", old)).superseded)
        world.wait(TEN_SECONDS)
    equal(superseded, [True, True, False, False, False])


@check
async def code_that_was_silent_since_the_clock_was_ahead_can_be_rolled_back(world: World) -> None:
    old, new = code(rule="every 1h"), code(rule="every 2h")
    await declare(world, "old", old)
    world.wait(HOUR)
    await declare(world, "new", new)
    world.wait(-HOUR)
    superseded = []
    for _ in range(4):
        superseded.append((await declare(world, "old", old)).superseded)
        world.wait(TEN_SECONDS)
    equal(superseded, [True, True, True, False])


@check
async def new_code_that_was_not_heard_takes_the_word_back(world: World) -> None:
    old, new = code(rule="every 1h"), code(rule="every 2h")
    await declare(world, "old", old)
    world.wait(TEN_SECONDS)
    await declare(world, "new", new)
    for _ in range(6):  # the new node is cut off from the database
        await declare(world, "old", old, was_in_force=True)
        world.wait(TEN_SECONDS)
    equal((await world.schedule()).plan.rule, "every 1h")
    for _ in range(6):
        holds(not (await declare(world, "new", new, was_in_force=True)).superseded, "it is newer")
        holds((await declare(world, "old", old, was_in_force=True)).superseded, "it is older")
        world.wait(TEN_SECONDS)
    equal((await world.schedule()).plan.rule, "every 2h")


@check
async def a_rollback_waits_until_somebody_has_listened_for_the_newer_code(world: World) -> None:
    old, new = code(rule="every 1h"), code(rule="every 2h")
    await declare(world, "old", old)
    await declare(world, "new", new)
    world.wait(HOUR)
    superseded = []
    for _ in range(4):
        superseded.append((await declare(world, "old", old)).superseded)
        world.wait(TEN_SECONDS)
    equal(superseded, [True, True, True, False])


@check
async def a_new_name_keeps_the_history_of_an_old_one(world: World) -> None:
    await declare(world, "one", code())
    await world.fire_after(MINUTE)
    before = await world.schedule()
    said = await declare(world, "two", code("monthly"), monthly="report")
    after = await world.store.schedules.get("monthly")
    equal((said.renamed, said.paused, after.id), ([("report", "monthly")], [], before.id))
    equal(len(await world.store.ledger.fires("monthly")), 1)


@check
async def schedules_of_others_are_left_alone(world: World) -> None:
    await world.add(plan())
    await declare(world, "a", code("theirs"), app="other:duly")
    said = await declare(world, "one", code(), code("theirs"), code("mine"))
    equal(sorted(said.refused), ["report", "theirs"])
    equal((said.added, (await world.schedule()).plan.owner), (["mine"], Owner.API))
    equal((await declare(world, "two", code("mine"))).paused, [])


def _prioritised(priority: int) -> Any:  # noqa: ANN401 - a change
    return lambda old: replace(old, priority=priority)


@check
async def who_knows_only_a_part_pauses_nothing_and_is_silent_beside_who_knows_all(
    world: World,
) -> None:
    await declare(world, "all", code("one"), code("two"))
    world.wait(TEN_SECONDS)
    said = await declare(world, "half", code("one", rule="every 5m"), whole=False)
    equal((said.written, said.superseded), (False, False), "somebody who knows all is there")
    equal((await world.schedule("one")).plan.rule, "every 1m")
    half = (code("one", rule="every 5m"), code("new"))
    world.wait(MINUTE)
    for _ in range(3):
        said = await declare(world, "half", *half, whole=False)
        holds(not said.written, "whether somebody who knows all is there is not known yet")
        world.wait(TEN_SECONDS)
    said = await declare(world, "half", *half, whole=False)
    equal((said.changed, said.added, said.paused), (["one"], ["new"], []), "nobody is")
    equal((await world.schedule("two")).pause, None)
    world.wait(TEN_SECONDS)
    said = await declare(world, "all", code("one"), code("two"))
    equal((said.changed, said.paused), (["one"], ["new"]), "and comes back")


@check
async def what_code_declares_is_known_beside_what_people_made_of_it(world: World) -> None:
    await declare(world, "one", code())
    await world.add(plan("by hand"))
    await world.by("ada").schedules.edit("report", lambda one: replace(one, rule="every 5m"))
    equal(await world.store.schedules.in_code("report"), (APP, code()))
    equal(await world.store.schedules.in_code("by hand"), None)
    with refused(NotFound):
        await world.store.schedules.in_code("nothing")


@check
async def what_code_declares_and_somebody_removed_is_told_and_can_be_added_again(
    world: World,
) -> None:
    await declare(world, "one", code(), code("other"))
    equal(await world.store.schedules.removed(), [])
    await world.by("ada").schedules.remove("report")
    equal(await world.store.schedules.removed(), [("report", APP)])
    equal((await declare(world, "one", code(), code("other"))).removed, ["report"])
    app, declared = await world.store.schedules.in_code("report") or ("", code("none"))
    equal((app, declared), (APP, code()))
    await world.add(declared)
    equal(await world.store.schedules.removed(), [])
    equal((await declare(world, "one", code(), code("other"))).removed, [])
