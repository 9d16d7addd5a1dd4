"""What the verbs of ``duly.schedules`` do, on a store: our own, or one on a caller's connection."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from duly.app.plans import RuleText, policies_of, refuse_unknown, rule_of
from duly.app.views import Fire, Schedule, found
from duly.errors import InvalidValue, ScheduleExists, WrongState
from duly.model.schedule import Plan
from duly.registry.options import When, when_of
from duly.store.protocol import Store

IfExists: TypeAlias = Literal["error", "replace", "keep"]
Change: TypeAlias = Callable[[Plan], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """How long a schedule is to pause, and why."""

    until: When | None
    note: str
    catch_up: bool


async def added(store: Store, plan: Plan, if_exists: IfExists, *, who: str) -> Schedule:
    if if_exists not in ("error", "replace", "keep"):
        raise InvalidValue(f"if_exists={if_exists!r}: choose one of error, replace, keep")
    try:
        [new] = await store.schedules.add([plan])
    except ScheduleExists:
        if if_exists == "error":
            raise
        if if_exists == "keep":
            return await found(store, plan.name)
        return await edited(store, plan.name, lambda _: plan, who=who)
    return Schedule.of(new, None)


async def edited(store: Store, name: str, change: Change, *, who: str) -> Schedule:
    await store.schedules.edit(name, change, who=who)
    return await found(store, name)


async def paused(store: Store, name: str, stop: Stop, *, who: str) -> Schedule:
    moment = when_of("until", stop.until)
    if moment is not None and not isinstance(moment, datetime):
        moment = (await store.upkeep.progress()).now + moment
    await store.schedules.pause(name, until=moment, who=who, note=stop.note, catch_up=stop.catch_up)
    return await found(store, name)


async def resumed(store: Store, name: str, *, who: str) -> Schedule:
    await store.schedules.resume(name, who=who)
    return await found(store, name)


async def skipped(store: Store, name: str, count: int, *, who: str) -> list[datetime]:
    return await store.schedules.skip_next(name, count=count, who=who)


async def unskipped(store: Store, name: str, *, who: str) -> list[datetime]:
    return await store.schedules.unskip(name, who=who)


async def run(store: Store, name: str, *, who: str) -> Fire:
    return Fire.of(await store.schedules.run(name, who=who), name)


def change_of(rule: RuleText | None, words: Mapping[str, Any]) -> Change:
    """What makes another plan of one: only what was said."""
    refuse_unknown(words)
    if rule is not None:
        rule_of(rule, said=f"duly.schedules.edit(rule={rule!r})")
    said = policies_of(words)
    chosen = {word: getattr(said, word) for word in words if word != "zone"}

    def change(plan: Plan) -> Plan:
        other: dict[str, Any] = {"policies": replace(plan.policies, **chosen)}
        if rule is not None:
            other["rule"] = str(rule)
        if "zone" in words:
            other["zone"] = words["zone"]
        return replace(plan, **other)

    return change


async def taken_back(store: Store, name: str, *, who: str) -> Schedule:
    """Let what code declares count again; what was removed is added again."""
    known = await store.schedules.in_code(name)
    if known is None:
        raise WrongState(f'"{name}" is not declared in code: there is nothing to take back')
    _, declared = known
    if name in {gone for gone, _ in await store.schedules.removed()}:
        return await added(store, declared, "keep", who=who)
    return await edited(store, name, lambda _: declared, who=who)
