"""Operations that claim jobs, and finish jobs whose end affects no other row.

Most jobs are plain: they have no limit and no key, and no schedule waits for their end. They are
finished and claimed by the hundred, and the other features cost them nothing. A job that has
limits, needs resources or comes from a queue with its own limits is claimed with care: first the
rows that are counted are locked, then the decision is made in this module, and then it is written.

Locks are taken in the order that ``database`` states. The exception: a queue is locked before the
jobs that are claimed from it, and of those only the ones that no other transaction holds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby, zip_longest
from typing import NamedTuple

from duly.model.job import Claimed
from duly.model.states import State
from duly.policy.limits import LimitUsage, believable, enter, free_places, opens_at
from duly.store import limits, rows
from duly.store.database import Ask, Operation, Row, Value
from duly.store.job_endings import done_before
from duly.store.values import CAREFUL, ClaimRequest, FinishedAndClaimed, JobDone, ReadyShelf

# How many jobs with limits or resource needs are examined to find some that may run.
MOST_CANDIDATES = 200
# … and how many jobs that do not fit on this worker: other jobs may wait behind them.
MOST_PASSED = 20
# How many index steps may find the tenants of one claim from a fair queue: one for each tenant and
# kind of job. Where the kinds are very many, a claim serves fewer tenants.
MOST_STEPS = 2_000
# Indexes of these columns in a claimed row.
_TENANT, _RANK = (Claimed.__struct_fields__.index(name) for name in ("tenant", "rank"))


def finish_and_claim(
    done: Sequence[JobDone], request: ClaimRequest | None
) -> Operation[FinishedAndClaimed]:
    """Finish the succeeded jobs, then claim new ones, one statement after the other."""
    kept = yield from finish(done)
    jobs = (yield from claim(request)) if request else []
    lost = yield from refused(done, kept)
    return finished_and_claimed(done, jobs, lost)


def finished_and_claimed(
    done: Sequence[JobDone], jobs: Sequence[Claimed], lost: Sequence[int]
) -> FinishedAndClaimed:
    """Return the result of finish and claim: finished jobs that are not refused are kept.

    A kept job was written now, or by an earlier run whose answer was lost.
    """
    kept = [one.id for one in done if one.id not in lost]
    return FinishedAndClaimed(jobs=jobs, kept=kept, refused=lost)


def finish(done: Sequence[JobDone]) -> Operation[list[int]]:
    """Move succeeded jobs to history; return the ids of those whose fencing token is valid."""
    kept: list[int] = []
    for fence, batch in by_fence(done):
        values = [[one.id, one.result, one.keep] for one in batch]
        yield Ask("keep_plain", {"rows": json.dumps(values), "fence": fence})
        ids = [one.id for one in batch]
        kept += [number for (number,) in (yield Ask("finish_plain", {"ids": ids, "fence": fence}))]
    return kept


def by_fence(done: Iterable[JobDone]) -> list[tuple[int, list[JobDone]]]:
    """Group finished jobs by the fencing token under which they were claimed."""
    ordered = sorted(done, key=lambda one: (one.fence, one.id))
    return [(fence, list(batch)) for fence, batch in groupby(ordered, lambda one: one.fence)]


def refused(done: Sequence[JobDone], kept: Sequence[int]) -> Operation[list[int]]:
    """Return the jobs whose lease was lost, without those that a lost answer had finished."""
    written = set(kept)
    missing = {one.id: (one.fence, State.SUCCEEDED) for one in done if one.id not in written}
    mine = yield from done_before(missing)
    return [number for number in missing if number not in mine]


def claim(request: ClaimRequest) -> Operation[list[Claimed]]:
    """Claim jobs from a plain queue; return nothing for a queue with limits of its own."""
    if request.among:
        return (yield from _of_tasks(request, request.limit, held=False))
    asked = {**_asked(request), "floor": request.floor}
    return in_order((yield Ask("claim", asked)))


def _of_tasks(request: ClaimRequest, limit: int, *, held: bool) -> Operation[list[Claimed]]:
    """Claim the first jobs of each task, where jobs for other workers' tasks wait too."""
    asked: dict[str, Value] = {
        **_asked(request),
        "limit": limit,
        "among": list(request.among),
        "share": share(limit, len(request.among)),
        "held": int(held),
    }
    return in_order((yield Ask("claim_of_tasks", asked)))


def share(limit: int, kinds: int) -> int:
    """Return how many to lock of each kind of jobs, to choose the most urgent of them.

    Of two kinds the choice is exact. Of more it need not be, but has the first of each kind.
    """
    return max(1, min(limit, 2 * limit // kinds))


@dataclass(frozen=True, slots=True)
class TakenJobs:
    """Jobs that were claimed under limits, and the queues of jobs that were unblocked."""

    jobs: list[Claimed] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)
    opens: bool = False  # whether jobs now wait for the dispatcher
    full: bool = False  # whether the queue's own limits ended the claim
    opens_in: timedelta | None = None  # when the queue's rate limit admits the next job


def take(request: ClaimRequest) -> Operation[TakenJobs]:
    """Claim from any queue under all limits; also return the queues of unblocked jobs."""
    held = yield Ask("hold_queue", {"queue": request.queue})
    if not held:
        return (yield from _take(request, request.limit, fair=False))
    [(paused, concurrency, count, period, arrival, fair, now)] = held
    if paused:
        return TakenJobs()
    running = 0
    if concurrency is not None:
        [(running,)] = yield Ask("running_in_queue", {"queue": request.queue})
    stored = LimitUsage(concurrency, rows.rate(count, period), held=running, arrival=arrival)
    usage = believable(stored, now)
    places = free_places(usage, now)
    taken = yield from _take(request, min(request.limit, places), fair=bool(fair))
    spent = enter(usage, len(taken.jobs), now) if taken.jobs else usage
    if spent.arrival != arrival:
        yield Ask("spend_queue", {"queue": request.queue, "arrival": spent.arrival})
    if len(taken.jobs) < places or places >= request.limit:
        return taken
    return replace(taken, full=True, opens_in=_opens_in(spent, now))


def _opens_in(usage: LimitUsage, now: int) -> timedelta | None:
    """Return how long the queue stays full; None if until a running job ends."""
    opens = None if usage.is_full else opens_at(usage)
    return None if opens is None else rows.length(max(0, opens - now))


def _take(request: ClaimRequest, limit: int, *, fair: bool) -> Operation[TakenJobs]:
    if limit <= 0:
        return TakenJobs()
    if fair:
        return (yield from _take_fairly(request, limit))
    if request.shelf == CAREFUL:
        return (
            yield from _chosen(request, limit, (yield from _kinds(request, request.tasks)), Turns())
        )
    if request.among:
        return TakenJobs((yield from _of_tasks(request, limit, held=True)))
    asked = {**_asked(request), "limit": limit}
    return TakenJobs(in_order((yield Ask("claim_held", asked))))


def _take_fairly(request: ClaimRequest, limit: int) -> Operation[TakenJobs]:
    asked: dict[str, Value] = {
        "queue": request.queue,
        "shelf": request.shelf,
        "tasks": list(request.tasks),
    }
    oldest = yield Ask("oldest_of_tasks", asked)
    if not oldest:
        return TakenJobs()
    tasks = [task for task, _ in oldest]
    stragglers = not oldest[0][1]
    if request.shelf == CAREFUL:
        kinds = yield from _kinds(request, tasks)
        turns = yield from _turns(request, limit, kinds.fitting, stragglers=stragglers)
        return (yield from _chosen(request, limit, kinds, turns))
    turns = yield from _turns(request, limit, [(task, "") for task in tasks], stragglers=stragglers)
    return TakenJobs((yield from _in_turn(request, limit, tasks, turns)))


@dataclass(frozen=True, slots=True)
class Turns:
    """The tenants whose turn it is on a fair queue, in order, and the kinds of their jobs."""

    tenants: list[str] = field(default_factory=list)
    kinds: Sequence[Row] = ()  # (task, kind)
    stragglers: bool = False  # the oldest job was enqueued while the queue was being made fair

    def asked(self, queue: str, shelf: int, limit: int) -> dict[str, Value]:
        """Return the values that ask for ``limit`` jobs of these tenants."""
        share_of_tenant = max(1, limit // len(self.tenants))
        return {
            "queue": queue,
            "shelf": shelf,
            "kinds": _packed(self.kinds),
            "tenants": self.tenants,
            "each": share(share_of_tenant, len(self.kinds)),
            "share": share_of_tenant,
            "limit": limit,
        }

    def in_order(self, found: Iterable[Row], tenant: int, rank: int) -> list[Row]:
        """Order rows round-robin: the first of each tenant, then the second, and so on."""
        lines = {name: list[Row]() for name in self.tenants}
        for row in sorted(found, key=lambda row: (row[rank], row[0])):
            lines.setdefault(row[tenant], []).append(row)
        rounds = zip_longest(*lines.values())
        return [row for around in rounds for row in around if row is not None]


def _turns(
    request: ClaimRequest, limit: int, kinds: Sequence[Row], *, stragglers: bool
) -> Operation[Turns]:
    """Return tenants with jobs of these kinds, starting after the one that was served last.

    The tenant without a name comes last. So ``after=""`` means both that no tenant was served yet
    and that this tenant was.
    """
    if not kinds:
        return Turns(stragglers=stragglers)
    places = min(limit, max(1, MOST_STEPS // len(kinds)))
    asked: dict[str, Value] = {
        "queue": request.queue,
        "shelf": request.shelf,
        "kinds": _packed(kinds),
        "limit": places + 1,
    }
    found = yield Ask("waiting_tenants", {**asked, "start": request.after})
    tenants = [tenant for (tenant,) in found if tenant != request.after]
    if len(tenants) < places:
        again = yield Ask("waiting_tenants", {**asked, "start": ""})
        tenants += [name for (name,) in again if name not in tenants]
    return Turns(tenants[:places], kinds, stragglers)


def _in_turn(
    request: ClaimRequest, limit: int, tasks: list[str], turns: Turns
) -> Operation[list[Claimed]]:
    """Claim one or several jobs of each tenant; the last job is of the tenant served last."""
    jobs: list[Claimed] = []
    if turns.stragglers or not turns.tenants:
        first = replace(request, among=tasks)
        jobs = yield from _of_tasks(first, 1 if turns.tenants else limit, held=True)
    left = limit - len(jobs)
    if turns.tenants and left:
        served = replace(turns, tenants=turns.tenants[:left])
        asked = {"worker": request.worker, **served.asked(request.queue, request.shelf, left)}
        found = yield Ask("claim_of_tenants", asked)
        jobs += map(rows.claimed, turns.in_order(found, _TENANT, _RANK))
    return jobs


def _chosen(
    request: ClaimRequest, limit: int, kinds: "Kinds", turns: Turns
) -> Operation[TakenJobs]:
    """Claim the first jobs with limits or resource needs that this worker may run now."""
    if turns.tenants and not turns.stragglers:
        asked = turns.asked(request.queue, request.shelf, MOST_CANDIDATES)
        found = turns.in_order((yield Ask("candidates_of_tenants", asked)), 4, 1)
    else:
        found = yield from _of_kinds("candidates", request, kinds.fitting, MOST_CANDIDATES)
    passed: list[Row] = []
    if len(found) < MOST_CANDIDATES:
        passed = yield from _of_kinds("passed_limits", request, kinds.passed, MOST_PASSED)
    admitted = yield from limits.admit(found, request, limit, passed=passed)
    freed = admitted.freed
    if len(found) == MOST_CANDIDATES and admitted.parked == len(found):
        freed = [
            *freed,
            request.queue,
        ]  # there may be more behind the jobs that wait at a limit now
    if not admitted.ids:
        return TakenJobs([], freed, admitted.opens)
    claimed = yield Ask("claim_chosen", {"worker": request.worker, "ids": admitted.ids})
    missed = set(admitted.ids) - {row[0] for row in claimed}
    if missed:  # the lease has ended, and they stay ready; other jobs may wait for their places
        unused = {number: text for number, _, text, *_ in found if number in missed and text}
        freed = [*freed, *(yield from limits.let_go(unused))]
    place = {number: n for n, number in enumerate(admitted.ids)}
    jobs = [rows.claimed(row) for row in sorted(claimed, key=lambda row: place[row[0]])]
    return TakenJobs(jobs, freed, admitted.opens)


class Kinds(NamedTuple):
    """Kinds of jobs that have limits or need resources, as rows of (task, kind)."""

    fitting: list[Row]
    passed: list[Row]  # kinds with limits whose needs do not fit on this worker


def _kinds(request: ClaimRequest, tasks: Sequence[str]) -> Operation[Kinds]:
    found = yield Ask("kinds", {"queue": request.queue, "tasks": list(tasks)})
    kinds = Kinds([], [])
    for task, kind in found:
        needs = json.loads(kind.removeprefix("+") or "{}")
        if all(amount <= request.free.get(name, 0) for name, amount in needs.items()):
            kinds.fitting.append((task, kind))
        elif kind.startswith("+"):
            kinds.passed.append((task, kind))
    return kinds


def _of_kinds(
    statement: str, request: ClaimRequest, kinds: Sequence[Row], limit: int
) -> Operation[list[Row]]:
    if not kinds:
        return []
    asked: dict[str, Value] = {"queue": request.queue, "kinds": _packed(kinds), "limit": limit}
    return (yield Ask(statement, {**asked, "share": share(limit, len(kinds))}))


def _packed(kinds: Iterable[Row]) -> str:
    return rows.packed({"task": task, "kind": kind} for task, kind in kinds)


def _asked(request: ClaimRequest) -> dict[str, Value]:
    return {
        "worker": request.worker,
        "queue": request.queue,
        "tasks": list(request.tasks),
        "shelf": request.shelf,
        "limit": request.limit,
    }


def in_order(found: Iterable[Row]) -> list[Claimed]:
    """Return claimed jobs in claim order: an UPDATE returns its rows in any order."""
    return sorted(map(rows.claimed, found), key=lambda job: (job.rank, job.id))


def ready(queues: Sequence[str], tasks: Sequence[str]) -> Ask:
    """Return the statement that finds claimable jobs; it is frequent, so it has no transaction."""
    return Ask("ready_shelves", {"queues": list(queues), "tasks": list(tasks)})


def places(found: Iterable[Row]) -> list[ReadyShelf]:
    return [ReadyShelf(queue, shelf, tuple(json.loads(among))) for queue, shelf, among in found]
