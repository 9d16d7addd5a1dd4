"""Maintenance by the services: due jobs, late ones, lost ones, awaited events, pruning."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from duly.durations import DAY, MICROSECOND
from duly.instants import from_us
from duly.model.columns import read_rows
from duly.model.outcome import Lost
from duly.model.states import State
from duly.model.worker import WorkerInfo
from duly.policy.overlap import HURRIED
from duly.store import counters, flows, job_changes, limits, rows
from duly.store.database import Ask, Operation, Row, Start, Value, alone, as_of, current_time
from duly.store.ids import Ids
from duly.store.job_endings import (
    EndedJobs,
    after_awaited,
    call_off,
    end,
    mend_flows,
    settle,
    stop_flow,
)
from duly.store.rows import BEGINNING, JobEnding
from duly.store.transactions import at_trusted_time, ready_in, trusted_now
from duly.store.values import (
    EVENTS,
    JOBS,
    LOST,
    READY,
    SCHEDULES,
    WORKERS,
    Judge,
    LostJob,
    Settlement,
    Trust,
)
from duly.store.verbs import Noun, reading, verb

# Work that is overdue for longer means that no scheduler is running.
OVERDUE = timedelta(seconds=30)


# A cursor that is further in the future was left there by a clock that was ahead.
AHEAD = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """The result of one pass over the waiting jobs."""

    ready: int = 0
    hurried: int = 0
    expired: int = 0
    rest: timedelta | None = None  # until the next job is due or late
    distrusted: bool = False  # some were due or late, and the clock was not trusted
    unfit: bool = False  # some wait for a worker that can run them


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """The result of one pass over lost jobs."""

    lost: int = 0
    poisoned: int = 0
    last: int = 0  # where the next page begins
    distrusted: bool = False  # some leases seem to be over, and the clock was not trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProgress:
    """Overdue work. The store is healthy if there is none."""

    now: datetime
    oldest_unfired: datetime | None  # the due moment that has waited longest for a scheduler
    oldest_undispatched: datetime | None
    ready: int
    running: int
    faulty: Sequence[str] = ()  # schedules that cannot be fired until a person repairs them
    ahead: Sequence[str] = ()  # schedules whose cursor a clock that was ahead left in the future

    @property
    def unfired_for(self) -> timedelta:
        return self.now - self.oldest_unfired if self.oldest_unfired else timedelta(0)

    @property
    def problem(self) -> str | None:
        """Describe work that is overdue for so long that nobody can be working on it."""
        if self.oldest_unfired and self.now - self.oldest_unfired > OVERDUE:
            return (
                f"a run has been due since {self.oldest_unfired:%Y-%m-%d %H:%M:%S} UTC and has "
                "not been fired: is a scheduler running?"
            )
        if self.oldest_undispatched and self.now - self.oldest_undispatched > OVERDUE:
            return (
                f"a job has been due since {self.oldest_undispatched:%Y-%m-%d %H:%M:%S} UTC and "
                "has not been made ready: is a scheduler running?"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention of ended jobs, events and fires."""

    history: timedelta = timedelta(days=14)
    fires: timedelta = timedelta(days=90)
    failed: timedelta = timedelta(days=30)


NOW = timedelta(0)
DAYS_AHEAD = 30
MOST_FAULTY = 100
EXPIRED = "not started by its deadline"
NEVER_CAME = "the event that it waited for did not happen in time"
TOO_LONG = "ran longer than its total time limit"
STEPS = "steps"  # what a flow waits for
OUTCOME = "outcome"  # what a handed-off job waits for
# In the sort order of the database, every name is between these two.
FIRST, LAST = "\x01", "\U0010ffff"


def progress() -> Operation[StoreProgress]:
    [(now, unfired, undispatched, ready, running)] = yield Ask("progress")
    faulty = yield Ask("faulty_schedules", {"limit": MOST_FAULTY})
    ahead = yield Ask("schedules_ahead", {"limit": MOST_FAULTY, "ahead": rows.microseconds(AHEAD)})
    return StoreProgress(
        now=from_us(now),
        oldest_unfired=rows.moment(unfired),
        oldest_undispatched=rows.moment(undispatched),
        ready=ready,
        running=running,
        faulty=[name for (name,) in faulty],
        ahead=[name for (name,) in ahead],
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """The time until waiting jobs need the dispatcher; negative if some need it now."""

    due: timedelta | None
    late: timedelta | None
    opening: timedelta | None  # of a limit whose rate admits the next job
    told: bool  # some jobs were asked to end while they ran, and wait again
    unfit: bool  # some jobs wait for a worker that can run them
    schedules: timedelta | None
    events: bool
    leases: bool  # some have expired lately

    @property
    def topics(self) -> list[str]:
        """The topics of other services that have something to do."""
        schedules = self.schedules is not None and self.schedules <= timedelta(0)
        wanted = {SCHEDULES: schedules, EVENTS: self.events, LOST: self.leases}
        return [topic for topic, has_work in wanted.items() if has_work]

    @property
    def is_due(self) -> bool:
        return self.due is not None and self.due <= NOW

    @property
    def is_late(self) -> bool:
        return self.told or (self.late is not None and self.late < NOW)

    @property
    def is_opening(self) -> bool:
        return self.opening is not None and self.opening <= NOW

    @property
    def rest(self) -> timedelta | None:
        rests = [rest for rest in (self.due, self.late, self.opening) if rest is not None]
        return min(rests) if rests else None


@dataclass(slots=True)
class OverdueJobs:
    """The queues of hurried jobs, how many jobs expired, and the queues of unblocked jobs.

    Also the topics to notify.
    """

    hurried: list[str] = field(default_factory=list)
    expired: int = 0
    freed: list[str] = field(default_factory=list)
    tells: frozenset[str] = frozenset()
    flows: Mapping[int, JobEnding] = field(default_factory=dict)  # to be stopped, each by itself
    more: bool = False  # other jobs were asked to end, and have not been examined
    distrusted: bool = False  # the clock was not trusted: no job counted as late


class MaintenanceStore(Noun):
    @verb(None)
    async def dispatch(self, *, limit: int, trust: Trust | None = None) -> Dispatched:
        """Make due jobs ready; expire or hurry late ones.

        Other services of this process that have something to do are woken.
        """
        waiting = _waiting(await self._db.write_one(Ask("dispatcher_facts")))
        self._db.wake(*waiting.topics)  # first: the others do not poll, and the rest may fail
        moved: list[list[str] | None] = []  # queues of jobs made ready; None: clock not trusted
        if waiting.is_due:
            moved.append(await self._moved(lambda: ready(limit), trust))
        late = OverdueJobs()
        if waiting.is_late:
            late = await self._db.write(lambda: overdue(limit, ids=self._db.attempt(), trust=trust))
            await self._stop_flows(late)
        if waiting.is_opening:
            moved.append(await self._moved(lambda: limits.open_limits(limit), trust))
        queues = [queue for found in moved for queue in found or ()]
        if waiting.is_opening or queues or late.hurried or late.expired:
            waiting = _waiting(await self._db.write_one(Ask("dispatcher_facts")))
        self._db.nudge(*ready_in([*queues, *late.hurried, *late.freed]))
        self._db.nudge(*sorted(late.tells), *((SCHEDULES, READY) if late.expired else ()))
        return Dispatched(
            ready=len(queues),
            hurried=len(late.hurried),
            expired=late.expired,
            rest=NOW if late.more else waiting.rest,
            distrusted=late.distrusted or None in moved,
            unfit=waiting.unfit,
        )

    async def _moved(self, start: Start[list[str]], trust: Trust | None) -> list[str] | None:
        """Run an operation that makes jobs ready; return None if the clock is not trusted."""
        return await self._db.write(lambda: at_trusted_time(start, trust))

    async def _stop_flows(self, late: OverdueJobs) -> None:
        """Stop late flows, each in a transaction of its own: a flow is locked alone."""
        for number, ending in late.flows.items():
            stopped = await self._stopped(number, ending)
            late.freed += stopped.freed
            late.tells |= stopped.tells
            late.expired += 1

    async def _stopped(self, number: int, ending: JobEnding) -> EndedJobs:
        return await self._db.write(lambda: stop_flow(number, ending, ids=self._db.attempt()))

    @verb(None)
    async def answer(self, *, limit: int) -> int:
        """Complete the steps whose awaited event has happened; return how many."""
        if not await self._db.write_one(Ask("any_unanswered")):
            return 0
        answered = 0
        # Events complete waiting steps even if reactions are blocked by a lock on a schedule.
        await self._db.write(lambda: compare_unseen(limit))
        compared = limit
        while compared == limit:
            ended, compared = await self._db.write(lambda: answer(limit, ids=self._db.attempt()))
            self._db.nudge(SCHEDULES, *sorted(ended.tells), *ready_in(ended.freed))
            answered += len(ended.ids)
        return answered

    @verb(None)
    async def sweep(self, *, limit: int) -> int:
        """Unblock jobs whose predecessor is gone, a safety net; return how many were found."""
        found = await self._db.write(lambda: sweep(limit))
        mended = await self._db.write(lambda: mend_flows(limit, ids=self._db.attempt()))
        if found or mended.ids:
            self._db.nudge(SCHEDULES, READY, *sorted(mended.tells))
        return found + len(mended.ids)

    @verb(None)
    async def hold_unknown(
        self, *, patience: timedelta, limit: int, trust: Trust | None = None
    ) -> int:
        """Set aside jobs whose task no living worker knows, so that they do not block others."""
        held = await self._db.write(
            lambda: at_trusted_time(lambda: hold_unknown(patience=patience, limit=limit), trust)
        )
        return held or 0

    @verb(None)
    async def free_unfit(self, *, limit: int) -> int:
        """Unblock jobs whose required worker is alive again; return how many.

        As many as the limit means that there may be more.
        """
        freed = await self._db.write(lambda: free_unfit(limit))
        self._db.nudge(*ready_in(freed))
        return len(freed)

    @verb(None)
    async def take_back(
        self,
        judge: Judge,
        *,
        after: int,
        margin: timedelta,
        limit: int,
        trust: Trust | None = None,
    ) -> TakenBack:
        """Reclaim jobs of workers whose lease has expired or was ended.

        While the clock is not trusted, no lease counts as expired; one that was ended does.
        """
        page = {"after": after, "margin": rows.microseconds(margin)}
        if not await self._db.write_one(Ask("lost_jobs", {**page, "limit": 1})):
            return TakenBack()
        taken = await self._db.write(
            lambda: take_back(
                judge,
                after=after,
                margin=margin,
                limit=limit,
                ids=self._db.attempt(),
                trust=trust,
            )
        )
        if taken.lost:
            self._db.nudge(READY, SCHEDULES)
        if taken.poisoned:  # the rest of its flow may have been asked to end
            self._db.nudge(JOBS, WORKERS)
        return taken

    @verb(None)
    async def make_days(self, *, trust: Trust | None = None) -> None:
        """Create the partitions of the days ahead.

        One day at a time: the lock that makes or drops one is held until the commit.
        """
        for parent, instant in await self._db.read(lambda: missing_days(trust)):
            await self._db.write(
                partial(alone, Ask("make_day", {"parent": parent, "instant": instant}))
            )

    @verb(None)
    async def prune(self, retention: Retention, *, limit: int, trust: Trust | None = None) -> int:
        """Delete old rows; return how many. As many as the limit means that there may be more."""
        gone = await self._db.write(lambda: prune_keys(limit))
        now = await self._db.read(lambda: trusted_now(trust))
        if now is None:
            return gone
        for statement, before in prunable(retention, now):
            gone += await self._db.write(partial(prune, statement, before, limit))
        return gone

    @verb(None)
    async def count(self, *, trust: Trust | None = None) -> bool:
        """Add jobs and fires since the last call to the counters; return whether there are more.

        Read first, without a lock: a node that has counted the same stretch meanwhile wins.
        """
        stretch = await self._db.read(lambda: counters.stretch(trust))
        if stretch is None:
            return False
        await self._db.write(lambda: counters.keep(stretch))
        return stretch.more

    counters: Final = reading("viewer", counters.counters)
    progress: Final = reading("viewer", progress)


def _waiting(found: Sequence[Row]) -> Waiting:
    [(due, late, opening, told, unfit, schedules, events, leases)] = found
    return Waiting(
        rows.length(due),
        rows.length(late),
        rows.length(opening),
        told=bool(told),
        unfit=bool(unfit),
        schedules=rows.length(schedules),
        events=bool(events),
        leases=bool(leases),
    )


def ready(limit: int) -> Operation[list[str]]:
    """Make due jobs ready; return their queues."""
    moved = yield Ask("ready_due_jobs", {"limit": limit})
    return [queue for (queue,) in moved]


def overdue(limit: int, *, ids: Ids, trust: Trust | None = None) -> Operation[OverdueJobs]:
    """Hurry late jobs, or expire them, and end the jobs that were asked to end.

    Jobs that another transaction holds are left for the next pass: it may hold them for long. No
    job is late by a clock that is not trusted.
    """
    now = yield from trusted_now(trust)
    if now is None:
        done = yield from _told_or_late([], limit, ids=ids)
        done.distrusted = True
        return done
    found = yield Ask("overdue_jobs", {"limit": limit, "now": now})
    return (yield from as_of(now, _told_or_late(found, limit, ids=ids)))


def _told_or_late(found: Sequence[Row], limit: int, *, ids: Ids) -> Operation[OverdueJobs]:
    late = {number: _late(waits) for number, how, waits in found if how == "skip"}
    told = yield Ask("told_while_waiting", {"limit": limit})
    stopping = {number: JobEnding(State.CANCELLED, why) for number, why, _ in told}
    flow_ids = {row[0] for row in (*found, *told) if row[2] == STEPS}
    out = {row[0] for row in (*found, *told) if row[2] == OUTCOME}
    revoked = yield from _call_off(
        {number: ending for number, ending in stopping.items() if number in out}, ids=ids
    )
    silent = yield from _fail_silent(
        [number for number, _, waits in found if waits == OUTCOME], ids=ids
    )
    expired = yield from _end(_without(late, flow_ids | out), "hold_overdue_jobs", ids=ids)
    cancelled = yield from _end(_without(stopping, flow_ids | out), "hold_waiting_jobs", ids=ids)
    hurried = yield from _hurry([number for number, how, _ in found if how == "hurry"])
    return OverdueJobs(
        hurried,
        len(expired.ids) + len(silent.ids),
        [*expired.freed, *cancelled.freed, *revoked.freed, *silent.freed],
        expired.tells | cancelled.tells | revoked.tells | silent.tells,
        {number: ending for number, ending in (late | stopping).items() if number in flow_ids},
        more=len(told) == limit,
    )


def _late(waits: str | None) -> JobEnding:
    if waits == STEPS:
        return JobEnding(State.FAILED, TOO_LONG)
    return JobEnding(State.EXPIRED, NEVER_CAME if waits == "event" else EXPIRED)


def _without(endings: Mapping[int, JobEnding], others: Container[int]) -> dict[int, JobEnding]:
    return {number: ending for number, ending in endings.items() if number not in others}


def _end(endings: Mapping[int, JobEnding], holding: str, *, ids: Ids) -> Operation[EndedJobs]:
    if not endings:
        return EndedJobs([], [])
    peeked = yield Ask("peek_jobs", {"ids": list(endings)})
    return (yield from end(endings, peeked, ids=ids, holding=holding))


def _call_off(endings: Mapping[int, JobEnding], *, ids: Ids) -> Operation[EndedJobs]:
    if not endings:
        return EndedJobs([], [])
    peeked = yield Ask("peek_jobs", {"ids": list(endings)})
    return (yield from call_off(endings, peeked, ids=ids))


def _fail_silent(numbers: Sequence[int], *, ids: Ids) -> Operation[EndedJobs]:
    """Fail the attempts of handed-off jobs that nothing was heard of in time."""
    if not numbers:
        return EndedJobs([], [])
    now = yield from current_time()
    settled = yield from job_changes.overdue(numbers, now, ids=ids)
    if settled is None:
        return EndedJobs([], [])
    return EndedJobs(list(settled.kept), list(settled.freed), frozenset(settled.tells))


def _hurry(numbers: list[int]) -> Operation[list[str]]:
    if not numbers:
        return []
    hurried = yield Ask("hurry_jobs", {"ids": numbers, "priority": HURRIED})
    return [queue for (queue,) in hurried]


def sweep(limit: int) -> Operation[int]:
    """Repair jobs that wait for a job that is gone, and delays that await no run."""
    blocked = yield Ask("stranded_blocked", {"limit": limit})
    ids = [schedule_id for (schedule_id,) in blocked]
    if ids:
        yield Ask("hold_schedules_briefly", {"ids": ids})
        yield Ask("free_blocked", {"ids": ids})
    stranded = rows.schedules((yield Ask("stranded_schedules", {"limit": limit})))
    delays = [{"id": row.id, "next_at": after_awaited(row)} for row in stranded]
    if delays:
        yield Ask("free_schedules", {"rows": rows.packed(delays)})
    return len(ids) + len(delays) + (yield from limits.sweep(limit))


def hold_unknown(*, patience: timedelta, limit: int) -> Operation[int]:
    """Set aside jobs at the heads of queues whose tasks no living worker knows."""
    living = [rows.worker(row) for row in (yield Ask("living_workers"))]
    known = sorted({task for worker in living for task in worker.tasks})
    held = 0
    for (queue,) in (yield Ask("busy_queues")):
        found = yield Ask(
            "unknown_jobs",
            {
                "queue": queue,
                "tasks": known,
                "patience": rows.microseconds(patience),
                "limit": limit,
            },
        )
        if found:
            ids = [number for number, _ in found]
            held += len((yield Ask("hold_unknown_jobs", {"ids": ids})))
    return held


def free_unfit(limit: int) -> Operation[list[str]]:
    """Unblock jobs whose required worker is alive again; return their queues."""
    living = [rows.worker(row) for row in (yield Ask("living_workers"))]
    known = rows.packed(_fitting(living))
    return [queue for (queue,) in (yield Ask("free_unfit_jobs", {"known": known, "limit": limit}))]


def _fitting(living: Iterable[WorkerInfo]) -> Iterator[dict[str, str]]:
    """Yield half-open ranges of ``waits_for`` of blocked jobs that a live worker can run."""
    forms: dict[str, set[str]] = {}
    for worker in living:
        for task, signature in worker.profile.signatures.items():
            forms.setdefault(task, set()).add(signature)
    for task, signatures in sorted(forms.items()):
        yield {"task": task, "waits": "worker", "low": "", "high": LAST}
        # A job that did not fit one of two signatures may fit the other.
        only = min(signatures) if len(signatures) == 1 else LAST
        yield {"task": task, "waits": "signature", "low": "", "high": only}
        yield {"task": task, "waits": "signature", "low": f"{only}{FIRST}", "high": LAST}


_LOST = (
    "id fence attempt crashes retry worker schedule_id task key isolates worker_name has_ended "
    "parent step reason"
)


def take_back(
    judge: Judge,
    *,
    after: int,
    margin: timedelta,
    limit: int,
    ids: Ids,
    trust: Trust | None = None,
) -> Operation[TakenBack]:
    """Reclaim jobs whose worker has no lease; the fencing token ensures that none was finished.

    A lease that was ended explicitly is over by any clock. One that has expired is over only by a
    trusted clock.
    """
    [(now,)] = yield Ask("now")
    trusted = trust is None or trust(from_us(now))
    values: dict[str, Value] = {
        "after": after,
        "margin": rows.microseconds(margin),
        "limit": limit,
        "now": now,
    }
    found = yield Ask("lost_jobs", values)
    lost = [job for job in read_rows(LostJob, found, _LOST) if trusted or job.has_ended]
    settlements = [
        Settlement(job=job, verdict=judge(job, from_us(now)), outcome=Lost.__name__.lower())
        for job in lost
    ]
    settled = (yield from settle(settlements, ids=ids)) if settlements else None
    # Two reapers may find the same job: the first one counts it.
    kept = set(settled.kept) - set(settled.before) if settled else set()
    poisoned = sum(s.verdict.state is State.FAILED for s in settlements if s.job.id in kept)
    return TakenBack(
        lost=len(kept),
        poisoned=poisoned,
        last=found[-1][0] if len(found) == limit else 0,
        distrusted=len(lost) < len(found),
    )


def missing_days(trust: Trust | None) -> Operation[list[tuple[str, int]]]:
    now = yield from trusted_now(trust)
    if now is None:
        return []
    found = yield Ask("missing_days", {"days": DAYS_AHEAD, "now": now})
    return [(parent, instant) for parent, instant in found]


def prunable(retention: Retention, now: int) -> list[tuple[str, int]]:
    """Return the statements that delete old rows, each with its limit of age."""
    lengths = {
        "prune_history": retention.history,
        "prune_failed": retention.failed,
        "prune_failed_of_tasks": timedelta(),
        # A replay would react again to an event that has no row in the ledger any more.
        "prune_events": min(retention.history, retention.fires),
        "prune_attempts": max(retention.failed, retention.history),
        "old_flows": max(retention.failed, retention.history),
        "prune_log": retention.history,
        "prune_notes": retention.history,
        "prune_fires": retention.fires,
        "prune_changes": retention.fires,
        "prune_alert_messages": retention.history,
        "old_signals": timedelta(hours=1),
        "forget_workers": timedelta(hours=1),
        "prune_limits": timedelta(hours=1),
        "prune_once": timedelta(days=1),
        "prune_reservations": timedelta(days=1),
    }
    by_the_day = {"trim_history": retention.history, "trim_fires": retention.fires}
    lengths |= {name: length for name, length in by_the_day.items() if length < DAY}
    return [(name, now - length // MICROSECOND) for name, length in lengths.items()]


def prune(statement: str, before: int, limit: int) -> Operation[int]:
    """Delete old rows; return how many.

    Where other rows decide whether a row may be deleted, it is locked first, and the others are
    read in a second statement: the first one does not see what was committed while it waited.
    """
    if statement == "prune_events":
        yield Ask("hold_reactor")  # a replay makes jobs of old events
    gone = yield Ask(statement, {"before": before, "limit": limit})
    if gone and statement == "prune_failed_of_tasks":
        for rest in ("remove_attempts", "remove_log", "remove_notes"):
            yield Ask(rest, {"ids": [number for (number,) in gone]})
    if gone and statement == "old_signals":
        gone = yield Ask("prune_signals", {"ids": [number for (number,) in gone]})
    if gone and statement == "old_flows":
        gone = yield Ask("unused_flows", {"ids": [number for (number,) in gone]})
        yield from flows.forget([number for (number,) in gone])
    return len(gone)


def prune_keys(limit: int) -> Operation[int]:
    """Delete keys of jobs that have ended; they are locked before the jobs are looked up."""
    held = [{"task": task, "key": key} for task, key in (yield Ask("old_keys", {"limit": limit}))]
    return len((yield Ask("prune_keys", {"rows": rows.packed(held)}))) if held else 0


def compare_unseen(limit: int) -> Operation[int]:
    """Mark the steps that wait for new events to be compared; return how many events."""
    asked = {"limit": limit, "at": BEGINNING.at, "id": BEGINNING.id}
    numbers = [number for number, *_ in (yield Ask("unseen_events", asked))]
    if numbers:
        yield Ask("compare_events", {"ids": numbers})
    return len(numbers)


def answer(limit: int, *, ids: Ids) -> Operation[tuple[EndedJobs, int]]:
    """Complete the jobs whose event has come, with its payload as their result.

    Return also how many jobs were compared.
    """
    found = yield Ask("answered_jobs", {"limit": limit})
    if not found:
        return EndedJobs([], []), 0
    endings = {
        number: JobEnding(State.SUCCEEDED, f"{name} happened (event {event})", result=payload)
        for number, _, event, name, payload in found
        if event is not None
    }
    ended = EndedJobs([], [])
    if endings:
        peeked = yield Ask("peek_jobs", {"ids": list(endings)})
        ended = yield from end(endings, peeked, ids=ids)
    compared = [[number, event] for number, event, *_ in found]
    yield Ask("forget_compared", {"rows": json.dumps(compared)})
    return ended, len(found)
