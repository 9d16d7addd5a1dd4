"""Every due moment is covered by exactly one row: worked out again, moment by moment.

A schedule's cursor only moves when its moments up to there were decided, by the plan that it had.
So its life is a chain of segments, each from one cursor to the next under one plan. At the end the
moments of every segment are listed from the rule and held against the rows that were written:

* a row of one moment covers that moment;
* a row of a stretch covers what lies in it, is of its kind (left out by an exclusion, or not) and
  has no row of its own; and it covers as many as it says.

``rewind`` sets a cursor back on purpose. What lay in stretches behind that point is decided anew,
and the stretches are cut; what has a row of its own keeps it, whatever rule is in force when its
moment comes again, and what an older plan has written stays as it is.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from duly.instants import from_us
from duly.model.fire import CLOCK, Cause, Outcome
from duly.model.policies import Policies
from duly.model.schedule import Plan
from duly.rules import Rule, Spaced
from duly.rules.event_rule import matches
from tests.simulation.watch import FireRow, JobRow, ScheduleRow

MANY = 300_000


@dataclass(slots=True)
class Segment:
    after: int
    until: int
    plan: Plan


@dataclass(slots=True)
class Row:
    fire: FireRow
    ruled: bool = True  # a rule that is known says that the moment is due
    covered: int = 0

    def covers(self, moment: int, *, kept: bool) -> bool:
        fire = self.fire
        if not fire.covers_from <= moment <= fire.due_at:
            return False
        return (fire.cause == Cause.EXCLUDED) is not kept


@dataclass(slots=True)
class Life:
    """A schedule, from its first cursor to its last."""

    row: ScheduleRow
    removed: bool = False
    changed: bool = False  # it does not react to the same events as in the beginning, or did not
    reactions: set[int] = field(default_factory=set)  # the events that are in its ledger
    segments: list[Segment] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)  # of the clock's series, by due moment

    @property
    def is_steady(self) -> bool:
        """Whether it is still there, and reacts to what it reacted to in the beginning."""
        return not self.removed and not self.changed

    def advance(self, before: ScheduleRow, cursor: int) -> None:
        plan = plan_of(before)
        last = self.segments[-1] if self.segments else None
        if last is not None and last.until == before.cursor and last.plan == plan:
            last.until = cursor
        else:
            self.segments.append(Segment(before.cursor, cursor, plan))

    def rewind(self, to: int) -> None:
        self.segments = [one for one in self.segments if one.after < to]
        for segment in self.segments:
            segment.until = min(segment.until, to)
        for row in self.rows.values():
            row.ruled = row.ruled and row.fire.due_at <= to


class Ledger:
    """The schedules and their rows as the changes show them."""

    def __init__(self, sometimes: Counter[str], violated: Callable[[str], None]) -> None:
        self.lives: dict[int, Life] = {}
        self.fires: dict[int, FireRow] = {}
        self._jobs: dict[int, int] = {}  # by fire
        self._manual: set[tuple[int, int]] = set()
        self._sometimes = sometimes
        self._violated = violated

    def exclusive(self, schedule_id: int | None) -> bool:
        life = self.lives.get(schedule_id or 0)
        if life is None or life.removed:
            return False
        return plan_of(life.row).policies.overlap != "allow"

    def there(self, schedule_id: int) -> bool:
        life = self.lives.get(schedule_id)
        return life is not None and not life.removed

    def schedule(
        self, before: ScheduleRow | None, after: ScheduleRow | None, *, rewinds: bool
    ) -> None:
        if before is None:
            self._added(cast(ScheduleRow, after))
            return
        life = self.lives[before.id]
        if after is None:
            life.removed = True
            return
        life.row = after
        life.changed = life.changed or (after.rule, after.pause) != (before.rule, before.pause)
        if after.fault:
            self._violated(f'"{after.name}" was set aside: {after.fault}')
        if after.cursor < before.cursor and not rewinds:
            self._violated(f'the cursor of "{after.name}" went back')
        if after.cursor < before.cursor:
            life.rewind(after.cursor)
        elif after.cursor > before.cursor:
            life.advance(before, after.cursor)

    def _added(self, row: ScheduleRow) -> None:
        self.lives[row.id] = Life(row)

    def taken_back(self, fire: FireRow) -> None:
        """A rewind takes a stretch back, to write a shorter one."""
        if fire.count_ == 1:
            self._violated(f"{fire} was taken out of the ledger")
        self.lives[fire.schedule_id].rows.pop(fire.due_at, None)

    def fire(self, before: FireRow | None, fire: FireRow, *, latest: int) -> None:
        self.fires[fire.id] = fire
        life = self.lives[fire.schedule_id]
        if before is not None:
            self._sometimes["reaction withdrawn"] += fire.cause == Cause.WITHDRAWN
            if fire.series == CLOCK:
                life.rows[fire.due_at].fire = fire
            return
        self._count(life, fire)
        if fire.due_at > latest and fire.cause != Cause.ASKED:
            early = (fire.due_at - latest) / 1e6
            self._violated(f'"{life.row.name}" fired {early} s before its moment')
        if fire.series == CLOCK:
            if fire.due_at in life.rows:
                self._violated(f'"{life.row.name}" has a second row for {from_us(fire.due_at)}')
            spaced = isinstance(plan_of(life.row).timing, Spaced)
            life.rows[fire.due_at] = Row(fire, ruled=not spaced and fire.cause != Cause.ASKED)
        elif (fire.schedule_id, fire.series) in self._manual:
            self._violated(f'"{life.row.name}": a manual run or a reaction was written twice')
        else:
            self._manual.add((fire.schedule_id, fire.series))
            life.reactions.add(fire.series)

    def reacting(self, event: str, at: int) -> Iterator[Life]:
        """Those who are there for what happens now."""
        for life in self.lives.values():
            plan = plan_of(life.row)
            if not life.is_steady or life.row.created_at > at or plan.reaction is None:
                continue
            if matches(plan.reaction.pattern, event):
                yield life

    def job_made(self, job: JobRow) -> None:
        fire = self.fires.get(job.fire_id or 0)
        if fire is None or fire.job_id != job.id:
            self._violated(f"job {job.id} comes from fire {job.fire_id}, which is {fire}")
        elif fire.id in self._jobs:
            self._violated(f"fire {fire.id} has jobs {self._jobs[fire.id]} and {job.id}")
        else:
            self._jobs[fire.id] = job.id

    def uncovered(self) -> Iterator[str]:
        """What is wrong with the coverage of the moments, at the end."""
        for life in self.lives.values():
            asked = [row for row in life.rows.values() if row.fire.cause == Cause.ASKED]
            self._sometimes["skip_next hit"] += sum(r.fire.due_at <= life.row.cursor for r in asked)
            yield from _uncovered(life)

    def _count(self, life: Life, fire: FireRow) -> None:
        many = fire.count_ is None or fire.count_ > 1
        policies = plan_of(life.row).policies
        if fire.cause == Cause.MISSED and many and policies.missed.policy == "all":
            self._sometimes["catch-up bounded"] += 1
        if fire.cause == Cause.PAUSED:
            self._sometimes["paused stretch"] += 1
        if "does not exist in" in fire.reason or "twice in" in fire.reason:
            self._sometimes["dst note"] += 1
        self._sometimes[f"{fire.outcome} {fire.cause or ''}".rstrip()] += 1


def _uncovered(life: Life) -> Iterator[str]:
    name = life.row.name
    for row in life.rows.values():
        row.covered = 0
    stretches = sorted(
        (row for row in life.rows.values() if row.fire.covers_from < row.fire.due_at),
        key=lambda row: row.fire.due_at,
    )
    ends = [row.fire.due_at for row in stretches]
    expected: set[int] = set()
    for segment in life.segments:
        if isinstance(segment.plan.timing, Spaced) or isinstance(segment.plan.kept, Spaced):
            continue
        for moment, kept in moments(segment, segment.plan.timing, segment.plan.kept):
            expected.add(moment)
            own = life.rows.get(moment)
            found = [own] if own else _over(moment, stretches, ends, kept=kept)
            for row in found:
                row.covered += 1
            if len(found) != 1:
                rows = [row.fire for row in found]
                yield f'"{name}" was due at {from_us(moment)}, and is covered by {rows or "no row"}'
                return
    for row in life.rows.values():
        yield from _as_it_says(row, name, expected)


def _as_it_says(row: Row, name: str, expected: set[int]) -> Iterator[str]:
    fire = row.fire
    if row.ruled and fire.count_ is not None and 1 < fire.count_ != row.covered:
        yield f'"{name}": {fire} covers {row.covered} moments'
    if row.ruled and fire.due_at not in expected:
        yield f'"{name}" was not due at {from_us(fire.due_at)}, and has {fire}'
    if (fire.outcome == Outcome.QUEUED) is not (fire.job_id is not None) and (
        fire.outcome != Outcome.MERGED
    ):
        yield f'"{name}": {fire} and its job do not fit'


def moments(segment: Segment, timing: Rule, kept: Rule) -> Iterator[tuple[int, bool]]:
    """Each due moment of the segment, and whether no exclusion takes it away."""
    moment = timing.after_us(segment.after)
    wanted = kept.after_us(segment.after) if kept is not timing else moment
    for _ in range(MANY):
        if moment is None or moment > segment.until:
            return
        yield moment, moment == wanted
        if moment == wanted:
            wanted = kept.after_us(moment)
        moment = timing.after_us(moment) if kept is not timing else wanted
    raise ValueError(f"{timing} has more moments than anybody would list")


def _over(moment: int, stretches: list[Row], ends: list[int], *, kept: bool) -> list[Row]:
    """The stretches that reach over a moment. Few do, and they end soon after it."""
    behind = stretches[bisect_right(ends, moment) :]
    found = [row for row in behind if row.covers(moment, kept=kept)]
    return [row for row in found if row.ruled] or found


def plan_of(row: ScheduleRow) -> Plan:
    return _plan(row.name, row.rule, row.zone, row.policies)


@lru_cache(maxsize=1_000)
def _plan(name: str, rule: str, zone: str | None, policies: str) -> Plan:
    return Plan(name=name, task="any", rule=rule, zone=zone, policies=Policies.from_json(policies))
