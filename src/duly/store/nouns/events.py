"""Events, as they are said, looked at and replayed."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from duly.model.event import Emitted, Event
from duly.model.fire import Fire
from duly.policy.firing import decide
from duly.store import events as operations
from duly.store import replaying
from duly.store.database import Ask, alone
from duly.store.nouns import deeds
from duly.store.protocol import EVENTS, JOBS, EventPage, Reacted, Replayed
from duly.store.replaying import Place, Request, Round
from duly.store.room import Room, ready_in


class SqlEvents:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def emit(self, events: Sequence[Emitted]) -> list[int]:
        numbers = await self._room.numbers(len(events))
        if events:
            await self._room.insist(lambda: alone(operations.emit(events, numbers)))
            self._room.nudge(EVENTS)
        return numbers

    async def get(self, number: int) -> Event:
        return await self._room.read(lambda: operations.get(number))

    async def page(
        self,
        *,
        pattern: str = "*",
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> EventPage:
        search = operations.Search(
            pattern=pattern, key=key, since=since, until=until, after=after, limit=limit
        )
        return await self._room.read(lambda: operations.page(search))

    async def react(self, *, limit: int) -> Reacted:
        if not await self._room.write_one(Ask("any_unseen")):
            return Reacted()
        done = await self._room.write(lambda: operations.react(limit, ids=self._room.ids))
        self._tell(done)
        return done

    async def replay(
        self,
        schedule: str,
        *,
        since: datetime,
        until: datetime,
        pattern: str | None = None,
        dry_run: bool = False,
        who: str = "",
    ) -> Replayed:
        request = Request(name=schedule, since=since, until=until, pattern=pattern, who=who)
        foreseen = await self._room.read(lambda: replaying.foresee(request))
        if dry_run:
            return Replayed(
                schedule=schedule, events=foreseen.events, skipped=foreseen.skipped, dry_run=True
            )
        await self._room.announce(
            deeds.deed(
                "events.replay", deeds.schedule(schedule), start=since, end=until, pattern=pattern
            )
        )
        return await self._replayed(request)

    async def _replayed(self, request: Request) -> Replayed:
        count, skipped, jobs = 0, 0, list[int]()
        place: Place | None = request.beginning
        while place is not None:
            done = await self._room.insist(
                partial(replaying.replay, request, place, decide=decide, ids=self._room.ids)
            )
            self._tell(done)
            count, skipped = count + done.events, skipped + done.skipped
            jobs += done.jobs
            place = done.after
        return Replayed(
            schedule=request.name, events=count, jobs=tuple(dict.fromkeys(jobs)), skipped=skipped
        )

    async def reactions(self, number: int) -> list[tuple[str, Fire]]:
        return await self._room.read(lambda: operations.reactions(number))

    def _tell(self, done: Reacted | Round) -> None:
        later = [JOBS] if done.later else []
        self._room.nudge(*ready_in(done.queues), *later)
