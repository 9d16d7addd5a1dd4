"""Workers: leases, heartbeats, orders, claims and settlements; and the queues.

A lease belongs to the worker, one row for all its jobs. Each claim has a fencing token, a number
that only rises: it is stored on the jobs, and every write on them must present it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from duly.errors import OutcomeUnknown
from duly.model.job import Claimed
from duly.model.limit import Queue
from duly.model.payload import check_text
from duly.model.worker import Order, Profile, WorkerInfo, refuse_another_app
from duly.store import audit, claims, finish_and_claim, rows
from duly.store.database import Ask, Operation, Row, Start, alone
from duly.store.ids import KeptIds
from duly.store.job_endings import settle, unsettled
from duly.store.transactions import ready_in
from duly.store.values import (
    CAREFUL,
    JOBS,
    NOT_BEGUN,
    QUEUES,
    READY,
    WORKERS,
    ClaimRequest,
    Claims,
    FinishedAndClaimed,
    JobDone,
    ReadyShelf,
    Settled,
    Settlement,
)
from duly.store.verbs import Noun, reading, reads, verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The answer to a worker's heartbeat."""

    order: Order
    slots: int | None = None
    signals: Mapping[int, str] = field(default_factory=dict)  # jobs asked to end, and why


MILLISECOND = 1_000  # in microseconds
# How many jobs are updated at once when their queue becomes fair or stops to be.
MOST_TOLD = 5_000


def workers() -> Operation[list[WorkerInfo]]:
    found = yield Ask("list_workers")
    return [rows.worker(row) for row in found]


def queues() -> Operation[list[Queue]]:
    found = yield Ask("list_queues")
    return [rows.queue(row) for row in found]


class WorkStore(Noun):
    @verb(None)
    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        """Register a worker and begin its lease."""
        [(now,)] = await self._db.write_one(Ask("now"))
        kept = self._db.kept()
        info = await self._db.insist(lambda: enlist(profile, lease=lease, now=now, ids=kept))
        self._db.nudge(WORKERS)
        return info

    @verb(None)
    async def renew(self, worker: int, lease: timedelta, *, running: int = 0) -> Beat | None:
        """Renew a living lease; None means that the worker is dead and must register again."""
        renewed = await self._db.write_one(renewal(worker, lease, running=running))
        if not renewed:
            return None
        [(order, slots, any_signals)] = renewed
        return heard(order, slots, await self._db.write_one(signals(worker)) if any_signals else [])

    @reads(None)
    def listen_to(self, worker: int) -> Operation[Beat | None]:
        """Return the orders to a worker, as ``renew`` does, without renewing."""
        told = yield Ask("worker_told", {"id": worker})
        if not told:
            return None
        [(order, slots)] = told
        return heard(order, slots, (yield signals(worker)))

    @verb(None)
    async def end_lease(self, worker: int, *, died: bool = False) -> None:
        """End the lease of a worker that runs nothing: its jobs may be reclaimed at once.

        ``died``: it did not end its lease by itself.
        """
        await self._db.write(lambda: alone(Ask("end_lease", {"id": worker, "died": int(died)})))
        self._db.nudge(WORKERS)

    workers: Final = reading("viewer", workers)

    @verb("viewer", changes=False)
    async def living(self) -> list[WorkerInfo]:
        """Return the workers whose lease has not expired."""
        return [rows.worker(row) for row in await self._db.write_one(Ask("living_workers"))]

    @verb("operator")
    async def tell(self, worker: str | int, order: Order, *, slots: int | None = None) -> int:
        """Give an order to the workers of a name, or to one by its number; return how many."""
        name, number = (worker, None) if isinstance(worker, str) else (None, worker)
        values = {"name": name, "id": number, "told": order, "slots": slots}
        told = await self._db.change(
            lambda: alone(Ask("tell_workers", values)),
            lambda _: audit.entry("workers.tell", f"worker:{worker}", order=order, slots=slots),
            WORKERS,
        )
        return len(told)

    @verb(None)
    async def finish_and_claim(
        self, done: Sequence[JobDone], request: ClaimRequest | None = None
    ) -> FinishedAndClaimed:
        """Finish jobs and claim others, in one statement where the database can.

        Only from a plain queue: not paused, limited or fair. Jobs for whose end others wait by now
        are not finished but returned, to be settled. After ``OutcomeUnknown`` the finished jobs may
        be given again, and ``claimed_by`` tells which jobs were claimed.
        """
        if request is not None and request.shelf == CAREFUL:
            request = None  # nothing that has limits or needs resources is claimed in passing
        if self._db.database.dialect.writes_at_once and not (request and request.among):
            answer = await finish_and_claim.run(
                self._db, done, request or finish_and_claim.NO_CLAIM
            )
        else:
            answer = await self._db.write(lambda: claims.finish_and_claim(done, request))
        if not answer.refused:
            return answer
        refused = [one for one in done if one.id in answer.refused]
        with finish_and_claim.claim_is_committed():
            waiting = await self._db.read(lambda: unsettled(refused))
        held = {one.job.id for one in waiting}
        lost = [number for number in answer.refused if number not in held]
        return replace(answer, refused=lost, unsettled=waiting)

    @verb(None)
    async def claim(self, request: ClaimRequest) -> Claims:
        """Claim jobs, the most urgent first, within the limits of the queue and of the jobs.

        After ``OutcomeUnknown``, ask ``claimed_by``.
        """
        taken = await self._db.write(lambda: claims.take(request))
        if taken.freed:
            self._db.nudge(*ready_in(taken.freed))
        if taken.opens:
            self._db.nudge(JOBS)
        return Claims(jobs=taken.jobs, full=taken.full, opens_in=taken.opens_in)

    @verb(None)
    async def note_begin(self, job: Claimed, *, begun: bool) -> bool:
        """Store whether a claimed job has begun; return whether it is still claimed.

        Until it has, it waits for its process, and the death of its worker is not counted as a
        crash of the job.
        """
        reason = "" if begun else NOT_BEGUN
        noted = Ask("set_reason", {"id": job.id, "fence": job.fence, "reason": reason})
        return bool(await self._db.write_one(noted))

    @verb(None)
    def has_room(self, queues: Sequence[str]) -> None:
        """Tell other workers that jobs of these queues ended, so that the next may enter."""
        if queues:
            self._db.nudge(*ready_in(queues))

    @verb(None)
    async def ready(self, queues: Sequence[str], tasks: Sequence[str]) -> list[ReadyShelf]:
        """Return the queues and shelves that have a job for a worker that knows these tasks."""
        return claims.places(await self._db.write_one(claims.ready(queues, tasks)))

    @reads(None)
    def claimed_by(self, worker: int) -> Operation[list[Claimed]]:
        """Return the jobs that this worker has claimed and not settled."""
        return [rows.claimed(row) for row in (yield Ask("held_jobs", {"worker": worker}))]

    @verb(None)
    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Write the outcomes of jobs at once, each under the fencing token of its claim."""
        start = self._db.audited(
            lambda: settle(settlements, ids=self._db.attempt()), audit.settled(settlements)
        )
        return await self._settled(start)

    async def _settled(self, start: Start[Settled]) -> Settled:
        settled = await self._db.write(start)
        self._db.nudge(*sorted(settled.tells), *ready_in(settled.freed))
        return settled

    @verb("operator")
    async def set_queue(self, queue: Queue) -> None:
        changed = await self._set_queue(queue)
        self._db.nudge(QUEUES, READY)
        after: int | None = 0 if changed else None
        while after is not None:
            after = await self._db.insist(partial(set_fair, queue, after=after))

    async def _set_queue(self, queue: Queue) -> bool:
        """Return whether fairness changed; True too if the answer was lost."""
        start = self._db.audited(lambda: set_queue(queue), lambda _: audit.queue_set(queue))
        try:
            return await self._db.write(start)
        except OutcomeUnknown as unknown:
            await self._db.insist(start, unknown=unknown)
            return True

    queues: Final = reading("viewer", queues)


def enlist(profile: Profile, *, lease: timedelta, now: int, ids: KeptIds) -> Operation[WorkerInfo]:
    """Register a worker; a repeated call finds its own. ``now`` is when the first call was made.

    The moment is part of the number, so that no worker ever gets the number of another: not even
    in a database that was put back to a time at which it did not know the other, which may live
    still, and would renew the lease and claim as if it were this one. Twelve bits tell those apart
    that register in the same millisecond. Together it is less than 2**53, which JSON readers keep.
    """
    yield Ask("lock_registration")
    refuse_another_app(profile, map(rows.worker, (yield Ask("living_workers"))))
    [drawn] = yield from ids.draw(1)
    number = now // MILLISECOND % 2**40 << 12 | drawn % 2**12
    ids.all_new((yield register_as(number, profile, lease=lease)), 1)
    return (yield from _registered(number))


def register_as(number: int, profile: Profile, *, lease: timedelta) -> Ask:
    check_text(profile.name, "name")
    values = rows.profile_values(profile)
    return Ask("register_worker", {"id": number, "lease": rows.microseconds(lease), **values})


def _registered(number: int) -> Operation[WorkerInfo]:
    known = yield Ask("list_workers")
    return next(rows.worker(row) for row in known if row[0] == number)


def renewal(worker: int, lease: timedelta, *, running: int) -> Ask:
    values = {"id": worker, "lease": rows.microseconds(lease), "running": running}
    return Ask("renew_lease", values)


def signals(worker: int) -> Ask:
    return Ask("signals_for", {"worker": worker})


def heard(order: Order, slots: int | None, signals: Sequence[Row]) -> Beat:
    return Beat(order=order, slots=slots, signals={number: reason for number, _, reason in signals})


def set_queue(queue: Queue) -> Operation[bool]:
    """Store a queue's settings; return whether ``fair`` changed and waiting jobs need an update."""
    rate = queue.rate
    was_fair = any(fair for *_, fair, _ in (yield Ask("hold_queue", {"queue": queue.name})))
    yield Ask(
        "set_queue",
        {
            "name": queue.name,
            "paused": int(queue.paused),
            "note": queue.note,
            "concurrency": queue.concurrency,
            "rate_count": rate.count if rate else None,
            "rate_period": rows.microseconds(rate.period) if rate else None,
            "fair": int(queue.fair),
        },
    )
    return was_fair is not queue.fair


def set_fair(queue: Queue, *, after: int) -> Operation[int | None]:
    """Store on the next waiting jobs whether the queue is fair; return the cursor, or None."""
    told = yield Ask(
        "set_fair",
        {"name": queue.name, "fair": int(queue.fair), "after": after, "limit": MOST_TOLD},
    )
    return max(number for (number,) in told) if len(told) == MOST_TOLD else None
