"""What the verbs of ``duly.schedules`` do, on a store: our own, or one on a caller's connection."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from duly.app.plans import RuleText, policies_of, refuse_unknown, rule_of
from duly.app.upcoming import upcoming, upcoming_one
from duly.app.views import Fire, Schedule
from duly.app.views import history as told
from duly.errors import InvalidValue, ScheduleExists
from duly.model import schedule as model
from duly.model.schedule import Plan
from duly.model.schedule_filter import EVERY_SCHEDULE, ScheduleFilter
from duly.registry.options import When, when_of
from duly.rules import Budget, Spaced
from duly.store.protocol import Store

IfExists: TypeAlias = Literal["error", "replace", "keep"]
Change: TypeAlias = Callable[[Plan], Plan]
MOST_PREVIEWED = 1_000
PAGE = 1_000


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


async def found(store: Store, name: str) -> Schedule:
    there = await upcoming_one(store, await store.schedules.get(name))
    latest = await store.ledger.latest([there.id])
    return Schedule.of(there, latest.get(there.id))


async def listed(store: Store, wanted: ScheduleFilter, *, after: str, limit: int) -> list[Schedule]:
    """Those that are meant, by name, behind the name ``after``."""
    found = await meant(store, wanted, after=after, limit=limit)
    latest = await store.ledger.latest([schedule.id for schedule in found])
    return [Schedule.of(schedule, latest.get(schedule.id)) for schedule in found]


async def meant(
    store: Store, wanted: ScheduleFilter, *, after: str, limit: int
) -> list[model.Schedule]:
    """The same, as the store knows them."""
    found: list[model.Schedule] = []
    while len(found) < limit:
        size = min(limit, PAGE) if wanted == EVERY_SCHEDULE else PAGE
        page = await store.schedules.page(after=after, limit=size)
        found += filter(wanted.means, page)
        if len(page) < size:
            break
        after = page[-1].plan.name
    return await upcoming(store, found[:limit])


async def history(
    store: Store, name: str, *, since: datetime | None, until: datetime | None, limit: int
) -> Sequence[Fire]:
    rows = await store.ledger.fires(name, since=since, until=until, limit=limit)
    return await told(store, rows, name)


async def preview(store: Store, name: str, count: int) -> Sequence[datetime]:
    if not 1 <= count <= MOST_PREVIEWED:
        raise InvalidValue(f"count={count}: from 1 to {MOST_PREVIEWED:,}")
    schedule = await upcoming_one(store, await store.schedules.get(name))
    kept = schedule.plan.kept
    if isinstance(kept, Spaced):
        return [] if schedule.next_at is None else [schedule.next_at]
    now = max(schedule.cursor, (await store.upkeep.progress()).now)
    skipped = (await store.ledger.skipped_ahead([schedule.id])).get(schedule.id, ())
    moments: list[datetime] = []
    with Budget():
        moment = kept.after(now)
        while len(moments) < count and moment is not None:
            if moment not in skipped:
                moments.append(moment)
            moment = kept.after(moment)
    return moments


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
