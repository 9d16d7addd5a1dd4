"""What a scheduler decides: the functional core of the ledger.

Facts about one schedule and a moment go in; ledger entries, jobs to make and the next moment come
out. Nothing here reads a clock or a table, so the same facts always give the same decision, on
every node, after every crash.

The due moments between the schedule's cursor and now pass through sieves. Each takes some of them
away as **one** entry that covers them all, and hands the rest on:

    settled     are in the ledger already (somebody said: not the next one)
    excluded    an exclusion calendar takes them away
    paused      fell into a pause that ended by itself
    late        are older than ``start_within``, and ``late="skip"``
    missed      are not the ones that ``missed`` makes up for
    overlap     meet an earlier job that has not ended

What passes all of them gets a job. Every due moment is covered by exactly one entry, and the cursor
then stands at now: a moment is decided once, whatever the clock does afterwards.

Where the ledger already has many rows between the cursor and now, as after a rewind, the decision
is made in portions, oldest first: each goes up to the last row that was read (``Facts.until``), and
the policies see one portion at a time.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from duly.instants import to_us
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.schedule import Plan, StoredSchedule
from duly.policy import sentences
from duly.policy.decision import Entry, Facts, Firing, NewJob
from duly.policy.exclusion import left_out
from duly.policy.lineup import HURRIED, Lineup
from duly.policy.missed import MICROSECOND, Stretch, stretch
from duly.policy.sieve import Sieve, ready_at
from duly.rules import On, Spaced
from duly.rules.once import Moments
from duly.rules.rule import Minus

__all__ = [
    "HURRIED",
    "Entry",
    "Facts",
    "Firing",
    "NewJob",
    "decide",
    "first_moment",
    "manual",
    "moment_after_end",
    "shortened",
    "skipped_by_pause",
]


def decide(facts: Facts, now: datetime) -> Firing:
    """What becomes of every due moment between the schedule's cursor and now."""
    schedule, pause = facts.schedule, facts.schedule.pause
    if pause is not None and (pause.until is None or pause.until > now):
        return _undecided(schedule, pause.until)
    timing, kept = schedule.plan.timing, schedule.plan.kept
    if isinstance(timing, On):
        return _undecided(schedule, None)  # events make it due
    if isinstance(timing, Spaced) or isinstance(kept, Spaced):
        return _decide_spaced(facts, now)
    sieve = Sieve(facts, now, timing, kept)
    sieve.excluded()
    if pause is not None and pause.until is not None and not pause.catch_up:
        sieve.paused(pause.until)
    sieve.late()
    sieve.missed()
    cursor = max(sieve.until, schedule.cursor)
    return Firing(
        schedule=schedule,
        entries=sieve.entries(),
        stopping=sieve.lineup.stopping,
        cursor=cursor,
        next_at=kept.after(cursor),
    )


def first_moment(plan: Plan, now: datetime) -> datetime | None:
    """When a schedule that begins now is due first: never in its past."""
    kept = plan.kept
    if not isinstance(kept, Spaced):
        return kept.after(now)
    return kept.after_end(now if plan.policies.first == "wait" else now - kept.delay)


def moment_after_end(plan: Plan, ended: datetime) -> datetime | None:
    """When a fixed delay is over that began with the end of a run."""
    kept = plan.kept
    return kept.after_end(ended) if isinstance(kept, Spaced) else None


def skipped_by_pause(
    schedule: StoredSchedule, until: datetime, settled: frozenset[datetime]
) -> list[Entry]:
    """The entries for all moments that fell into a pause, if any did."""
    timing, kept = schedule.plan.timing, schedule.plan.kept
    if isinstance(timing, Spaced | On) or isinstance(kept, Spaced):
        return []
    sieve = Sieve(Facts(schedule=schedule, settled=settled), until, timing, kept)
    sieve.excluded()
    sieve.paused(until)
    return sieve.entries()


def shortened(
    schedule: StoredSchedule, fire: StoredFire, until: datetime, *, own: Collection[datetime]
) -> list[Entry] | None:
    """What a stretch in the ledger still covers, if it is to end at ``until``.

    ``own`` are the moments inside that have rows of their own. None: an older plan wrote it, only
    that plan knows what lies in it, and it stays.
    """
    timing, kept = schedule.plan.timing, schedule.plan.kept
    if isinstance(timing, Spaced) or isinstance(kept, Spaced):
        return None
    settled = Moments(tuple(sorted(map(to_us, own))))
    excluded = fire.cause is Cause.EXCLUDED

    def covered(until: datetime) -> Stretch | None:
        after = fire.covers_from - MICROSECOND
        if excluded:
            return left_out(Minus(timing, settled), Minus(kept, settled), after=after, until=until)
        return stretch(Minus(kept, settled), after, until)

    if covered(fire.due_at) != Stretch(fire.covers_from, fire.due_at, fire.count):
        return None
    found = covered(until)
    if found is None:
        return []
    return [
        Entry(
            due_at=found.last,
            covers_from=found.first,
            count=found.count,
            outcome=fire.outcome,
            cause=fire.cause,
            reason=fire.reason,
        )
    ]


def manual(facts: Facts, now: datetime, *, who: str = "") -> tuple[Entry, list[int]]:
    """The fire that a person asks for now, under the schedule's own overlap policy."""
    lineup = Lineup(facts.schedule.plan, now, list(facts.live), facts.waiting)
    entry = lineup.fire(now, now)
    if entry.outcome is Outcome.QUEUED:
        entry = replace(entry, reason=sentences.by_hand(who, entry.reason))
    return entry, lineup.stopping


def _undecided(schedule: StoredSchedule, next_at: datetime | None) -> Firing:
    return Firing(
        schedule=schedule, entries=[], stopping=[], cursor=schedule.cursor, next_at=next_at
    )


def _decide_spaced(facts: Facts, now: datetime) -> Firing:
    """A fixed delay has one moment at a time: the end of its job decides the next one."""
    schedule, plan = facts.schedule, facts.schedule.plan
    lineup = Lineup(plan, now, list(facts.live), facts.waiting)
    due = schedule.next_at if schedule.pause is None else _due_after_pause(schedule, now)
    made, next_at = False, due
    if due is not None and due <= now:
        if due not in facts.settled:
            made = _fire_spaced(lineup, due)
        next_at = None if made else moment_after_end(plan, now)
    return Firing(
        schedule=schedule,
        entries=lineup.decided(),
        stopping=lineup.stopping,
        cursor=max(now, schedule.cursor),
        next_at=next_at,
        awaits=made,
    )


def _due_after_pause(schedule: StoredSchedule, now: datetime) -> datetime | None:
    """What ended by itself is the pause, not the delay: a run that goes on is still waited for."""
    return None if schedule.awaiting is not None else first_moment(schedule.plan, now)


def _fire_spaced(lineup: Lineup, due: datetime) -> bool:
    """Whether a job stands for the moment."""
    policies, age = lineup.plan.policies, lineup.now - due
    within, missed = policies.start_within, policies.missed
    if within is not None and policies.late == "skip" and age > within:
        lineup.skip(due, Cause.LATE, sentences.late(within))
    elif missed.policy == "skip" and age > missed.grace:
        lineup.skip(due, Cause.MISSED, sentences.missed(missed))
    else:
        entry = lineup.fire(due, ready_at(lineup.plan, due, start=due))
        return bool(entry.job or entry.takes_over)
    return False
