"""Events over HTTP: emit, list, replay for a schedule.

A caller of one tenant sees the events of that tenant, and emits in its name.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, field

from duly.app.events import emitted
from duly.errors import InvalidValue
from duly.model.event import EventFilter
from duly.views import Listed
from duly.views.event import EventView, ReplayResult, emit_events, event_detail, event_list
from duly.web.api.endpoint import (
    Body,
    Limit,
    Router,
    Said,
    Since,
    described,
    once_of,
    since_in,
)
from duly.web.request import WebRequest

TAG: Final = "events"
MOST_EVENTS = 10_000  # events of a batch

Pattern: TypeAlias = Annotated[
    str,
    described(
        "A name, as invoice.paid; invoice.* for every name below it, * for all.",
        examples=["invoice.*"],
    ),
]


class Emit(Body, frozen=True):
    """An event."""

    name: Annotated[str, Meta(min_length=1, examples=["invoice.paid"])]
    payload: Annotated[dict[str, Any], described("Tasks take its fields by name.")] = field(
        default_factory=dict
    )
    key: Annotated[str | None, described("A step may wait for an event with this key.")] = None


class EmitMany(Body, frozen=True):
    """Events: all of them are stored, or none."""

    events: Annotated[list[Emit], Meta(min_length=1, max_length=MOST_EVENTS)]


class EventQuery(Body, frozen=True):
    """A page of events."""

    name: Pattern = "*"
    key: Annotated[str | None, described("Only events with this key.")] = None
    since: Since | None = None
    until: Annotated[Since | None, described("Only before this time.")] = None
    after: Annotated[str | None, described("The `next` of the previous page.")] = None
    limit: Limit = 100


class ReplayEvents(Body, frozen=True):
    """The schedule that is to react to events it missed, from `since` up to `until`."""

    schedule: Annotated[str, Meta(min_length=1)]
    since: Since
    until: Annotated[Since | None, described("Only before this time; default: now.")] = None
    only: Annotated[Pattern | None, described("Only events that match this pattern.")] = None
    dry_run: Annotated[bool, described("Return the result without changing anything.")] = False


class EmittedOne(Said, frozen=True):
    """The event that was stored."""

    id: int


class EmittedMany(Said, frozen=True):
    """The events that were stored, in the order of the request."""

    ids: list[int]


def _reacted(found: ReplayResult) -> str:
    many = f"{found.events:,} {'event' if found.events == 1 else 'events'}"
    return f"{found.schedule} {'would react' if found.dry_run else 'has reacted'} to {many}."


EVENTS: Final = Router("events")


@EVENTS("GET /events", "viewer", tenants=True)
async def events(request: WebRequest, query: EventQuery) -> Listed[EventView]:
    """List events, newest first, with the reactions to each."""
    return await request.app.ask_own(
        event_list,
        EventFilter(
            pattern=query.name,
            key=query.key,
            since=since_in("since", query.since),
            until=since_in("until", query.until),
        ),
        after=query.after,
        limit=query.limit,
    )


@EVENTS(
    "POST /events",
    "operator",
    tenants=True,
    status=201,
    once=True,
    say=lambda found: f"Event {found.id} is emitted.",
    example={"name": "invoice.paid", "payload": {"invoice_id": 7}},
)
async def emit(request: WebRequest, body: Emit) -> EmittedOne:
    """Emit an event: schedules that react to it start.

    A flow step that waits for it continues, with the payload as its result.
    """
    [number] = await _said(request, [body], body)
    return EmittedOne(id=number)


@EVENTS(
    "POST /events/batch",
    "operator",
    tenants=True,
    status=201,
    once=True,
    say=lambda found: f"{len(found.ids):,} events are emitted.",
    example={"events": [{"name": "invoice.paid", "payload": {"invoice_id": 7}}]},
)
async def emit_many(request: WebRequest, body: EmitMany) -> EmittedMany:
    """Emit many events: all of them, or none."""
    return EmittedMany(ids=await _said(request, body.events, body))


@EVENTS(
    "POST /events/replay",
    "operator",
    say=_reacted,
    example={"schedule": "reindex", "since": "2d", "dry_run": True},
)
async def replay(request: WebRequest, body: ReplayEvents) -> ReplayResult:
    """Let a schedule react to events that it missed.

    Events that it has reacted to are skipped, so the call can be repeated.
    """
    since = since_in("since", body.since)
    if since is None:
        raise InvalidValue("since: give the start, as 2d or 2026-03-05T02:00:00Z")
    return await request.app.events.areplay(
        body.schedule,
        since,
        since_in("until", body.until),
        pattern=body.only,
        dry_run=body.dry_run,
    )


@EVENTS("GET /events/{event}", "viewer", tenants=True)
async def event(request: WebRequest, number: int) -> EventView:
    """Show an event, and the reaction of each schedule."""
    return await request.app.ask_own(event_detail, number)


async def _said(request: WebRequest, wanted: Sequence[Emit], body: msgspec.Struct) -> list[int]:
    happened = [emitted(one.name, one.payload, key=one.key) for one in wanted]
    once = once_of(request, body)
    return await request.app.ask_own(emit_events, happened, once=once)
