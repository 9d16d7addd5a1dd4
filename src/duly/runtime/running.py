"""An app at work: in its own program, beside another one, or as nothing but a worker.

A ``Shift`` is the work itself, from the first claim to an orderly end. ``Running`` has one done
beside other code, on the loop or in a thread. ``serve`` does one until a signal ends it.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from duly.clock import boottime, sleep
from duly.connection import open_or_make_store, outgrown
from duly.engine.reconciler import DeclarationSet, Reconciler
from duly.engine.worker import Worker
from duly.errors import InvalidValue, SchemaMismatch, StoreUnavailable
from duly.events import Emit, Event, StopOverdue, StoreLost, StoreOutgrown, StoreRecovered
from duly.model.worker import refuse_another_app
from duly.registry.registry import Registry
from duly.rules import show_duration
from duly.runtime.console import job_count, job_log, level_of, sentence
from duly.runtime.node import Node
from duly.runtime.workers import WorkerOptions, make_worker
from duly.store.connect import is_remote, place
from duly.store.store import Store
from duly.store.values import Retention
from duly.sync import Portal

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
AGAIN_SECONDS = 1.0  # between two attempts to open a store that is away
SCHEMA_SECONDS: Final = 5.0  # between looks whether the store was migrated


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What is to be done, and for which tasks."""

    url: str
    registry: Registry
    worker: WorkerOptions | None
    scheduler: bool
    target: str | None  # what a child imports to find the same tasks
    app: str = ""  # whose tasks they are
    announcement: DeclarationSet | None = None  # the schedules that its code declares
    retention: Retention | None = None  # how long what is over is kept
    migrate: bool = False  # also the tables of a database that is its operator's
    patient: bool = False  # wait at the start for a store that is away: it was there before
    stop_timeout: timedelta | None = None  # how long a warm stop may take; None: for ever

    def __post_init__(self) -> None:
        if is_remote(self.url):
            raise InvalidValue(
                f"a {'worker' if self.worker else 'scheduler'} needs the database itself, and "
                f"{place(self.url)} is a duly: give --store postgresql://…, or a path"
            )
        if self.worker is None or self.target is not None:
            return
        for definition in self.registry:
            if definition.executor == "process":
                raise InvalidValue(
                    f'{definition.name} has executor="process", and a child could not import it: '
                    "make the Duly() at the top of a module or script, under a name"
                )


_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def to_the_log(event: Event) -> None:
    """Beside another program: what somebody should know goes where its other warnings go."""
    said = sentence(event)
    if said:
        logging.getLogger("duly").log(_LEVELS[level_of(event)], said)


class NodeLifecycle:
    def __init__(self, roles: NodeOptions, emit: Emit = to_the_log) -> None:
        self._roles = roles
        self._emit = emit
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self.is_open = asyncio.Event()
        self._store: Store | None = None
        self._node: Node | None = None
        self._outgrown: str | None = None
        self.worker: Worker | None = None

    @property
    def is_verbose(self) -> bool:
        """Whether every job is told of."""
        return self._roles.worker is not None and self._roles.worker.verbose

    @property
    def load(self) -> int:
        """How many jobs run here."""
        return self.worker.load() if self.worker is not None else 0

    @property
    def stop_timeout(self) -> timedelta | None:
        return self._roles.stop_timeout

    def finish(self) -> None:
        """Stop warm: nothing more is begun, and what runs comes to its end."""
        self._stop.set()

    def halt(self) -> None:
        """Stop cold: what runs is stopped, and given back."""
        self._stop.set()
        self._hurry.set()

    async def open(self) -> None:
        """Open the store and get everything ready, or say why that cannot be."""
        began, lost = boottime(), False
        while self._store is None and not (lost and self._stop.is_set()):
            try:
                await self._open()
            except StoreUnavailable as error:
                if not self._roles.patient:
                    raise
                if not lost:
                    self._emit(StoreLost("start", error))
                lost = True
                await sleep(AGAIN_SECONDS)
        if lost and self._store is not None:
            self._emit(StoreRecovered(timedelta(seconds=boottime() - began)))
        self.is_open.set()

    async def _open(self) -> None:
        store = await open_or_make_store(
            self._roles.url, migrate=self._roles.migrate, create=not self._roles.patient
        )
        try:
            self.worker = self._make_worker(store)
            if self.worker is not None:
                refuse_another_app(self.worker.profile, await store.work.living())
            reconciler = self._make_reconciler(store)
            if reconciler is not None:
                await reconciler.tick()  # what cannot be declared is said before anything runs
            self._node = Node(
                store,
                worker=self.worker,
                scheduler=self._roles.scheduler,
                reconciler=reconciler,
                retention=self._roles.retention,
                emit=self._emit,
            )
        except BaseException:
            await store.close()
            raise
        self._store = store

    async def work(self) -> None:
        """Work until stopped."""
        await self.open()
        if self._store is None:
            return  # told to stop while it waited for the store
        assert self._node is not None  # noqa: S101
        deadline = asyncio.create_task(self._halt_in_time())
        watch = asyncio.create_task(self._stop_if_outgrown(self._store))
        try:
            await self._node.run(self._stop, self._hurry)
        except BaseException:
            # Cancelled, with the whole loop perhaps. The lease is let go all the same, so that
            # others need not wait for its end to take the jobs.
            self._hurry.set()
            if self.worker is not None:
                await self.worker.stop(self._hurry)
            raise
        finally:
            deadline.cancel()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await self._store.close()
        if self._outgrown is not None:
            raise SchemaMismatch(self._outgrown)

    async def _stop_if_outgrown(self, store: Store) -> None:
        """Stop warm when the store was migrated to tables that this version cannot use."""
        while self._outgrown is None:
            await sleep(SCHEMA_SECONDS)
            with contextlib.suppress(StoreUnavailable):
                self._outgrown = await outgrown(store)
        self._emit(StoreOutgrown(self._outgrown))
        self._stop.set()

    async def _halt_in_time(self) -> None:
        """Turn a warm stop into a cold one when its time is over."""
        if self._roles.stop_timeout is None:
            return
        await self._stop.wait()
        await sleep(self._roles.stop_timeout.total_seconds())
        if self.load and not self._hurry.is_set():
            self._emit(StopOverdue(self._roles.stop_timeout, self.load))
        self._hurry.set()

    def _make_worker(self, store: Store) -> Worker | None:
        roles = self._roles
        if roles.worker is None:
            return None
        return make_worker(
            store,
            roles.registry,
            roles.worker,
            url=roles.url,
            target=roles.target,
            app=roles.app,
            on_stop=self._told_to_stop,
            emit=self._emit,
        )

    def _make_reconciler(self, store: Store) -> Reconciler | None:
        said = self._roles.announcement
        if said is None or not self._roles.scheduler:
            return None
        return Reconciler(
            store,
            app=said.app,
            mark=said.mark,
            wanted=said.wanted,
            whole=said.whole,
            emit=self._emit,
        )

    def _told_to_stop(self) -> None:
        """By the worker itself, which says it twice for a cold stop."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()


class Running:
    """``async with`` works on the running loop, ``with`` in a thread beside code without one."""

    def __init__(self, shift: Callable[[], NodeLifecycle], *, grace: timedelta) -> None:
        self._new_shift = shift
        self._grace = grace.total_seconds()
        self._shift: NodeLifecycle | None = None
        self._work: asyncio.Task[None] | None = None
        self._portal: Portal | None = None

    async def __aenter__(self) -> Self:
        if self._work is not None:
            raise RuntimeError("it is running already: ask for another duly.running()")
        self._shift = self._new_shift()
        await self._shift.open()
        self._work = asyncio.create_task(self._shift.work(), name="duly")
        self._work.add_done_callback(_tell_of_failure)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Stop warm, and cold once the grace is over, or whoever waits for us is cancelled."""
        shift, work = self._shift, self._work
        if shift is None or work is None:
            return
        shift.finish()
        try:
            await asyncio.wait({work}, timeout=self._grace)
        finally:
            if not work.done():
                shift.halt()
            self._shift = self._work = None
            await work

    def __enter__(self) -> Self:
        self._portal = Portal("duly-running")
        try:
            return self._portal.call(self.__aenter__)
        except BaseException:
            self._portal.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        portal, self._portal = self._portal, None
        if portal is None:
            return
        try:
            portal.call(lambda: self.__aexit__(None, None, None))
        finally:
            portal.close()


def _tell_of_failure(work: asyncio.Task[None]) -> None:
    """Nobody waits for it before the end, and whoever reads the log should know."""
    if not work.cancelled() and (error := work.exception()) is not None:
        told = {"message": "duly does not work here any more", "exception": error, "task": work}
        work.get_loop().call_exception_handler(told)


async def serve(shift: NodeLifecycle, say: Callable[[str], None]) -> None:
    """Work until it is done, or a signal says stop: the first one warm, the next one cold."""
    loop = asyncio.get_running_loop()
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        if heard > 1:
            say("stopping now")
            shift.halt()
            return
        if shift.load:
            limit = shift.stop_timeout
            within = "" if limit is None else f" within {show_duration(limit)}"
            say(f"finishing {job_count(shift.load)}{within}; again to stop now")
        shift.finish()

    for number in SIGNALS:
        loop.add_signal_handler(number, hear)
    try:
        with job_log(say if shift.is_verbose else None):
            await shift.work()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
