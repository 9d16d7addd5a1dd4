"""What guests say of their jobs: how far they are, and what became of them.

The same judge as for our own workers decides what follows, and the store takes nothing under a
fence that is not the job's any more.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duly.clock import now
from duly.engine.execution import without_secrets
from duly.errors import InvalidValue, NotFound, PayloadError, WrongState
from duly.instants import to_us
from duly.model.claimed import Claimed
from duly.model.job import Job
from duly.model.journal import LogEntry, ProgressEntry
from duly.model.outcome import Late, Outcome, Raised, Stopped, Succeeded
from duly.model.payload import LONGEST_RESULT, encode
from duly.model.policies import check_moment
from duly.model.states import State
from duly.policy.redaction import redacted, redacted_for
from duly.policy.retry import LONGEST_WAIT
from duly.policy.verdict import Tried, judge
from duly.registry.option_values import length_of
from duly.store.store import Store
from duly.store.values import Settlement

MOST_ENDINGS: Final = 200  # in one transaction, which locks what waits for them
MOST_LINES: Final = 1_000


class FencedJob(NamedTuple):
    """A job, by the claim under which a guest runs it."""

    worker: int
    id: int
    fence: int


class ReportedOutcome(NamedTuple):
    """What a guest says that a job came to."""

    id: int
    fence: int
    outcome: Outcome


class ReportedLine(NamedTuple):
    text: str
    level: str = "info"
    at: datetime | None = None  # None: now


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOutcome:
    id: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReport:
    kept: Sequence[int] = ()
    refused: Sequence[RefusedOutcome] = field(default_factory=tuple)


def succeeded(result: object) -> Outcome:
    """It is done; a result that cannot be kept fails it for good, as it does at our workers."""
    if result is None:
        return Succeeded()
    try:
        return Succeeded(encode(result, what="the result", longest=LONGEST_RESULT))
    except PayloadError as error:
        return Raised("PayloadError", str(error), permanent=True)


def failed(error: str, *, traceback: str = "", retry: bool | str = True) -> Outcome:
    """``retry`` is whether another try may help, or how long to wait before it."""
    kind, _, message = redacted(error.strip() or "Error").partition(": ")
    return Raised(
        kind,
        message,
        redacted(traceback),
        permanent=retry is False,
        retry_after=_wait(retry) if isinstance(retry, str) else None,
    )


async def finish(
    store: Store, worker: int, endings: Sequence[ReportedOutcome], *, has_row: bool
) -> FinishReport:
    """Write what became of jobs. What was written before is kept, however often it is said.

    A worker without a row holds nothing: nobody could say whose it was.
    """
    _check(endings)
    held = {job.id: job for job in await store.work.held(worker)} if has_row else {}
    jobs = await _jobs(store, held, endings)
    moment = await store.surroundings.now()
    known = [one for one in endings if one.id in jobs]
    settlements = [
        _settlement(jobs[one.id], await _with_reason(store, one), moment) for one in known
    ]
    settled = await store.work.settle(settlements) if settlements else None
    kept = list(settled.kept) if settled else []
    await _make_room(store, {jobs[number].queue for number in kept})
    lost = [one for one in endings if one.id not in kept]
    return FinishReport(kept=kept, refused=[await _refused(store, worker, one) for one in lost])


async def settle_late(store: Store, jobs: Sequence[Claimed]) -> None:
    """What was claimed after the moment by which it had to start is not run."""
    if jobs:
        moment = await store.surroundings.now()
        await store.work.settle([_settlement(job, Late(), moment) for job in jobs])


async def say(store: Store, holding: FencedJob, lines: Sequence[ReportedLine]) -> None:
    """Write lines into the log of a job."""
    if len(lines) > MOST_LINES:
        raise InvalidValue(f"{len(lines):,} lines: at most {MOST_LINES:,} at once")
    for line in lines:
        if line.at is not None:
            check_moment("at", line.at)
    job = await _running(store, holding)
    await store.journal.write(
        [
            LogEntry(
                job_id=job.id,
                fence=holding.fence,
                attempt=job.attempt,
                at_us=to_us(line.at or now()),
                level=line.level.lower(),
                text=redacted_for(job.args, line.text),
            )
            for line in lines
        ]
    )


async def note(store: Store, holding: FencedJob, percent: float, *, message: str = "") -> None:
    """How far a job is."""
    job = await _running(store, holding)
    await store.journal.write(
        [
            ProgressEntry(
                job_id=job.id,
                fence=holding.fence,
                attempt=job.attempt,
                percent=percent,
                message=redacted_for(job.args, message),
            )
        ]
    )


def _check(endings: Sequence[ReportedOutcome]) -> None:
    if len(endings) > MOST_ENDINGS:
        raise InvalidValue(f"{len(endings)} jobs: at most {MOST_ENDINGS} at once")
    numbers = [one.id for one in endings]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise InvalidValue(f"job {twice} is named twice: it came to one end")


async def _jobs(
    store: Store, held: Mapping[int, Claimed], endings: Sequence[ReportedOutcome]
) -> Mapping[int, Claimed | Job]:
    """The jobs that may be written on: held here, or ended before under the same fence."""
    found: dict[int, Claimed | Job] = {}
    for one in endings:
        job = held.get(one.id) or await _past(store, one)
        if job is not None and job.fence == one.fence:
            found[one.id] = job
    return found


async def _past(store: Store, one: ReportedOutcome) -> Job | None:
    """A job that runs no more; one that another worker runs is nothing to write on."""
    try:
        job = await store.jobs.get(one.id)
    except NotFound:
        return None
    return None if job.state is State.RUNNING else job


async def _with_reason(store: Store, one: ReportedOutcome) -> Outcome:
    """Who stopped because it was asked to need not say why."""
    outcome = one.outcome
    if not isinstance(outcome, Stopped) or outcome.reason:
        return outcome
    return Stopped(await store.evidence.asked_to_stop(one.id) or "")


def _settlement(job: Claimed | Job, outcome: Outcome, moment: datetime) -> Settlement:
    if isinstance(outcome, Raised):
        outcome = without_secrets(outcome, job.args)
    result = outcome.result if isinstance(outcome, Succeeded) else None
    return Settlement(
        job=job,
        verdict=judge(Tried.of(job), outcome, moment, dice=random.random()),  # noqa: S311
        outcome=type(outcome).__name__.lower(),
        result=result if job.terms.kept else None,
        keep_result=job.terms.kept if result is not None else None,
    )


async def _make_room(store: Store, queues: set[str]) -> None:
    """Wake those who wait at the limit of a queue."""
    if queues:
        limited = {queue.name for queue in await store.work.queues() if queue.concurrency}
        store.work.has_room(sorted(queues & limited))


async def _refused(store: Store, worker: int, one: ReportedOutcome) -> RefusedOutcome:
    try:
        job = await store.jobs.get(one.id)
    except NotFound as error:
        return RefusedOutcome(id=one.id, why=str(error))
    return RefusedOutcome(id=one.id, why=_not_yours(FencedJob(worker, one.id, one.fence), job))


async def _running(store: Store, holding: FencedJob) -> Job:
    job = await store.jobs.get(holding.id)
    if (job.worker, job.fence, job.state) != (holding.worker, holding.fence, State.RUNNING):
        raise WrongState(f"{_not_yours(holding, job)}; nothing was written")
    return job


def _not_yours(holding: FencedJob, job: Job) -> str:
    return (
        f"job {job.id} is {job.state}, and worker {holding.worker} does not hold it under fence "
        f"{holding.fence}, or not any more"
    )


def _wait(text: str) -> timedelta:
    return length_of("retry", text, longest=LONGEST_WAIT, zero=True)
