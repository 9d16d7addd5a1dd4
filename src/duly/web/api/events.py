"""Events over HTTP: say that something happened, see what came of it, let a schedule react to it.

Somebody who is of one tenant sees what is that tenant's, and speaks in its name.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec

from duly.app.events import emitted
from duly.clock import now
from duly.errors import InvalidValue
from duly.views.event_page import event_seen, events_seen, said
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.job import number_of
from duly.web.api.schemas.common import Listed, since_in
from duly.web.api.schemas.events import (
    Emit,
    EmitMany,
    EmittedMany,
    EmittedOne,
    Event,
    EventQuery,
    Replay,
    Replayed,
)
from duly.web.request import WebRequest

TAG: Final = "events"


async def events(request: WebRequest, query: EventQuery) -> Listed[Event]:
    found = await request.app.ask(
        events_seen,
        query.name,
        key=query.key,
        since=since_in("since", query.since, now()),
        until=since_in("until", query.until, now()),
        after=query.after,
        limit=query.limit,
        tenant=request.user.tenant,
    )
    return Listed(items=[Event.of(one) for one in found.events], next=found.after)


async def event(request: WebRequest, _: Nothing) -> Event:
    number = number_of(request, "event", part="event")
    return Event.of(await request.app.ask(event_seen, number, tenant=request.user.tenant))


async def emit(request: WebRequest, body: Emit) -> EmittedOne:
    [number] = await _said(request, [body], body)
    return EmittedOne(id=number)


async def emit_many(request: WebRequest, body: EmitMany) -> EmittedMany:
    return EmittedMany(ids=await _said(request, body.events, body))


async def replay(request: WebRequest, body: Replay) -> Replayed:
    since = since_in("since", body.since, now())
    if since is None:
        raise InvalidValue("since: say from when on, as 2d or 2026-03-05T02:00:00Z")
    done = await request.app.events.areplay(
        body.schedule,
        since,
        since_in("until", body.until, now()),
        pattern=body.only,
        dry_run=body.dry_run,
    )
    return Replayed.of(done)


async def _said(request: WebRequest, wanted: Sequence[Emit], body: msgspec.Struct) -> list[int]:
    happened = [emitted(one.name, one.payload, key=one.key) for one in wanted]
    once = None
    if request.once is not None:
        once = request.once, sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    return await request.app.ask(said, happened, tenant=request.user.tenant, once=once)


def _reacted(found: Replayed) -> str:
    many = f"{found.events:,} {'event' if found.events == 1 else 'events'}"
    return f"{found.schedule} {'would react' if found.dry_run else 'has reacted'} to {many}."


EVENTS: Final = (
    Endpoint(
        method="GET",
        path="/events",
        role="viewer",
        tenants=True,
        run=events,
        summary="What happened, the newest first, and what came of it",
        tag=TAG,
        body=EventQuery,
        answer=Listed[Event],
    ),
    Endpoint(
        method="POST",
        path="/events",
        role="operator",
        tenants=True,
        run=emit,
        summary="Say that something happened: what reacts to it starts",
        tag=TAG,
        body=Emit,
        answer=EmittedOne,
        status=201,
        once=True,
        say=lambda found: f"It is said (event {found.id}).",
        about="A step of a flow that waits for it goes on, with the payload as its result.",
        example={"name": "invoice.paid", "payload": {"invoice_id": 7}},
    ),
    Endpoint(
        method="POST",
        path="/events/batch",
        role="operator",
        tenants=True,
        run=emit_many,
        summary="Say that many things happened: all of them, or none",
        tag=TAG,
        body=EmitMany,
        answer=EmittedMany,
        status=201,
        once=True,
        say=lambda found: f"{len(found.ids):,} events are said.",
        example={"events": [{"name": "invoice.paid", "payload": {"invoice_id": 7}}]},
    ),
    Endpoint(
        method="POST",
        path="/events/replay",
        role="operator",
        run=replay,
        summary="Let a schedule react to what happened without it",
        tag=TAG,
        body=Replay,
        answer=Replayed,
        say=_reacted,
        about="What it has reacted to is left alone, so it can be repeated.",
        example={"schedule": "reindex", "since": "2d", "dry_run": True},
    ),
    Endpoint(
        method="GET",
        path="/events/{event}",
        role="viewer",
        tenants=True,
        run=event,
        summary="An event, and what each schedule made of it",
        tag=TAG,
        answer=Event,
    ),
)
