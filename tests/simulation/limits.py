"""What must hold of limits after every commit, counted from the jobs themselves.

* Who enters a limit, or a queue that has one, leaves it no fuller than it may be; what was there
  before a limit was set may stay.
* In no period start more than a rate allows, wherever the period begins.
* The places that are held are those of the jobs that run, no more and no fewer.
* Where somebody waits, it is full, or a moment is set at which somebody looks again: a free place
  that nobody is going to see would be waited for for ever.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from duly.model.limit import limits_from_json
from duly.model.states import State
from tests.simulation.watch import HoldingRow, JobRow, NamedLimitRow, QueueRow, RuleRow


class Numbers(Protocol):
    """What is allowed."""

    @property
    def concurrency(self) -> int | None: ...
    @property
    def rate_count(self) -> int | None: ...
    @property
    def rate_period(self) -> int | None: ...


class Place(NamedTuple):
    """A limit or a queue, as somebody who enters it meets it."""

    kind: str
    name: str


class Lanes:
    """Who is where, as the changes show it."""

    def __init__(self, sometimes: Counter[str], violated: Callable[[str], None]) -> None:
        self._sometimes = sometimes
        self._violated = violated
        self._named_limits: dict[str, NamedLimitRow] = {}
        self._rules: dict[str, RuleRow] = {}
        self._queues: dict[str, QueueRow] = {}
        self._held: dict[str, set[int]] = {}
        self._inside: dict[Place, set[int]] = {}
        self._waiting: dict[str, set[int]] = {}
        self._starts: dict[Place, list[int]] = {}
        self._entered: Counter[Place] = Counter()
        self._touched: dict[str, None] = {}

    def clock_set(self) -> None:
        """What started before cannot be compared with what starts now."""
        self._starts.clear()

    def job(self, before: JobRow | None, after: JobRow | None) -> None:
        was = before is not None and _is_inside(before)
        for row, adds in ((before, False), (after, True)):
            if row is None:
                continue
            if _is_inside(row):
                for place in _places(row):
                    self._move(self._inside.setdefault(place, set()), row.id, adds=adds)
                    self._entered[place] += adds and not was
            if row.waits == "limit" and row.waits_for is not None:
                self._move(self._waiting.setdefault(row.waits_for, set()), row.id, adds=adds)
                self._touched[row.waits_for] = None
            if row.limits is not None:
                self._touched.update(dict.fromkeys(_names(row)))
        self._count(before, after)

    def named_limit(self, before: NamedLimitRow | None, after: NamedLimitRow | None) -> None:
        row = after or before
        if row is not None:
            self._touched[row.name] = None
            self._named_limits[row.name] = row
            if after is None:
                del self._named_limits[row.name]

    def rule(self, before: RuleRow | None, after: RuleRow | None) -> None:
        if before is not None:
            self._rules.pop(before.name)
        if after is not None:
            self._rules[after.name] = after
        self._touched.update(dict.fromkeys(self._named_limits))
        self._starts.clear()

    def queue(self, _: QueueRow | None, after: QueueRow | None) -> None:
        if after is not None and self._queues.get(after.name) != after:
            self._queues[after.name] = after
            self._starts.pop(Place("queue", after.name), None)

    def holding(self, before: HoldingRow | None, after: HoldingRow | None) -> None:
        for row, adds in ((before, False), (after, True)):
            if row is not None:
                self._move(self._held.setdefault(row.limit_name, set()), row.job_id, adds=adds)
                self._touched[row.limit_name] = None

    def judge(self, now: int) -> None:
        """A transaction is complete."""
        for place, count in self._entered.items():
            if count:
                self._judge_entry(place, count, now)
        for name in self._touched:
            self._judge_limit(name)
        self._entered.clear()
        self._touched.clear()

    def _judge_entry(self, place: Place, count: int, now: int) -> None:
        numbers = self._numbers(place)
        inside = self._inside[place]
        if numbers is None:
            return
        if numbers.concurrency is not None and len(inside) > numbers.concurrency:
            self._violated(f"{place} lets {numbers.concurrency} in, and {sorted(inside)} run")
        if numbers.rate_count is None or numbers.rate_period is None:
            return
        since = now - numbers.rate_period
        starts = [*self._starts.get(place, ()), *[now] * count]
        self._starts[place] = [moment for moment in starts if moment > since]
        if len(self._starts[place]) > numbers.rate_count:
            self._violated(f"{place}: {numbers} allows fewer than {self._starts[place]}")

    def _judge_limit(self, name: str) -> None:
        held, inside = self._held.get(name, set()), self._inside.get(Place("limit", name), set())
        if held != inside:
            self._violated(f'limit "{name}": {sorted(held)} have places, and {sorted(inside)} run')
        waiting, named_limit = self._waiting.get(name), self._named_limits.get(name)
        if not waiting or (named_limit is not None and named_limit.opens_at is not None):
            return
        numbers = self._numbers(Place("limit", name))
        allowed = None if numbers is None else numbers.concurrency
        if allowed is None or len(inside) < allowed:
            self._violated(
                f'limit "{name}": {sorted(waiting)} wait, {sorted(inside)} of {allowed} run, '
                "and nobody is going to look"
            )

    def _numbers(self, place: Place) -> Numbers | None:
        if place.kind == "queue":
            return self._queues.get(place.name)
        named_limit = self._named_limits.get(place.name)
        template = named_limit.template if named_limit else ""
        return self._rules.get(place.name) or self._rules.get(template) or named_limit

    def _count(self, before: JobRow | None, after: JobRow | None) -> None:
        if before is None or after is None or before.waits == after.waits:
            return
        self._sometimes["limit full"] += after.waits == "limit"
        self._sometimes["freed from limit"] += (
            before.waits == "limit" and after.state == State.READY
        )

    @staticmethod
    def _move(jobs: set[int], number: int, *, adds: bool) -> None:
        (jobs.add if adds else jobs.discard)(number)


def _places(row: JobRow) -> list[Place]:
    return [Place("queue", row.queue), *(Place("limit", name) for name in _names(row))]


def _names(row: JobRow) -> list[str]:
    return [named_limit.name for named_limit in limits_from_json(row.limits)] if row.limits else []


def _is_inside(row: JobRow) -> bool:
    """Whether it takes up room: not a flow, whose steps do."""
    return row.state == State.RUNNING and not row.is_flow
