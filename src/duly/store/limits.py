"""Operations on limits: admit jobs, release their places, unblock waiting jobs.

A limit has a row for each rendered name, and this row is the lock. The jobs in it are counted from
the holdings, by a statement that begins after the lock was acquired. A job that finds a limit full
waits there in state ``blocked`` and does not delay other jobs. A job that leaves a limit unblocks
the next ones: they become ready, keep their rank, and the next claim decides about them again. So
no free place is forgotten when a job leaves, and none is given away twice.

Every limit with waiting jobs must be examined again. If it is full, the job that leaves it does so.
Otherwise the dispatcher does, at ``opens_at``: because the rate limit admits the next job then, or
because unblocked jobs may not have been claimed (their queue is paused, no worker knows their task,
another transaction held the row).

Limits are locked in the order of their names, after the jobs. Waiting jobs are unblocked after the
limits are locked, but only jobs that no other transaction holds.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from duly.durations import MICROSECOND
from duly.model.limit import LimitInfo, NamedLimit, Rate, limits_from_json
from duly.policy.limits import (
    PATIENCE,
    Admission,
    Candidate,
    LimitUsage,
    believable,
    choose,
    free_places,
    looks_again,
    opens_at,
    why_full,
)
from duly.store import audit, rows
from duly.store.database import Ask, Operation, Row, Value
from duly.store.rows import LockedJob
from duly.store.values import READY, ClaimRequest
from duly.store.verbs import Noun, reading, verb

# How many jobs are unblocked at once: the next claim decides about them again.
MOST_FREED = 100


_PATIENCE = PATIENCE // MICROSECOND


@dataclass(frozen=True, slots=True)
class LockedLimits:
    """Limits that are locked, by name, and the instant of the decision."""

    usages: Mapping[str, LimitUsage]
    stored: Mapping[str, LimitUsage]  # the same, with the stored numbers
    crowded: frozenset[str]  # limits with waiting jobs
    idle: frozenset[str]  # limits that no job entered for a while
    now: int


def read_locked(
    names: Sequence[str],
    declared: Mapping[str, NamedLimit] | None = None,
    request: ClaimRequest | None = None,
) -> Operation[LockedLimits]:
    """Read limits that are locked; asked after locking, it sees every entry and leave before."""
    queue, tasks = (request.queue, list(request.tasks)) if request else ("", [])
    asked = {"names": list(names), "queue": queue, "tasks": tasks}
    found = [_LimitRow(*row) for row in (yield Ask("read_locked_limits", asked))]
    stored = {row.name: row.usage for row in found}
    usages = {}
    for row in found:
        usage = row.usage
        if row.ruled:
            rate = rows.rate(row.rule_rate_count, row.rule_rate_period)
            usage = replace(usage, concurrency=row.rule_concurrency, rate=rate)
        elif declared:
            limit = declared[row.name]
            usage = replace(usage, concurrency=limit.concurrency, rate=limit.rate)
        usages[row.name] = believable(usage, row.now)
    return LockedLimits(
        usages,
        stored,
        crowded=frozenset(row.name for row in found if row.crowded),
        idle=frozenset(row.name for row in found if row.is_idle(usages[row.name])),
        now=found[0].now if found else 0,
    )


class _LimitRow(NamedTuple):
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
    def usage(self) -> LimitUsage:
        line = None
        if self.first_rank is not None and self.first_id is not None:
            line = (self.first_rank, self.first_id)
        rate = rows.rate(self.rate_count, self.rate_period)
        return LimitUsage(self.concurrency, rate, held=self.held, arrival=self.arrival, line=line)

    def is_idle(self, usage: LimitUsage) -> bool:
        """Return whether no job entered for a while although the rate limit allowed one."""
        return max(self.used_at, opens_at(usage) or 0) <= self.now - _PATIENCE


class Admitted(NamedTuple):
    """The admitted jobs, the queues of jobs that were unblocked in their place, and the rest."""

    ids: list[int]
    freed: list[str]
    opens: bool  # whether jobs now wait for the dispatcher
    parked: int  # how many jobs now wait at a full limit


def admit(
    found: Sequence[Row], request: ClaimRequest, limit: int, *, passed: Sequence[Row] = ()
) -> Operation[Admitted]:
    """Decide which candidates may run now; the others wait at the limit that is full.

    ``passed`` are the limits of candidates that do not fit here.
    """
    candidates = [
        Candidate(number, _names(limits), json.loads(needs) if needs else {}, rank)
        for number, rank, limits, needs, *_ in found
    ]
    texts = [row[2] for row in found] + [limits for (limits,) in passed]
    held = yield from _enter({one.name: one for text in texts for one in _limits(text)}, request)
    choice = choose(candidates, held.usages, free=request.free, limit=limit, now=held.now)
    choice.passed.update(name for (limits,) in passed for name in _names(limits))
    yield from _write(choice, held)
    crowded = held.crowded | set(choice.full.values())
    # Other jobs, queued behind one of these, may wait for the places that were not taken here.
    stirred = crowded if len(choice.chosen) < limit else crowded & choice.passed
    usages = {name: usage for name, usage in choice.usages.items() if name in crowded}
    places = {
        name: free_places(usage, held.now) for name, usage in usages.items() if name in stirred
    }
    freed = yield from _let_in(places, usages, now=held.now, request=request)
    opens = any(looks_again(usages[name], held.now) for name in choice.full.values())
    ids = [candidate.id for candidate in choice.chosen]
    return Admitted(ids, freed, opens, parked=len(choice.full))


def leave(jobs: Iterable[LockedJob]) -> Operation[list[str]]:
    """Release the places that jobs held, and unblock waiting jobs; return their queues."""
    return (yield from let_go({job.id: job.limits for job in jobs if job.limits is not None}))


def let_go(limits: Mapping[int, str]) -> Operation[list[str]]:
    """Release places like ``leave``, for jobs by number with their limits."""
    names = sorted({name for text in limits.values() for name in _names(text)})
    if not names:
        return []
    yield Ask("hold_limits", {"names": names})
    yield Ask("drop_holdings", {"ids": list(limits)})
    held = yield from read_locked(names)
    usages = {name: usage for name, usage in held.usages.items() if name in held.crowded}
    places = {name: free_places(usage, held.now) for name, usage in usages.items()}
    return (yield from _let_in(places, usages, now=held.now))


def open_limits(limit: int) -> Operation[list[str]]:
    """Admit jobs whose rate limit refilled or whose predecessor is gone; return their queues."""
    found = yield Ask("opening_limits", {"limit": limit})
    return (yield from _open([name for (name,) in found]))


def sweep(limit: int) -> Operation[int]:
    """Repair limits: places of jobs that do not run, and free limits with waiting jobs."""
    stale = yield Ask("stale_limits", {"limit": limit})
    waiting = yield Ask("waiting_limits", {"limit": limit})
    return len((yield from _open(sorted({name for (name,) in [*stale, *waiting]}))))


def set_rule(name: str, concurrency: int | None, rate: Rate | None) -> Operation[list[str]]:
    """Set an operator's override, which takes precedence over the code."""
    yield Ask("set_limit_rule", {"name": name, **_numbers(concurrency, rate)})
    return (yield from _reconsider(name))


def drop_rule(name: str) -> Operation[list[str]]:
    yield Ask("drop_limit_rule", {"name": name})
    return (yield from _reconsider(name))


def _open(names: Sequence[str]) -> Operation[list[str]]:
    """Unblock as many jobs as the limits allow; more where unblocked jobs were never claimed."""
    if not names:
        return []
    yield Ask("hold_limits", {"names": list(names)})
    yield Ask("drop_stale_holdings", {"names": list(names)})
    held = yield from read_locked(names)
    yield from _write_limits(held.usages, held.stored)
    places = {
        name: MOST_FREED if count and name in held.idle else count
        for name, count in (
            (name, free_places(usage, held.now)) for name, usage in held.usages.items()
        )
        if name in held.crowded
    }
    return (yield from _let_in(places, held.usages, now=held.now))


def _reconsider(name: str) -> Operation[list[str]]:
    """Unblock all jobs that wait at a limit of this name or template, to decide about them again.

    The limits are locked first: a transaction that parks a job by the old rule has then finished.
    """
    names = [found for (found,) in (yield Ask("limits_under", {"name": name}))]
    if not names:
        return []
    yield Ask("hold_limits", {"names": names})
    held = yield from read_locked(names)
    usages = {at: usage for at, usage in held.usages.items() if at in held.crowded}
    return (yield from _let_in(dict.fromkeys(usages, MOST_FREED), usages, now=held.now))


def _enter(limits: Mapping[str, NamedLimit], request: ClaimRequest) -> Operation[LockedLimits]:
    """Lock the limits, and read them with the numbers in force."""
    if not limits:
        [(now,)] = yield Ask("now")
        return LockedLimits({}, {}, frozenset(), frozenset(), now)
    names = sorted(limits)
    while len((yield Ask("hold_limits", {"names": names}))) < len(names):
        # Again, if another transaction deleted an idle limit meanwhile.
        made = [{"name": name, "template": limits[name].template} for name in names]
        yield Ask("make_limits", {"rows": rows.packed(made)})
    return (yield from read_locked(names, limits, request))


def _write(choice: Admission, held: LockedLimits) -> Operation[None]:
    holdings = [
        {"limit_name": limit, "job_id": candidate.id}
        for candidate in choice.chosen
        for limit in candidate.limits
    ]
    if holdings:
        yield Ask("add_holdings", {"rows": rows.packed(holdings)})
    if choice.full:
        waiting = [
            {
                "id": number,
                "limit_name": limit,
                "reason": why_full(limit, choice.usages[limit], held.now),
            }
            for number, limit in choice.full.items()
        ]
        yield Ask("hold_full", {"rows": rows.packed(waiting)})
    yield from _write_limits(choice.usages, held.stored)


def _write_limits(
    usages: Mapping[str, LimitUsage], stored: Mapping[str, LimitUsage]
) -> Operation[None]:
    written = [
        {"name": name, **_numbers(usage.concurrency, usage.rate), "arrival": usage.arrival}
        for name, usage in sorted(usages.items())
        if usage != stored[name]
    ]
    if written:
        yield Ask("write_limits", {"rows": rows.packed(written)})


def _let_in(
    places: Mapping[str, int],
    usages: Mapping[str, LimitUsage],
    *,
    now: int,
    request: ClaimRequest | None = None,
) -> Operation[list[str]]:
    """Unblock jobs that wait at these limits, and store when to examine the limits again.

    A claim unblocks the jobs that it could have claimed itself, if there are any.
    """
    wanted = [
        {
            "limit_name": name,
            "count": min(count, MOST_FREED),
            "queue": request.queue if request and usages[name].line else None,
        }
        for name, count in sorted(places.items())
        if count > 0
    ]
    freed: list[Row] = []
    if wanted:
        tasks = list(request.tasks) if request else []
        asked: dict[str, Value] = {"rows": rows.packed(wanted), "tasks": tasks}
        freed = yield Ask("free_parked", {**asked, "most": MOST_FREED})
    again = [
        {"name": name, "opens_at": looks_again(usage, now)}
        for name, usage in sorted(usages.items())
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


def _limits(text: str | None) -> tuple[NamedLimit, ...]:
    return limits_from_json(text) if text else ()


def _names(limits: str | None) -> tuple[str, ...]:
    return tuple(limit.name for limit in _limits(limits))


def listed(*, limit: int = 1_000) -> Operation[list[LimitInfo]]:
    """Return the limits that jobs have used, the last used first."""
    found = yield Ask("list_limits", {"limit": limit})
    return [
        LimitInfo(
            name=name,
            template=template,
            concurrency=concurrency,
            rate=rows.rate(count, period),
            running=running,
            waiting=waiting,
        )
        for name, template, concurrency, count, period, running, waiting in found
    ]


class LimitStore(Noun):
    listed: Final = reading("viewer", listed)

    @verb("operator")
    async def set(self, name: str, *, concurrency: int | None, rate: Rate | None) -> None:
        """Override a limit by its name or its template, whatever the code says."""
        await self._db.change(
            lambda: set_rule(name, concurrency, rate),
            lambda _: audit.entry(
                "limits.set", f"limit:{name}", concurrency=concurrency, rate=rate
            ),
            READY,
        )

    @verb("operator")
    async def unset(self, name: str) -> None:
        await self._db.change(
            lambda: drop_rule(name), lambda _: audit.entry("limits.reset", f"limit:{name}"), READY
        )
