"""The heartbeat: keeps one lease for all jobs of a worker, and hears what the worker is told.

It lives in a thread of its own, with a connection of its own: a task that blocks the event loop
must not cost the lease of all the others, and a loop that is blocked cannot stop anything. Where
there can be no thread (a store in memory, a simulated world) it lives on the loop.

A worker that is not sure of its lease stops its jobs before the store gives them to others, and
takes a new number. If it cannot stop them all, a process that is nothing but a worker ends itself,
and another one takes its place; one that is somebody's application says so.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol

from duly.clock import Timeout, boottime, sleep
from duly.engine.lease import LEASE, PATIENCE, Lease
from duly.engine.loop import Waiter
from duly.engine.process_identity import show_number, thread_times
from duly.errors import StoreUnavailable, WriteBlocked
from duly.events import (
    Emit,
    Event,
    FencingFailed,
    InterpreterHeld,
    LoopStalled,
    TickFailed,
    WorkerFenced,
    WorkerRegistered,
    ignore_event,
)
from duly.model.worker import Profile
from duly.store.store import Store
from duly.store.values import WORKERS, Beat

LISTEN_SECONDS = 1.0
# How soon what failed is tried again.
AGAIN_SECONDS = 0.1
# What does not end then is left behind: the program must not wait for a store that is away.
STOP_SECONDS = 5.0
STALLED_SECONDS = 60.0
# A loop that has not turned for this long never will: the lease is let go, and the process with it.
HOPELESS_SECONDS = 600.0
# Who slept past the end of the lease, alone or with the machine, finds it over. A second to stop in
# order makes nothing worse then; an end in the midst of everything would.
ORDERLY_SECONDS = 1.0
EX_TEMPFAIL = 75


class LeaseHolder(Protocol):
    """What is kept alive, or stopped. Called on the event loop, except where it says otherwise."""

    def enlisted(self, worker: int) -> None: ...

    def hear(self, beat: Beat) -> None: ...

    def fenced(self) -> None: ...

    def load(self) -> int:
        """How many jobs run. From any thread."""
        ...

    def running(self) -> list[int]:
        """Which jobs run. From any thread."""
        ...

    def pulse(self) -> float:
        """When the loop has last turned. From any thread."""
        ...

    def jobs_of(self, thread: int) -> list[tuple[int, str]]:
        """Numbers and tasks of what the thread of this native number runs. From any thread."""
        ...

    def lease_until(self, moment: float) -> None:
        """What runs may do so until then, unless more is said. From the heartbeat's thread."""
        ...

    def kill(self) -> None:
        """End what can be ended from any thread, at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    lease: timedelta = LEASE
    dedicated: bool = False  # whether the process is nothing but a worker, and may end itself
    exit: Callable[[int], object] = os._exit
    restarts: bool = False  # whether another process takes its place then


class Heartbeat:
    def __init__(
        self,
        ward: LeaseHolder,
        profile: Profile,
        *,
        connect: Callable[[], Awaitable[Store]] | None,
        store: Store,
        terms: LeaseTerms,
        emit: Emit = ignore_event,
        steady: Callable[[], float] = boottime,
    ) -> None:
        self._ward = ward
        self._profile = profile
        self._connect = connect
        self._store = store
        self._terms = terms
        self._say = emit
        self._steady = steady
        self._stopping = False
        self._lets_go = True
        self._wake = Waiter()
        self._lazy: asyncio.AbstractEventLoop | None = None  # where the ward lives
        self._here: asyncio.AbstractEventLoop | None = None  # where the heartbeat does
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._stalled = False
        self._heard: Beat | None = None  # what it was told last
        self._unnoticed = False  # whether nothing ran under the lease that was lost

    async def start(self) -> None:
        self._lazy = asyncio.get_running_loop()
        if self._connect is None:
            self._task = self._lazy.create_task(self._live(self._store), name="heartbeat")
            return
        self._thread = threading.Thread(target=self._in_thread, name="duly-heartbeat", daemon=True)
        self._thread.start()

    async def stop(self, *, let_go: bool = True) -> None:
        """Renew no more, and let go of the lease, if nothing of the worker runs any more."""
        self._lets_go = let_go
        self._stopping = True
        if self._task is not None:
            self._wake.set()
            await asyncio.wait([self._task], timeout=STOP_SECONDS)
            self._task.cancel()
        if self._thread is not None:
            if self._here is not None:
                with contextlib.suppress(RuntimeError):  # it has ended
                    self._here.call_soon_threadsafe(self._wake.set)
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    def _in_thread(self) -> None:
        asyncio.run(self._live_apart())

    async def _live_apart(self) -> None:
        self._here = asyncio.get_running_loop()
        watch = asyncio.create_task(self._watch_interpreter())
        try:
            await self._live_with_store()
        finally:
            watch.cancel()

    async def _watch_interpreter(self) -> None:
        """Tell who held the GIL, if this thread could not run for long though the process did.

        A process that was stopped, or waited for a processor, has not used the time.
        """
        limit = self._terms.lease.total_seconds() / 3
        while True:
            before, asleep = thread_times(), self._steady()
            await sleep(LISTEN_SECONDS)
            held = self._steady() - asleep - LISTEN_SECONDS
            if held < limit:
                continue
            used = {
                thread: seconds - before.get(thread, 0.0)
                for thread, seconds in thread_times().items()
            }
            holder = max(used, key=used.__getitem__, default=0)
            if used.get(holder, 0.0) >= held / 2:
                self._emit(InterpreterHeld(held, self._ward.jobs_of(holder)))

    async def _live_with_store(self) -> None:
        store: Store | None = None
        while store is None and not self._stopping:
            try:
                store = await self._connect() if self._connect else None
            except Exception as error:  # noqa: BLE001 - without a heartbeat there is no worker
                await self._failed(error)
        if store is None:
            return
        try:
            await self._live(store)
        finally:
            await store.close()

    async def _live(self, store: Store) -> None:
        """One lease after another."""
        store.listen(lambda topic: self._wake.set() if topic in (WORKERS, "*") else None)
        while not self._stopping:
            sent = self._steady()
            if self._is_hopeless(sent):
                await self._wake.rest(LISTEN_SECONDS)  # a lease would be for nothing
                continue
            try:
                info = await store.work.register(self._profile, lease=self._terms.lease)
            except Exception as error:  # noqa: BLE001 - without a heartbeat there is no worker
                await self._failed(error)
                continue
            lease = Lease(self._terms.lease, sent)
            await self._stay_with_orders(store, info.id)
            self._ward.lease_until(lease.last_moment())
            if self._thread is not None:
                show_number(info.id)
            self._emit(WorkerRegistered(info.id, info.name, quiet=self._unnoticed))
            self._tell(self._ward.enlisted, info.id)
            reason = await self._keep(store, info.id, lease)
            if reason is None:
                if self._lets_go:
                    await self._let_go(store, info.id)
                return
            await self._fence(info.id, lease, reason)

    async def _keep(self, store: Store, worker: int, lease: Lease) -> str | None:
        """Renew until told to stop: nothing. Or until it cannot be sure any more: why."""
        while not self._stopping:
            now = self._steady()
            if lease.is_doubtful(now):
                return "it could not be renewed in time"
            if self._is_hopeless(now):
                return "the event loop does not turn any more"
            renewing = now >= lease.next_renewal()
            try:
                # Not longer than until it is doubtful: what has to be stopped needs its time.
                async with Timeout(min(PATIENCE.total_seconds(), lease.doubtful_at() - now)):
                    beat = await self._beat(store, worker, renewing=renewing)
            except Exception as error:  # noqa: BLE001 - whatever it is, the lease is not renewed
                if isinstance(error, WriteBlocked):
                    lease.stood_still(error.since, error.seconds)
                    self._ward.lease_until(lease.last_moment())
                await self._failed(error, pause=AGAIN_SECONDS)
                continue
            if beat is None:
                lease.lost()
                return "it had expired"
            if renewing:
                lease.renewed(now)
                self._ward.lease_until(lease.last_moment())
            self._heard = beat
            self._tell(self._ward.hear, beat)
            rest = min(LISTEN_SECONDS, lease.next_renewal() - self._steady())
            await self._wake.rest(max(rest, 0.02))
        return None

    async def _stay_with_orders(self, store: Store, worker: int) -> None:
        """Under a new number it is still the worker that was told to drain, or how many to run."""
        heard = self._heard
        if heard is not None and (heard.order != "run" or heard.slots is not None):
            with contextlib.suppress(StoreUnavailable):
                await store.work.tell(worker, heard.order, slots=heard.slots)

    async def _failed(self, error: Exception, *, pause: float = LISTEN_SECONDS) -> None:
        if not isinstance(error, StoreUnavailable | TimeoutError):
            self._emit(TickFailed("heartbeat", error))
        await self._wake.rest(pause)

    async def _beat(self, store: Store, worker: int, *, renewing: bool) -> Beat | None:
        if renewing:
            load = self._ward.load()
            return await store.work.renew(worker, self._terms.lease, running=load)
        return await store.work.listen_to(worker)

    async def _fence(self, worker: int, lease: Lease, reason: str) -> None:
        """Stop everything before the store believes that it is over."""
        load = self._ward.load()
        self._unnoticed = load == 0
        self._emit(WorkerFenced(worker, reason, load))
        self._ward.kill()
        self._tell(self._ward.fenced)
        last = max(lease.last_moment(), self._steady() + ORDERLY_SECONDS)
        while self._ward.running() and self._steady() < last:
            await self._wake.rest(0.05)
        left = self._ward.running()
        if not left:
            return
        self._emit(FencingFailed(worker, left, self._what_follows()))
        if self._terms.dedicated:
            self._terms.exit(EX_TEMPFAIL)

    def _what_follows(self) -> Literal["stay", "end", "restart"]:
        if not self._terms.dedicated:
            return "stay"
        return "restart" if self._terms.restarts else "end"

    async def _let_go(self, store: Store, worker: int) -> None:
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with Timeout(PATIENCE.total_seconds()):
                await store.work.end_lease(worker)

    def _is_hopeless(self, now: float) -> bool:
        still = now - self._ward.pulse()
        if still >= STALLED_SECONDS and not self._stalled:
            self._emit(LoopStalled(still))
        self._stalled = still >= STALLED_SECONDS
        return still >= HOPELESS_SECONDS

    def _tell(self, callback: Callable[..., object], *values: object) -> None:
        if self._lazy is None:
            return
        if self._here is None:
            self._call(self._lazy, callback, *values)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._lazy.call_soon_threadsafe(callback, *values)

    @staticmethod
    def _call(
        loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *values: object
    ) -> None:
        """On its own loop, at once: so everything is told in order, as a thread's words are."""
        try:
            callback(*values)
        except Exception as error:  # noqa: BLE001 - the lease is kept whatever is made of the news
            loop.call_exception_handler(
                {"message": "a heartbeat was not heard", "exception": error}
            )

    def _emit(self, event: Event) -> None:
        """From here, and not from the loop: that may never turn again, and we may end at once."""
        with contextlib.suppress(Exception):
            self._say(event)
