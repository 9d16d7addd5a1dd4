"""Workers, their claims and settlements; limits; the journal of jobs."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from duly.errors import OutcomeUnknown
from duly.model.claimed import Claimed
from duly.model.journal import Entry, LogLine, ProgressNote
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.worker import Order, Profile, WorkerInfo
from duly.store import claims, finish_and_claim, journal, limits, work
from duly.store.database import Ask, Operation
from duly.store.nouns import audited_actions as deeds
from duly.store.settling import settle
from duly.store.transactions import ready_in
from duly.store.values import (
    CAREFUL,
    JOBS,
    LOG,
    QUEUES,
    READY,
    WORKERS,
    Beat,
    Claims,
    JobDone,
    LaneInfo,
    ReadyShelf,
    Settled,
    Settlement,
    Turn,
    Wish,
)
from duly.store.verbs import Noun, reads, verb

MOST_TAILS = 10  # log lines of more jobs at once cannot be followed live


class WorkStore(Noun):
    @verb(None)
    async def register(self, profile: Profile, *, lease: timedelta) -> WorkerInfo:
        """Register a worker and begin its lease."""
        [(now,)] = await self._db.write_one(Ask("now"))
        kept = self._db.kept()
        info = await self._db.insist(lambda: work.enlist(profile, lease=lease, now=now, ids=kept))
        self._db.nudge(WORKERS)
        return info

    @verb(None)
    async def renew(self, worker: int, lease: timedelta, *, running: int = 0) -> Beat | None:
        """Renew a living lease; None means that the worker is dead and must register again."""
        return await self._db.write(lambda: work.renew(worker, lease, running=running))

    @reads(None)
    def listen_to(self, worker: int) -> Operation[Beat | None]:
        """Return the orders to a worker, as ``renew`` does, without renewing."""
        return work.listen_to(worker)

    @verb(None)
    async def end_lease(self, worker: int, *, died: bool = False) -> None:
        """End the lease of a worker that runs nothing: its jobs may be reclaimed at once.

        ``died``: it did not end its lease by itself.
        """
        await self._db.write(lambda: work.end_lease(worker, died=died))
        self._db.nudge(WORKERS)

    @reads("viewer")
    def workers(self) -> Operation[list[WorkerInfo]]:
        return work.workers()

    @verb("viewer", changes=False)
    async def living(self) -> list[WorkerInfo]:
        """Return the workers whose lease has not expired."""
        return work.found(await self._db.write_one(Ask("living_workers")))

    @verb("operator")
    async def tell(self, worker: str | int, order: Order, *, slots: int | None = None) -> int:
        """Give an order to the workers of a name, or to one by its number; return how many."""
        start = self._db.audited(
            lambda: work.tell(worker, order, slots=slots),
            deeds.constant("workers.tell", f"worker:{worker}", order=order, slots=slots),
        )
        told = await self._db.write(start)
        self._db.nudge(WORKERS)
        return told

    @verb(None)
    async def turn(self, done: Sequence[JobDone], wish: Wish | None = None) -> Turn:
        """Finish jobs and claim others, in one statement where the database can.

        Only from a plain queue: not paused, limited or fair. After ``OutcomeUnknown`` the finished
        jobs may be given again, and ``held`` tells which jobs were claimed.
        """
        if wish is not None and wish.shelf == CAREFUL:
            wish = None  # nothing that has limits or needs resources is claimed in passing
        if self._db.database.dialect.turns and not (wish and wish.among):
            return await finish_and_claim.turn(self._db, done, wish or finish_and_claim.NO_CLAIM)
        return await self._db.write(lambda: claims.turn(done, wish))

    @verb(None)
    async def claim(self, wish: Wish) -> Claims:
        """Claim jobs, the most urgent first, within the limits of the queue and of the jobs.

        After ``OutcomeUnknown``, ask ``held``.
        """
        taken = await self._db.write(lambda: claims.take(wish))
        if taken.freed:
            self._db.nudge(*ready_in(taken.freed))
        if taken.opens:
            self._db.nudge(JOBS)
        return Claims(jobs=taken.jobs, full=taken.full, opens_in=taken.opens_in)

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
    def held(self, worker: int) -> Operation[list[Claimed]]:
        """Return the jobs that this worker has claimed and not settled."""
        return work.held(worker)

    @verb(None)
    async def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Write the outcomes of jobs at once, each under the fencing token of its claim."""
        start = self._db.audited(
            lambda: settle(settlements, ids=self._db.attempt()), deeds.settled(settlements)
        )
        settled = await self._db.write(start)
        self._db.nudge(*sorted(settled.tells), *ready_in(settled.freed))
        return settled

    @verb("operator")
    async def set_queue(self, queue: Queue) -> None:
        changed = await self._set_queue(queue)
        self._db.nudge(QUEUES, READY)
        after: int | None = 0 if changed else None
        while after is not None:
            after = await self._db.insist(partial(work.set_fair, queue, after=after))

    async def _set_queue(self, queue: Queue) -> bool:
        """Return whether fairness changed; True too if the answer was lost."""
        start = self._db.audited(lambda: work.set_queue(queue), deeds.queue_set(queue))
        try:
            return await self._db.write(start)
        except OutcomeUnknown as unknown:
            await self._db.insist(start, unknown=unknown)
            return True

    @reads("viewer")
    def queues(self) -> Operation[list[Queue]]:
        return work.queues()


class LimitStore(Noun):
    @reads("viewer")
    def listed(self, *, limit: int = 1_000) -> Operation[list[LaneInfo]]:
        """Return the limits that jobs have used, the last used first."""
        return limits.listed(limit)

    @verb("operator")
    async def set(self, name: str, *, concurrency: int | None, rate: Rate | None) -> None:
        """Override a limit by its name or its template, whatever the code says."""
        start = self._db.audited(
            lambda: limits.set_rule(name, concurrency, rate),
            deeds.constant("limits.set", f"limit:{name}", concurrency=concurrency, rate=rate),
        )
        await self._db.write(start)
        self._db.nudge(READY)

    @verb("operator")
    async def unset(self, name: str) -> None:
        start = self._db.audited(
            lambda: limits.drop_rule(name), deeds.constant("limits.reset", f"limit:{name}")
        )
        await self._db.write(start)
        self._db.nudge(READY)


class JournalStore(Noun):
    @verb(None)
    async def write(self, entries: Sequence[Entry]) -> None:
        """Write log lines and progress of jobs, each only under the fencing token of its claim.

        Lines of a worker that lost its lease are dropped, and lines beyond the bound of one job.
        """
        if not entries:
            return
        spoke = await self._write(entries)
        if len(spoke) <= MOST_TAILS:
            self._db.nudge(*(f"{LOG}:{job_id}" for job_id in sorted(spoke)))

    async def _write(self, entries: Sequence[Entry]) -> set[int]:
        """Repeat with the same numbers until it is known that each line is stored once."""
        begun: journal.Begun = {}
        try:
            return await self._db.write(lambda: journal.write(entries, begun))
        except OutcomeUnknown as unknown:
            return await self._db.insist(
                lambda: journal.write(entries, begun, again=True), unknown=unknown
            )

    @reads("viewer")
    def logs(self, job_id: int, *, after: int = 0, limit: int = 1_000) -> Operation[list[LogLine]]:
        """Return the log lines after the number ``after``."""
        return journal.logs(job_id, after, limit)

    @reads("viewer")
    def note(self, job_id: int) -> Operation[ProgressNote | None]:
        """Return the progress that a job reported."""
        return journal.note(job_id)
