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

from duly.model.limit import Rate

TOGETHER: Final = timedelta(milliseconds=20)
NO_LIMIT: Final = 1_000_000_000
# A lane with free capacity and waiting jobs is checked again after this time: the jobs that were
# unblocked for it may never start, because their queue is paused or no worker knows their task.
PATIENCE: Final = timedelta(seconds=2)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LaneUsage:
    """The limits of a lane and its current use. Instants are microseconds."""

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
    period = rate.period // _MICROSECOND
    together = min(rate.count, max(1, rate.count * (TOGETHER // _MICROSECOND) // period))
    interval = -(-period // (rate.count - together + 1))
    # Rounding to microseconds loses a little: the burst makes up for it.
    return RatePace(interval, rate.count + 1 - -(-period // interval))


def believable(flow: LaneUsage, now: int) -> LaneUsage:
    """Cap ``arrival`` to what the current rate allows, after a change of rate or a wrong clock."""
    if flow.rate is None:
        return flow
    interval, burst = pace(flow.rate)
    return replace(flow, arrival=min(flow.arrival, now + burst * interval))


def room(flow: LaneUsage, now: int) -> int:
    """Return how many jobs may start now."""
    places = NO_LIMIT if flow.concurrency is None else max(0, flow.concurrency - flow.held)
    if flow.rate is None:
        return places
    interval, burst = pace(flow.rate)
    ahead = max(flow.arrival, now) - now
    return min(places, max(0, burst - -(-ahead // interval)))


def enter(flow: LaneUsage, count: int, now: int) -> LaneUsage:
    arrival = flow.arrival
    if flow.rate is not None:
        arrival = max(arrival, now) + count * pace(flow.rate).interval
    return replace(flow, held=flow.held + count, arrival=arrival)


def opens_at(flow: LaneUsage) -> int | None:
    """Return when the rate admits the next job; None without a rate."""
    if flow.rate is None:
        return None
    interval, burst = pace(flow.rate)
    return flow.arrival - (burst - 1) * interval


def looks_again(flow: LaneUsage, now: int) -> int | None:
    """Return when to check a lane with waiting jobs; None if the end of a job triggers it."""
    if flow.is_full:
        return None
    places = room(flow, now)
    if places == 0:
        return opens_at(flow)
    later = now + PATIENCE // _MICROSECOND
    following = opens_at(enter(flow, places, now))
    return later if following is None else min(later, following)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ready job, the limits that apply to it and the resources it needs."""

    id: int
    lanes: tuple[str, ...] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    rank: int = 0


@dataclass(slots=True)
class Admission:
    """The jobs that may start, the jobs that wait at a limit, and the use of the limits after."""

    flows: dict[str, LaneUsage]
    free: dict[str, int]
    chosen: list[Candidate] = field(default_factory=list)
    full: dict[int, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)  # limits of jobs that were not chosen


def choose(
    candidates: Iterable[Candidate],
    flows: Mapping[str, LaneUsage],
    *,
    free: Mapping[str, int],
    limit: int,
    now: int,
) -> Admission:
    """Take the candidates, in order, for which every limit has capacity.

    A job that needs resources which are not free here stays ready: another worker may have them.
    No job overtakes a job that already waits at the same limit and comes first.
    """
    choice = Admission(dict(flows), dict(free))
    for candidate in candidates:
        if len(choice.chosen) == limit:
            break
        if any(choice.free.get(name, 0) < amount for name, amount in candidate.needs.items()):
            choice.passed.update(candidate.lanes)
            continue
        full = next((n for n in candidate.lanes if _refuses(choice.flows[n], candidate, now)), None)
        if full is None:
            _take(choice, candidate, now)
        else:
            choice.full[candidate.id] = full
            choice.passed.update(candidate.lanes)
    return choice


def _refuses(flow: LaneUsage, candidate: Candidate, now: int) -> bool:
    comes_later = flow.line is not None and (candidate.rank, candidate.id) > flow.line
    return comes_later or room(flow, now) < 1


def _take(choice: Admission, candidate: Candidate, now: int) -> None:
    choice.chosen.append(candidate)
    for lane in candidate.lanes:
        choice.flows[lane] = enter(choice.flows[lane], 1, now)
    for name, amount in candidate.needs.items():
        choice.free[name] -= amount


def why_full(lane: str, flow: LaneUsage, now: int) -> str:
    """Return a sentence that says why the job may not start now."""
    if flow.is_full:
        runs = "run" if flow.held != 1 else "runs"
        return f'limit "{lane}" is full: {flow.held} of {flow.concurrency} {runs}'
    if room(flow, now) < 1:
        return f'limit "{lane}" has a rate of {flow.rate}: the next job has to wait'
    return f'limit "{lane}": other jobs come first'
