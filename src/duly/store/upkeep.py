"""Operations that keep things moving: due jobs, late ones, lost ones, old ones."""

from datetime import timedelta

from duly.model.outcome import Lost
from duly.model.states import State
from duly.policy.firing import HURRIED
from duly.rules.instants import from_us
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.protocol import (
    Dispatched,
    Judge,
    LostJob,
    Progress,
    Retention,
    Settlement,
    TakenBack,
)
from duly.store.settling import Ending, after_awaited, end, settle

DAYS_AHEAD = 30
MOST_FAULTY = 100
EXPIRED = "not started by its deadline"


def dispatch(limit: int) -> Operation[tuple[Dispatched, set[str]]]:
    """Make due jobs ready, expire or hurry late ones; the queues that have something to claim."""
    overdue = yield Ask("overdue_jobs", {"limit": limit})
    # The one that locks schedules and keys comes first: locks go down in one order everywhere.
    expired = yield from _expire([row[0] for row in overdue if row[1] == "skip"])
    hurried = yield from _hurry([row[0] for row in overdue if row[1] == "hurry"])
    moved = yield Ask("ready_due_jobs", {"limit": limit})
    [(due,)] = yield Ask("next_ready")
    [(late,)] = yield Ask("next_deadline")
    rests = [rest for rest in (due, late) if rest is not None]
    done = Dispatched(
        ready=len(moved),
        hurried=len(hurried),
        expired=expired,
        rest=rows.length(min(rests)) if rests else None,
    )
    return done, {queue for (queue,) in moved} | set(hurried)


def _hurry(numbers: list[int]) -> Operation[list[str]]:
    if not numbers:
        return []
    hurried = yield Ask("hurry_jobs", {"ids": numbers, "priority": HURRIED})
    return [queue for (queue,) in hurried]


def _expire(numbers: list[int]) -> Operation[int]:
    if not numbers:
        return 0
    peeked = yield Ask("peek_jobs", {"ids": numbers})
    endings = {number: Ending(State.EXPIRED, EXPIRED) for number in numbers}
    ended = yield from end(endings, peeked, holding="hold_overdue_jobs")
    return len(ended)


def sweep(limit: int) -> Operation[int]:
    """Find what was left behind: jobs that wait for nothing, delays that await nothing."""
    blocked = yield Ask("stranded_blocked", {"limit": limit})
    ids = [schedule_id for (schedule_id,) in blocked]
    if ids:
        yield Ask("hold_schedules", {"ids": ids})
        yield Ask("free_blocked", {"ids": ids})
    stranded = rows.schedules((yield Ask("stranded_schedules", {"limit": limit})))
    delays = [
        {"id": row.id, "job_id": row.awaiting, "next_at": after_awaited(row)} for row in stranded
    ]
    if delays:
        yield Ask("free_schedules", {"rows": rows.packed(delays)})
    return len(ids) + len(delays)


def take_back(judge: Judge, *, after: int, margin: timedelta, limit: int) -> Operation[TakenBack]:
    """Take jobs back whose worker has no lease; the fence makes sure that nobody finished them."""
    span = rows.microseconds(margin)
    found = yield Ask("lost_jobs", {"after": after, "margin": span, "limit": limit})
    [(now,)] = yield Ask("now")
    settlements = []
    for number, fence, attempt, crashes, retry, worker, schedule_id, task, key in found:
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
        )
        verdict = judge(job, from_us(now))
        settlements.append(Settlement(job=job, verdict=verdict, outcome=Lost.__name__.lower()))
    settled = (yield from settle(settlements)) if settlements else None
    kept = set(settled.kept) if settled else set()
    poisoned = sum(s.verdict.state is State.FAILED for s in settlements if s.job.id in kept)
    [(rest,)] = yield Ask("next_expiry", {"margin": span})
    return TakenBack(
        lost=len(kept),
        poisoned=poisoned,
        last=found[-1][0] if len(found) == limit else 0,
        rest=rows.length(rest),
    )


def missing_days() -> Operation[list[tuple[str, int]]]:
    found = yield Ask("missing_days", {"days": DAYS_AHEAD})
    return [(parent, instant) for parent, instant in found]


def make_day(parent: str, instant: int) -> Operation[None]:
    yield Ask("make_day", {"parent": parent, "instant": instant})


def prune(retention: Retention, limit: int) -> Operation[int]:
    [(now,)] = yield Ask("now")
    gone = 0
    for statement, length in (
        ("prune_history", retention.history),
        ("prune_failed", retention.failed),
        ("prune_attempts", max(retention.failed, retention.history)),
        ("prune_fires", retention.fires),
    ):
        before = now - (length // timedelta(microseconds=1))
        gone += len((yield Ask(statement, {"before": before, "limit": limit})))
    yield Ask("forget_workers", {"before": now - 3_600_000_000})
    return gone


def progress() -> Operation[Progress]:
    [(now, unfired, undispatched, ready, running)] = yield Ask("progress")
    faulty = yield Ask("faulty_schedules", {"limit": MOST_FAULTY})
    return Progress(
        now=from_us(now),
        oldest_unfired=rows.moment(unfired),
        oldest_undispatched=rows.moment(undispatched),
        ready=ready,
        running=running,
        faulty=[name for (name,) in faulty],
    )
