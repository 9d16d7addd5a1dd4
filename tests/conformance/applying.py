"""A file is applied as a whole or not at all, on what it was planned on, and once."""

from dataclasses import replace
from typing import Any

from duly.errors import WrongState
from duly.model.job import Owner
from duly.model.limit import Queue, Rate
from duly.model.schedule import Plan
from duly.policy.firing import decide
from duly.store.applied_files import Application, apply
from duly.store.database import Operation, T
from duly.store.ids import Ids
from duly.store.store import SqlStore
from duly.store.transactions import Editor
from duly.store.values import LimitRule, LimitStep, QueueStep, ScheduleStep, Step, StoredDefinitions
from tests.conformance.expect import equal, refused
from tests.conformance.fairness import Taker, of_tenants
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import plan

FILE = "schedules.toml"
MAIL = Queue(name="mail", concurrency=3, rate=Rate.parse("5/s"), fair=True)
CRM = LimitRule("crm", 2, Rate.parse("3/10s"))
NAMES = ("report", "other")


def filed(name: str = "report", rule: str = "every 1m", **changes: Any) -> Plan:
    return plan(name, rule, owner=Owner.FILE, **changes)


def added(*plans: Plan) -> list[Step]:
    return [ScheduleStep(name=one.name, seen=None, plan=one) for one in plans]


async def applied(
    world: World, steps: list[Step], record: str = "one", expected: str | None = None
) -> None:
    await world.by("ada").schedules.apply(FILE, expected=expected, record=record, steps=steps)


async def standing(world: World) -> StoredDefinitions:
    return await world.store.schedules.standing(NAMES)


async def nothing_is_there(world: World) -> None:
    found = await standing(world)
    equal((dict(found.schedules), dict(found.queues), dict(found.limits)), ({}, {}, {}))
    equal(await world.store.schedules.applied(FILE), None)


EVERYTHING: list[Step] = [
    *added(filed(), filed("other", "every 1h")),
    QueueStep(seen=None, queue=MAIL),
    LimitStep(seen=None, rule=CRM),
]


@check
async def what_a_file_says_is_written_with_who_and_remembered(world: World) -> None:
    await nothing_is_there(world)
    await applied(world, EVERYTHING, "the text")
    found = await standing(world)
    equal([found.schedules[name].plan for name in NAMES], [filed(), filed("other", "every 1h")])
    equal((dict(found.queues), dict(found.limits)), ({"mail": MAIL}, {"crm": CRM}))
    equal(await world.store.schedules.applied(FILE), "the text")
    equal(await world.store.schedules.applied("another.toml"), None)
    equal(await world.store.schedules.changes("report"), [(world.now, "ada", "added")])


@check
async def what_a_file_changes_removes_and_sets_back_is_done(world: World) -> None:
    await applied(world, EVERYTHING)
    seen = await standing(world)
    report, other = (seen.schedules[name] for name in NAMES)
    steps: list[Step] = [
        ScheduleStep(name="other", seen=other, plan=None),
        ScheduleStep(
            name="report", seen=report, plan=filed(rule="every 1h"), paused=True, note="x"
        ),
        QueueStep(seen=MAIL, queue=Queue(name="mail")),
        LimitStep(seen=CRM, rule=CRM, dropped=True),
    ]
    await applied(world, steps, "two", expected="one")
    found = await standing(world)
    after = found.schedules["report"]
    equal((list(found.schedules), after.id, after.plan.rule), (["report"], report.id, "every 1h"))
    equal(after.pause and (after.pause.by, after.pause.note), ("ada", "x"))
    equal((dict(found.queues), dict(found.limits)), ({"mail": Queue(name="mail")}, {}))
    again = ScheduleStep(name="report", seen=after, plan=after.plan, paused=False)
    await applied(world, [again], "three", expected="two")
    equal((await world.schedule()).pause, None)


@check
async def jobs_that_wait_take_turns_once_a_file_says_so(world: World) -> None:
    await of_tenants(world, "aaab")
    await applied(world, [QueueStep(seen=None, queue=Queue(name="default", fair=True))])
    equal(await Taker(world).takes(3), "aba")


@check
async def an_applied_rule_invents_no_missed_moments(world: World) -> None:
    await applied(world, added(filed(rule="every 1h")))
    world.wait(HOUR / 2)
    steps: list[Step] = [
        ScheduleStep(name="report", seen=await world.schedule(), plan=filed(rule="every 1m"))
    ]
    await applied(world, steps, "two", expected="one")
    equal((await world.schedule()).next_at, world.now + MINUTE)
    equal(await world.fires(), [])


@check
async def a_file_that_was_applied_meanwhile_is_planned_again(world: World) -> None:
    await applied(world, added(filed()))
    for expected in (None, "zero"):
        with refused(
            WrongState, saying="somebody applied schedules.toml in the meantime: plan again"
        ):
            await applied(world, added(filed("other")), "two", expected=expected)
    equal(list((await standing(world)).schedules), ["report"])
    equal(await world.store.schedules.applied(FILE), "one")


@check
async def what_a_person_changed_since_the_plan_is_not_overwritten(world: World) -> None:
    await applied(world, EVERYTHING)
    seen = await standing(world)
    schedules = world.by("grace").schedules
    await schedules.edit("report", lambda old: replace(old, priority=7))
    await schedules.pause("other")
    await world.store.work.set_queue(replace(MAIL, paused=True))
    await world.store.limits.set("crm", concurrency=9, rate=None)
    steps: list[Step] = [
        ScheduleStep(name="report", seen=seen.schedules["report"], plan=filed(rule="every 2m")),
        ScheduleStep(name="other", seen=seen.schedules["other"], plan=None),
        ScheduleStep(name="other", seen=None, plan=filed("other")),
        QueueStep(seen=MAIL, queue=Queue(name="mail")),
        LimitStep(seen=CRM, rule=CRM, dropped=True),
    ]
    before = await standing(world)
    for step in steps:
        with refused(WrongState, saying="in the meantime: plan again"):
            await applied(world, [*added(filed("new")), step], "two", expected="one")
    equal(await standing(world), before)
    equal((await schedules.standing(["new"])).schedules, {})


@check
async def what_was_removed_since_the_plan_is_not_brought_back(world: World) -> None:
    await applied(world, added(filed()))
    seen = await world.schedule()
    await world.by("grace").schedules.remove("report")
    with refused(
        WrongState, saying='somebody changed schedule "report" in the meantime: plan again'
    ):
        await applied(
            world,
            [ScheduleStep(name="report", seen=seen, plan=filed(rule="every 2m"))],
            "two",
            expected="one",
        )


@check
async def moments_that_pass_between_plan_and_apply_are_no_change(world: World) -> None:
    await applied(world, added(filed()))
    seen = await world.schedule()
    await world.fire_after(MINUTE)
    world.wait(MINUTE)
    await applied(
        world, [ScheduleStep(name="report", seen=seen, plan=filed(priority=7))], "two", "one"
    )
    equal(((await world.schedule()).plan.priority, len(await world.fires())), (7, 2))


@check
async def an_application_that_is_torn_anywhere_has_done_nothing(world: World) -> None:
    wanted = Application(FILE, 4_711, expected=None, record="one", steps=EVERYTHING)
    for statement in ("add_schedules", "set_queue", "set_limit_rule", "keep_applied"):

        def torn(ids: Ids, statement: str = statement) -> Operation[None]:
            return _torn(apply(wanted, Editor("ada", decide, ids)), before=statement)

        with refused(_Torn):
            await world.write(torn)
        await nothing_is_there(world)
    await applied(world, EVERYTHING)
    equal(sorted((await standing(world)).schedules), sorted(NAMES))


@check
async def an_application_whose_answer_was_lost_is_made_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = World(SqlStore(losing), world.clock)
    losing.lose("hold_applied", times=2)
    await applied(node, EVERYTHING)
    equal(losing.lost, 2)
    equal(len(await world.store.schedules.changes("report")), 1)
    equal(await world.store.schedules.applied(FILE), "one")


class _Torn(Exception):
    """What happens to a transaction when the process dies in it."""


def _torn(operation: Operation[T], before: str) -> Operation[T]:
    try:
        ask = next(operation)
        while ask.statement != before:
            ask = operation.send((yield ask))
        raise _Torn
    except StopIteration as end:
        result: T = end.value
        return result
