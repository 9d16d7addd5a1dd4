"""The sieves through which the due moments of a schedule pass, from its cursor to now.

Each takes some of them away as one entry that covers them all, and hands the rest on. What an
entry covers is found by looking up its ends and by counting, never by walking: a year of downtime
costs as much as a minute.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime

from duly.instants import to_us
from duly.model.fire import Cause, Outcome
from duly.model.schedule import Plan
from duly.policy import sentences
from duly.policy.decision import Entry, Facts
from duly.policy.exclusion import left_out
from duly.policy.lineup import Lineup
from duly.policy.missed import MICROSECOND, Picked, Stretch, pick, stretch
from duly.rules import Rule, clock_change_notes, delay_of
from duly.rules.once import Moments
from duly.rules.rule import Minus
from duly.rules.zone import zone_named


def ready_at(plan: Plan, moment: datetime, *, start: datetime) -> datetime:
    """From when the job of a moment may run, if nothing but jitter delays it."""
    jitter = plan.policies.jitter
    return max(start, moment + delay_of(plan.name, moment, jitter)) if jitter else start


@dataclass
class Sieve:
    """The moments of one schedule on their way through the policies."""

    facts: Facts
    now: datetime
    timing: Rule  # when it is due
    kept: Rule  # … and not left out
    lineup: Lineup = field(init=False)
    until: datetime = field(init=False)  # what is decided ends here: now, or where a portion ends
    after: datetime = field(init=False)  # what is not dealt with begins behind this moment
    covered: list[Entry] = field(default_factory=list)

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
        else:  # the newest finds no place, and those that it stands for share its fate
            self._cover(picked.left, fired[0].cause, fired[0].reason)

    def entries(self) -> list[Entry]:
        """What became of all of them, oldest first."""
        found = sorted([*self.covered, *self.lineup.decided()], key=_due)
        return sorted(self._noted(found), key=_due) if self._clock_changed() else found

    def _pick(self) -> Picked:
        missed = self.plan.policies.missed
        return pick(missed, self.kept, after=self.after, until=self.until, now=self.now)

    def _alone(self) -> Picked | None:
        """What is picked in the usual case, quickly: the one moment there is, in good time."""
        only = self.kept.after(self.after)
        if only is None or only > self.until:
            return Picked([], None)
        following = self.kept.after(only)
        if following is not None and following <= self.until:
            return None
        missed = self.plan.policies.missed
        too_old = missed.policy == "skip" and self.now - only > missed.grace
        return None if too_old else Picked([only], None)

    def _fire(self, moments: list[datetime]) -> list[Entry]:
        spacing = self.plan.policies.missed.spacing
        fired = []
        for place, moment in enumerate(moments):
            start = self.now + place * spacing if spacing else moment
            fired.append(self.lineup.fire(moment, ready_at(self.plan, moment, start=start)))
        return fired

    def _cover(
        self,
        found: Stretch | None,
        cause: Cause | None,
        reason: str,
        outcome: Outcome = Outcome.SKIPPED,
    ) -> None:
        if found is not None:
            self.covered.append(
                Entry(
                    due_at=found.last,
                    covers_from=found.first,
                    count=found.count,
                    outcome=outcome,
                    reason=reason,
                    cause=cause,
                )
            )

    def _clock_changed(self) -> bool:
        """Whether there is anything to note, as far as one look can tell."""
        if self.kept.zone is None:  # no clock on a wall, or more than one
            return self.kept.compound
        segment = zone_named(self.kept.zone).segment
        return segment(to_us(self.facts.schedule.cursor)) != segment(to_us(self.until))

    def _noted(self, entries: list[Entry]) -> list[Entry]:
        """Say what clock changes did: each is told once, by the first entry after it."""
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


def _due(entry: Entry) -> datetime:
    return entry.due_at
