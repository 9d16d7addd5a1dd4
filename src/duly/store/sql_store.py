"""The store: operations, a database that runs them, and nudges for whoever waits.

Each noun of ``protocol`` is a small class here. What it does is an operation from the noun's own
file; what is added here is the same for all: numbers for new rows, a second try when they run out,
and, after the commit, a nudge for those who may sleep too long otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from duly.errors import OutcomeUnknown
from duly.model.fire import Fire
from duly.model.job import Attempt, Call, Job
from duly.model.queue import Queue
from duly.model.schedule import Pause, Plan, Schedule
from duly.model.states import State
from duly.model.worker import WorkerInfo
from duly.policy.firing import Firing, decide
from duly.rules import zone_data_version
from duly.rules.instants import EPOCH
from duly.store import fires, held, jobs, ledger, schedules, steering, upkeep, work, zone_data
from duly.store.database import Database, Start
from duly.store.jobs import EndedAlready, Wanted
from duly.store.protocol import (
    JOBS,
    READY,
    SCHEDULES,
    Decide,
    Dispatched,
    Fired,
    Judge,
    Progress,
    Retention,
    Settled,
    Settlement,
    TakenBack,
)
from duly.store.room import PATIENCE, Room
from duly.store.settling import settle

T = TypeVar("T")
NOW = timedelta(0)


class SqlSchedules:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def add(self, plans: Sequence[Plan]) -> list[Schedule]:
        numbers = await self._room.numbers(len(plans))
        added = await self._room.insist(lambda: schedules.add(plans, numbers))
        self._room.nudge(SCHEDULES)
        return added

    async def get(self, name: str) -> Schedule:
        return await self._room.read(lambda: held.get(name))

    async def page(self, *, after: str = "", limit: int = 100) -> list[Schedule]:
        return await self._room.read(lambda: schedules.listed(after, limit))

    async def edit(self, name: str, change: Callable[[Plan], Plan], *, who: str = "") -> Schedule:
        return await self._changed(
            lambda: schedules.edit(name, change, who=who, decide=decide, ids=self._room.ids)
        )

    async def pause(
        self,
        name: str,
        *,
        until: datetime | None = None,
        who: str = "",
        note: str = "",
        catch_up: bool = False,
    ) -> Schedule:
        wanted = Pause(since=EPOCH, until=until, by=who, note=note, catch_up=catch_up)
        return await self._changed(
            lambda: steering.pause(name, wanted, who=who, decide=decide, ids=self._room.ids)
        )

    async def resume(self, name: str, *, who: str = "") -> Schedule:
        return await self._changed(
            lambda: steering.resume(name, who=who, decide=decide, ids=self._room.ids)
        )

    async def skip_next(self, name: str, *, count: int = 1, who: str = "") -> list[datetime]:
        return await self._changed(
            lambda: steering.skip_next(name, count, who=who, decide=decide, ids=self._room.ids)
        )

    async def rewind(self, name: str, *, to: datetime, who: str = "") -> Schedule:
        return await self._changed(
            lambda: steering.rewind(name, to, who=who, decide=decide, ids=self._room.ids)
        )

    async def run(self, name: str, *, who: str = "") -> Fire:
        [series] = await self._room.numbers(1)
        fire = await self._room.insist(
            lambda: steering.run(name, series, who=who, decide=decide, ids=self._room.ids)
        )
        self._room.nudge(SCHEDULES, READY)
        return fire

    async def remove(self, name: str, *, who: str = "") -> None:
        await self._changed(
            lambda: schedules.remove(name, who=who, decide=decide, ids=self._room.ids)
        )

    async def changes(self, name: str, *, limit: int = 100) -> list[tuple[datetime, str, str]]:
        return await self._room.read(lambda: schedules.changes(name, limit))

    async def _changed(self, start: Start[T]) -> T:
        changed = await self._room.write(start)
        self._room.nudge(SCHEDULES)
        return changed


class SqlLedger:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def fire(self, decide: Decide, *, limit: int, trust: Callable[[datetime], bool]) -> Fired:
        release = zone_data_version()
        fired = await self._room.write(
            lambda: ledger.fire(
                decide, limit=limit, zone_data=release, ids=self._room.ids, trust=trust
            )
        )
        if fired.later:
            self._room.nudge(JOBS)
        if fired.jobs > fired.later:
            self._room.nudge(READY)
        return fired

    async def foresee(self, name: str, decide: Decide) -> Firing:
        return await self._room.read(lambda: schedules.foresee(name, decide))

    async def refresh(self, *, after: int = 0, limit: int = 500) -> int | None:
        return await self._room.write(lambda: zone_data.refresh(after, limit))

    async def fires(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> list[Fire]:
        return await self._room.read(lambda: fires.listed(name, since, until, limit))

    async def covering(self, name: str, moment: datetime) -> Fire | None:
        return await self._room.read(lambda: fires.covering(name, moment))


class SqlJobs:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def enqueue(self, calls: Sequence[Call]) -> list[int]:
        numbers = await self._room.numbers(len(calls))
        wanted = [Wanted(call, number) for call, number in zip(calls, numbers, strict=True)]
        answers = await self._enqueue(wanted)
        self._room.nudge(*_topics(calls))
        return answers

    async def _enqueue(self, wanted: Sequence[Wanted]) -> list[int]:
        """Insist, with the same numbers, until it is known that each was enqueued once."""
        done: frozenset[int] = frozenset()
        again = False
        for _ in range(PATIENCE * 2):
            left = [one for one in wanted if one.number not in done]
            try:
                answers = await self._room.write(lambda: jobs.enqueue(left, again=again))  # noqa: B023
            except OutcomeUnknown:
                again = True
            except EndedAlready as ended:
                done |= ended.numbers
            else:
                found = dict(zip((one.number for one in left), answers, strict=True))
                return [found.get(one.number, one.number) for one in wanted]
        raise OutcomeUnknown(
            f"{len(wanted)} jobs may or may not have been enqueued: the database's answer was lost "
            f"{PATIENCE * 2} times"
        )

    async def get(self, number: int) -> Job:
        return await self._room.read(lambda: jobs.get(number))

    async def page(self, *, after: int = 0, limit: int = 100) -> list[Job]:
        return await self._room.read(lambda: jobs.listed(after, limit))

    async def ended(
        self, state: State, *, since: datetime | None = None, limit: int = 100
    ) -> list[Job]:
        return await self._room.read(lambda: jobs.ended(state, since, limit))

    async def attempts(self, number: int) -> list[Attempt]:
        return await self._room.read(lambda: jobs.attempts(number))

    async def cancel(self, number: int, *, reason: str = "") -> State:
        state = await self._room.write(lambda: jobs.cancel(number, reason))
        self._room.nudge(SCHEDULES, READY)
        return state

    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool:
        there = await self._room.write(lambda: jobs.cancel_key(task, key, reason))
        self._room.nudge(READY)
        return there

    async def retry(self, number: int, *, who: str = "") -> Job:
        job = await self._room.write(lambda: jobs.retry(number, who))
        self._room.nudge(READY)
        return job


class SqlWork:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def register(
        self, name: str, *, queues: Sequence[str], tasks: Sequence[str], lease: timedelta
    ) -> WorkerInfo:
        [number] = await self._room.numbers(1)
        return await self._room.insist(
            lambda: work.register(number, name, queues=queues, tasks=tasks, lease=lease)
        )

    async def renew(self, worker: int, lease: timedelta) -> bool:
        return await self._room.write(lambda: work.renew(worker, lease))

    async def end_lease(self, worker: int) -> None:
        await self._room.write(lambda: work.end_lease(worker))

    async def workers(self) -> list[WorkerInfo]:
        return await self._room.read(work.workers)

    async def claim(
        self, worker: int, *, queue: str, tasks: Sequence[str], limit: int
    ) -> list[Job]:
        return await self._room.write(
            lambda: work.claim(worker, queue=queue, tasks=tasks, limit=limit)
        )

    async def held(self, worker: int) -> list[Job]:
        return await self._room.read(lambda: work.held(worker))

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        settled = await self._room.write(lambda: settle(settlements))
        if any(s.job.schedule_id is not None for s in settlements):
            self._room.nudge(SCHEDULES, READY)
        self._room.nudge(JOBS)
        return settled

    async def signals(self, worker: int) -> Mapping[int, str]:
        return await self._room.read(lambda: work.signals(worker))

    async def set_queue(self, queue: Queue) -> None:
        await self._room.write(lambda: work.set_queue(queue))
        self._room.nudge(READY)

    async def queues(self) -> list[Queue]:
        return await self._room.read(work.queues)


class SqlUpkeep:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def dispatch(self, *, limit: int) -> Dispatched:
        waiting = await self._room.read(upkeep.look)
        queues: list[str] = []
        hurried, expired = list[str](), 0
        if waiting.due is not None and waiting.due <= NOW:
            queues = await self._room.write(lambda: upkeep.ready(limit))
        if waiting.told or (waiting.late is not None and waiting.late < NOW):
            hurried, expired = await self._room.write(lambda: upkeep.overdue(limit))
        if queues or hurried or expired:
            waiting = await self._room.read(upkeep.look)
        if queues or hurried:
            self._room.nudge(*(f"{READY}:{queue}" for queue in sorted({*queues, *hurried})))
        if expired:
            self._room.nudge(SCHEDULES, READY)
        return Dispatched(
            ready=len(queues), hurried=len(hurried), expired=expired, rest=waiting.rest
        )

    async def sweep(self, *, limit: int) -> int:
        found = await self._room.write(lambda: upkeep.sweep(limit))
        if found:
            self._room.nudge(SCHEDULES, READY)
        return found

    async def take_back(
        self, judge: Judge, *, after: int, margin: timedelta, limit: int
    ) -> TakenBack:
        if not await self._room.read(lambda: upkeep.lost(after=after, margin=margin)):
            return TakenBack()
        taken = await self._room.write(
            lambda: upkeep.take_back(judge, after=after, margin=margin, limit=limit)
        )
        if taken.lost:
            self._room.nudge(READY, SCHEDULES)
        return taken

    async def prune(self, retention: Retention, *, limit: int) -> int:
        # One day at a time: the lock that makes or drops one is held until the commit.
        for parent, instant in await self._room.read(upkeep.missing_days):
            await self._room.write(partial(upkeep.make_day, parent, instant))
        gone = await self._room.write(lambda: upkeep.prune_keys(limit))
        for statement, before in await self._room.read(lambda: upkeep.prunable(retention)):
            gone += await self._room.write(partial(upkeep.prune, statement, before, limit))
        return gone

    async def progress(self) -> Progress:
        return await self._room.read(upkeep.progress)


class SqlStore:
    """Everything that is remembered, in a database."""

    def __init__(self, database: Database) -> None:
        room = Room(database)
        self._room = room
        self.database = database
        self.schedules = SqlSchedules(room)
        self.ledger = SqlLedger(room)
        self.jobs = SqlJobs(room)
        self.work = SqlWork(room)
        self.upkeep = SqlUpkeep(room)

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._room.listen(listener)

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()


def _topics(calls: Iterable[Call]) -> list[str]:
    """Who should wake: workers of the queues, or the dispatcher for what is due later."""
    queues = {f"{READY}:{call.queue}" for call in calls if call.run_after is None}
    later = [JOBS] if any(call.run_after is not None for call in calls) else []
    return [*sorted(queues), *later]
