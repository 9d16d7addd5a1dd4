"""Workers in other languages, over HTTP: the facade that the web API uses.

They have a row, a lease and fencing tokens like native workers, and everything they do goes through
the same calls of the store: limits, priorities, retries, keys and overlap hold for them too. All
state that counts is in the store, so a worker may speak to another web server each time. Only where
to claim next is remembered here between two calls.

The number of a worker is no secret: only the token that registered a worker (``holder``) may speak
for it, and no token may speak for a native worker over HTTP.

A claim that waits is woken by the store's nudges, and polls every half second as well.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from duly.clock import Timeout, boottime
from duly.engine import http_worker
from duly.engine.http_worker import (
    FencedJob,
    FinishReport,
    HttpClaims,
    RefusedOutcome,
    ReportedLine,
    ReportedOutcome,
    failed,
    settle_late,
    succeeded,
)
from duly.engine.lease import PATIENCE
from duly.engine.loop import EVERYBODY, Waiter
from duly.errors import Busy, InvalidValue, NotAllowed, OutcomeUnknown, WrongState
from duly.model.job import Claimed
from duly.model.worker import Order, Profile, WorkerInfo
from duly.registry.option_values import Duration, length_of, names_of, needs_of
from duly.store.store import Store
from duly.store.values import FIRED, QUEUES, READY, WORKERS
from duly.store.work import Beat

SHORTEST_LEASE: Final = timedelta(seconds=3)
LONGEST_LEASE: Final = timedelta(hours=1)
LONGEST_WAIT: Final = timedelta(seconds=30)
MOST_CLAIMED: Final = 100  # by one call
MOST_SLOTS: Final = 1_000
MOST_NAMES: Final = 1_000  # of tasks or of queues
MOST_WAITING: Final = 500  # claims that wait in this process
MOST_REMEMBERED: Final = 1_000  # workers whose position is remembered
VERSION: Final = "http"  # shown in place of the version of a native worker
_UNIT = timedelta(milliseconds=10)

__all__ = [
    "FencedJob",
    "FinishReport",
    "HttpWorkers",
    "RefusedOutcome",
    "RegisteredWorker",
    "Registration",
    "Renewal",
    "ReportedLine",
    "ReportedOutcome",
    "WorkerOrder",
    "failed",
    "succeeded",
]


WorkerOrder: TypeAlias = Annotated[
    Order,
    Meta(
        description="run; drain: claim nothing more; stop: end when the running jobs have ended; "
        "kill: give the running jobs back, and end."
    ),
]


class TooManyWaiting(Busy):
    """Too many claims wait in this process already."""


class Registration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of an HTTP worker, its tasks, queues and slots."""

    name: Annotated[str, Meta(min_length=1, description="For people; need not be unique.")]
    tasks: Annotated[tuple[str, ...], Meta(min_length=1, description="The tasks that it knows.")]
    queues: tuple[str, ...] = ("default",)
    slots: Annotated[int, Meta(description="How many jobs it runs at once, at most.")] = 1
    lease: Annotated[
        str,
        Meta(description="Lease: without heartbeats for this long, its jobs go to other workers."),
    ] = "60s"
    resources: Annotated[dict[str, int], Meta(description="Resources for tasks with needs.")] = (
        msgspec.field(default_factory=dict)
    )

    def profile(self, holder: str) -> Profile:
        if not 1 <= self.slots <= MOST_SLOTS:
            raise InvalidValue(
                f"slots={self.slots}: expected the number of jobs to run at once, 1 to "
                f"{MOST_SLOTS:,}"
            )
        return Profile(
            name=_names("name", [self.name])[0],
            queues=_names("queues", self.queues),
            signatures=dict.fromkeys(_names("tasks", self.tasks), ""),
            slots=self.slots,
            resources=needs_of(self.resources),
            version=VERSION,
            holder=holder,
        )

    def length(self) -> timedelta:
        length = length_of("lease", self.lease, longest=LONGEST_LEASE)
        if length < SHORTEST_LEASE:
            raise InvalidValue(
                f'lease="{self.lease}": the minimum is 3s, because a slow response would let a '
                "shorter lease expire"
            )
        return length


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredWorker:
    worker: Annotated[int, Meta(description="Must be sent with every request of the worker.")]
    lease_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The order to a worker: go on, finish its jobs, or stop."""

    lease_until: datetime
    order: WorkerOrder
    slots: Annotated[int, Meta(description="How many jobs it may run at once.")]
    jobs: Annotated[
        list[int], Meta(description="The jobs that it holds, according to the database.")
    ]
    cancel: Annotated[dict[str, str], Meta(description="Jobs to be stopped, and why.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    order: Order
    jobs: Sequence[Claimed]


class HttpWorkers:
    """The HTTP workers of one store that speak to this process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._claims: OrderedDict[int, HttpClaims] = OrderedDict()
        self._waiting: set[Waiter] = set()
        self._closing = False
        store.listen(self._hear)

    async def register(self, wanted: Registration, *, holder: str) -> RegisteredWorker:
        profile = wanted.profile(holder)
        info = await self.store.work.register(profile, lease=wanted.length())
        return RegisteredWorker(worker=info.id, lease_until=info.lease_until)

    async def renew(self, worker: int, *, holder: str) -> Renewal:
        """Renew the lease by the length that was asked for at registration."""
        info = await self._living(worker, holder)
        held = await self.store.work.claimed_by(worker)
        lease = round((info.lease_until - info.beat_at) / _UNIT) * _UNIT
        now = await self.store.diagnostics.now()
        beat = await self._renewed(worker, lease, running=len(held))
        return Renewal(
            lease_until=now + lease,
            order=beat.order,
            slots=_slots(info.profile, beat),
            jobs=[job.id for job in held],
            cancel={str(number): why for number, why in beat.signals.items()},
        )

    async def claim(
        self, worker: int, *, holder: str, limit: int = 1, wait: Duration = "0s"
    ) -> ClaimAnswer:
        """Return jobs to run as soon as there are any, or none after ``wait``."""
        if not 1 <= limit <= MOST_CLAIMED:
            raise InvalidValue(
                f"limit={limit}: expected the number of jobs to claim, 1 to {MOST_CLAIMED}"
            )
        until = (
            boottime() + length_of("wait", wait, longest=LONGEST_WAIT, zero=True).total_seconds()
        )
        claims = await self._claims_of(worker, holder)
        await self._check_room(claims)
        with self._listening() as wake:
            while True:
                brought = await self._look(claims, limit)
                left = until - boottime()
                if brought.jobs or brought.order in ("stop", "kill") or left <= 0 or self._closing:
                    return brought
                await wake.rest(min(left, claims.pause))

    async def held(self, worker: int, *, holder: str) -> Sequence[Claimed]:
        """Return the jobs the worker holds, including those of a response that was lost."""
        info = await self._living(worker, holder)
        return await self.store.work.claimed_by(info.id)

    async def end(self, worker: int, *, holder: str) -> None:
        """End the lease, so that other workers get the jobs that this one held."""
        info = await self._living(worker, holder)
        self._claims.pop(worker, None)
        await self.store.work.end_lease(info.id)

    async def finish(
        self, store: Store, worker: int, reports: Sequence[ReportedOutcome], *, holder: str
    ) -> FinishReport:
        """Write outcomes through ``store``, which names their author in the audit log."""
        has_row = await self._has_row(worker, holder)
        return await http_worker.finish(store, worker, reports, has_row=has_row)

    async def log(self, job: FencedJob, lines: Sequence[ReportedLine], *, holder: str) -> None:
        """Write lines into the log of a job."""
        await self._check_row(job.worker, holder)
        await http_worker.write_log(self.store, job, lines)

    async def progress(self, job: FencedJob, percent: float, *, message: str, holder: str) -> None:
        """Write the progress of a job."""
        await self._check_row(job.worker, holder)
        await http_worker.write_progress(self.store, job, percent, message=message)

    def close(self) -> None:
        """End every claim that waits."""
        self._closing = True
        for wake in self._waiting:
            wake.set()

    async def _has_row(self, worker: int, holder: str) -> bool:
        """Return whether the worker has a row, dead or alive; refuse the worker of another holder.

        A worker that has claimed here is known: worker numbers are never reused.
        """
        claims = self._claims.get(worker)
        if claims is not None and claims.profile.holder == holder:
            return True
        for info in await self.store.work.workers():
            if info.id == worker:
                self._check(info, holder)
                return True
        return False

    async def _check_row(self, worker: int, holder: str) -> None:
        if not await self._has_row(worker, holder):
            raise self._dead(worker)

    async def _check_room(self, claims: HttpClaims) -> None:
        beat = await self._told(claims.worker)
        held = await self.store.work.claimed_by(claims.worker)
        claims.check_room(held, slots=_slots(claims.profile, beat))

    async def _look(self, claims: HttpClaims, limit: int) -> ClaimAnswer:
        beat = await self._told(claims.worker)
        if beat.order != "run":
            return ClaimAnswer(order=beat.order, jobs=())
        found = await claims.take(self.store, limit, slots=_slots(claims.profile, beat))
        late = [job for job in found if job.is_late]
        await settle_late(self.store, late)
        return ClaimAnswer(order=beat.order, jobs=[job for job in found if not job.is_late])

    async def _told(self, worker: int) -> Beat:
        beat = await self.store.work.listen_to(worker)
        if beat is None:
            raise self._dead(worker)
        return beat

    async def _renewed(self, worker: int, lease: timedelta, *, running: int) -> Beat:
        """Renew within the time that the reaper allows, or not at all."""
        try:
            async with Timeout(PATIENCE.total_seconds()):
                beat = await self.store.work.renew(worker, lease, running=running)
        except TimeoutError:
            raise OutcomeUnknown(
                f"the database did not confirm in time that worker {worker} is alive: renew again"
            ) from None
        if beat is None:
            raise self._dead(worker)
        return beat

    async def _claims_of(self, worker: int, holder: str) -> HttpClaims:
        found = self._claims.get(worker)
        if found is None or found.profile.holder != holder:
            found = self._claims[worker] = HttpClaims(await self._living(worker, holder))
        self._claims.move_to_end(worker)
        while len(self._claims) > MOST_REMEMBERED:
            self._claims.popitem(last=False)
        return found

    async def _living(self, worker: int, holder: str) -> WorkerInfo:
        for info in await self.store.diagnostics.living():
            if info.id == worker:
                self._check(info, holder)
                return info
        raise self._dead(worker)

    def _check(self, info: WorkerInfo, holder: str) -> None:
        if not info.profile.holder:
            raise self._dead(info.id)
        if info.profile.holder != holder:
            raise NotAllowed(
                f"worker {info.id} was registered by somebody else, with another token"
            )

    def _dead(self, worker: int) -> WrongState:
        self._claims.pop(worker, None)
        return WrongState(
            f"worker {worker} is dead, or was never registered over HTTP: stop its jobs, and "
            "register again"
        )

    @contextmanager
    def _listening(self) -> Iterator[Waiter]:
        if len(self._waiting) >= MOST_WAITING:
            raise TooManyWaiting(
                f"{MOST_WAITING} claims are waiting on this server already: ask again in a few "
                "seconds, or ask for more jobs at once"
            )
        wake = Waiter()
        self._waiting.add(wake)
        try:
            yield wake
        finally:
            self._waiting.discard(wake)

    def _hear(self, topic: str) -> None:
        kind, _, queue = topic.partition(":")
        if kind in (READY, FIRED):
            for claims in self._claims.values():
                claims.hint(queue)
        elif topic not in (QUEUES, WORKERS, EVERYBODY):
            return
        for wake in self._waiting:
            wake.set()


def _slots(profile: Profile, beat: Beat) -> int:
    return profile.slots if beat.slots is None else beat.slots


def _names(what: str, asked: Sequence[str]) -> tuple[str, ...]:
    names = names_of(what, asked)
    if not 1 <= len(names) <= MOST_NAMES:
        raise InvalidValue(f"{what}: {len(names):,} names: expected 1 to {MOST_NAMES:,}")
    return names
