"""Events: emitting, reading, reacting and replaying."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from duly.errors import Busy
from duly.instants import to_us
from duly.model.event import Emitted, StoredEvent
from duly.model.fire import StoredFire
from duly.model.payload import check_text
from duly.store import events as operations
from duly.store import replaying
from duly.store.database import Ask, Operation, Start
from duly.store.events import Look
from duly.store.jobs import Once, done_once
from duly.store.nouns import audited_actions as deeds
from duly.store.replaying import ReplayBatch, ReplayRequest
from duly.store.rows import BEGINNING, EventCursor, place_of
from duly.store.transactions import ready_in
from duly.store.values import EVENTS, JOBS, Reacted, ReplayResult, StoredEventPage, Trust
from duly.store.verbs import Noun, reads, verb

# Each is waited for a twentieth of a second: a look around takes five at most.
MOST_BUSY: Final = 100


class EventStore(Noun):
    @verb("operator")
    async def emit(self, events: Sequence[Emitted]) -> list[int]:
        """Store events, all or none; return their numbers in the given order."""
        if not events:
            return []
        numbers = await self._db.insist(self._audited(events))
        self._db.nudge(EVENTS)
        return numbers

    @verb("operator")
    async def emit_once(self, events: Sequence[Emitted], *, key: str, mark: str) -> list[int]:
        """Store events under an idempotency key, like ``JobStore.enqueue_once``."""
        once = Once(self._db.who, check_text(key, "key"), check_text(mark, "mark"))
        start = self._audited(events)
        found = await self._db.insist(lambda: done_once(once, start))
        self._db.nudge(EVENTS)
        return found

    @reads("viewer")
    def get(self, number: int) -> Operation[StoredEvent]:
        return operations.get(number)

    @reads("viewer")
    def find(self, numbers: Sequence[int]) -> Operation[list[StoredEvent]]:
        """Return the events with these numbers that are still kept."""
        return operations.find(numbers)

    @verb("viewer", changes=False)
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
    ) -> StoredEventPage:
        """Return events, the newest first; ``after`` is the cursor of the previous page."""
        search = operations.EventSearch(
            pattern=pattern,
            key=key,
            since=since,
            until=until,
            tenant=tenant,
            after=after,
            limit=limit,
        )
        return await self._db.read(lambda: operations.page(search))

    @verb(None)
    async def react(self, *, limit: int, trust: Trust | None = None) -> Reacted:
        """Process new events: start the jobs of the schedules that react to them."""
        if not await self._db.write_one(Ask("any_unseen")):
            return Reacted()
        try:
            done = await self._look(Look(limit=limit, trust=trust))
        except Busy:
            done = await self._look_around(limit, trust)
            if not done.events:
                raise
        self._tell(done)
        return done

    @verb("operator", long=True)
    async def replay(
        self,
        schedule: str,
        *,
        since: datetime,
        until: datetime,
        pattern: str | None = None,
        dry_run: bool = False,
    ) -> ReplayResult:
        """Let a schedule react to the past events that it has not reacted to.

        It takes several transactions; each that is committed stays.
        """
        request = ReplayRequest(name=schedule, since=since, until=until, pattern=pattern)
        foreseen = await self._db.read(lambda: replaying.foresee(request))
        if dry_run:
            return ReplayResult(
                schedule=schedule, events=foreseen.events, skipped=foreseen.skipped, dry_run=True
            )
        await self._db.announce(
            deeds.deed(
                "events.replay", deeds.schedule(schedule), start=since, end=until, pattern=pattern
            )
        )
        return await self._replayed(request)

    async def _replayed(self, request: ReplayRequest) -> ReplayResult:
        count, skipped, jobs = 0, 0, list[int]()
        place: EventCursor | None = request.beginning
        while place is not None:
            done = await self._replay(request, place)
            self._tell(done)
            count, skipped = count + done.events, skipped + done.skipped
            jobs += done.jobs
            place = done.after
        return ReplayResult(
            schedule=request.name, events=count, jobs=tuple(dict.fromkeys(jobs)), skipped=skipped
        )

    async def _replay(self, request: ReplayRequest, place: EventCursor) -> ReplayBatch:
        return await self._db.insist(lambda: replaying.replay(request, place, self._db.editor()))

    @reads("viewer")
    def reactions(self, numbers: Sequence[int]) -> Operation[list[tuple[str, StoredFire]]]:
        """Return how schedules reacted to events: pairs of a schedule's name and its ledger row.

        In the order of names; the ``series`` of a row is the number of the event.
        """
        return operations.reactions(numbers)

    async def _look(self, look: Look) -> Reacted:
        return await self._db.write(lambda: operations.react(look, ids=self._db.attempt()))

    async def _look_around(self, limit: int, trust: Trust | None) -> Reacted:
        """Process one event at a time, skipping events whose schedules are locked by others."""
        found: list[Reacted] = []
        held, busy, place = set[str](), 0, BEGINNING
        while True:
            events = await self._db.read(partial(operations.unseen, limit, place))
            for event in events:
                if event.name in held:
                    continue
                if len(found) == limit or busy == MOST_BUSY:
                    return _together(found, limit)
                before = EventCursor(to_us(event.at), event.id - 1)
                look = Look(limit=1, after=before, brief=True, trust=trust)
                try:
                    found.append(await self._look(look))
                except Busy:
                    busy += 1
                    if not look.holds_schedules:
                        held.add(event.name)
            if len(events) < limit:
                return _together(found, limit)
            place = place_of(events[-1])

    def _audited(self, events: Sequence[Emitted]) -> Start[list[int]]:
        kept = self._db.kept()
        return self._db.audited(
            lambda: operations.emitted(events, ids=kept), lambda _: deeds.emitted(events)
        )

    def _tell(self, done: Reacted | ReplayBatch) -> None:
        later = [JOBS] if done.later else []
        self._db.nudge(*ready_in(done.queues), *later)


def _together(found: Sequence[Reacted], limit: int) -> Reacted:
    return Reacted(
        events=sum(one.events for one in found),
        jobs=sum(one.jobs for one in found),
        skipped=sum(one.skipped for one in found),
        withdrawn=sum(one.withdrawn for one in found),
        queues=[queue for one in found for queue in one.queues],
        later=sum(one.later for one in found),
        more=len(found) == limit,
    )
