"""Operations on limits: admit jobs, release their places, unblock waiting jobs.

A limit under one rendered name is a lane. Its row is the lock. The number of jobs in it is counted
from the holdings, by a statement that begins after the lock was acquired. A job that finds a lane
full waits there in state ``blocked`` and does not delay other jobs. A job that leaves a lane
unblocks the next ones: they become ready, keep their rank, and the next claim decides about them
again. So no free place is forgotten when a job leaves, and none is given away twice.

Every lane with waiting jobs must be examined again. If it is full, the job that leaves it does so.
Otherwise the dispatcher does, at ``opens_at``: because the rate limit admits the next job then, or
because unblocked jobs may not have been claimed (their queue is paused, no worker knows their task,
another transaction held the row).

Lanes are locked in the order of their names, after the jobs. Waiting jobs are unblocked after the
lanes are locked, but only jobs that no other transaction holds.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from duly.model.limit import Lane, Rate, lanes_from_json
from duly.policy.limits import (
    PATIENCE,
    Admission,
    Candidate,
    LaneUsage,
    believable,
    choose,
    looks_again,
    opens_at,
    room,
    why_full,
)
from duly.store import rows
from duly.store.database import Ask, Operation, Row, Value
from duly.store.rows import HeldRow
from duly.store.values import LaneInfo, Wish

# How many jobs are unblocked at once: the next claim decides about them again.
MOST_FREED = 100


_PATIENCE = PATIENCE // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LockedLanes:
    """Lanes that are locked, by name, and the instant of the decision."""

    flows: Mapping[str, LaneUsage]
    stored: Mapping[str, LaneUsage]  # the same, with the stored numbers
    crowded: frozenset[str]  # lanes with waiting jobs
    idle: frozenset[str]  # lanes that no job entered for a while
    now: int


def look(
    names: Sequence[str], declared: Mapping[str, Lane] | None = None, wish: Wish | None = None
) -> Operation[LockedLanes]:
    """Read lanes that are locked; asked after locking, it sees every entry and leave before."""
    queue, tasks = (wish.queue, list(wish.tasks)) if wish else ("", [])
    asked = {"names": list(names), "queue": queue, "tasks": tasks}
    found = [_LaneRow(*row) for row in (yield Ask("look_into_lanes", asked))]
    stored = {row.name: row.flow for row in found}
    flows = {}
    for row in found:
        flow = row.flow
        if row.ruled:
            rate = rows.rate(row.rule_rate_count, row.rule_rate_period)
            flow = replace(flow, concurrency=row.rule_concurrency, rate=rate)
        elif declared:
            lane = declared[row.name]
            flow = replace(flow, concurrency=lane.concurrency, rate=lane.rate)
        flows[row.name] = believable(flow, row.now)
    return LockedLanes(
        flows,
        stored,
        crowded=frozenset(row.name for row in found if row.crowded),
        idle=frozenset(row.name for row in found if row.is_idle(flows[row.name])),
        now=found[0].now if found else 0,
    )


class _LaneRow(NamedTuple):
    name: str
    concurrency: int | None
    rate_count: int | None
    rate_period: int | None
    arrival: int
    used_at: int
    ruled: int
    rule_concurrency: int | None
    rule_rate_count: int | None
    rule_rate_period: int | None
    held: int
    crowded: int
    first_rank: int | None
    first_id: int | None
    now: int

    @property
    def flow(self) -> LaneUsage:
        line = None
        if self.first_rank is not None and self.first_id is not None:
            line = (self.first_rank, self.first_id)
        rate = rows.rate(self.rate_count, self.rate_period)
        return LaneUsage(self.concurrency, rate, held=self.held, arrival=self.arrival, line=line)

    def is_idle(self, flow: LaneUsage) -> bool:
        """Return whether no job entered for a while although the rate limit allowed one."""
        return max(self.used_at, opens_at(flow) or 0) <= self.now - _PATIENCE


class Admitted(NamedTuple):
    """The admitted jobs, the queues of jobs that were unblocked in their place, and the rest."""

    ids: list[int]
    freed: list[str]
    opens: bool  # whether jobs now wait for the dispatcher
    parked: int  # how many jobs now wait at a full lane


def admit(
    found: Sequence[Row], wish: Wish, limit: int, *, passed: Sequence[Row] = ()
) -> Operation[Admitted]:
    """Decide which candidates may run now; the others wait at the lane that is full.

    ``passed`` are the limits of candidates that do not fit here.
    """
    candidates = [
        Candidate(number, _names(limits), json.loads(needs) if needs else {}, rank)
        for number, rank, limits, needs, *_ in found
    ]
    texts = [row[2] for row in found] + [limits for (limits,) in passed]
    held = yield from _enter({lane.name: lane for text in texts for lane in _lanes(text)}, wish)
    choice = choose(candidates, held.flows, free=wish.free, limit=limit, now=held.now)
    choice.passed.update(name for (limits,) in passed for name in _names(limits))
    yield from _write(choice, held)
    crowded = held.crowded | set(choice.full.values())
    # Other jobs, queued behind one of these, may wait for the places that were not taken here.
    stirred = crowded if len(choice.chosen) < limit else crowded & choice.passed
    flows = {name: flow for name, flow in choice.flows.items() if name in crowded}
    places = {name: room(flow, held.now) for name, flow in flows.items() if name in stirred}
    freed = yield from _let_in(places, flows, now=held.now, wish=wish)
    opens = any(looks_again(flows[name], held.now) for name in choice.full.values())
    ids = [candidate.id for candidate in choice.chosen]
    return Admitted(ids, freed, opens, parked=len(choice.full))


def leave(jobs: Iterable[HeldRow]) -> Operation[list[str]]:
    """Release the places that jobs held, and unblock waiting jobs; return their queues."""
    return (yield from let_go({job.id: job.limits for job in jobs if job.limits is not None}))


def let_go(limits: Mapping[int, str]) -> Operation[list[str]]:
    """Release places like ``leave``, for jobs by number with their limits."""
    names = sorted({name for text in limits.values() for name in _names(text)})
    if not names:
        return []
    yield Ask("hold_lanes", {"names": names})
    yield Ask("drop_holdings", {"ids": list(limits)})
    held = yield from look(names)
    flows = {name: flow for name, flow in held.flows.items() if name in held.crowded}
    places = {name: room(flow, held.now) for name, flow in flows.items()}
    return (yield from _let_in(places, flows, now=held.now))


def open_lanes(limit: int) -> Operation[list[str]]:
    """Admit jobs whose rate limit refilled or whose predecessor is gone; return their queues."""
    found = yield Ask("opening_lanes", {"limit": limit})
    return (yield from _open([name for (name,) in found]))


def sweep(limit: int) -> Operation[int]:
    """Repair lanes: places of jobs that do not run, and free lanes with waiting jobs."""
    stale = yield Ask("stale_lanes", {"limit": limit})
    waiting = yield Ask("waiting_lanes", {"limit": limit})
    return len((yield from _open(sorted({name for (name,) in [*stale, *waiting]}))))


def set_rule(name: str, concurrency: int | None, rate: Rate | None) -> Operation[list[str]]:
    """Set an operator's override, which takes precedence over the code."""
    yield Ask("set_lane_rule", {"name": name, **_numbers(concurrency, rate)})
    return (yield from _reconsider(name))


def drop_rule(name: str) -> Operation[list[str]]:
    yield Ask("drop_lane_rule", {"name": name})
    return (yield from _reconsider(name))


def listed(limit: int) -> Operation[list[LaneInfo]]:
    found = yield Ask("list_lanes", {"limit": limit})
    return [
        LaneInfo(
            name=name,
            template=template,
            concurrency=concurrency,
            rate=rows.rate(count, period),
            running=running,
            waiting=waiting,
        )
        for name, template, concurrency, count, period, running, waiting in found
    ]


def _open(names: Sequence[str]) -> Operation[list[str]]:
    """Unblock as many jobs as the limits allow; more where unblocked jobs were never claimed."""
    if not names:
        return []
    yield Ask("hold_lanes", {"names": list(names)})
    yield Ask("drop_stale_holdings", {"names": list(names)})
    held = yield from look(names)
    yield from _write_lanes(held.flows, held.stored)
    places = {
        name: MOST_FREED if count and name in held.idle else count
        for name, count in ((name, room(flow, held.now)) for name, flow in held.flows.items())
        if name in held.crowded
    }
    return (yield from _let_in(places, held.flows, now=held.now))


def _reconsider(name: str) -> Operation[list[str]]:
    """Unblock all jobs that wait at a lane of this name or template, to decide about them again.

    The lanes are locked first: a transaction that parks a job by the old rule has then finished.
    """
    names = [lane for (lane,) in (yield Ask("lanes_under", {"name": name}))]
    if not names:
        return []
    yield Ask("hold_lanes", {"names": names})
    held = yield from look(names)
    flows = {lane: flow for lane, flow in held.flows.items() if lane in held.crowded}
    return (yield from _let_in(dict.fromkeys(flows, MOST_FREED), flows, now=held.now))


def _enter(lanes: Mapping[str, Lane], wish: Wish) -> Operation[LockedLanes]:
    """Lock the lanes, and read them with the limits in force."""
    if not lanes:
        [(now,)] = yield Ask("now")
        return LockedLanes({}, {}, frozenset(), frozenset(), now)
    names = sorted(lanes)
    while len((yield Ask("hold_lanes", {"names": names}))) < len(names):
        # Again, if another transaction deleted an idle lane meanwhile.
        made = [{"name": name, "template": lanes[name].template} for name in names]
        yield Ask("make_lanes", {"rows": rows.packed(made)})
    return (yield from look(names, lanes, wish))


def _write(choice: Admission, held: LockedLanes) -> Operation[None]:
    holdings = [
        {"lane": lane, "job_id": candidate.id}
        for candidate in choice.chosen
        for lane in candidate.lanes
    ]
    if holdings:
        yield Ask("add_holdings", {"rows": rows.packed(holdings)})
    if choice.full:
        waiting = [
            {"id": number, "lane": lane, "reason": why_full(lane, choice.flows[lane], held.now)}
            for number, lane in choice.full.items()
        ]
        yield Ask("hold_full", {"rows": rows.packed(waiting)})
    yield from _write_lanes(choice.flows, held.stored)


def _write_lanes(
    flows: Mapping[str, LaneUsage], stored: Mapping[str, LaneUsage]
) -> Operation[None]:
    written = [
        {"name": name, **_numbers(flow.concurrency, flow.rate), "arrival": flow.arrival}
        for name, flow in sorted(flows.items())
        if flow != stored[name]
    ]
    if written:
        yield Ask("write_lanes", {"rows": rows.packed(written)})


def _let_in(
    places: Mapping[str, int], flows: Mapping[str, LaneUsage], *, now: int, wish: Wish | None = None
) -> Operation[list[str]]:
    """Unblock jobs that wait at these lanes, and store when to examine the lanes again.

    A claim unblocks the jobs that it could have claimed itself, if there are any.
    """
    wanted = [
        {
            "lane": name,
            "count": min(count, MOST_FREED),
            "queue": wish.queue if wish and flows[name].line else None,
        }
        for name, count in sorted(places.items())
        if count > 0
    ]
    freed: list[Row] = []
    if wanted:
        tasks = list(wish.tasks) if wish else []
        asked: dict[str, Value] = {"rows": rows.packed(wanted), "tasks": tasks}
        freed = yield Ask("free_parked", {**asked, "most": MOST_FREED})
    again = [
        {"name": name, "opens_at": looks_again(flow, now)} for name, flow in sorted(flows.items())
    ]
    if again:
        yield Ask("set_opening", {"rows": rows.packed(again)})
    return [queue for (queue,) in freed]


def _numbers(concurrency: int | None, rate: Rate | None) -> dict[str, int | None]:
    return {
        "concurrency": concurrency,
        "rate_count": rate.count if rate else None,
        "rate_period": rows.microseconds(rate.period) if rate else None,
    }


def _lanes(limits: str | None) -> tuple[Lane, ...]:
    return lanes_from_json(limits) if limits else ()


def _names(limits: str | None) -> tuple[str, ...]:
    return tuple(lane.name for lane in _lanes(limits))
