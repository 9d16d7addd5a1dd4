"""Events as somebody sees them: what happened, and what came of it.

Made once for whoever shows it: the command, the HTTP API and the pages. Somebody who is of one
tenant sees what is that tenant's, and speaks in its name.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from duly.errors import NotFound
from duly.model.event import Emitted, Event
from duly.policy.redaction import hidden, redacted
from duly.store.store import Store
from duly.store.values import ReplayResult
from duly.views.fires import Fire, with_run
from duly.views.tenancy import HIGHEST_NUMBER

__all__ = [
    "EventSeen",
    "EventsSeen",
    "ReplayResult",
    "event_seen",
    "events_of",
    "events_seen",
    "said",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeen:
    event: Event
    reactions: Sequence[Fire]  # by the names of the schedules

    @property
    def payload(self) -> dict[str, Any]:
        """What it says, without secrets."""
        found: dict[str, Any] = hidden(self.event.fields)
        return found

    @property
    def key(self) -> str | None:
        return None if self.event.key is None else redacted(self.event.key)

    @property
    def told(self) -> str:
        """``2 jobs, 1 skipped``; empty: nothing came of it, or not yet."""
        count = {
            word: sum(fire.outcome == word for fire in self.reactions)
            for word in ("queued", "merged", "skipped")
        }
        jobs = count.pop("queued")
        said = [f"{jobs:,} {'job' if jobs == 1 else 'jobs'}"] if jobs else []
        return ", ".join([*said, *(f"{many:,} {word}" for word, many in count.items() if many)])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsSeen:
    """Some of those that match, the newest first; ``after``: where the next are, if there are."""

    events: Sequence[EventSeen]
    after: str | None


async def events_seen(
    store: Store,
    pattern: str = "*",
    *,
    key: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    tenant: str | None = None,
) -> EventsSeen:
    page = await store.events.page(
        pattern=pattern,
        key=key,
        since=since,
        until=until,
        tenant=tenant,
        after=after,
        limit=limit,
    )
    return EventsSeen(events=await _seen(store, page.events), after=page.after)


async def event_seen(store: Store, number: int, *, tenant: str | None = None) -> EventSeen:
    """One of them, if there is one, and it is not another's."""
    if not 0 < number <= HIGHEST_NUMBER:
        raise NotFound(f"there is no event {number}")
    event = await store.events.get(number)
    if tenant is not None and event.tenant != tenant:
        raise NotFound(f"there is no event {number}; it may have been forgotten")
    [seen] = await _seen(store, [event])
    return seen


async def events_of(store: Store, fires: Iterable[Fire]) -> Mapping[int, Event]:
    """By their numbers, the events that made moments due, as far as they are remembered."""
    numbers = {fire.event for fire in fires if fire.event is not None}
    found = await store.events.find(sorted(numbers)) if numbers else []
    return {event.id: event for event in found}


async def said(
    store: Store,
    events: Sequence[Emitted],
    *,
    tenant: str | None = None,
    once: tuple[str, str] | None = None,
) -> list[int]:
    """Remember what somebody says; ``once`` is a key and a mark of what was said under it."""
    own = [replace(event, submitter=store.who, tenant=tenant or "") for event in events]
    if once is None:
        return await store.events.emit(own)
    key, mark = once
    return await store.events.emit_once(own, key=key, mark=mark)


async def _seen(store: Store, events: Sequence[Event]) -> list[EventSeen]:
    """With what came of each: two questions for all of them."""
    found = await store.events.reactions([event.id for event in events]) if events else []
    jobs = [fire.job_id for _, fire in found if fire.job_id is not None]
    runs = await store.evidence.runs_of(jobs) if jobs else {}
    reactions: dict[int, list[Fire]] = defaultdict(list)
    for schedule, fire in found:
        told = with_run(Fire.of(fire, schedule, reacts=True), runs.get(fire.job_id or 0))
        reactions[fire.series].append(told)
    return [EventSeen(event=event, reactions=reactions[event.id]) for event in events]
