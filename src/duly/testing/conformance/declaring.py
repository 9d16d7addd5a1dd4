"""What code declares is written once, by the newest set, and takes nothing away from people."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from duly.errors import NotFound
from duly.model.job import Owner
from duly.model.schedule import Plan
from duly.store.protocol import Declared, WantedSchedule
from duly.testing.conformance.expect import equal, holds, refused
from duly.testing.conformance.registry import check
from duly.testing.conformance.world import HOUR, MINUTE, World
from duly.testing.factories import plan

APP = "shop.tasks:duly"
TEN_SECONDS = timedelta(seconds=10)


def code(name: str = "report", rule: str = "every 1m", **changes: Any) -> Plan:
    return plan(name, rule, owner=Owner.CODE, **changes)


async def declare(
    world: World, mark: str, *plans: Plan, app: str = APP, whole: bool = True, **aliases: str
) -> Declared:
    wanted = [
        WantedSchedule(one, (aliases[one.name],) if one.name in aliases else ()) for one in plans
    ]
    return await world.store.schedules.declare(app, mark, wanted, whole=whole)


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
    equal((again.written, again.superseded, again.added), (False, False, ()))
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
    await world.store.schedules.edit(
        "report",
        lambda old: replace(old, priority=7, policies=replace(old.policies, late="run")),
        who="ada",
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
        await world.store.schedules.edit("report", _prioritised(priority), who="ada")
    said = await declare(world, "two", code(priority=2))
    equal(((await world.schedule()).plan.priority, dict(said.drift)), (2, {}))


@check
async def what_is_not_declared_any_more_is_paused_and_comes_back(world: World) -> None:
    await declare(world, "one", code(), code("other"))
    said = await declare(world, "two", code("other"))
    gone = await world.schedule()
    equal((said.paused, gone.next_at), (["report"], None))
    assert gone.pause is not None  # noqa: S101 - for the types
    holds(gone.pause.note.startswith(f"no longer in {APP} since 2026-03-02 12:00"), gone.pause.note)
    back = await declare(world, "three", code(), code("other"))
    equal((back.resumed, (await world.schedule()).pause), (["report"], None))


@check
async def what_a_person_paused_stays_paused(world: World) -> None:
    await declare(world, "one", code())
    await world.store.schedules.pause("report", who="ada", note="hands off")
    await declare(world, "two")
    await declare(world, "three", code(rule="every 2m"))
    found = await world.schedule()
    assert found.pause is not None  # noqa: S101 - for the types
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
    world.wait(MINUTE)
    said = await declare(world, "half", code("one", rule="every 5m"), code("new"), whole=False)
    equal((said.changed, said.added, said.paused), (["one"], ["new"], []), "nobody is")
    equal((await world.schedule("two")).pause, None)
    world.wait(TEN_SECONDS)
    said = await declare(world, "all", code("one"), code("two"))
    equal((said.changed, said.paused), (["one"], ["new"]), "and comes back")


@check
async def what_code_declares_is_known_beside_what_people_made_of_it(world: World) -> None:
    await declare(world, "one", code())
    await world.add(plan("by hand"))
    await world.store.schedules.edit("report", lambda one: replace(one, rule="every 5m"), who="ada")
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
    await world.store.schedules.remove("report", who="ada")
    equal(await world.store.schedules.removed(), [("report", APP)])
    equal((await declare(world, "one", code(), code("other"))).removed, ["report"])
    app, declared = await world.store.schedules.in_code("report") or ("", code("none"))
    equal((app, declared), (APP, code()))
    await world.add(declared)
    equal(await world.store.schedules.removed(), [])
    equal((await declare(world, "one", code(), code("other"))).removed, [])
