"""Who acts in an interleaving, and how a case is set up and judged.

The operations are the store's own. Everybody's numbers are fixed: the rows are put back before
each order, so the same ones can be used again.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from duly.model.job import Claimed, JobRequest
from duly.model.outcome import Lost, Opened, Outcome, Raised, Returned, Succeeded
from duly.model.schedule import Plan, StoredSchedule
from duly.model.states import State
from duly.policy.firing import decide
from duly.policy.retry import Retry
from duly.policy.verdict import Tried, Verdict, judge
from duly.rules import zone_data_version
from duly.store import (
    claims,
    enqueueing,
    finish_and_claim,
    job_changes,
    ledger,
    maintenance,
    schedule_changes,
    work,
)
from duly.store.database import Dialect, Operation, alone
from duly.store.enqueueing import NumberedCall
from duly.store.ids import Ids
from duly.store.job_endings import settle
from duly.store.ledger import FiringResult
from duly.store.maintenance import TakenBack
from duly.store.values import (
    CLOCK,
    NORMAL,
    ClaimRequest,
    FinishedAndClaimed,
    JobDone,
    LostJob,
    Settled,
    Settlement,
)
from tests.factories import profile
from tests.interleaving.interleave import Explored, Order, Sessions, explore
from tests.interleaving.stage import Stage
from tests.store.postgres.interleavings.promises import BREACHES

LOCKING = Dialect("postgres")
OPTIMISTIC = LOCKING.without_features()
DIALECTS = {"locking": LOCKING, "optimistic": OPTIMISTIC}

WORKER, SUCCESSOR = 1, 2
LEASE = timedelta(seconds=15)
LONG = timedelta(days=1)
SECOND = timedelta(seconds=1)

Broken: TypeAlias = Sequence[str]


def numbers(block: int) -> Ids:
    ids = Ids()
    ids.add(block)
    return ids


def fire(block: int, *, at_once: bool = True) -> Operation[FiringResult]:
    """A scheduler that draws its numbers from a block of its own."""
    return ledger.fire(
        decide,
        limit=10,
        zone_data=zone_data_version(),
        ids=numbers(block),
        trust=lambda _: True,
        at_once=at_once,
    )


def enqueue(*wanted: tuple[int, JobRequest], again: bool = False) -> Operation[list[int]]:
    return enqueueing.enqueue([NumberedCall(call, number) for number, call in wanted], again=again)


def claim_request(worker: int = WORKER, limit: int = 1, shelf: int = NORMAL) -> ClaimRequest:
    return ClaimRequest(worker=worker, queue="default", tasks=["work"], limit=limit, shelf=shelf)


def claim(worker: int = WORKER, limit: int = 1, shelf: int = NORMAL) -> Operation[list[Claimed]]:
    """In passing, as from a queue that has no limits."""
    return claims.claim(claim_request(worker, limit, shelf))


def turn(*held: Claimed, worker: int = WORKER, limit: int = 1) -> Operation[FinishedAndClaimed]:
    """Finish what was claimed, and claim, in one statement."""
    done = [JobDone(job.id, job.fence) for job in held]
    [(taken, finished)] = yield finish_and_claim.ask(done, claim_request(worker, limit))
    jobs = [Claimed(*row) for row in json.loads(taken or "[]")]
    return FinishedAndClaimed(jobs=jobs, kept=json.loads(finished or "[]"))


def finish(*held: Claimed, outcome: Outcome | None = None, block: int = 70) -> Operation[Settled]:
    """What a worker writes about jobs that it ran: that they succeeded, unless told otherwise."""
    outcome = outcome or Succeeded()
    return settle(
        [
            Settlement(
                job=job,
                verdict=judge(
                    Tried.of(job, Retry(attempts=2, jitter=False)),
                    outcome,
                    job.moment(0),
                    dice=0.5,
                ),
                outcome=type(outcome).__name__.lower(),
                opens=outcome.plan if isinstance(outcome, Opened) else None,
            )
            for job in held
        ],
        ids=numbers(block),
    )


def cancel(number: int) -> Operation[State]:
    return job_changes.cancel(number, "no", ids=numbers(71))


RAISED = Raised(error="ValueError", message="no")
FATAL = Raised(error="ValueError", message="never", permanent=True)
RETURNED = Returned()


def take_back() -> Operation[TakenBack]:
    return maintenance.take_back(_judge_lost, after=0, margin=SECOND, limit=10, ids=numbers(72))


def _judge_lost(job: LostJob, now: datetime) -> Verdict:
    return judge(Tried.of(job), Lost(job.worker), now, dice=0.5)


class Scene:
    """A stage, with what a case needs to be set up and judged."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._kept = False

    def wait(self, seconds: float) -> None:
        self.stage.now += timedelta(seconds=seconds)

    async def add(self, *plans: Plan) -> StoredSchedule:
        stage = self.stage
        ids = list(range(1, len(plans) + 1))
        return (await stage.run(lambda: schedule_changes.add(plans, ids)))[0]

    async def worker(self, number: int = WORKER, lease: timedelta = LONG) -> None:
        await self.stage.run(lambda: alone(work.register_as(number, profile("w"), lease=lease)))

    async def fire(self, block: int = 90) -> FiringResult:
        return await self.stage.run(lambda: fire(block))

    async def begin(self, worker: int = WORKER) -> Claimed:
        found = await self.stage.run(lambda: claim(worker))
        [job] = found or await self.stage.run(lambda: claim(worker, shelf=CLOCK))
        return job

    async def enqueue(self, number: int, call: JobRequest) -> None:
        await self.stage.run(lambda: enqueue((number, call)))

    async def states(self) -> dict[int, str]:
        """Of every job, wherever it is."""
        found = await self.stage.look(
            "select id, state from duly.job union all select id, state from duly.history"
            " union all select id, state from duly.failed"
        )
        return {number: str(state) for number, state in found}

    async def column(self, query: str) -> list[Any]:
        return [value for (value,) in await self.stage.look(query)]

    async def play(
        self,
        check: Callable[[Order], Awaitable[Broken]] | None = None,
        *,
        most: int = 400,
        tick: timedelta = SECOND,
        **sessions: Any,
    ) -> Explored:
        """Every order of the sessions, from what was there when the first of them began."""
        if not self._kept:
            await self.stage.keep()
            self._kept = True

        async def judged(order: Order) -> Broken:
            found = [text for (text,) in await self.stage.look(BREACHES)]
            return found or (await check(order) if check else [])

        found: Sessions = sessions
        return await explore(self.stage, found, judged, most=most, tick=tick)


def expect(condition: object, otherwise: str) -> list[str]:
    return [] if condition else [otherwise]
