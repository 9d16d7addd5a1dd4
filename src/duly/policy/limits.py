"""Concurrency and rate limits: how many jobs may start now.

A rate is strict: no period, wherever it begins, has more starts than the rate allows. Jobs start at
an even pace. At a fast rate as many jobs as fall into 20 ms may start together, and the pace is
slower to make up for it. Unused capacity is not saved up.

The state of a rate is one instant, ``arrival``: when the next job would arrive if all admitted jobs
had arrived at that pace (the generic cell rate algorithm).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, NamedTuple

from duly.durations import MICROSECOND
from duly.model.limit import Rate

TOGETHER: Final = timedelta(milliseconds=20)
NO_LIMIT: Final = 1_000_000_000
# A limit with free capacity and waiting jobs is checked again after this time: the jobs that were
# unblocked for it may never start, because their queue is paused or no worker knows their task.
PATIENCE: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """A concurrency and a rate limit, and their current use. Instants are microseconds."""

    concurrency: int | None = None
    rate: Rate | None = None
    held: int = 0
    arrival: int = 0
    line: tuple[int, int] | None = None  # rank and id of the first job that waits

    @property
    def is_full(self) -> bool:
        """Return whether no job can start before another one ends."""
        return self.concurrency is not None and self.held >= self.concurrency


class RatePace(NamedTuple):
    """One job in every ``interval``, and at most ``burst`` of them together."""

    interval: int
    burst: int


def pace(rate: Rate) -> RatePace:
    period = rate.period // MICROSECOND
    together = min(rate.count, max(1, rate.count * (TOGETHER // MICROSECOND) // period))
    interval = -(-period // (rate.count - together + 1))
    # Rounding to microseconds loses a little: the burst makes up for it.
    return RatePace(interval, rate.count + 1 - -(-period // interval))


def believable(usage: LimitUsage, now: int) -> LimitUsage:
    """Cap ``arrival`` to what the current rate allows, after a change of rate or a wrong clock."""
    if usage.rate is None:
        return usage
    interval, burst = pace(usage.rate)
    return replace(usage, arrival=min(usage.arrival, now + burst * interval))


def free_places(usage: LimitUsage, now: int) -> int:
    """Return how many jobs may start now."""
    places = NO_LIMIT if usage.concurrency is None else max(0, usage.concurrency - usage.held)
    if usage.rate is None:
        return places
    interval, burst = pace(usage.rate)
    ahead = max(usage.arrival, now) - now
    return min(places, max(0, burst - -(-ahead // interval)))


def enter(usage: LimitUsage, count: int, now: int) -> LimitUsage:
    arrival = usage.arrival
    if usage.rate is not None:
        arrival = max(arrival, now) + count * pace(usage.rate).interval
    return replace(usage, held=usage.held + count, arrival=arrival)


def opens_at(usage: LimitUsage) -> int | None:
    """Return when the rate admits the next job; None without a rate."""
    if usage.rate is None:
        return None
    interval, burst = pace(usage.rate)
    return usage.arrival - (burst - 1) * interval


def looks_again(usage: LimitUsage, now: int) -> int | None:
    """Return when to check a limit with waiting jobs; None if the end of a job triggers it."""
    if usage.is_full:
        return None
    places = free_places(usage, now)
    if places == 0:
        return opens_at(usage)
    later = now + PATIENCE // MICROSECOND
    following = opens_at(enter(usage, places, now))
    return later if following is None else min(later, following)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ready job, the limits that apply to it and the resources it needs."""

    id: int
    limits: tuple[str, ...] = ()  # by name
    needs: Mapping[str, int] = field(default_factory=dict)
    rank: int = 0


@dataclass(slots=True)
class Admission:
    """The jobs that may start, the jobs that wait at a limit, and the use of the limits after."""

    usages: dict[str, LimitUsage]
    free: dict[str, int]
    chosen: list[Candidate] = field(default_factory=list)
    full: dict[int, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)  # limits of jobs that were not chosen


def choose(
    candidates: Iterable[Candidate],
    usages: Mapping[str, LimitUsage],
    *,
    free: Mapping[str, int],
    limit: int,
    now: int,
) -> Admission:
    """Take the candidates, in order, for which every limit has capacity.

    A job that needs resources which are not free here stays ready: another worker may have them.
    No job overtakes a job that already waits at the same limit and comes first.
    """
    choice = Admission(dict(usages), dict(free))
    for candidate in candidates:
        if len(choice.chosen) == limit:
            break
        if any(choice.free.get(name, 0) < amount for name, amount in candidate.needs.items()):
            choice.passed.update(candidate.limits)
            continue
        full = next(
            (n for n in candidate.limits if _refuses(choice.usages[n], candidate, now)), None
        )
        if full is None:
            _take(choice, candidate, now)
        else:
            choice.full[candidate.id] = full
            choice.passed.update(candidate.limits)
    return choice


def _refuses(usage: LimitUsage, candidate: Candidate, now: int) -> bool:
    comes_later = usage.line is not None and (candidate.rank, candidate.id) > usage.line
    return comes_later or free_places(usage, now) < 1


def _take(choice: Admission, candidate: Candidate, now: int) -> None:
    choice.chosen.append(candidate)
    for limit in candidate.limits:
        choice.usages[limit] = enter(choice.usages[limit], 1, now)
    for name, amount in candidate.needs.items():
        choice.free[name] -= amount


def why_full(name: str, usage: LimitUsage, now: int) -> str:
    """Return a sentence that says why the job may not start now."""
    if usage.is_full:
        runs = "run" if usage.held != 1 else "runs"
        return f'limit "{name}" is full: {usage.held} of {usage.concurrency} {runs}'
    if free_places(usage, now) < 1:
        return f'limit "{name}" has a rate of {usage.rate}: the next job has to wait'
    return f'limit "{name}": other jobs come first'
