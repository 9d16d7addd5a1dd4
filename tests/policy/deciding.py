"""Schedules to decide about, said in one line, and what the ledger must then say, the slow way.

The slow way takes every due moment in turn and asks the policies about it, in the words of their
description: nothing is counted, nothing is looked up, nothing is shared with the code under test.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.model.fire import Cause, Outcome
from duly.model.policies import Policies
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.model.states import State
from duly.policy.decision import Facts, Firing, LedgerEntry, LiveJob
from duly.policy.firing import decide
from duly.policy.overlap import MOST_QUEUED
from duly.rules import Rule, Spaced

Fate = tuple[Outcome, Cause | None]


def at(text: str) -> datetime:
    """A moment, in UTC unless it says otherwise."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def schedule(
    rule: str,
    cursor: str | datetime,
    *,
    zone: str | None = None,
    pause: Pause | None = None,
    awaiting: int | None = None,
    next_at: datetime | None = None,
    priority: int = 0,
    **policies: Any,
) -> StoredSchedule:
    plan = Plan(
        name="report",
        task="report",
        rule=rule,
        zone=zone,
        priority=priority,
        policies=Policies(**policies),
    )
    start = at(cursor) if isinstance(cursor, str) else cursor
    if next_at is None and not isinstance(plan.kept, Spaced):
        next_at = plan.kept.after(start)
    return StoredSchedule(
        id=1,
        plan=plan,
        created_at=start,
        cursor=start,
        next_at=next_at,
        pause=pause,
        awaiting=awaiting,
    )


def decided(
    found: StoredSchedule,
    now: str | datetime,
    *,
    live: Iterable[LiveJob] = (),
    settled: Iterable[datetime] = (),
) -> Firing:
    facts = Facts(schedule=found, live=tuple(live), settled=frozenset(settled))
    return decide(facts, at(now) if isinstance(now, str) else now)


def job(state: str, due: str, number: int = 7) -> LiveJob:
    return LiveJob(number, State(state), at(due), fire_id=number + 100)


def rows(firing: Firing) -> list[str]:
    """The ledger's rows as short texts, oldest first."""
    return [shown(entry) for entry in firing.entries]


def shown(entry: LedgerEntry) -> str:
    said = f"{entry.due_at:%d %H:%M:%S}".removesuffix(":00")
    if entry.count != 1:
        since = f"{entry.covers_from:%d %H:%M:%S}".removesuffix(":00")
        said = f"{since} to {said} ({entry.count})"
    cause = f" {entry.cause}" if entry.cause else ""
    return f"{said} {entry.outcome}{cause}"


def moments_of(rule: Rule | Spaced, after: datetime, until: datetime) -> list[datetime]:
    found = list(rule.between(after, until, 20_000))
    assert len(found) < 20_000
    return found


def fates(facts: Facts, now: datetime) -> dict[datetime, Fate]:
    """What must become of every due moment that is not settled."""
    plan, cursor = facts.schedule.plan, facts.schedule.cursor
    due = [m for m in moments_of(plan.timing, cursor, now) if m not in facts.settled]
    kept = set(moments_of(plan.kept, cursor, now))
    found: dict[datetime, Fate] = {
        moment: (Outcome.SKIPPED, Cause.EXCLUDED) for moment in due if moment not in kept
    }
    rest = []
    for moment in due:
        if moment not in kept:
            continue
        cause = _not_fired(facts.schedule, moment, now)
        if cause:
            found[moment] = (Outcome.SKIPPED, cause)
        else:
            rest.append(moment)
    fired = _made_up_for(plan.policies, rest, now)
    found.update(_met(plan.policies.overlap, facts.live, fired))
    left: Fate = (Outcome.SKIPPED, Cause.MISSED)
    if plan.policies.missed.policy == "latest" and fired:
        outcome, cause = found[fired[-1]]
        left = (Outcome.MERGED, None) if outcome is Outcome.QUEUED else (outcome, cause)
    return found | {moment: left for moment in rest if moment not in fired}


def _not_fired(found: StoredSchedule, moment: datetime, now: datetime) -> Cause | None:
    pause, policies = found.pause, found.plan.policies
    if pause and pause.until and not pause.catch_up and moment <= pause.until:
        return Cause.PAUSED
    if policies.start_within and policies.late == "skip" and now - moment > policies.start_within:
        return Cause.LATE
    return None


def _made_up_for(policies: Policies, due: list[datetime], now: datetime) -> list[datetime]:
    missed = policies.missed
    if missed.policy == "all":
        return due[-missed.at_most :]
    newest = due[-1:]
    if missed.policy == "skip" and newest and now - newest[0] > missed.grace:
        return []
    return newest


def _met(
    overlap: str, live: Sequence[LiveJob], moments: Sequence[datetime]
) -> Iterator[tuple[datetime, Fate]]:
    """Each moment in turn meets the jobs that live, and those of the moments before it."""
    before = len(live)
    waiting = sum(job.state is not State.RUNNING for job in live)
    holder: datetime | None = None
    for moment in moments:
        queued: Fate = (Outcome.QUEUED, None)
        if overlap == "skip" and before:
            queued = (Outcome.SKIPPED, Cause.OVERLAP)
        elif overlap == "queue_all" and waiting >= MOST_QUEUED:
            queued = (Outcome.SKIPPED, Cause.EXHAUSTED)
        elif overlap in {"queue_one", "replace"} and waiting:
            if holder:
                yield holder, (Outcome.MERGED, None)
            holder = moment
        else:
            before, waiting, holder = before + 1, waiting + 1, moment
        yield moment, queued


def covered(
    entries: Sequence[LedgerEntry], kept: Iterable[datetime], lost: Iterable[datetime]
) -> dict[datetime, list[LedgerEntry]]:
    """Which rows reach over each moment: its own, or a stretch of its kind."""
    own = {entry.due_at: entry for entry in entries if entry.count == 1}
    found: dict[datetime, list[LedgerEntry]] = {}
    for moments, excluded in ((kept, False), (lost, True)):
        for moment in moments:
            found[moment] = (
                [own[moment]]
                if moment in own
                else [
                    entry
                    for entry in entries
                    if entry.covers_from <= moment <= entry.due_at
                    and entry.count != 1
                    and (entry.cause is Cause.EXCLUDED) is excluded
                ]
            )
    return found


SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
