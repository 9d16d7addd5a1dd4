"""Run the operations of the store's verbs: transactions, ids for new rows, notifications.

And the actor under whose name changes are recorded, if there is one.
"""

import asyncio
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Final, TypeVar

from duly import clock
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.instants import from_us
from duly.model.access import Actor, AuditedAction, AuditEntry
from duly.policy.firing import decide
from duly.store import audit
from duly.store.database import Ask, Database, Operation, Row, Start, as_of
from duly.store.ids import (
    BLOCK,
    Dry,
    Forgotten,
    Ids,
    KeptIds,
    NumbersTaken,
    RunIds,
    numbered,
    reserve_many,
)
from duly.store.values import READY, Decide, Trust

T = TypeVar("T")

# How often a write is repeated whose answer was lost, or whose numbers are in use.
TRIES: Final = 5
# For how many seconds, and how often, a database that is away is asked whether a write was done.
LOOKING: Final = 10.0
BETWEEN_LOOKS: Final = 0.1
MOST_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class Editor:
    """The author of a change, the decision function for due moments, and ids for new rows."""

    who: str
    decide: Decide
    ids: Ids


class Transactions:
    def __init__(self, database: Database, ids: Ids | None = None) -> None:
        self.database = database
        self._pool = [ids or Ids.with_holder()]  # shared with the copies that ``acting`` returns
        self._listeners: list[Callable[[str], None]] = []
        self._appetite = 1
        self.actor: Actor | None = None

    @property
    def ids(self) -> Ids:
        """The current reservation of numbers."""
        return self._pool[0]

    def acting(self, actor: Actor) -> "Transactions":
        """Return the same, sharing numbers and listeners, for an actor."""
        other = copy(self)
        other.actor = actor
        return other

    @property
    def who(self) -> str:
        """The name under which changes are recorded; empty without an actor."""
        return "" if self.actor is None else self.actor.who

    def editor(self) -> Editor:
        """Return the actor as the editor of a schedule, with numbers for one run."""
        return Editor(self.who, decide, self.attempt())

    async def write(self, start: Start[T]) -> T:
        """Run an operation; run it again if it needs more numbers, or others."""
        taken = 0
        while True:
            try:
                return await self.database.write(start)
            except Dry as dry:
                await self.more(dry.needed)
            except Forgotten as forgotten:
                self.drop(forgotten.ids)
            except NumbersTaken:
                taken += 1
                if taken == TRIES:
                    raise
                self.drop(self.ids)

    async def write_one(self, ask: Ask) -> list[Row]:
        """Run a statement that is a transaction by itself."""
        return await self.database.write_one(ask)

    async def insist(self, start: Start[T], *, unknown: OutcomeUnknown | None = None) -> T:
        """Run an operation that detects by itself whether it was done before, until it is answered.

        Once the outcome of a run is unknown, it stays unknown if the database cannot be reached
        any more. ``unknown`` is the outcome of a run before this call.
        """
        lost, gives_up = 0, 0.0
        why: StoreUnavailable
        while True:
            try:
                return await self.write(start)
            except OutcomeUnknown as error:
                unknown, why = unknown or error, error
                lost += 1
            except StoreUnavailable as error:
                if unknown is None:
                    raise
                why = error
                await clock.sleep(BETWEEN_LOOKS)
            loop = asyncio.get_running_loop()
            gives_up = gives_up or loop.time() + LOOKING
            if lost > TRIES or loop.time() >= gives_up:
                raise OutcomeUnknown(f"{unknown}; the outcome could not be looked up") from why

    def numbered(self, count: int, work: Callable[[list[int]], Operation[T]]) -> Start[T]:
        """Start ``work`` with ``count`` numbers: the same ones, however often it is run."""
        return numbered(self.kept(), count, work)

    def audited(self, start: Start[T], tell: Callable[[T], AuditedAction]) -> Start[T]:
        """Add the entry in the audit log to an operation, if there is an actor.

        However often the operation is run, there is one entry: its number stays the same.
        """
        actor = self.actor
        if actor is None:
            return start
        kept = self.kept()
        return lambda: audit.audited(start, tell, actor=actor, ids=kept)

    async def change(
        self,
        start: Start[T],
        tell: Callable[[T], AuditedAction],
        *topics: str,
        insist: bool = False,
    ) -> T:
        """Run an operation with its entry in the audit log, then nudge."""
        audited = self.audited(start, tell)
        result = await (self.insist(audited) if insist else self.write(audited))
        self.nudge(*topics)
        return result

    async def announce(self, action: AuditedAction) -> None:
        """Write the audit entry of a change that takes more than one transaction."""
        if self.actor is not None:
            await self.append_audit(self.actor, action)

    async def append_audit(self, actor: Actor, action: AuditedAction) -> AuditEntry:
        return await self.insist(
            self.numbered(1, lambda numbers: audit.append(actor, action, numbers[0]))
        )

    async def read(self, start: Start[T]) -> T:
        return await self.database.read(start)

    async def numbers(self, count: int) -> tuple[Ids, list[int]]:
        """Return numbers, and their reservation, which has to be confirmed."""
        while True:
            ids = self.ids
            try:
                return ids, ids.take(count)
            except Dry:
                await self.more(count)

    def attempt(self) -> RunIds:
        """Return numbers for one run of an operation: others for each run."""
        return self.ids.attempt()

    def kept(self) -> KeptIds:
        """Return numbers for all runs of an operation."""
        return KeptIds(lambda: self.ids)

    def kept_from(self, ids: Ids, numbers: list[int]) -> KeptIds:
        """Return numbers for an operation that may have been done under these numbers."""
        return KeptIds.again_from(ids, numbers, lambda: self.ids)

    def drop(self, ids: Ids) -> None:
        """Never use the numbers of a reservation again."""
        if self.ids is ids:
            self._pool[0] = Ids.with_holder()

    async def more(self, needed: int) -> None:
        """Reserve numbers: more each time, since an operation that runs out is run again."""
        self._appetite = min(self._appetite * 2, MOST_BLOCKS)
        ids = self.ids
        blocks = needed // BLOCK + self._appetite
        try:
            found = await self.insist(lambda: reserve_many(blocks, ids.holder))
        except OutcomeUnknown as error:  # of the reservation: what it was for has not begun
            raise StoreUnavailable(
                f"no ids could be reserved; nothing was done: {error}"
            ) from error
        for block in found:
            ids.add(block)

    def listen(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)
        self.database.listen(listener)

    def nudge(self, *topics: str) -> None:
        self.wake(*topics)
        self.database.nudge(topics)

    def wake(self, *topics: str) -> None:
        """Tell the listeners of this process only."""
        for topic in topics:
            for listener in self._listeners:
                listener(topic)


def ready_in(queues: Iterable[str]) -> list[str]:
    """Return the topics of the workers of these queues."""
    return [f"{READY}:{queue}" for queue in sorted(set(queues))]


def trusted_now(trust: Trust | None) -> Operation[int | None]:
    """Read the database's clock; return None if it is not trusted."""
    [(now,)] = yield Ask("now")
    return now if trust is None or trust(from_us(now)) else None


def at_trusted_time(start: Start[T], trust: Trust | None) -> Operation[T | None]:
    """Run an operation at the time of the database's clock; return None if it is not trusted.

    Its statements use that time, so a clock that jumps between two of them changes nothing.
    """
    now = yield from trusted_now(trust)
    return None if now is None else (yield from as_of(now, start()))
