"""Events: what happened, and the jobs that are started because of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from duly.model.event import Emitted, Event
from duly.model.fire import StoredFire
from duly.store.protocol.values import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events that match, the newest first, and where to go on."""

    events: Sequence[Event]
    after: str | None = None  # what the next page is asked for with; None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Reacted:
    """What one look at new events came to."""

    events: int = 0  # that were looked at
    jobs: int = 0  # that were made, or moved
    skipped: int = 0  # reactions that were due and came to no job
    withdrawn: int = 0  # jobs that were called off
    queues: Sequence[str] = ()  # where jobs can be claimed now
    later: int = 0  # jobs that are to wait for their moment
    more: bool = False  # others have not been looked at
    distrusted: bool = False  # there were some, and the clock was not believed


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of events that a schedule had not reacted to."""

    schedule: str
    events: int = 0
    jobs: Sequence[int] = ()  # that were made, or moved
    skipped: int = 0
    dry_run: bool = False  # it is what would be done


class Events(Protocol):
    async def emit(self, events: Sequence[Emitted]) -> list[int]:
        """Remember what happened: all of it, or nothing. The numbers, in the order given."""
        ...

    async def emit_once(self, events: Sequence[Emitted], *, key: str, mark: str) -> list[int]:
        """The same under a key, as jobs are: see ``Jobs.enqueue_once``."""
        ...

    async def get(self, number: int) -> Event: ...

    async def find(self, numbers: Sequence[int]) -> list[Event]:
        """Those of the events that are remembered."""
        ...

    async def page(
        self,
        *,
        pattern: str = "*",
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> EventPage:
        """The newest first; ``after`` is what the page before gave."""
        ...

    async def react(self, *, limit: int, trust: Trust | None = None) -> Reacted:
        """Look at events that nobody has looked at, and start what is to be started."""
        ...

    async def replay(
        self,
        schedule: str,
        *,
        since: datetime,
        until: datetime,
        pattern: str | None = None,
        dry_run: bool = False,
    ) -> Replayed:
        """Let a schedule react to what happened, from ``since`` up to ``until``, without it.

        Not one transaction but a row of them. What it has reacted to before it leaves alone.
        """
        ...

    async def reactions(self, numbers: Sequence[int]) -> list[tuple[str, StoredFire]]:
        """What each schedule that reacts to events made of some: its name, and the ledger's row.

        By the names; the ``series`` of a row is the event.
        """
        ...
