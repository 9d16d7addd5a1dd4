"""An event as it is shown: its payload, and the reaction of each schedule to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta

from duly.durations import parse_duration
from duly.errors import NotFound
from duly.model.event import EVERY_EVENT, Emitted, EventFilter, StoredEvent
from duly.model.fire import Outcome
from duly.policy.redaction import hidden
from duly.store.backfill import ReplayResult
from duly.store.records import EventRecord, Reaction
from duly.store.store import Store
from duly.views import Listed, Text, duration, filled
from duly.views.access import check_number
from duly.views.fires import Fire

__all__ = [
    "NO_REACTION",
    "EventView",
    "ReactionView",
    "ReplayResult",
    "emit_events",
    "event_detail",
    "event_list",
    "events_of",
]

NO_REACTION = "no schedule reacted to it: none matches it, or no scheduler has processed it yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionView:
    """The reaction of a schedule to an event, and its reason."""

    id: int
    schedule: str
    outcome: Outcome
    reason: Text
    job_id: int | None
    state: Annotated[str | None, Meta(description="Of its job.")]
    took: Annotated[str | None, Meta(description="How long its job took, if it has ended.")]

    @classmethod
    def of(cls, reaction: Reaction) -> "ReactionView":
        fire, run = reaction.fire, reaction.run
        return filled(
            cls,
            fire,
            schedule=reaction.schedule,
            state=None if run is None else run.state.value,
            took=None if run is None else duration(run.took),
        )

    @property
    def word(self) -> str:
        """The state of the reaction's job, or that the event was merged or skipped."""
        return (self.state or self.outcome) if self.outcome == "queued" else self.outcome

    @property
    def length(self) -> timedelta | None:
        return None if self.took is None else parse_duration(self.took)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """An event, and the reactions to it; secrets are hidden."""

    id: int
    name: str
    key: Text | None
    payload: dict[str, Any]
    at: datetime
    submitter: str
    tenant: str
    reactions: tuple[ReactionView, ...]

    @classmethod
    def of(cls, record: EventRecord) -> "EventView":
        event = record.event
        return filled(
            cls,
            event,
            payload=hidden(event.fields),
            reactions=tuple(map(ReactionView.of, record.reactions)),
        )

    @property
    def summary(self) -> str:
        """``2 jobs, 1 skipped``; empty if no schedule reacted, or not yet."""
        outcomes = [reaction.outcome for reaction in self.reactions]
        jobs = outcomes.count(Outcome.QUEUED)
        said = [f"{jobs:,} {'job' if jobs == 1 else 'jobs'}"] if jobs else []
        others = [(outcomes.count(one), one) for one in (Outcome.MERGED, Outcome.SKIPPED)]
        return ", ".join([*said, *(f"{many:,} {word}" for many, word in others if many)])


async def event_list(
    store: Store,
    wanted: EventFilter = EVERY_EVENT,
    *,
    after: str | None = None,
    limit: int = 100,
    tenant: str | None = None,
) -> Listed[EventView]:
    """Return the events that match and that the caller may see, the newest first."""
    own = replace(wanted, tenant=tenant or wanted.tenant)
    found = await store.records.events(own, after=after, limit=limit)
    return Listed(items=list(map(EventView.of, found.events)), next=found.after)


async def event_detail(store: Store, number: int, *, tenant: str | None = None) -> EventView:
    """Return one event, if the caller may see it."""
    check_number("event", number)
    found = await store.records.event(number)
    if tenant is not None and found.event.tenant != tenant:
        raise NotFound(f"there is no event {number}; it may have been deleted")
    return EventView.of(found)


async def events_of(store: Store, fires: Iterable[Fire]) -> Mapping[int, StoredEvent]:
    """Return the events that started runs, by number, as far as they are remembered."""
    numbers = {fire.event for fire in fires if fire.event is not None}
    found = await store.events.find(sorted(numbers)) if numbers else []
    return {event.id: event for event in found}


async def emit_events(
    store: Store,
    events: Sequence[Emitted],
    *,
    tenant: str | None = None,
    once: tuple[str, str] | None = None,
) -> list[int]:
    """Store events; ``once`` is an idempotency key and a fingerprint of its request."""
    own = [replace(event, submitter=store.who, tenant=tenant or "") for event in events]
    if once is None:
        return await store.events.emit(own)
    key, mark = once
    return await store.events.emit_once(own, key=key, mark=mark)
