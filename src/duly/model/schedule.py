"""A schedule: a rule about time, a task to run, and policies.

``Plan`` is the definition: code declares it, a file lists it, a person edits it. ``StoredSchedule``
is the plan as it is stored: the moment up to which it has been decided (``cursor``), the next due
moment, and the pause.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

from duly.errors import DulyError, InvalidValue, RuleError
from duly.model.job import Label
from duly.model.payload import check_text
from duly.model.policies import Policies, check_moment
from duly.model.template import names_in
from duly.rules import On, Rule, Spaced, bounded, parse
from duly.rules.event_rule import BEGINNING
from duly.rules.rule import Minus

# A scheduler fires a due moment within milliseconds: a moment older than this is overdue.
PROMPT = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class Plan(Label):
    """The definition of a schedule: a rule, a task with its arguments, and policies."""

    name: str
    rule: str
    zone: str | None = None
    policies: Policies = field(default_factory=Policies)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.policies, Policies):
            raise InvalidValue(
                f"policies={self.policies!r}: expected Policies(overlap=…, missed=…)"
            )
        if not check_text(self.name, "name"):
            raise InvalidValue("a schedule needs a name, which identifies it and its history")
        if isinstance(self.kept, On):  # a rule that cannot be read is refused here, not when due
            self._check_reaction(self.kept)

    def _check_reaction(self, timing: On) -> None:
        """Refuse policies about moments of the clock, which mean nothing for events."""
        policies = self.policies
        if not self.rule.startswith(BEGINNING):  # it is how the store finds it
            raise InvalidValue(f'"{self.rule}": write it as "{timing}"')
        if policies.overlap == "skip":  # the default: nobody has said so
            object.__setattr__(self, "policies", replace(policies, overlap="allow"))
        elif policies.overlap != "allow":
            raise InvalidValue(
                f'overlap="{policies.overlap}": reactions to events do not wait for each other; '
                'leave it out, or limit the task: limits=[Limit("…", concurrency=1)]'
            )
        if policies.jitter is not None:
            raise InvalidValue(f'jitter= needs scheduled times, and "{self.rule}" has none')
        if policies.max_runs is not None:
            raise InvalidValue(
                f'max_runs= counts scheduled runs, but "{self.rule}" is started by events'
            )
        if timing.key is not None:
            names_in(timing.key)

    unreadable: ClassVar[str] = ""  # why this version cannot read a stored plan

    @classmethod
    def remembered(cls, **fields: object) -> "Plan":
        """Return a stored plan, without the checks.

        A plan that this version cannot read can be shown, edited and removed; only its timing is
        not available.
        """
        plan = object.__new__(cls)
        plan.__dict__.update(fields)
        return plan

    @property
    def timing(self) -> Rule | Spaced:
        """The rule with excluded moments, which are due and then skipped."""
        return self._timings[0]

    @property
    def kept(self) -> Rule | Spaced:
        """The rule without excluded moments."""
        return self._timings[1]

    @cached_property
    def _timings(self) -> tuple[Rule | Spaced, Rule | Spaced]:
        # Most rules do not depend on the schedule's name, and are parsed once for all schedules.
        if self.unreadable:
            raise InvalidValue(self.unreadable)
        policies = self.policies
        texts = f"{self.rule} {policies.exclude or ''}"
        name = self.name if _PICKS_BY_NAME.search(texts) else ""
        return _timings(self.rule, self.zone, name, policies)

    @property
    def reaction(self) -> On | None:
        """The ``on …`` rule, if events make the schedule due; else None."""
        timing = self.timing if self.rule.startswith(BEGINNING) and self.is_readable else None
        return timing if isinstance(timing, On) else None

    @property
    def fixed_rule(self) -> Rule | None:
        """The rule without excluded moments; None for a fixed delay and for an unreadable plan."""
        kept = self.kept if self.is_readable else None
        return kept if isinstance(kept, Rule) else None

    @property
    def is_readable(self) -> bool:
        """Return whether this process can compute when the schedule is due.

        It cannot if a later version stored the plan, or if the plan names a zone or holidays that
        this machine does not have. Other schedules are not affected.
        """
        try:
            _ = self._timings
        except DulyError:
            return False
        return True

    @property
    def unawaited(self) -> bool:
        """Return whether nothing waits for the end of a run: no other run, and no fixed delay.

        False if this process cannot read the plan.
        """
        return self.policies.overlap == "allow" and self.fixed_rule is not None

    @cached_property
    def shown_zone(self) -> str:
        """The zone in which its moments are shown."""
        return (self.timing.zone or self.zone or "UTC") if self.is_readable else "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause: since when, by whom and why, and what becomes of the moments in it."""

    since: datetime
    until: datetime | None = None
    by: str = ""
    note: str = ""
    catch_up: bool = False  # False: moments are skipped. True: ``missed`` decides about them

    def __post_init__(self) -> None:
        check_text(self.note, "note")
        if self.until is not None:
            check_moment("until", self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchedule:
    """A plan as it is stored, and how far its moments have been decided."""

    id: int
    plan: Plan
    created_at: datetime
    cursor: datetime  # every due moment up to here is in the ledger
    # None: paused, finished, faulty, waiting for the end of a run, or started by events
    next_at: datetime | None
    revision: int = 0  # rises with every change; a decision about an older revision is discarded
    pause: Pause | None = None
    runs: int = 0  # made by the clock since ``max_runs`` was set
    awaiting: int | None = None  # the job whose end decides when a fixed delay begins
    fault: str | None = None  # why it cannot be decided
    zone_data: str = ""  # the release of the zone data with which next_at was computed

    @property
    def key(self) -> str:
        return self.plan.name

    @property
    def runs_left(self) -> int | None:
        """Return how many runs the clock may still make; None if their number is not limited."""
        return runs_left(self.plan, self.runs)

    def coming(self, most: int) -> int:
        """Return how many moments to come may be shown: ``most``, or as many runs as are left."""
        return most if self.runs_left is None else min(most, self.runs_left)

    @property
    def is_finished(self) -> bool:
        """Return whether no moment will be due again, unless the schedule is edited."""
        waits = self.pause or self.fault or self.awaiting is not None or self.plan.reaction
        return self.next_at is None and not waits

    def overdue_at(self, now: datetime) -> datetime | None:
        """Return when its oldest unfired run was due, or None if no run is overdue."""
        due = None if self.pause or self.fault else self.next_at
        if due is not None and self.plan.is_readable and isinstance(self.plan.kept, Rule):
            with suppress(RuleError):  # too costly to compute: keep the stored moment
                due = self.plan.kept.after(due - timedelta.resolution)  # skip excluded moments
        return due if due is not None and now - due > PROMPT else None


def runs_left(plan: Plan, runs: int) -> int | None:
    """Return how many of ``max_runs`` are left after so many runs; None if there is no maximum."""
    most = plan.policies.max_runs
    return None if most is None else max(most - runs, 0)


# The parts of a rule that depend on a name: the H of a cron line, and jitter. A false match does no
# harm.
_PICKS_BY_NAME = re.compile(r"H|jitter=")


@lru_cache(maxsize=4096)
def _timings(
    rule: str, zone: str | None, name: str, policies: Policies
) -> tuple[Rule | Spaced, Rule | Spaced]:
    """Return the bounded rule, with and without excluded moments."""
    kept = parse(rule, zone=zone, dst=policies.dst, name=name or None)
    if policies.exclude:
        excluded = parse(policies.exclude, zone=zone, dst=policies.dst, name=name or None)
        if isinstance(excluded, Spaced):
            raise InvalidValue(
                f'exclude="{policies.exclude}": a fixed delay has no scheduled times to exclude'
            )
        kept = kept - excluded
    whole = kept
    while isinstance(whole, Minus):
        whole = whole.rule
    between = _bounded(kept, policies)
    return (between if whole is kept else _bounded(whole, policies)), between


def _bounded(rule: Rule | Spaced, policies: Policies) -> Rule | Spaced:
    if policies.start is None and policies.end is None:
        return rule
    if isinstance(rule, Spaced):
        return rule.bounded(start=policies.start, end=policies.end)
    if isinstance(rule, On):
        rule.refuse("begin or end at a time")
    return bounded(rule, start=policies.start, end=policies.end)


class ScheduleChange(NamedTuple):
    """A change of a schedule: when, by whom, and which fields."""

    at: datetime
    who: str
    what: str
