"""The scheduler's decision: what becomes of the due moments of a schedule.

Facts about one schedule and a moment go in; ledger entries, new jobs and the next moment come out.
Nothing here reads a clock or a table, so the same facts always give the same decision, on every
node and after every crash.

The due moments between the schedule's cursor and now pass through filters. Each filter removes some
of them as **one** entry that covers them all, and passes the rest on:

    settled     are in the ledger already (skipped in advance)
    excluded    are removed by an exclusion calendar
    paused      fell into a pause that has ended by itself
    late        are older than ``start_within``, and ``late="skip"``
    missed      are not run according to ``missed``
    overlap     meet an earlier job that has not ended

A moment that passes all filters gets a job, until the schedule has made ``max_runs``. Then it is
finished, and has no due moments any more. Exactly one entry covers each due moment, and the
cursor then stands at now: a moment is decided once, whatever the clock does afterwards. The range
that an entry covers is found by lookup and by counting, never by listing moments: a year of
downtime costs as much as a minute.

If the ledger already has many rows between the cursor and now, as after a rewind, the decision is
made in portions, oldest first. Each portion goes up to the last row that was read
(``Facts.until``), and the policies see one portion at a time.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from duly.durations import MICROSECOND
from duly.instants import to_us
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.job import Owner
from duly.model.schedule import Plan, StoredSchedule
from duly.policy import sentences
from duly.policy.decision import Facts, Firing, LedgerEntry
from duly.policy.due_moments import MomentRange, Picked, left_out, pick, stretch
from duly.policy.overlap import Lineup
from duly.rules import On, Rule, Spaced, clock_change_notes, delay_of
from duly.rules.once import Moments
from duly.rules.rule import Minus
from duly.rules.zone import zone_named


def decide(facts: Facts, now: datetime) -> Firing:
    """Decide every due moment between the schedule's cursor and now."""
    schedule, pause = facts.schedule, facts.schedule.pause
    if pause is not None and (pause.until is None or pause.until > now):
        return _undecided(schedule, pause.until)
    if schedule.runs_left == 0:
        return _undecided(schedule, None)
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
        next_at=None if sieve.is_finished else kept.after(cursor),
    )


def first_moment(plan: Plan, now: datetime) -> datetime | None:
    """Return the first due moment of a schedule that starts now; never a moment in the past."""
    kept = plan.kept
    if not isinstance(kept, Spaced):
        return kept.after(now)
    return kept.after_end(now if plan.policies.first == "wait" else now - kept.delay)


def missed_at_start(plan: Plan, now: datetime) -> datetime | None:
    """Return the only moment of a schedule that is added now, if it has passed.

    It is decided as missed. Any other rule begins with its first moment after now. A declaration
    stays in code or in a file when its moment has passed, and must not run again in a new database.
    """
    if plan.owner in (Owner.CODE, Owner.FILE):
        return None
    kept = plan.kept
    if not isinstance(kept, Rule) or kept.after(now) is not None:
        return None
    moment = kept.at_or_before(now)
    alone = moment is not None and kept.at_or_before(moment - MICROSECOND) is None
    return moment if alone else None


def moment_after_end(schedule: StoredSchedule, ended: datetime) -> datetime | None:
    """Return when a fixed delay after the end of a run is over; None for other rules."""
    kept = schedule.plan.kept
    if not isinstance(kept, Spaced) or schedule.runs_left == 0:
        return None
    return kept.after_end(ended)


def skipped_by_pause(
    schedule: StoredSchedule, until: datetime, settled: frozenset[datetime]
) -> list[LedgerEntry]:
    """Return the entries for the moments that fell into a pause."""
    timing, kept = schedule.plan.timing, schedule.plan.kept
    if schedule.runs_left == 0 or isinstance(timing, Spaced | On) or isinstance(kept, Spaced):
        return []
    sieve = Sieve(Facts(schedule=schedule, settled=settled), until, timing, kept)
    sieve.excluded()
    sieve.paused(until)
    return sieve.entries()


def shortened(
    schedule: StoredSchedule, fire: StoredFire, until: datetime, *, own: Collection[datetime]
) -> list[LedgerEntry] | None:
    """Return what a ledger row over many moments covers if it is cut to end at ``until``.

    ``own`` are moments inside the range that have rows of their own. None means that an older plan
    wrote the row: its moments cannot be computed, so the row stays as it is.
    """
    timing, kept = schedule.plan.timing, schedule.plan.kept
    if isinstance(timing, Spaced) or isinstance(kept, Spaced):
        return None
    settled = Moments(tuple(sorted(map(to_us, own))))
    excluded = fire.cause is Cause.EXCLUDED

    def covered(until: datetime) -> MomentRange | None:
        after = fire.covers_from - MICROSECOND
        if excluded:
            return left_out(Minus(timing, settled), Minus(kept, settled), after=after, until=until)
        return stretch(Minus(kept, settled), after, until)

    if covered(fire.due_at) != MomentRange(fire.covers_from, fire.due_at, fire.count):
        return None
    found = covered(until)
    if found is None:
        return []
    return [
        LedgerEntry(
            due_at=found.last,
            covers_from=found.first,
            count=found.count,
            outcome=fire.outcome,
            cause=fire.cause,
            reason=fire.reason,
        )
    ]


def manual(facts: Facts, now: datetime, *, who: str = "") -> tuple[LedgerEntry, list[int]]:
    """Return the fire that a person asks for now, under the schedule's overlap policy."""
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
    """Decide a fixed delay, which has one moment at a time: the end of its job sets the next."""
    schedule, plan = facts.schedule, facts.schedule.plan
    lineup = Lineup(plan, now, list(facts.live), facts.waiting)
    due = schedule.next_at if schedule.pause is None else _due_after_pause(schedule, now)
    made, next_at = False, due
    if due is not None and due <= now:
        if due not in facts.settled:
            made = _fire_spaced(lineup, due)
        next_at = None if made else moment_after_end(schedule, now)
    return Firing(
        schedule=schedule,
        entries=lineup.decided(),
        stopping=lineup.stopping,
        cursor=max(now, schedule.cursor),
        next_at=next_at,
        awaits=made,
    )


def _due_after_pause(schedule: StoredSchedule, now: datetime) -> datetime | None:
    """Return the next moment after a pause; None while a job of the schedule still runs."""
    if schedule.awaiting is not None:
        return None
    return first_moment(schedule.plan, now)


def _fire_spaced(lineup: Lineup, due: datetime) -> bool:
    """Fire or skip the moment; return whether a job runs for it."""
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


def ready_at(plan: Plan, moment: datetime, *, start: datetime) -> datetime:
    """Return from when the job of a moment may run: ``start``, or later because of jitter."""
    jitter = plan.policies.jitter
    return max(start, moment + delay_of(plan.name, moment, jitter)) if jitter else start


@dataclass
class Sieve:
    """The due moments of one schedule while the policies filter them."""

    facts: Facts
    now: datetime
    timing: Rule  # when the schedule is due
    kept: Rule  # … without excluded moments
    lineup: Lineup = field(init=False)
    until: datetime = field(init=False)  # the end of the decision: now, or the end of a portion
    after: datetime = field(init=False)  # moments up to this one have been dealt with
    covered: list[LedgerEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lineup = Lineup(self.plan, self.now, list(self.facts.live), self.facts.waiting)
        self.until = self.facts.until or self.now
        self.after = self.facts.schedule.cursor
        if self.facts.settled:
            settled = Moments(tuple(sorted(map(to_us, self.facts.settled))))
            alike = self.timing is self.kept
            self.kept = Minus(self.kept, settled)
            self.timing = self.kept if alike else Minus(self.timing, settled)

    @property
    def plan(self) -> Plan:
        return self.facts.schedule.plan

    @property
    def is_finished(self) -> bool:
        """Return whether the schedule has made its last run, with the jobs of this decision."""
        return len(self.lineup.live) - len(self.facts.live) == self.facts.schedule.runs_left

    def excluded(self) -> None:
        if self.timing is not self.kept:
            found = left_out(self.timing, self.kept, after=self.after, until=self.until)
            self._cover(found, Cause.EXCLUDED, sentences.excluded(self.plan))

    def paused(self, end: datetime) -> None:
        end = min(end, self.until)
        found = stretch(self.kept, self.after, end)
        self._cover(found, Cause.PAUSED, sentences.paused(self.facts.schedule))
        self.after = max(self.after, end)

    def late(self) -> None:
        within = self.plan.policies.start_within
        if within is None or self.plan.policies.late != "skip":
            return
        too_old = min(self.now - within - MICROSECOND, self.until)
        found = stretch(self.kept, self.after, too_old)
        self._cover(found, Cause.LATE, sentences.late(within))
        self.after = max(self.after, too_old)

    def missed(self) -> None:
        missed = self.plan.policies.missed
        picked = self._alone() or self._pick()
        fired = self._fire(picked.moments)
        if picked.left is None:
            return
        if missed.policy != "latest":
            self._cover(picked.left, Cause.MISSED, sentences.missed(missed))
        elif fired[0].outcome is Outcome.QUEUED:
            said = sentences.merged(self.plan, fired[0].due_at)
            self._cover(picked.left, None, said, Outcome.MERGED)
        else:  # the newest moment was skipped, and so are the moments merged into it
            self._cover(picked.left, fired[0].cause, fired[0].reason)

    def entries(self) -> list[LedgerEntry]:
        """Return all entries, oldest first."""
        found = sorted([*self.covered, *self.lineup.decided()], key=_due)
        return sorted(self._noted(found), key=_due) if self._clock_changed() else found

    def _pick(self) -> Picked:
        missed = self.plan.policies.missed
        return pick(missed, self.kept, after=self.after, until=self.until, now=self.now)

    def _alone(self) -> Picked | None:
        """Return the pick of the usual case quickly: a single moment that is not too old."""
        only = self.kept.after(self.after)
        if only is None or only > self.until:
            return Picked([], None)
        following = self.kept.after(only)
        if following is not None and following <= self.until:
            return None
        missed = self.plan.policies.missed
        too_old = missed.policy == "skip" and self.now - only > missed.grace
        return None if too_old else Picked([only], None)

    def _fire(self, moments: list[datetime]) -> list[LedgerEntry]:
        spacing = self.plan.policies.missed.spacing
        fired: list[LedgerEntry] = []
        for place, moment in enumerate(moments):
            if self.is_finished:
                break
            start = self.now + place * spacing if spacing else moment
            fired.append(self.lineup.fire(moment, ready_at(self.plan, moment, start=start)))
        return fired

    def _cover(
        self,
        found: MomentRange | None,
        cause: Cause | None,
        reason: str,
        outcome: Outcome = Outcome.SKIPPED,
    ) -> None:
        if found is not None:
            self.covered.append(
                LedgerEntry(
                    due_at=found.last,
                    covers_from=found.first,
                    count=found.count,
                    outcome=outcome,
                    reason=reason,
                    cause=cause,
                )
            )

    def _clock_changed(self) -> bool:
        """Return whether a clock change may lie between the cursor and the end."""
        if self.kept.zone is None:  # elapsed time, or several zones
            return self.kept.compound
        segment = zone_named(self.kept.zone).segment
        return segment(to_us(self.facts.schedule.cursor)) != segment(to_us(self.until))

    def _noted(self, entries: list[LedgerEntry]) -> list[LedgerEntry]:
        """Add a note about each clock change to the first entry after it."""
        telling = [entry for entry in entries if entry.cause is not Cause.EXCLUDED]
        noted = [entry for entry in entries if entry.cause is Cause.EXCLUDED]
        told = self.facts.schedule.cursor
        for entry in telling:
            until = self.until if entry is telling[-1] else entry.due_at
            notes = sentences.clock_changes(
                clock_change_notes(self.kept, told, within=until - told)
            )
            noted.append(replace(entry, reason=f"{entry.reason}. {notes}") if notes else entry)
            told = until
        return noted


def _due(entry: LedgerEntry) -> datetime:
    return entry.due_at
