"""Firing: due schedules become ledger rows, jobs and next moments, in one transaction.

    claim     the due schedules are locked (or, where there is nothing to lock with, read)
    decide    purely, each on its own: a schedule that cannot be decided is set aside with its
              fault and does not hold up the others
    advance   compare and set: a schedule that was changed meanwhile drops out here
    record    the ledger rows; a moment that has one already gets no second one
    hand over the jobs of the rows that were recorded
    claim     one of them for an idle worker of this process, which then need not be told of it

A crash before the commit leaves nothing, a crash after it leaves everything.

Many schedules share a transaction, and the past of one must not delay the present of another. So
what is read about each is bounded, whatever its jobs and its ledger hold. A schedule whose ledger
has rows behind the cursor, as after a rewind, is decided apart from the others and in portions; a
decision with very many entries is written alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from duly.instants import from_us, to_us
from duly.model.fire import CLOCK, Cause
from duly.model.job import PRIORITIES, Claimed
from duly.model.payload import storable
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.model.states import State
from duly.policy.decision import Facts, Firing, LedgerEntry, LiveJob, NewJob
from duly.policy.overlap import MOST_QUEUED
from duly.policy.sentences import merged
from duly.rules.budget import MOST_STEPS, Budget
from duly.store import claims, rows
from duly.store.database import Ask, Operation, Row, Value
from duly.store.ids import CONFIRMED, Ids, NumbersTaken, all_new
from duly.store.rows import ScheduleColumns
from duly.store.values import FIRED, JOBS, READY, Decide, Offer, Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringResult:
    """The result of one pass over the due schedules."""

    schedules: int = 0
    fires: int = 0
    jobs: int = 0
    claimed: Sequence[Claimed] = ()  # for a worker of this process
    topics: frozenset[str] = frozenset()  # to nudge for the other jobs
    faults: Sequence[tuple[str, str]] = ()  # schedules that were set aside: name, reason
    lateness: timedelta = timedelta(0)  # of the most overdue
    rest: timedelta | None = None  # until the next is due; None: no schedule has a next moment
    distrusted: bool = False  # some were due, and the clock was not trusted
    settled: bool = False  # some are due still whose ledger has rows behind the cursor

    def __add__(self, later: "FiringResult") -> "FiringResult":
        """Return the combined result of two passes."""
        return FiringResult(
            schedules=self.schedules + later.schedules,
            fires=self.fires + later.fires,
            jobs=self.jobs + later.jobs,
            claimed=[*self.claimed, *later.claimed],
            topics=self.topics | later.topics,
            faults=[*self.faults, *later.faults],
            lateness=max(self.lateness, later.lateness),
            rest=later.rest,
            distrusted=self.distrusted or later.distrusted,
            settled=later.settled,
        )


# A schedule that cannot be decided is tried again as long after as it has been overdue, between:
SOONEST_AGAIN, LATEST_AGAIN = 60_000_000, 3_600_000_000
# So many ledger rows are written in one transaction, unless one schedule alone has more: catching
# up for many schedules at once must not take longer than a transaction may.
MOST_ENTRIES = 2_000
# So many moments that are in the ledger already are read for one decision, and in one transaction.
PORTION = 1_000
# The rank of a job is the time at which it became ready, less a second for each priority.
SECOND_US = 1_000_000
# So long a schedule computed with newer zone data is left to the nodes that have it.
PATIENCE = timedelta(seconds=60)


def fire(
    decide: Decide,
    *,
    limit: int,
    zone_data: str,
    ids: Ids,
    trust: Trust,
    settled: bool = False,
    at_once: bool = False,
    offer: Offer | None = None,
) -> Operation[FiringResult]:
    """Fire at most ``limit`` due schedules: those with ``settled`` moments, or the others.

    Settled moments are behind the cursor and in the ledger already. With ``at_once`` one statement
    writes what takes four, where the database can do that.
    """
    asked: dict[str, Value] = {
        "limit": limit,
        "zone_data": zone_data,
        "patience": rows.microseconds(PATIENCE),
    }
    statement = "due_with_settled" if settled else "due_schedules"
    due = rows.schedules((yield Ask(statement, asked)))
    if not due or not trust(from_us(due[0].now)):
        [(rest, more)] = yield Ask("next_due")
        return FiringResult(rest=rows.length(rest), distrusted=bool(due), settled=bool(more))
    now = from_us(due[0].now)
    firings, faults = yield from decided(due, decide, now)
    if at_once and not settled:
        written, rest, more = yield from _write_at_once(firings, faults, zone_data, ids)
    else:
        written = yield from write(firings, faults, zone_data=zone_data, ids=ids)
        [(rest, more)] = yield Ask("next_due")  # asked last: what passes until then is not rested
    claimed = (yield from _claim(written, offer, now)) if offer else []
    taken = {(job.schedule_id, job.due_at) for job in claimed}
    return FiringResult(
        schedules=len(written),
        fires=sum(len(firing.entries) for firing in written),
        jobs=sum(len(firing.jobs) for firing in written),
        claimed=claimed,
        topics=frozenset(
            _topic(firing.schedule.plan, job)
            for firing in written
            for job in firing.jobs
            if (firing.schedule.id, to_us(job.due_at)) not in taken
        ),
        faults=[(fault.name, fault.reason) for fault in faults],
        lateness=max(now - from_us(row.next_at or row.now) for row in due),
        rest=rows.length(rest),
        settled=bool(more),
    )


def _topic(plan: Plan, job: NewJob) -> str:
    """Return the topic to nudge for the job; a worker need not ask where a plain job waits."""
    if job.state is State.SCHEDULED:
        return JOBS
    is_plain = not (plan.limits or plan.needs) and job.priority > PRIORITIES["low"]
    return f"{FIRED}:{plan.queue}" if is_plain else READY


def _claim(written: Sequence[Firing], offer: Offer, now: datetime) -> Operation[list[Claimed]]:
    """Claim one of the plain jobs that were made now: the floor of the search is their rank."""
    for firing in written:
        plan = firing.schedule.plan
        for job in firing.jobs:
            request = offer(plan) if _topic(plan, job).startswith(FIRED) else None
            if request is not None:
                floor = to_us(now) - job.priority * SECOND_US
                return (yield from claims.claim(replace(request, floor=floor)))
    return []


@dataclass(frozen=True, slots=True)
class Fault:
    """A schedule that cannot be decided: it is set aside with the reason.

    It is tried again later: the fault may be this node's, and another node or version may succeed.
    Its cursor stays, so no moment is lost meanwhile.
    """

    id: int
    name: str
    revision: int
    cursor: int
    reason: str
    next_at: int  # when it is tried again
    pause: str | None


def decided(
    due: Sequence[ScheduleColumns], decide: Decide, now: datetime
) -> Operation[tuple[list[Firing], list[Fault]]]:
    """Decide each of these due schedules; return the decisions and the faults."""
    by_id = {row.id: row for row in due}
    schedules: list[StoredSchedule] = []
    firings: list[Firing] = []
    faults: list[Fault] = []
    for row in due:
        try:
            schedules.append(rows.schedule(row))
        except Exception as error:  # noqa: BLE001 - one bad row must not stop its batch
            faults.append(_fault(row, error))
    facts = yield from known(schedules, due, now=now)
    entries = steps = 0
    for fact in facts:
        budget = Budget()
        try:
            with budget:
                firing = decide(fact, now)
            entries += len(firing.entries)
            if firings and entries > MOST_ENTRIES:
                break  # this one and those behind it stay due, and are decided by the next tick
            firings.append(firing)
        except Exception as error:  # noqa: BLE001 - as above
            faults.append(_fault(by_id[fact.schedule.id], error))
        steps += budget.spent
        if steps >= MOST_STEPS:
            break
    return firings, faults


def _fault(row: ScheduleColumns, error: Exception) -> Fault:
    said = storable(f"{type(error).__name__}: {error}", 1_000)
    wait = min(max(row.now - row.cursor, SOONEST_AGAIN), LATEST_AGAIN)
    return Fault(row.id, row.name, row.revision, row.cursor, said, row.now + wait, row.pause)


def known(
    schedules: Sequence[StoredSchedule],
    due: Sequence[ScheduleColumns],
    *,
    now: datetime | None = None,
    hold: bool = True,
) -> Operation[list[Facts]]:
    """Read the facts of decisions: jobs that have not ended, and settled moments until ``now``.

    Jobs that may be given to a newer moment are held, unless nothing is going to be written. A
    portion of settled moments is read: a schedule for which nothing is left of it is left out.
    """
    live = yield from _live(schedules, hold=hold)
    full = [s.id for s in schedules if s.plan.policies.overlap == "queue_all"]
    waiting: dict[int, int] = {}
    if full:
        waiting = dict((yield Ask("waiting_jobs", {"ids": full, "most": MOST_QUEUED})))
    settled_until = {row.id: row.settled_until or 0 for row in due}
    facts: list[Facts] = []
    read = 0
    for schedule in schedules:
        jobs = live.get(schedule.id, [])
        told = sum(not job.started and not job.backfilled for job in jobs)
        fact = Facts(
            schedule=schedule,
            live=tuple(jobs),
            waiting=max(0, waiting.get(schedule.id, 0) - told),
        )
        if now is not None and settled_until[schedule.id] > to_us(schedule.cursor):
            if read >= PORTION:
                continue
            settled, until = yield from settled_moments(schedule.id, schedule.cursor, now)
            read += len(settled)
            fact = replace(fact, settled=settled, until=until)
        facts.append(fact)
    return facts


def _live(
    schedules: Sequence[StoredSchedule], *, hold: bool
) -> Operation[dict[int, list[LiveJob]]]:
    """Read the jobs by which decisions about each schedule are made, oldest first."""
    taking = ("queue_one", "replace") if hold else ()
    held = [s.id for s in schedules if s.plan.policies.overlap in taking]
    read = [s.id for s in schedules if s.plan.policies.overlap not in ("allow", *taking)]
    found: list[Row] = []
    if held:
        found += yield Ask("hold_live_jobs", {"ids": held})
    if read:
        found += yield Ask("live_jobs", {"ids": read})
    jobs: dict[int, list[LiveJob]] = {}
    for schedule_id, number, state, due_at, fire_id, request in found:
        asked = request != number
        job = LiveJob(number, State(state), from_us(due_at), fire_id, backfilled=asked)
        jobs.setdefault(schedule_id, []).append(job)
    return jobs


def settled_moments(
    schedule_id: int, after: datetime, until: datetime
) -> Operation[tuple[frozenset[datetime], datetime | None]]:
    """Read a portion of a schedule's moments that are in the ledger, and where it ends.

    None instead of an end: these are all.
    """
    values: dict[str, Value] = {
        "schedule_id": schedule_id,
        "after": to_us(after),
        "until": to_us(until),
        "limit": PORTION,
    }
    found = [from_us(due_at) for (due_at,) in (yield Ask("settled_fires", values))]
    return frozenset(found), found[-1] if len(found) == PORTION else None


def write(
    firings: Sequence[Firing], faults: Sequence[Fault] = (), *, zone_data: str, ids: Ids
) -> Operation[list[Firing]]:
    """Write decisions: those on schedules that were changed meanwhile are left out."""
    numbered = _numbered(firings, (yield from ids.draw(_wanted(firings))))
    moved = _moved(numbered, faults, zone_data)
    advanced = yield Ask("advance_schedules", {"rows": rows.packed(moved)})
    won = {number for (number,) in advanced}
    numbered = [one for one in numbered if one[0].schedule.id in won]
    kept = _flat(numbered)
    if kept:
        fires = rows.packed(_fires(kept))
        recorded = {number for (number,) in (yield Ask("record_fires", {"rows": fires}))}
        kept = [one for one in kept if one[2] in recorded]
        made = _made(kept)
        if made:
            all_new((yield Ask("add_fired_jobs", {"rows": rows.packed(made)})), len(made))
    yield from _hand_over(numbered, kept)
    return [firing for firing, _ in numbered]


# An entry of a decision with the numbers of its fire and of its job.
NumberedEntry: TypeAlias = tuple[LedgerEntry, int, int]
NumberedFiring: TypeAlias = tuple[Firing, list[NumberedEntry]]
FiredEntry: TypeAlias = tuple[StoredSchedule, LedgerEntry, int, int]


def _write_at_once(
    firings: Sequence[Firing], faults: Sequence[Fault], zone_data: str, ids: Ids
) -> Operation[tuple[list[Firing], int | None, bool]]:
    """Do the same in one statement; return also what ``next_due`` would.

    The statement does not see what it writes: it finds the next moment of the other schedules.
    """
    wanted = _wanted(firings)
    numbered = _numbered(firings, iter(ids.take(wanted)))
    moved = _moved(numbered, faults, zone_data)
    kept = _flat(numbered)
    values: dict[str, Value] = {
        "schedules": rows.packed(moved),
        "fires": rows.packed(_fires(kept)),
        "jobs": rows.packed(_made(kept)),
        **(ids.reservation if wanted else CONFIRMED),
    }
    [(advanced, recorded, made, known, others, more, now)] = yield Ask("write_fires", values)
    if wanted:
        ids.confirmed(known)
    won, new = set(advanced), set(recorded)
    numbered = [one for one in numbered if one[0].schedule.id in won]
    kept = [one for one in kept if one[2] in new]
    if made < sum(entry.job is not None for _, entry, _, _ in kept):
        raise NumbersTaken
    yield from _hand_over(numbered, kept)
    moments = [others, *(row["next_at"] for row in moved if row["id"] in won)]
    coming = [moment for moment in moments if moment is not None]
    rest = min(coming) - now if coming else None
    return [firing for firing, _ in numbered], rest, more


def _wanted(firings: Sequence[Firing]) -> int:
    return 2 * sum(len(firing.entries) for firing in firings)


def _numbered(firings: Sequence[Firing], numbers: Iterator[int]) -> list[NumberedFiring]:
    return [(f, [(entry, next(numbers), next(numbers)) for entry in f.entries]) for f in firings]


def _moved(
    numbered: Sequence[NumberedFiring], faults: Sequence[Fault], zone_data: str
) -> list[dict[str, Any]]:
    advanced = [_advance(firing, entries, zone_data) for firing, entries in numbered]
    return advanced + [_set_aside(fault, zone_data) for fault in faults]


def _flat(numbered: Sequence[NumberedFiring]) -> list[FiredEntry]:
    return [(firing.schedule, *entry) for firing, entries in numbered for entry in entries]


def _fires(kept: Sequence[FiredEntry], *, series: int = CLOCK) -> list[dict[str, object]]:
    return [
        fire_values(schedule, entry, fire_id, job_id=job_id, series=series)
        for schedule, entry, fire_id, job_id in kept
    ]


def _made(kept: Sequence[FiredEntry], *, series: int = CLOCK) -> list[dict[str, object]]:
    """Return the jobs of these fires. The request of one is its own number, or the backfill's."""
    return [
        _job(schedule, entry.job, fire_id, job_id)
        | {"request": series if entry.cause is Cause.ASKED else job_id}
        for schedule, entry, fire_id, job_id in kept
        if entry.job
    ]


def _hand_over(numbered: Sequence[NumberedFiring], kept: Sequence[FiredEntry]) -> Operation[None]:
    """Give waiting jobs to newer fires, and ask running ones to end."""
    yield from _take_over(kept)
    stopping = [number for firing, _ in numbered for number in firing.stopping]
    if stopping:
        yield from stop(stopping, "replaced by a newer run of its schedule")


def write_manual(
    schedule: StoredSchedule, entries: Sequence[LedgerEntry], *, series: int, ids: Ids
) -> Operation[list[int]]:
    """Write fires outside the clock, without moving the cursor; return the ids of their jobs."""
    numbers = yield from ids.draw(2 * len(entries))
    kept = [(schedule, entry, next(numbers), next(numbers)) for entry in entries]
    yield Ask("record_fires", {"rows": rows.packed(_fires(kept, series=series))})
    made = _made(kept, series=series)
    if made:
        all_new((yield Ask("add_fired_jobs", {"rows": rows.packed(made)})), len(made))
    yield from _take_over(kept)
    return [job_id for _, _, _, job_id in kept]


def stop(job_ids: Iterable[int], reason: str) -> Operation[list[int]]:
    """Ask running jobs to end; return the ids of those that run."""
    signals = [{"job_id": number, "what": "cancel", "reason": reason} for number in job_ids]
    told = yield Ask("send_signals", {"rows": rows.packed(signals)})
    return [number for (number,) in told]


def _take_over(kept: Sequence[FiredEntry]) -> Operation[None]:
    taken = [(s, entry, w, n) for s, entry, n, _ in kept if (w := entry.takes_over)]
    if taken:
        newer = [_taken(s, entry, waiting, number) for s, entry, waiting, number in taken]
        older = [_older(schedule, waiting, entry) for schedule, entry, waiting, _ in taken]
        yield Ask("take_over", {"rows": rows.packed(newer)})
        yield Ask("merge_fires", {"rows": rows.packed(older)})
        ids = [waiting.id for _, _, waiting, _ in taken if waiting.id is not None]
        yield Ask("forget_signals", {"ids": ids})


def _advance(firing: Firing, entries: Sequence[NumberedEntry], zone_data: str) -> dict[str, Any]:
    pause = firing.schedule.pause
    # Without a next moment, the schedule keeps waiting for the same job.
    awaiting = firing.schedule.awaiting if firing.next_at is None else None
    if firing.awaits:
        entry, _, job_id = entries[-1]
        awaiting = entry.takes_over.id if entry.takes_over else job_id
    return {
        "id": firing.schedule.id,
        "revision": firing.schedule.revision,
        "cursor": to_us(firing.cursor),
        "next_at": rows.instant(firing.next_at),
        "awaiting": awaiting,
        "fault": None,
        "pause": rows.pause_text(pause) if pause and _goes_on(pause, firing) else None,
        "runs": len(firing.jobs) if firing.schedule.runs_left is not None else 0,
        "zone_data": zone_data,
    }


def _goes_on(pause: Pause, firing: Firing) -> bool:
    """Return whether a pause that ended still has moments to decide in later portions."""
    if pause.until is None or firing.next_at is None:
        return False
    return firing.cursor < pause.until


def _set_aside(fault: Fault, zone_data: str) -> dict[str, Any]:
    return {
        "id": fault.id,
        "revision": fault.revision,
        "cursor": fault.cursor,
        "next_at": fault.next_at,
        "awaiting": None,
        "fault": fault.reason,
        "pause": fault.pause,
        "runs": 0,
        "zone_data": zone_data,
    }


def fire_values(
    schedule: StoredSchedule,
    entry: LedgerEntry,
    fire_id: int,
    *,
    job_id: int | None = None,
    series: int = CLOCK,
) -> dict[str, object]:
    job = job_id if entry.job else None
    return {
        "id": fire_id,
        "schedule_id": schedule.id,
        "due_at": to_us(entry.due_at),
        "covers_from": to_us(entry.covers_from),
        "count": entry.count,
        "outcome": entry.outcome,
        "cause": entry.cause,
        "reason": entry.reason,
        "job_id": entry.takes_over.id if entry.takes_over else job,
        "series": series,
    }


def _job(schedule: StoredSchedule, job: NewJob, fire_id: int, job_id: int) -> dict[str, object]:
    return {
        "id": job_id,
        "schedule_id": schedule.id,
        "fire_id": fire_id,
        "state": job.state,
        "due_at": to_us(job.due_at),
        "ready_at": to_us(job.ready_at),
        "deadline": rows.instant(job.deadline),
        "late": job.late,
        "retry": schedule.plan.policies.retry,
        "priority": job.priority,
        "reason": job.reason,
        "unawaited": schedule.plan.unawaited,
    }


def _taken(
    schedule: StoredSchedule, entry: LedgerEntry, waiting: LiveJob, fire_id: int
) -> dict[str, object]:
    return {
        "id": waiting.id,
        "due_at": to_us(entry.due_at),
        "fire_id": fire_id,
        "deadline": rows.instant(entry.deadline),
        "late": schedule.plan.policies.late,  # it may differ from when the job was made
    }


def _older(schedule: StoredSchedule, waiting: LiveJob, entry: LedgerEntry) -> dict[str, object]:
    return {
        "schedule_id": schedule.id,
        "due_at": to_us(waiting.due_at),
        "fire_id": waiting.fire_id,
        "reason": merged(schedule.plan, entry.due_at),
    }
