"""How many jobs may enter where only so many may be at once, or come in a time.

A rate is kept strictly: in no period, wherever it begins, start more jobs than it says. Jobs start
at an even pace; of a fast rate, as many as fall into 20 ms may start together, and the pace is
slower by as much. What was not used is not saved up.

All that must be remembered of a rate is one instant, ``arrival``: when the next job would come if
all that were let through had come at that pace.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, NamedTuple

from duly.model.limit import Rate

TOGETHER: Final = timedelta(milliseconds=20)
NO_LIMIT: Final = 1_000_000_000
# When a lane is looked at again that has room, and at which some wait: those who were set free for
# the room may never come, because their queue is paused or nobody knows their task.
PATIENCE: Final = timedelta(seconds=2)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LaneUsage:
    """A place with limits, and what is in it. Instants are microseconds."""

    concurrency: int | None = None
    rate: Rate | None = None
    held: int = 0
    arrival: int = 0
    line: tuple[int, int] | None = None  # rank and number of the first who waits to be chosen

    @property
    def is_full(self) -> bool:
        """Whether nobody can enter before somebody leaves."""
        return self.concurrency is not None and self.held >= self.concurrency


class RatePace(NamedTuple):
    """One job in every ``interval``, and at most ``burst`` of them together."""

    interval: int
    burst: int


def pace(rate: Rate) -> RatePace:
    period = rate.period // _MICROSECOND
    together = min(rate.count, max(1, rate.count * (TOGETHER // _MICROSECOND) // period))
    interval = -(-period // (rate.count - together + 1))
    # What is lost because there is nothing shorter than a microsecond may come together.
    return RatePace(interval, rate.count + 1 - -(-period // interval))


def believable(flow: LaneUsage, now: int) -> LaneUsage:
    """With an arrival that its rate can have led to, and not an older rate or a wrong clock."""
    if flow.rate is None:
        return flow
    interval, burst = pace(flow.rate)
    return replace(flow, arrival=min(flow.arrival, now + burst * interval))


def room(flow: LaneUsage, now: int) -> int:
    """How many may enter now."""
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
    """When the rate lets the next one in."""
    if flow.rate is None:
        return None
    interval, burst = pace(flow.rate)
    return flow.arrival - (burst - 1) * interval


def looks_again(flow: LaneUsage, now: int) -> int | None:
    """When somebody must look at a lane at which some wait; None: whoever leaves it does."""
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
    """A job that is ready, the limits it goes through, and the resources it takes."""

    id: int
    lanes: tuple[str, ...] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    rank: int = 0


@dataclass(slots=True)
class Admission:
    """Who may run, who waits at which limit, and how full the limits are then."""

    flows: dict[str, LaneUsage]
    free: dict[str, int]
    chosen: list[Candidate] = field(default_factory=list)
    full: dict[int, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)  # limits of those who were not chosen


def choose(
    candidates: Iterable[Candidate],
    flows: Mapping[str, LaneUsage],
    *,
    free: Mapping[str, int],
    limit: int,
    now: int,
) -> Admission:
    """Go through the candidates in order and take those for whom there is room everywhere.

    Who needs resources that are not free here stays ready: they may be free elsewhere. Nobody
    enters before somebody who waits there already, comes first, and could be chosen instead.
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
    """Why a job may not enter now, in a sentence."""
    if flow.is_full:
        runs = "run" if flow.held != 1 else "runs"
        return f'limit "{lane}" is full: {flow.held} of {flow.concurrency} {runs}'
    if room(flow, now) < 1:
        return f'limit "{lane}" lets {flow.rate} through, and the next one has to wait'
    return f'limit "{lane}": others came first'
