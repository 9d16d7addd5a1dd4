"""The heartbeat: renews the lease of a worker and receives its orders.

It runs in a thread of its own with a connection of its own: a task that blocks the event loop must
not cost the lease of all other jobs, and a blocked loop cannot stop anything. Where there can be no
thread (a store in memory, a simulation) it runs on the event loop.

A worker that may have lost its lease stops its jobs before the store gives them to others, and
registers again under a new number. If it cannot stop them all, a dedicated worker process ends
itself and another one takes its place; a worker inside an application reports it.
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
    EngineEvent,
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
from duly.store.values import WORKERS
from duly.store.work import Beat

LISTEN_SECONDS = 1.0
# The pause after a failure.
AGAIN_SECONDS = 0.1
# A heartbeat that does not end by then is left behind: the program must not wait for the store.
STOP_SECONDS = 5.0
STALLED_SECONDS = 60.0
# An event loop that did not run for this long never will: the lease ends, and with it the process.
HOPELESS_SECONDS = 600.0
# A process that was suspended past the end of its lease finds it over. One second for an orderly
# stop makes nothing worse then; a sudden exit would.
ORDERLY_SECONDS = 1.0
EX_TEMPFAIL = 75


class LeaseHolder(Protocol):
    """The worker, as its heartbeat sees it: called on the event loop, unless said otherwise."""

    def enlisted(self, worker: int) -> None: ...

    def hear(self, beat: Beat) -> None: ...

    def fenced(self) -> None: ...

    def load(self) -> int:
        """Return how many jobs run. From any thread."""
        ...

    def running(self) -> list[int]:
        """Return the ids of the running jobs. From any thread."""
        ...

    def pulse(self) -> float:
        """Return when the event loop last ran. From any thread."""
        ...

    def jobs_of(self, thread: int) -> list[tuple[int, str]]:
        """Return ids and tasks of the jobs in the thread with this native id. From any thread."""
        ...

    def lease_until(self, moment: float) -> None:
        """Jobs may run until then, unless this is called again. From the heartbeat's thread."""
        ...

    def kill(self) -> None:
        """Kill what can be killed from any thread, now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    lease: timedelta = LEASE
    dedicated: bool = False  # the process is only a worker, and may end itself
    exit: Callable[[int], object] = os._exit
    restarts: bool = False  # another process takes its place then


class Heartbeat:
    def __init__(
        self,
        worker: LeaseHolder,
        profile: Profile,
        *,
        connect: Callable[[], Awaitable[Store]] | None,
        store: Store,
        terms: LeaseTerms,
        emit: Emit = ignore_event,
        steady: Callable[[], float] = boottime,
    ) -> None:
        self._worker = worker
        self._profile = profile
        self._connect = connect
        self._store = store
        self._terms = terms
        self._say = emit
        self._steady = steady
        self._stopping = False
        self._lets_go = True
        self._wake = Waiter()
        self._worker_loop: asyncio.AbstractEventLoop | None = None  # the worker's loop
        self._own_loop: asyncio.AbstractEventLoop | None = None  # the heartbeat's loop
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._stalled = False
        self._last_beat: Beat | None = None  # the last answer
        self._unnoticed = False  # no job ran under the lease that was lost

    async def start(self) -> None:
        self._worker_loop = asyncio.get_running_loop()
        if self._connect is None:
            self._task = self._worker_loop.create_task(self._run(self._store), name="heartbeat")
            return
        self._thread = threading.Thread(target=self._in_thread, name="duly-heartbeat", daemon=True)
        self._thread.start()

    async def stop(self, *, let_go: bool = True) -> None:
        """Stop renewing; end the lease if no job of the worker runs any more (``let_go``)."""
        self._lets_go = let_go
        self._stopping = True
        if self._task is not None:
            self._wake.set()
            await asyncio.wait([self._task], timeout=STOP_SECONDS)
            self._task.cancel()
        if self._thread is not None:
            if self._own_loop is not None:
                with contextlib.suppress(RuntimeError):  # it has ended
                    self._own_loop.call_soon_threadsafe(self._wake.set)
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    def _in_thread(self) -> None:
        asyncio.run(self._run_in_thread())

    async def _run_in_thread(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        watch = asyncio.create_task(self._watch_interpreter())
        try:
            await self._run_with_store()
        finally:
            watch.cancel()

    async def _watch_interpreter(self) -> None:
        """Report the job that held the GIL when this thread could not run though the process did.

        A process that was stopped, or waited for a CPU, has not used CPU time.
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
                self._emit(InterpreterHeld(held, self._worker.jobs_of(holder)))

    async def _run_with_store(self) -> None:
        store: Store | None = None
        while store is None and not self._stopping:
            try:
                store = await self._connect() if self._connect else None
            except Exception as error:  # noqa: BLE001 - without a heartbeat there is no worker
                await self._failed(error)
        if store is None:
            return
        try:
            await self._run(store)
        finally:
            await store.close()

    async def _run(self, store: Store) -> None:
        """Keep one lease after another."""
        store.listen(lambda topic: self._wake.set() if topic in (WORKERS, "*") else None)
        while not self._stopping:
            sent = self._steady()
            if self._is_hopeless(sent):
                await self._wake.rest(LISTEN_SECONDS)  # a lease would be useless
                continue
            try:
                info = await store.work.register(self._profile, lease=self._terms.lease)
            except Exception as error:  # noqa: BLE001 - without a heartbeat there is no worker
                await self._failed(error)
                continue
            lease = Lease(self._terms.lease, sent)
            await self._stay_with_orders(store, info.id)
            self._worker.lease_until(lease.last_moment())
            if self._thread is not None:
                show_number(info.id)
            self._emit(WorkerRegistered(info.id, info.name, quiet=self._unnoticed))
            self._tell(self._worker.enlisted, info.id)
            reason = await self._keep(store, info.id, lease)
            if reason is None:
                if self._lets_go:
                    await self._let_go(store, info.id)
                return
            await self._fence(info.id, lease, reason)

    async def _keep(self, store: Store, worker: int, lease: Lease) -> str | None:
        """Renew the lease until stopped (return None) or until it may have expired (the reason)."""
        while not self._stopping:
            now = self._steady()
            if lease.is_doubtful(now):
                return "it could not be renewed in time"
            if self._is_hopeless(now):
                return "the event loop does not turn any more"
            renewing = now >= lease.next_renewal()
            try:
                # Not longer than until the lease is doubtful: stopping jobs needs the rest of it.
                async with Timeout(min(PATIENCE.total_seconds(), lease.doubtful_at() - now)):
                    beat = await self._beat(store, worker, renewing=renewing)
            except Exception as error:  # noqa: BLE001 - for whatever reason, the lease is not renewed
                if isinstance(error, WriteBlocked):
                    lease.stood_still(error.since, error.seconds)
                    self._worker.lease_until(lease.last_moment())
                await self._failed(error, pause=AGAIN_SECONDS)
                continue
            if beat is None:
                lease.lost()
                return "it had expired"
            if renewing:
                lease.renewed(now)
                self._worker.lease_until(lease.last_moment())
            self._last_beat = beat
            self._tell(self._worker.hear, beat)
            rest = lease.next_renewal() - self._steady()
            if self._worker.load() or not store.is_listening:
                rest = min(LISTEN_SECONDS, rest)
            await self._wake.rest(max(rest, 0.02))
        return None

    async def _stay_with_orders(self, store: Store, worker: int) -> None:
        """Repeat orders (drain, slots) for the new number: it is still the same worker."""
        last = self._last_beat
        if last is not None and (last.order != "run" or last.slots is not None):
            with contextlib.suppress(StoreUnavailable):
                await store.work.tell(worker, last.order, slots=last.slots)

    async def _failed(self, error: Exception, *, pause: float = LISTEN_SECONDS) -> None:
        if not isinstance(error, StoreUnavailable | TimeoutError):
            self._emit(TickFailed("heartbeat", error))
        await self._wake.rest(pause)

    async def _beat(self, store: Store, worker: int, *, renewing: bool) -> Beat | None:
        if renewing:
            load = self._worker.load()
            return await store.work.renew(worker, self._terms.lease, running=load)
        return await store.work.listen_to(worker)

    async def _fence(self, worker: int, lease: Lease, reason: str) -> None:
        """Stop every job before the lease is over in the store."""
        load = self._worker.load()
        self._unnoticed = load == 0
        self._emit(WorkerFenced(worker, reason, load))
        self._worker.kill()
        self._tell(self._worker.fenced)
        last = max(lease.last_moment(), self._steady() + ORDERLY_SECONDS)
        while self._worker.running() and self._steady() < last:
            await self._wake.rest(0.05)
        left = self._worker.running()
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
        still = now - self._worker.pulse()
        if still >= STALLED_SECONDS and not self._stalled:
            self._emit(LoopStalled(still))
        self._stalled = still >= STALLED_SECONDS
        return still >= HOPELESS_SECONDS

    def _tell(self, callback: Callable[..., object], *values: object) -> None:
        if self._worker_loop is None:
            return
        if self._own_loop is None:
            self._call(self._worker_loop, callback, *values)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._worker_loop.call_soon_threadsafe(callback, *values)

    @staticmethod
    def _call(
        loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *values: object
    ) -> None:
        """Call at once on the same loop, so that calls keep their order."""
        try:
            callback(*values)
        except Exception as error:  # noqa: BLE001 - the lease is kept even if the callback fails
            loop.call_exception_handler(
                {"message": "a callback of the heartbeat failed", "exception": error}
            )

    def _emit(self, event: EngineEvent) -> None:
        """Emit from this thread: the loop may never run again, and the process may exit now."""
        with contextlib.suppress(Exception):
            self._say(event)
