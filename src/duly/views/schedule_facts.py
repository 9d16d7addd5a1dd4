"""When a rule or a schedule is due, in words and as moments; and who changed it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from duly.rules import Budget, Rule, Spaced, clock_change_notes, parse
from duly.store.protocol import Store
from duly.views.schedules import preview


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    sentence: str
    zone: str | None  # of its moments; None: it needs none
    moments: Sequence[datetime]
    notes: Sequence[str]  # what clock changes will do


async def rule_facts(
    store: Store, text: str, *, zone: str | None, dst: str = "cron", count: int = 10
) -> RuleFacts:
    """Evaluate a rule that a caller typed, in a thread: it may take a second, or be refused."""
    now = await store.surroundings.now()
    return await asyncio.to_thread(_rule_facts, text, now, zone=zone, dst=dst, count=count)


def _rule_facts(text: str, now: datetime, *, zone: str | None, dst: str, count: int) -> RuleFacts:
    with Budget():
        return _facts_of(parse(text, zone=zone, dst=dst), now, zone=zone, count=count)


def _facts_of(rule: Rule | Spaced, now: datetime, *, zone: str | None, count: int) -> RuleFacts:
    if isinstance(rule, Spaced):
        after = rule.after_end(now)
        moments = [] if after is None else [after]
        return RuleFacts(sentence=rule.explain(), zone=None, moments=moments, notes=())
    moments = list(rule.between(now, datetime.max.replace(tzinfo=UTC), count))
    return RuleFacts(
        sentence=rule.explain(),
        zone=rule.zone or zone,
        moments=moments,
        notes=clock_change_notes(rule, now),
    )


async def schedule_moments(store: Store, name: str, *, count: int) -> RuleFacts:
    """The same of a schedule, without what it excludes or skips ahead."""
    moments = await preview(store, name, count)
    plan = (await store.schedules.get(name)).plan
    kept = plan.kept
    notes = clock_change_notes(kept, await store.surroundings.now())
    zone = plan.shown_zone if isinstance(kept, Rule) else None
    return RuleFacts(sentence=kept.explain(), zone=zone, moments=moments, notes=notes)


async def changes(store: Store, name: str) -> list[tuple[datetime, str, str]]:
    """When, who, what: the newest first."""
    return await store.schedules.changes(name)
