"""The engine of HTTP workers: claims, and reported outcomes.

It claims by the same planner as a native worker; the same policy decides about its outcomes, and
the store refuses everything under a fencing token that is no longer the job's.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from duly.clock import boottime, now
from duly.engine.capacity import free_resources
from duly.engine.claim_planner import QueueShelf, ShelfPlanner
from duly.engine.execution import without_secrets
from duly.errors import InvalidValue, NotFound, PayloadError, StoreUnavailable, WrongState
from duly.instants import to_us
from duly.model.job import Claimed, StoredJob
from duly.model.journal import LogEntry, ProgressEntry
from duly.model.outcome import Late, Outcome, Raised, Stopped, Succeeded
from duly.model.payload import LONGEST_RESULT, encode
from duly.model.policies import check_moment
from duly.model.states import State
from duly.model.worker import Profile, WorkerInfo
from duly.policy.redaction import redacted, redacted_for
from duly.policy.retry import LONGEST_WAIT
from duly.policy.verdict import Tried, judge
from duly.registry.option_values import length_of
from duly.store.store import Store
from duly.store.values import SHELVES, SUSPECT, Settlement

POLL_SECONDS: Final = 0.5
MOST_ENDINGS: Final = 200  # in one transaction, which locks what waits for them
MOST_LINES: Final = 1_000


class HttpClaims(ShelfPlanner):
    """Claims jobs for one HTTP worker, from the same shelves in the same order as a native one."""

    def __init__(self, info: WorkerInfo) -> None:
        self.worker: int = info.id
        self.profile: Profile = info.profile
        super().__init__(queues=info.profile.queues, tasks=info.profile.tasks, time=boottime)
        # Shelves that hold jobs for others only, and until when to skip them.
        self._skipped: dict[QueueShelf, float] = {}
        self._looking = asyncio.Lock()  # two claims at once would exceed the slots

    @property
    def pause(self) -> float:
        """Return how many seconds to wait for a nudge before the next claim."""
        look = self.closed.next_look()
        return POLL_SECONDS if look is None else min(POLL_SECONDS, look.total_seconds())

    def hint(self, queue: str) -> None:
        """A job became ready in this queue, or in any if the name is empty."""
        self._skipped = {
            place: until for place, until in self._skipped.items() if queue and place.queue != queue
        }
        for name in [queue] if queue else self.profile.queues:
            self.closed.open(name)

    def check_room(self, held: Sequence[Claimed], *, slots: int) -> None:
        if len(held) >= slots:
            runs = ", ".join(str(job.id) for job in held[:10])
            raise WrongState(
                f"worker {self.worker} may run {slots} at once, and holds {len(held)} ({runs}): "
                "finish those first; what they are, work/held tells"
            )

    async def take(self, store: Store, limit: int, *, slots: int) -> list[Claimed]:
        """Claim up to ``limit`` jobs, from as many shelves as needed."""
        async with self._looking:
            self.rotation.seen(await store.work.ready(self.rotation.queues, self.tasks))
            if self.rotation.knows_nothing:
                return []
            held = await store.work.claimed_by(self.worker)
            for queue in await store.work.queues():
                if queue.paused and queue.name in self.profile.queues:
                    self._pass_over(queue.name)
            return await self._taken(store, held, min(limit, slots - len(held)))

    async def _taken(self, store: Store, held: Sequence[Claimed], limit: int) -> list[Claimed]:
        taken: list[Claimed] = []
        while len(taken) < limit and (place := self._next([*held, *taken])) is not None:
            request = self._claim_from(
                place,
                worker=self.worker,
                tasks=self.tasks,
                limit=1 if place.shelf == SUSPECT else limit - len(taken),
                among=self.rotation.among(place),
                free=free_resources(self.profile.resources, [*held, *taken]),
            )
            try:
                found = await store.work.claim(request)
            except StoreUnavailable:
                if taken:
                    break
                raise
            self._note_claim(found, request, place)
            if not found.jobs:
                # The shelf holds jobs for others. They hear of every claim, and would answer it
                # with a claim of their own.
                self._skipped[place] = boottime() + POLL_SECONDS
            taken += found.jobs
        return taken

    def _pass_over(self, queue: str) -> None:
        for shelf in SHELVES:
            self.rotation.emptied(QueueShelf(queue, shelf))

    def _next(self, here: Sequence[Claimed]) -> QueueShelf | None:
        now = boottime()
        for place in [place for place, until in self._skipped.items() if until > now]:
            self.rotation.emptied(place)
        # Jobs that crashed with a worker run one at a time: the next one may be the cause.
        suspects = not any(job.crashes for job in here)
        return self.rotation.next(suspects=suspects, shut=self.closed.shut_now())


class FencedJob(NamedTuple):
    """A job under the claim by which a worker holds it."""

    worker: int
    id: int
    fence: int


class ReportedOutcome(NamedTuple):
    """The outcome that a worker reports for a job."""

    id: int
    fence: int
    outcome: Outcome


class ReportedLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    level: str = "info"
    at: Annotated[Annotated[datetime, Meta(tz=True)] | None, Meta(description="null: now.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOutcome:
    id: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReport:
    """The outcomes that were stored, and the jobs that the worker does not hold any more."""

    kept: list[int]
    refused: list[RefusedOutcome]


def succeeded(result: object) -> Succeeded | Raised:
    """Return a success; a result that cannot be stored is a permanent failure, as natively."""
    if result is None:
        return Succeeded()
    try:
        return Succeeded(encode(result, what="the result", longest=LONGEST_RESULT))
    except PayloadError as error:
        return Raised("PayloadError", str(error), permanent=True)


def failed(error: str, *, traceback: str = "", retry: bool | str = True) -> Raised:
    """Return a failure; ``retry`` says whether a retry may help, or how long to wait for it."""
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
    """Write the reported outcomes; repeating a report changes nothing.

    A worker without a row holds no jobs.
    """
    _check(endings)
    held = {job.id: job for job in await store.work.claimed_by(worker)} if has_row else {}
    jobs = await _jobs(store, held, endings)
    moment = await store.diagnostics.now()
    known = [one for one in endings if one.id in jobs]
    settlements = [
        _settlement(jobs[one.id], await _with_reason(store, one), moment) for one in known
    ]
    settled = await store.work.settle(settlements) if settlements else None
    kept = sorted(settled.kept) if settled else []
    await _make_room(store, {jobs[number].queue for number in kept})
    lost = [one for one in endings if one.id not in kept]
    return FinishReport(kept=kept, refused=[await _refused(store, worker, one) for one in lost])


async def settle_late(store: Store, jobs: Sequence[Claimed]) -> None:
    """Expire jobs that were claimed after their deadline."""
    if jobs:
        moment = await store.diagnostics.now()
        await store.work.settle([_settlement(job, Late(), moment) for job in jobs])


async def write_log(store: Store, held: FencedJob, lines: Sequence[ReportedLine]) -> None:
    """Write lines into the log of a job."""
    if len(lines) > MOST_LINES:
        raise InvalidValue(f"{len(lines):,} lines: at most {MOST_LINES:,} at once")
    for line in lines:
        if line.at is not None:
            check_moment("at", line.at)
    job = await _running(store, held)
    await store.journal.write(
        [
            LogEntry(
                job_id=job.id,
                fence=held.fence,
                attempt=job.attempt,
                at_us=to_us(line.at or now()),
                level=line.level.lower(),
                text=redacted_for(job.args, line.text),
            )
            for line in lines
        ]
    )


async def write_progress(
    store: Store, held: FencedJob, percent: float, *, message: str = ""
) -> None:
    """Write the progress of a job."""
    job = await _running(store, held)
    await store.journal.write(
        [
            ProgressEntry(
                job_id=job.id,
                fence=held.fence,
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
) -> Mapping[int, Claimed | StoredJob]:
    """Return the jobs whose outcome may be written: held, or ended under the same fence."""
    found: dict[int, Claimed | StoredJob] = {}
    for one in endings:
        job = held.get(one.id) or await _past(store, one)
        if job is not None and job.fence == one.fence:
            found[one.id] = job
    return found


async def _past(store: Store, one: ReportedOutcome) -> StoredJob | None:
    """Return a job that has ended; None if it runs at another worker or does not exist."""
    try:
        job = await store.jobs.get(one.id)
    except NotFound:
        return None
    return None if job.state is State.RUNNING else job


async def _with_reason(store: Store, one: ReportedOutcome) -> Outcome:
    """Add the reason of the cancel to a stop that was reported without one."""
    outcome = one.outcome
    if not isinstance(outcome, Stopped) or outcome.reason:
        return outcome
    return Stopped(await store.activity.asked_to_stop(one.id) or "")


def _settlement(job: Claimed | StoredJob, outcome: Outcome, moment: datetime) -> Settlement:
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
    """Wake workers that wait at the concurrency limit of these queues."""
    if queues:
        limited = {queue.name for queue in await store.work.queues() if queue.concurrency}
        store.work.has_room(sorted(queues & limited))


async def _refused(store: Store, worker: int, one: ReportedOutcome) -> RefusedOutcome:
    try:
        job = await store.jobs.get(one.id)
    except NotFound as error:
        return RefusedOutcome(id=one.id, why=str(error))
    return RefusedOutcome(id=one.id, why=_not_yours(FencedJob(worker, one.id, one.fence), job))


async def _running(store: Store, held: FencedJob) -> StoredJob:
    job = await store.jobs.get(held.id)
    if (job.worker, job.fence, job.state) != (held.worker, held.fence, State.RUNNING):
        raise WrongState(f"{_not_yours(held, job)}; nothing was written")
    return job


def _not_yours(held: FencedJob, job: StoredJob) -> str:
    return (
        f"job {job.id} is {job.state}, and worker {held.worker} does not hold it under fence "
        f"{held.fence}, or not any more"
    )


def _wait(text: str) -> timedelta:
    return length_of("retry", text, longest=LONGEST_WAIT, zero=True)
