"""What workers do: claim, finish, stay alive, and what they meet on the way."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from duly.errors import OutcomeUnknown
from duly.model.claimed import Claimed
from duly.model.journal import Entry, LogLine, ProgressNote
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.states import State
from duly.model.worker import Order, Profile, WorkerInfo
from duly.store import claims, journal, limits, work
from duly.store import finish_and_claim as turning
from duly.store.database import Ask
from duly.store.nouns import deeds
from duly.store.protocol import (
    CAREFUL,
    JOBS,
    LOG,
    QUEUES,
    READY,
    SCHEDULES,
    WORKERS,
    Beat,
    Claims,
    JobDone,
    LaneInfo,
    ReadyShelf,
    Settled,
    Settlement,
    Turn,
    Wish,
)
from duly.store.settling import settle
from duly.store.transactions import Transactions, ready_in

MOST_TAILS = 10  # what more jobs than these say at once, nobody reads as it comes


class SqlWork:
    def __init__(self, room: Transactions) -> None:
        self._room = room

    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        [(now,)] = await self._room.write_one(Ask("now"))
        kept = self._room.kept()
        info = await self._room.insist(lambda: work.enlist(profile, lease=lease, now=now, ids=kept))
        self._room.nudge(WORKERS)
        return info

    async def renew(self, worker: int, lease: timedelta, *, running: int = 0) -> Beat | None:
        return await self._room.write(lambda: work.renew(worker, lease, running=running))

    async def listen_to(self, worker: int) -> Beat | None:
        return await self._room.read(lambda: work.listen_to(worker))

    async def end_lease(self, worker: int) -> None:
        await self._room.write(lambda: work.end_lease(worker))
        self._room.nudge(WORKERS)

    async def workers(self) -> list[WorkerInfo]:
        return await self._room.read(work.workers)

    async def living(self) -> list[WorkerInfo]:
        return work.found(await self._room.write_one(Ask("living_workers")))

    async def tell(self, worker: str | int, order: Order, *, slots: int | None = None) -> int:
        start = self._room.audited(
            lambda: work.tell(worker, order, slots=slots),
            deeds.constant("workers.tell", f"worker:{worker}", order=order, slots=slots),
        )
        told = await self._room.write(start)
        self._room.nudge(WORKERS)
        return told

    async def turn(self, done: Sequence[JobDone], wish: Wish | None = None) -> Turn:
        if wish is not None and wish.shelf == CAREFUL:
            wish = None  # nothing that has limits or needs resources is claimed in passing
        if self._room.database.dialect.turns and wish is not None and not wish.among:
            return await turning.turn(self._room, done, wish)
        return await self._room.write(lambda: claims.turn(done, wish))

    async def claim(self, wish: Wish) -> Claims:
        taken = await self._room.write(lambda: claims.take(wish))
        if taken.freed:
            self._room.nudge(*ready_in(taken.freed))
        if taken.opens:
            self._room.nudge(JOBS)
        return Claims(jobs=taken.jobs, full=taken.full, opens_in=taken.opens_in)

    def has_room(self, queues: Sequence[str]) -> None:
        if queues:
            self._room.nudge(*ready_in(queues))

    async def ready(self, queues: Sequence[str], tasks: Sequence[str]) -> list[ReadyShelf]:
        return claims.places(await self._room.write_one(claims.ready(queues, tasks)))

    async def held(self, worker: int) -> list[Claimed]:
        return await self._room.read(lambda: work.held(worker))

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        start = self._room.audited(
            lambda: settle(settlements, ids=self._room.attempt()), deeds.settled(settlements)
        )
        settled = await self._room.write(start)
        if any(s.job.schedule_id is not None for s in settlements):
            self._room.nudge(SCHEDULES, READY)
        elif any(s.verdict.state is State.READY for s in settlements):
            self._room.nudge(READY)
        self._room.nudge(JOBS, *sorted(settled.tells), *ready_in(settled.freed))
        return settled

    async def set_queue(self, queue: Queue) -> None:
        changed = await self._set_queue(queue)
        self._room.nudge(QUEUES, READY)
        after: int | None = 0 if changed else None
        while after is not None:
            after = await self._room.insist(partial(work.set_fair, queue, after=after))

    async def _set_queue(self, queue: Queue) -> bool:
        """Whether it became fair, or is no more; if the answer was lost, it may have."""
        start = self._room.audited(lambda: work.set_queue(queue), deeds.queue_set(queue))
        try:
            return await self._room.write(start)
        except OutcomeUnknown as unknown:
            await self._room.insist(start, unknown=unknown)
            return True

    async def queues(self) -> list[Queue]:
        return await self._room.read(work.queues)


class SqlLimits:
    def __init__(self, room: Transactions) -> None:
        self._room = room

    async def listed(self, *, limit: int = 1_000) -> list[LaneInfo]:
        return await self._room.read(lambda: limits.listed(limit))

    async def set(self, name: str, *, concurrency: int | None, rate: Rate | None) -> None:
        start = self._room.audited(
            lambda: limits.set_rule(name, concurrency, rate),
            deeds.constant("limits.set", f"limit:{name}", concurrency=concurrency, rate=rate),
        )
        await self._room.write(start)
        self._room.nudge(READY)

    async def unset(self, name: str) -> None:
        start = self._room.audited(
            lambda: limits.drop_rule(name), deeds.constant("limits.reset", f"limit:{name}")
        )
        await self._room.write(start)
        self._room.nudge(READY)


class SqlJournal:
    def __init__(self, room: Transactions) -> None:
        self._room = room

    async def write(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        spoke = await self._write(entries)
        if len(spoke) <= MOST_TAILS:
            self._room.nudge(*(f"{LOG}:{job_id}" for job_id in sorted(spoke)))

    async def _write(self, entries: Sequence[Entry]) -> set[int]:
        """Insist, with the same numbers, until it is known that each line is there once."""
        begun: journal.Begun = {}
        try:
            return await self._room.write(lambda: journal.write(entries, begun))
        except OutcomeUnknown as unknown:
            return await self._room.insist(
                lambda: journal.write(entries, begun, again=True), unknown=unknown
            )

    async def logs(self, job_id: int, *, after: int = 0, limit: int = 1_000) -> list[LogLine]:
        return await self._room.read(lambda: journal.logs(job_id, after, limit))

    async def note(self, job_id: int) -> ProgressNote | None:
        return await self._room.read(lambda: journal.note(job_id))
