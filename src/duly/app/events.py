"""``duly.emit`` and ``duly.events``: emitted events, and the reactions to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duly.app.actions import Action, AppNoun, awaitable, blocking
from duly.connection import LazyStore, told_which_database
from duly.errors import InvalidValue, NotFound, PayloadError
from duly.flow.trace import refuse_while_tracing
from duly.model import event as model
from duly.model.event import Emitted, EventFilter
from duly.model.payload import LONGEST_ARGS, Json, decode
from duly.registry.codecs import ENCODER
from duly.registry.parameters import check_storable
from duly.store.backfill import ReplayResult
from duly.store.caller_connection import aemit_on, emit_on
from duly.store.store import Store
from duly.views import filled

if TYPE_CHECKING:
    from duly.views.fires import Fire

NOTHING: Mapping[str, Any] = {}
_WHAT = "payload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event that was emitted."""

    id: str
    name: str
    payload: Mapping[str, Any]
    key: str | None
    at: datetime
    submitter: str
    tenant: str

    @classmethod
    def of(cls, event: model.StoredEvent) -> "Event":
        return filled(cls, event, id=str(event.id), payload=decode(event.payload))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """A page of matching events; ``after`` is the cursor for the next page."""

    events: Sequence[Event]
    after: str | None  # None: it is the last one


def emit(lazy: LazyStore, said: Emitted, *, connection: object | None) -> str:
    if connection is None:
        [number] = lazy.call(lambda store: store.events.emit([said]), async_name="duly.aemit()")
    else:
        with told_which_database(lazy, connection):
            [number] = emit_on(connection, [said])
    return str(number)


async def aemit(lazy: LazyStore, said: Emitted, *, connection: object | None) -> str:
    if connection is None:
        [number] = await (await lazy.store()).events.emit([said])
    else:
        with told_which_database(lazy, connection):
            [number] = await aemit_on(connection, [said])
    return str(number)


def emitted(event: str, payload: Mapping[str, Any], *, key: str | None) -> Emitted:
    """Check the event and copy its payload."""
    model.check_event(event)
    refuse_while_tracing(f'emit("{event}")', "emit it in a task, and call task.step(…)")
    asked: object = payload
    if not isinstance(asked, Mapping) or not all(isinstance(name, str) for name in asked):
        raise InvalidValue(
            f"{event}: its payload must be an object, whose fields tasks take by name, as "
            f'{{"invoice_id": 7}}; not {asked!r:.100}'
        )
    try:
        data = ENCODER.encode(asked)
    except Exception as error:  # noqa: BLE001 - codecs and properties of others run here
        raise PayloadError(f"{event}: its payload cannot be stored: {error}") from None
    check_storable(data, asked, what=_WHAT, longest=LONGEST_ARGS)
    return Emitted(name=event, payload=Json(data.decode()), key=key)


class Events(AppNoun):
    _noun = "duly.events"

    @blocking
    def get(self, number: str | int, /) -> Action[Event]:
        async def get(store: Store) -> Event:
            return Event.of(await store.events.get(_number(number)))

        return Action(get)

    @blocking
    def list(
        self,
        pattern: str = "*",
        /,
        *,
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> Action[Sequence[Event]]:
        """Return events whose names match, as ``"invoice.*"``, newest first."""

        async def find(store: Store) -> Sequence[Event]:
            wanted = EventFilter(pattern=pattern, key=key, since=since, until=until)
            return (await _page(store, wanted, limit=limit)).events

        return Action(find)

    @blocking
    def page(
        self,
        pattern: str = "*",
        /,
        *,
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Action[EventPage]:
        """Return one page of matching events; ``after`` is the cursor of the page before."""

        async def find(store: Store) -> EventPage:
            wanted = EventFilter(pattern=pattern, key=key, since=since, until=until)
            return await _page(store, wanted, after=after, limit=limit)

        return Action(find)

    @blocking
    def reactions(self, number: str | int, /) -> Action["Sequence[Fire]"]:
        """Return what each reacting schedule did with an event, and why."""
        from duly.views.fires import Fire  # noqa: PLC0415 - a worker needs no views

        async def find(store: Store) -> Sequence[Fire]:
            found = await store.events.reactions([_number(number)])
            return [Fire.of(fire, schedule, reacts=True) for schedule, fire in found]

        return Action(find)

    @blocking
    def replay(
        self,
        schedule: str,
        /,
        since: datetime,
        until: datetime | None = None,
        *,
        pattern: str | None = None,
        dry_run: bool = False,
    ) -> Action[ReplayResult]:
        """Let a schedule react to past events it missed, from ``since`` up to ``until`` or now.

        Events that it has reacted to are left alone, so a replay can be repeated. ``pattern``
        selects some of the events.
        """

        async def replay(store: Store) -> ReplayResult:
            end = until or await store.diagnostics.now() + timedelta.resolution
            return await store.events.replay(
                schedule, since=since, until=end, pattern=pattern, dry_run=dry_run
            )

        return Action(replay)

    aget: Final = awaitable(get)
    alist: Final = awaitable(list)
    apage: Final = awaitable(page)
    areactions: Final = awaitable(reactions)
    areplay: Final = awaitable(replay)


async def _page(
    store: Store, wanted: EventFilter, *, limit: int, after: str | None = None
) -> EventPage:
    found = await store.events.page(wanted, after=after, limit=limit)
    return EventPage(events=[Event.of(event) for event in found.events], after=found.after)


def _number(asked: str | int) -> int:
    try:
        return int(asked)
    except ValueError:
        raise NotFound(f"there is no event {asked!r}: event ids are numbers") from None
