"""The store: operations, a database that runs them, and nudges for whoever waits.

Each noun of ``protocol`` is a small class here. What it does is an operation from the noun's own
file; what is added here is the same for all: numbers for new rows, a second try when they run out,
and, after the commit, a nudge for those who may sleep too long otherwise.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from duly.errors import OutcomeUnknown
from duly.instants import EPOCH
from duly.model.claimed import Claimed
from duly.model.fire import Fire
from duly.model.job import Attempt, Call, Job
from duly.model.journal import Entry, LogLine, Note
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.schedule import Pause, Plan, Schedule
from duly.model.states import State
from duly.model.worker import Order, Profile, WorkerInfo
from duly.policy.firing import Firing, decide
from duly.rules import zone_data_version
from duly.store import (
    claims,
    fires,
    held,
    jobs,
    journal,
    ledger,
    limits,
    retrying,
    schedules,
    steering,
    turning,
    upkeep,
    work,
    zone_data,
)
from duly.store.database import Ask, Database, Start
from duly.store.gathering import Gathering
from duly.store.jobs import EndedAlready, Wanted
from duly.store.protocol import (
    CAREFUL,
    JOBS,
    LOG,
    QUEUES,
    READY,
    SCHEDULES,
    WORKERS,
    Beat,
    Decide,
    Dispatched,
    Done,
    Fired,
    Judge,
    LaneInfo,
    Progress,
    Retention,
    Settled,
    Settlement,
    TakenBack,
    Turn,
    Wish,
)
from duly.store.retrying import BATCH, Matching
from duly.store.room import PATIENCE, Room
from duly.store.settling import settle

T = TypeVar("T")
NOW = timedelta(0)
MOST_TAILS = 10  # what more jobs than these say at once, nobody reads as it comes


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
        self._gathering = Gathering(self._enqueue_plain)

    async def enqueue(self, calls: Sequence[Call]) -> list[int]:
        numbers = await self._room.numbers(len(calls))
        wanted = [Wanted(call, number) for call, number in zip(calls, numbers, strict=True)]
        if any(call.key is not None for call in calls):
            answers = await self._enqueue(wanted)
        else:
            await self._gathering.add(wanted)
            answers = numbers
        self._room.nudge(*_topics(calls))
        return answers

    async def _enqueue_plain(self, wanted: Sequence[Wanted]) -> None:
        """One statement, and no transaction around it; several if its answer is lost."""
        try:
            await self._room.write_one(jobs.plainly(wanted))
        except OutcomeUnknown:
            await self._enqueue(wanted, again=True)

    async def _enqueue(self, wanted: Sequence[Wanted], *, again: bool = False) -> list[int]:
        """Insist, with the same numbers, until it is known that each was enqueued once."""
        done: frozenset[int] = frozenset()
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
        state = await self._room.write(lambda: jobs.cancel(number, reason, ids=self._room.ids))
        self._room.nudge(SCHEDULES, READY, WORKERS)
        return state

    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool:
        there = await self._room.write(
            lambda: jobs.cancel_key(task, key, reason, ids=self._room.ids)
        )
        self._room.nudge(READY, WORKERS)
        return there

    async def retry(self, number: int, *, who: str = "") -> Job:
        job = await self._room.write(lambda: jobs.retry(number, who))
        self._room.nudge(READY)
        return job

    async def retry_matching(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        first: int | None = None,
        who: str = "",
    ) -> list[int]:
        matching = Matching(task=task, queue=queue, tenant=tenant, error=error, since=since)
        left = retrying.checked(first, who)
        place = await self._room.read(retrying.begin)
        revived: list[int] = []
        while left > 0:
            ask = partial(retrying.find, matching, place, min(left, BATCH))
            numbers, place = await self._room.read(ask)
            if not numbers:
                break
            done = await self._revive(numbers, who)
            self._room.nudge(READY)
            revived += done
            left -= len(done)
        return revived

    async def _revive(self, numbers: Sequence[int], who: str) -> list[int]:
        start = partial(retrying.revive, numbers, who)
        try:
            return await self._room.write(start)
        except OutcomeUnknown:
            await self._room.insist(start)
            return list(numbers)  # by now all of them are, and nobody can tell by whose hand

    async def count_failed(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> int:
        matching = Matching(task=task, queue=queue, tenant=tenant, error=error, since=since)
        return await self._room.read(lambda: retrying.count(matching))


class SqlWork:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        [number] = await self._room.numbers(1)
        info, freed = await self._room.insist(lambda: work.register(number, profile, lease=lease))
        self._room.nudge(WORKERS, *(f"{READY}:{queue}" for queue in freed))
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

    async def tell(self, who: str | int, order: Order, *, slots: int | None = None) -> int:
        told = await self._room.write(lambda: work.tell(who, order, slots=slots))
        self._room.nudge(WORKERS)
        return told

    async def turn(self, done: Sequence[Done], wish: Wish | None = None) -> Turn:
        if wish is not None and wish.shelf == CAREFUL:
            wish = None  # nothing that has limits or needs resources is claimed in passing
        if self._room.database.dialect.turns and wish is not None:
            return await turning.turn(self._room, done, wish)
        return await self._room.write(lambda: claims.turn(done, wish))

    async def claim(self, wish: Wish) -> list[Claimed]:
        taken = await self._room.write(lambda: claims.take(wish))
        if taken.freed:
            self._room.nudge(*_ready_in(taken.freed))
        if taken.opens:
            self._room.nudge(JOBS)
        return taken.jobs

    async def ready(self, queues: Sequence[str]) -> list[tuple[str, int]]:
        return claims.places(await self._room.write_one(claims.ready(queues)))

    async def held(self, worker: int) -> list[Claimed]:
        return await self._room.read(lambda: work.held(worker))

    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        settled = await self._room.write(lambda: settle(settlements, ids=self._room.ids))
        if any(s.job.schedule_id is not None for s in settlements):
            self._room.nudge(SCHEDULES, READY)
        elif any(s.verdict.state is State.READY for s in settlements):
            self._room.nudge(READY)
        self._room.nudge(JOBS, *_ready_in(settled.freed))
        return settled

    async def set_queue(self, queue: Queue) -> None:
        await self._room.write(lambda: work.set_queue(queue))
        self._room.nudge(QUEUES, READY)

    async def queues(self) -> list[Queue]:
        return await self._room.read(work.queues)


class SqlLimits:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def listed(self, *, limit: int = 1_000) -> list[LaneInfo]:
        return await self._room.read(lambda: limits.listed(limit))

    async def set(self, name: str, *, concurrency: int | None, rate: Rate | None) -> None:
        await self._room.write(lambda: limits.set_rule(name, concurrency, rate))
        self._room.nudge(READY)

    async def unset(self, name: str) -> None:
        await self._room.write(lambda: limits.drop_rule(name))
        self._room.nudge(READY)


class SqlJournal:
    def __init__(self, room: Room) -> None:
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
        except OutcomeUnknown:
            return await self._room.insist(lambda: journal.write(entries, begun, again=True))

    async def logs(self, job_id: int, *, after: int = 0, limit: int = 1_000) -> list[LogLine]:
        return await self._room.read(lambda: journal.logs(job_id, after, limit))

    async def note(self, job_id: int) -> Note | None:
        return await self._room.read(lambda: journal.note(job_id))


class SqlUpkeep:
    def __init__(self, room: Room) -> None:
        self._room = room

    async def dispatch(self, *, limit: int) -> Dispatched:
        waiting = upkeep.looked(await self._room.write_one(Ask("look")))
        queues: list[str] = []
        hurried, expired = list[str](), 0
        if waiting.due is not None and waiting.due <= NOW:
            queues = await self._room.write(lambda: upkeep.ready(limit))
        if waiting.told or (waiting.late is not None and waiting.late < NOW):
            hurried, expired = await self._room.write(
                lambda: upkeep.overdue(limit, ids=self._room.ids)
            )
        if waiting.opening is not None and waiting.opening <= NOW:
            queues += await self._room.write(lambda: limits.open_lanes(limit))
            waiting = upkeep.looked(await self._room.write_one(Ask("look")))
        elif queues or hurried or expired:
            waiting = upkeep.looked(await self._room.write_one(Ask("look")))
        if queues or hurried:
            self._room.nudge(*_ready_in([*queues, *hurried]))
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

    async def hold_unknown(self, *, patience: timedelta, limit: int) -> int:
        return await self._room.write(lambda: upkeep.hold_unknown(patience=patience, limit=limit))

    async def take_back(
        self, judge: Judge, *, after: int, margin: timedelta, limit: int
    ) -> TakenBack:
        if not await self._room.write_one(upkeep.lost(after=after, margin=margin)):
            return TakenBack()
        taken = await self._room.write(
            lambda: upkeep.take_back(
                judge, after=after, margin=margin, limit=limit, ids=self._room.ids
            )
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
        self.limits = SqlLimits(room)
        self.journal = SqlJournal(room)
        self.upkeep = SqlUpkeep(room)

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._room.listen(listener)

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()


def _ready_in(queues: Iterable[str]) -> list[str]:
    return [f"{READY}:{queue}" for queue in sorted(set(queues))]


def _topics(calls: Iterable[Call]) -> list[str]:
    """Who should wake: workers of the queues, or the dispatcher for what is due later."""
    queues = {f"{READY}:{call.queue}" for call in calls if call.run_after is None}
    later = [JOBS] if any(call.run_after is not None for call in calls) else []
    return [*sorted(queues), *later]
