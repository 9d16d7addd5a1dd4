"""Backfills: which past moments of a schedule are run again, and as which jobs.

A backfill covers moments before the schedule's cursor. The scheduler alone decides the moments
after it.

Every moment becomes a job, even if ``start_within`` has passed, because a person asked for it. No
newer moment replaces such a job or asks it to stop. The jobs run one after the other, the oldest
first, and wait for unfinished jobs of the schedule, unless the schedule allows its runs to overlap.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from duly.durations import MICROSECOND
from duly.errors import InvalidValue, RuleError, WrongState
from duly.model.fire import MOST_BACKFILLED, Cause, Outcome, StoredFire
from duly.model.policies import Overlap, check_moment
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.policy import sentences
from duly.policy.decision import Facts, LedgerEntry, LiveJob, NewJob
from duly.rules import On, Rule, Spaced

MEANWHILE: Mapping[Overlap, str] = {
    "skip": "is skipped",
    "queue_one": "waits",
    "queue_all": "waits",
    "replace": "waits",
}


def check_stretch(start: datetime, end: datetime) -> None:
    check_moment("start", start)
    check_moment("end", end)
    if start >= end:
        raise InvalidValue(
            f"start={start}, end={end}: start must be before end, and end is not included"
        )


def moments_of(
    schedule: StoredSchedule, start: datetime, end: datetime, *, cursor: datetime, now: datetime
) -> list[datetime]:
    """Return the moments of the rule from ``start`` up to ``end``, without excluded ones."""
    name, kept = schedule.plan.name, schedule.plan.kept
    if isinstance(kept, Spaced):
        raise WrongState(
            f'"{name}" has a fixed delay, "{schedule.plan.rule}": it has no times that could be'
            " run again; to run it once, now: run"
        )
    if isinstance(kept, On):
        raise WrongState(
            f'"{name}" reacts to events, "{schedule.plan.rule}", and has no times of its own: '
            "what happened without it is replayed"
        )
    if end > now:
        raise InvalidValue(
            f"end={end}: only past times can be backfilled, and it is"
            f" {now.replace(microsecond=0)}: end there at the latest"
        )
    found = list(kept.between(start - MICROSECOND, end - MICROSECOND, MOST_BACKFILLED + 1))
    if len(found) > MOST_BACKFILLED:
        raise InvalidValue(_too_many(kept, start, end, next_one=found[-1]))
    undecided = next((moment for moment in found if moment > cursor), None)
    if undecided is not None:
        raise WrongState(_undecided(schedule, undecided))
    return found


def backfilled(
    facts: Facts, moments: Sequence[datetime], now: datetime, *, who: str
) -> list[LedgerEntry]:
    """Return a ledger entry with a job for each moment, oldest first."""
    plan = facts.schedule.plan
    in_line = plan.policies.overlap != "allow"
    behind = facts.live[0] if in_line and facts.live else None
    entries: list[LedgerEntry] = []
    for moment in moments:
        waits = sentences.waits(behind, plan, stopping=False) if behind else ""
        job = NewJob(
            state=State.BLOCKED if behind else State.READY,
            due_at=moment,
            ready_at=now,
            deadline=None,
            late="run",
            priority=plan.priority,
            reason=waits,
        )
        said = sentences.backfilled(who)
        entries.append(LedgerEntry.of_one(moment, Outcome.QUEUED, said, cause=Cause.ASKED, job=job))
        behind = LiveJob(None, job.state, moment) if in_line else None
    return entries


def forgotten(
    schedule: StoredSchedule, moments: Sequence[datetime], oldest: StoredFire | None
) -> list[datetime]:
    """Return the moments that are older than the oldest row kept in the ledger."""
    since = schedule.cursor if oldest is None else oldest.covers_from
    return [moment for moment in moments if schedule.created_at <= moment < since]


def notes(
    schedule: StoredSchedule, queued: Sequence[datetime], lost: Sequence[datetime]
) -> tuple[str, ...]:
    """Return sentences that warn the person who asks for the backfill."""
    said = []
    if lost:
        last = sentences.shown(lost[-1], schedule.plan)
        said.append(
            f"the history of {len(lost):,} of them, up to {last}, has been deleted: they may have"
            " run already"
        )
    early = [moment for moment in queued if moment < schedule.created_at]
    if early:
        they, their, were = ("it", "its", "was") if len(early) == 1 else ("they", "their", "were")
        are, run = ("is", "runs") if len(early) == 1 else ("are", "run")
        said.append(
            f"{len(early):,} of them {are} from before the schedule was created; if {they} {were}"
            f" backfilled so long ago that {their} history has been deleted, {they} {run} again"
        )
    overlap = schedule.plan.policies.overlap
    if queued and overlap != "allow":
        line, last = "they run one after the other; ", "the last of them"
        line, last = (line, last) if len(queued) > 1 else ("", "it")
        until = f"a run that is due before {last} has ended {MEANWHILE[overlap]}"
        said.append(f'overlap="{overlap}": {line}{until}')
    return tuple(said)


def _too_many(kept: Rule, start: datetime, end: datetime, *, next_one: datetime) -> str:
    try:
        many = f"{kept.count(start - MICROSECOND, end - MICROSECOND):,}"
    except RuleError:  # it can be walked through, and not be counted
        many = f"more than {MOST_BACKFILLED:,}"
    return (
        f"from {start} to {end} there are {many} due times, and at most {MOST_BACKFILLED:,} can be"
        f" backfilled at once: go step by step, first with end={next_one}"
    )


def _undecided(schedule: StoredSchedule, moment: datetime) -> str:
    name = schedule.plan.name
    if schedule.pause is not None:
        why = f"it is paused, and {moment} is decided when it is resumed: resume it first"
    elif schedule.fault is not None:
        why = f"it cannot be fired ({schedule.fault}), and {moment} is decided when it can be"
    else:
        why = f"{moment} is not decided yet: wait for the scheduler"
    return f'"{name}": {why}, or end there'
