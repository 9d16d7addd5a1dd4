"""Evidence, for whoever wants to know why."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from duly.model.fire import StoredFire
from duly.model.job import Job
from duly.model.schedule import StoredSchedule
from duly.store import evidence, watching
from duly.store.protocol import (
    Depth,
    EndedStats,
    FailedTask,
    Happening,
    HourTally,
    NotKept,
    RunTimes,
    Tally,
    WaitingKind,
)
from duly.store.transactions import Transactions


class SqlEvidence:
    def __init__(self, room: Transactions) -> None:
        self._room = room

    async def schedule(self, number: int) -> StoredSchedule | None:
        return await self._room.read(lambda: evidence.schedule(number))

    async def run_in_the_way(self, schedule: int, moment: datetime) -> Job | None:
        return await self._room.read(lambda: evidence.run_in_the_way(schedule, moment))

    async def past_runs(self, schedule: int, *, limit: int = 20) -> list[timedelta]:
        return await self._room.read(lambda: evidence.past_runs(schedule, limit))

    async def runs_of(self, jobs: Sequence[int]) -> dict[int, RunTimes]:
        return await self._room.read(lambda: evidence.runs_of(jobs))

    async def run_after(self, schedule: int, moment: datetime) -> StoredFire | None:
        return await self._room.read(lambda: evidence.run_after(schedule, moment))

    async def last_decision(self, before: datetime) -> datetime | None:
        return await self._room.read(lambda: evidence.last_decision(before))

    async def count_ahead(self, job: int) -> int:
        return await self._room.read(lambda: evidence.count_ahead(job))

    async def running_in(self, queue: str) -> int:
        return await self._room.read(lambda: evidence.running_in(queue))

    async def asked_to_stop(self, job: int) -> str | None:
        return await self._room.read(lambda: evidence.asked_to_stop(job))

    async def tallies(
        self, since: datetime, *, until: datetime | None = None, late: timedelta
    ) -> list[Tally]:
        return await self._room.read(lambda: evidence.tallies(since, until, late))

    async def hour_tallies(
        self, since: datetime, *, until: datetime, due_since: datetime, late: timedelta
    ) -> list[HourTally]:
        return await self._room.read(
            lambda: evidence.hour_tallies(since, until, due_since=due_since, late=late)
        )

    async def late_moments(
        self, since: datetime, until: datetime, *, late: timedelta, limit: int = 10
    ) -> list[StoredFire]:
        return await self._room.read(
            lambda: evidence.late_moments(since, until, late=late, limit=limit)
        )

    async def not_kept(self, since: datetime, *, limit: int = 100) -> list[NotKept]:
        return await self._room.read(lambda: evidence.not_kept(since, limit))

    async def failed_tasks(self, since: datetime, *, limit: int = 100) -> list[FailedTask]:
        return await self._room.read(lambda: evidence.failed_tasks(since, limit))

    async def waiting(self, *, patience: timedelta, limit: int = 1_000) -> list[WaitingKind]:
        return await self._room.read(lambda: evidence.waiting(patience, limit))

    async def running(self, *, limit: int = 10) -> list[Job]:
        return await self._room.read(lambda: evidence.running(limit))

    async def awaiting(self, *, limit: int = 10) -> list[Job]:
        return await self._room.read(lambda: evidence.awaiting(limit))

    async def due_before(self, before: datetime, *, limit: int = 1_000) -> list[StoredSchedule]:
        return await self._room.read(lambda: evidence.due_before(before, limit))

    async def happened(
        self, since: datetime, *, until: datetime | None = None, limit: int = 1_000
    ) -> list[Happening]:
        return await self._room.read(lambda: watching.happened(since, until, limit))

    async def count_happened(self, since: datetime, *, until: datetime | None = None) -> int:
        return await self._room.read(lambda: watching.count_happened(since, until))

    async def minutes(
        self, since: datetime, until: datetime, *, step: timedelta = timedelta(minutes=1)
    ) -> list[EndedStats]:
        return await self._room.read(lambda: watching.minutes(since, until, step))

    async def depths(self) -> list[Depth]:
        return await self._room.read(watching.depths)
