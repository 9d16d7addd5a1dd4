"""Operations of the services: due jobs, late ones, lost ones, awaited events, pruning."""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from duly.instants import from_us
from duly.model.outcome import Lost
from duly.model.states import State
from duly.model.worker import WorkerInfo
from duly.policy.firing import HURRIED
from duly.policy.verdict import SUSPECT
from duly.store import flows, limits, rows
from duly.store.database import Ask, Operation, Row, Value, as_of
from duly.store.ids import Ids
from duly.store.rows import BEGINNING, JobEnding
from duly.store.settling import EndedJobs, after_awaited, end, settle
from duly.store.values import (
    AHEAD,
    Judge,
    LostJob,
    Retention,
    Settlement,
    StoreProgress,
    TakenBack,
    Trust,
)

T = TypeVar("T")

MICROSECOND = timedelta(microseconds=1)
DAYS_AHEAD = 30
MOST_FAULTY = 100
EXPIRED = "not started by its deadline"
NEVER_CAME = "the event that it waited for did not happen in time"
TOO_LONG = "ran longer than its total time limit"
STEPS = "steps"  # what a flow waits for
# In the sort order of the database, every name is between these two.
FIRST, LAST = "\x01", "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The time until waiting jobs need the dispatcher; negative if some need it now."""

    due: timedelta | None
    late: timedelta | None
    opening: timedelta | None  # of a limit whose rate admits the next job
    told: bool  # some jobs were asked to end while they ran, and wait again

    @property
    def rest(self) -> timedelta | None:
        rests = [rest for rest in (self.due, self.late, self.opening) if rest is not None]
        return min(rests) if rests else None


def judged(trust: Trust | None) -> Operation[int | None]:
    """Read the database's clock; return None if it is not trusted."""
    [(now,)] = yield Ask("now")
    return now if trust is None or trust(from_us(now)) else None


def believed(start: Callable[[], Operation[T]], trust: Trust | None) -> Operation[T | None]:
    """Run an operation as of a moment that is judged first; return None if it is not trusted.

    Its statements use that moment, so a clock that jumps between two of them changes nothing.
    """
    now = yield from judged(trust)
    return None if now is None else (yield from as_of(now, start()))


def looked(found: Sequence[Row]) -> Waiting:
    [(due, late, opening, told)] = found
    return Waiting(rows.length(due), rows.length(late), rows.length(opening), told=bool(told))


def ready(limit: int) -> Operation[list[str]]:
    """Make due jobs ready; return their queues."""
    moved = yield Ask("ready_due_jobs", {"limit": limit})
    return [queue for (queue,) in moved]


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


def overdue(limit: int, *, ids: Ids, trust: Trust | None = None) -> Operation[OverdueJobs]:
    """Hurry late jobs, or expire them, and end the jobs that were asked to end.

    Jobs that another transaction holds are left for the next pass: it may hold them for long. No
    job is late by a clock that is not trusted.
    """
    now = yield from judged(trust)
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
    expired = yield from _end(_without(late, flow_ids), "hold_overdue_jobs", ids=ids)
    cancelled = yield from _end(_without(stopping, flow_ids), "hold_waiting_jobs", ids=ids)
    hurried = yield from _hurry([number for number, how, _ in found if how == "hurry"])
    return OverdueJobs(
        hurried,
        len(expired.ids),
        [*expired.freed, *cancelled.freed],
        expired.tells | cancelled.tells,
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


def _hurry(numbers: list[int]) -> Operation[list[str]]:
    if not numbers:
        return []
    hurried = yield Ask("hurry_jobs", {"ids": numbers, "priority": HURRIED})
    return [queue for (queue,) in hurried]


def sweep(limit: int) -> Operation[int]:
    """Repair what was left behind: jobs that wait for nothing, delays that await nothing."""
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


def lost(*, after: int, margin: timedelta) -> Ask:
    """Return the statement that asks whether there is anything to reclaim."""
    return Ask("lost_jobs", {"after": after, "margin": rows.microseconds(margin), "limit": 1})


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
    settlements = []
    for (
        number, fence, attempt, crashes, retry, worker, schedule_id, task, key,
        isolated, name, ended, parent, step,
    ) in found:  # fmt: skip
        if not trusted and not ended:
            continue
        job = LostJob(
            id=number,
            fence=fence,
            attempt=attempt,
            crashes=crashes,
            retry=retry,
            worker=worker,
            schedule_id=schedule_id,
            task=task,
            key=key,
            parent=parent,
            step=step,
            alone=bool(isolated) and crashes >= SUSPECT,
            worker_name=name,
            has_ended=bool(ended),
        )
        verdict = judge(job, from_us(now))
        settlements.append(Settlement(job=job, verdict=verdict, outcome=Lost.__name__.lower()))
    settled = (yield from settle(settlements, ids=ids)) if settlements else None
    # Two reapers may find the same job: the first one counts it.
    kept = set(settled.kept) - set(settled.before) if settled else set()
    poisoned = sum(s.verdict.state is State.FAILED for s in settlements if s.job.id in kept)
    return TakenBack(
        lost=len(kept),
        poisoned=poisoned,
        last=found[-1][0] if len(found) == limit else 0,
    )


def missing_days(trust: Trust | None) -> Operation[list[tuple[str, int]]]:
    now = yield from judged(trust)
    if now is None:
        return []
    found = yield Ask("missing_days", {"days": DAYS_AHEAD, "now": now})
    return [(parent, instant) for parent, instant in found]


def make_day(parent: str, instant: int) -> Operation[None]:
    yield Ask("make_day", {"parent": parent, "instant": instant})


def prunable(retention: Retention, now: int) -> list[tuple[str, int]]:
    """Return the statements that delete old rows, each with its limit of age."""
    lengths = {
        "prune_history": retention.history,
        "prune_failed": retention.failed,
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
        "prune_lanes": timedelta(hours=1),
        "prune_once": timedelta(days=1),
        "prune_reservations": timedelta(days=1),
    }
    return [(name, now - length // MICROSECOND) for name, length in lengths.items()]


def prune(statement: str, before: int, limit: int) -> Operation[int]:
    """Delete old rows; return how many.

    Where other rows decide whether a row may be deleted, it is locked first, and the others are
    read in a second statement: the first one does not see what was committed while it waited.
    """
    if statement == "prune_events":
        yield Ask("hold_reactor")  # a replay makes jobs of old events
    gone = yield Ask(statement, {"before": before, "limit": limit})
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
