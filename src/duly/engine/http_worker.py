"""Workers in other languages: they come in over HTTP, and are workers like any other.

They have a row, a lease and fences as ours do, and everything they do is done by the same calls of
the store: so limits, priorities, retries, keys and overlap hold for them. All that counts is in the
store, and a guest may speak to any web side of it, another one each time. What is remembered here
between two calls is where to look next.

A guest is known by its number, and the number is no secret: so nobody speaks for a guest but who
registered it (``holder``), and no number of a native worker is a guest's.

Whoever waits for work is woken by the store's nudges, and looks every half second all the same.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from duly.clock import Timeout, boottime
from duly.engine.http_claims import HttpClaims
from duly.engine.http_outcomes import settle_late
from duly.engine.lease import PATIENCE
from duly.engine.loop import EVERYBODY, Waiter
from duly.errors import Busy, InvalidValue, NotAllowed, OutcomeUnknown, WrongState
from duly.model.claimed import Claimed
from duly.model.worker import Order, Profile, WorkerInfo
from duly.registry.option_values import Duration, length_of, names_of, needs_of
from duly.store.store import Store
from duly.store.values import QUEUES, READY, WORKERS, Beat

SHORTEST_LEASE: Final = timedelta(seconds=3)
LONGEST_LEASE: Final = timedelta(hours=1)
LONGEST_WAIT: Final = timedelta(seconds=30)
MOST_CLAIMED: Final = 100  # by one call
MOST_SLOTS: Final = 1_000
MOST_NAMES: Final = 1_000  # of tasks or of queues
MOST_WAITING: Final = 500  # claims of all guests, in this process
MOST_DESKS: Final = 1_000  # that are remembered
VERSION: Final = "http"  # what is shown of a guest where others show their version
_UNIT = timedelta(milliseconds=10)


class TooManyWaiting(Busy):
    """So many wait for work that one more would be one too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a guest says of itself."""

    name: str
    tasks: Sequence[str]
    queues: Sequence[str] = ("default",)
    slots: int = 1
    lease: Duration = "60s"
    resources: Mapping[str, int] = field(default_factory=dict)

    def profile(self, holder: str) -> Profile:
        if not 1 <= self.slots <= MOST_SLOTS:
            raise InvalidValue(f"slots={self.slots}: how many jobs at once, 1 to {MOST_SLOTS:,}")
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
            raise InvalidValue(f'lease="{self.lease}": 3s at least, or a slow answer would end it')
        return length


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredWorker:
    worker: int
    lease_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What a guest hears when it says that it is alive."""

    lease_until: datetime
    order: Order
    slots: int
    jobs: Sequence[int]  # what it runs, as the store has it
    cancel: Mapping[int, str]  # those of them that are asked to end, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    order: Order
    jobs: Sequence[Claimed]


class HttpWorkers:
    """Those of one store, as far as they come to this process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._desks: OrderedDict[int, HttpClaims] = OrderedDict()
        self._waiting: set[Waiter] = set()
        self._closing = False
        store.listen(self._hear)

    async def register(self, wanted: Registration, *, holder: str) -> RegisteredWorker:
        profile = wanted.profile(holder)
        info = await self.store.work.register(profile, lease=wanted.length())
        return RegisteredWorker(worker=info.id, lease_until=info.lease_until)

    async def renew(self, worker: int, *, holder: str) -> Renewal:
        """Prolong its lease, by as much as it asked for when it registered."""
        info = await self._living(worker, holder)
        held = await self.store.work.held(worker)
        lease = round((info.lease_until - info.beat_at) / _UNIT) * _UNIT
        now = await self.store.surroundings.now()
        beat = await self._renewed(worker, lease, running=len(held))
        return Renewal(
            lease_until=now + lease,
            order=beat.order,
            slots=_slots(info.profile, beat),
            jobs=[job.id for job in held],
            cancel=beat.signals,
        )

    async def claim(
        self, worker: int, *, holder: str, limit: int = 1, wait: Duration = "0s"
    ) -> ClaimAnswer:
        """Jobs to run, as soon as there are any, or none after so long."""
        if not 1 <= limit <= MOST_CLAIMED:
            raise InvalidValue(f"limit={limit}: how many jobs to take, 1 to {MOST_CLAIMED}")
        until = (
            boottime() + length_of("wait", wait, longest=LONGEST_WAIT, zero=True).total_seconds()
        )
        planner = await self._planner(worker, holder)
        await self._check_room(planner)
        with self._listening() as wake:
            while True:
                brought = await self._look(planner, limit)
                left = until - boottime()
                if brought.jobs or brought.order in ("stop", "kill") or left <= 0 or self._closing:
                    return brought
                await wake.rest(min(left, planner.pause))

    async def held(self, worker: int, *, holder: str) -> Sequence[Claimed]:
        """What it runs, as the store has it: also what it was given in an answer that was lost."""
        info = await self._living(worker, holder)
        return await self.store.work.held(info.id)

    async def end(self, worker: int, *, holder: str) -> None:
        """Nothing of it runs any more: what it held is given to others."""
        info = await self._living(worker, holder)
        self._desks.pop(worker, None)
        await self.store.work.end_lease(info.id)

    async def has_row(self, worker: int, *, holder: str) -> bool:
        """Whether it has a row, dead or alive; a number that is not this holder's is refused.

        Whoever has claimed here is known: a number is given to one worker only.
        """
        planner = self._desks.get(worker)
        if planner is not None and planner.profile.holder == holder:
            return True
        for info in await self.store.work.workers():
            if info.id == worker:
                self._check(info, holder)
                return True
        return False

    async def check_row(self, worker: int, *, holder: str) -> None:
        if not await self.has_row(worker, holder=holder):
            raise self._dead(worker)

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._closing = True
        for wake in self._waiting:
            wake.set()

    async def _check_room(self, planner: HttpClaims) -> None:
        beat = await self._told(planner.worker)
        held = await self.store.work.held(planner.worker)
        planner.check_room(held, slots=_slots(planner.profile, beat))

    async def _look(self, planner: HttpClaims, limit: int) -> ClaimAnswer:
        beat = await self._told(planner.worker)
        if beat.order != "run":
            return ClaimAnswer(order=beat.order, jobs=())
        found = await planner.take(self.store, limit, slots=_slots(planner.profile, beat))
        late = [job for job in found if job.is_late]
        await settle_late(self.store, late)
        return ClaimAnswer(order=beat.order, jobs=[job for job in found if not job.is_late])

    async def _told(self, worker: int) -> Beat:
        beat = await self.store.work.listen_to(worker)
        if beat is None:
            raise self._dead(worker)
        return beat

    async def _renewed(self, worker: int, lease: timedelta, *, running: int) -> Beat:
        """Within the time that the reaper allows, or not at all."""
        try:
            async with Timeout(PATIENCE.total_seconds()):
                beat = await self.store.work.renew(worker, lease, running=running)
        except TimeoutError:
            raise OutcomeUnknown(
                f"the store did not say in time whether worker {worker} is alive: renew again"
            ) from None
        if beat is None:
            raise self._dead(worker)
        return beat

    async def _planner(self, worker: int, holder: str) -> HttpClaims:
        found = self._desks.get(worker)
        if found is None or found.profile.holder != holder:
            found = self._desks[worker] = HttpClaims(await self._living(worker, holder))
        self._desks.move_to_end(worker)
        while len(self._desks) > MOST_DESKS:
            self._desks.popitem(last=False)
        return found

    async def _living(self, worker: int, holder: str) -> WorkerInfo:
        for info in await self.store.surroundings.living():
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
        self._desks.pop(worker, None)
        return WrongState(
            f"worker {worker} is dead, or never was one over HTTP: stop what it runs, and "
            "register anew"
        )

    @contextmanager
    def _listening(self) -> Iterator[Waiter]:
        if len(self._waiting) >= MOST_WAITING:
            raise TooManyWaiting(
                f"{MOST_WAITING} claims wait here already: ask again in a few seconds, or for "
                "more jobs at once"
            )
        wake = Waiter()
        self._waiting.add(wake)
        try:
            yield wake
        finally:
            self._waiting.discard(wake)

    def _hear(self, topic: str) -> None:
        if topic.startswith(READY):
            for planner in self._desks.values():
                planner.hint(topic.removeprefix(READY).removeprefix(":"))
        elif topic not in (QUEUES, WORKERS, EVERYBODY):
            return
        for wake in self._waiting:
            wake.set()


def _slots(profile: Profile, beat: Beat) -> int:
    return profile.slots if beat.slots is None else beat.slots


def _names(what: str, asked: Sequence[str]) -> tuple[str, ...]:
    names = names_of(what, asked)
    if not 1 <= len(names) <= MOST_NAMES:
        raise InvalidValue(f"{what}: {len(names):,} names, and it takes 1 to {MOST_NAMES:,}")
    return names
