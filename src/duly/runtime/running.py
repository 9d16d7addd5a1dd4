"""A running node: in a program of its own, beside other code, or until a signal.

``NodeLifecycle`` is a node from the opening of its store to its orderly end. ``Running`` runs one
beside other code, on the loop or in a thread. ``serve`` runs one until a signal ends it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Self

from duly.clock import boottime, sleep
from duly.connection import open_or_make_store, outgrown
from duly.engine.reconciler import DeclarationSet, Reconciler
from duly.engine.worker import Worker, WorkerOptions
from duly.errors import InvalidValue, SchemaMismatch, StoreUnavailable
from duly.events import Emit, EngineEvent, StopOverdue, StoreLost, StoreOutgrown, StoreRecovered
from duly.model.worker import refuse_another_app
from duly.registry.registry import Registry
from duly.rules import show_duration
from duly.runtime.console import job_count, job_log, level_of, sentence
from duly.runtime.node import Node, make_worker
from duly.settings.tables import AlertSettings
from duly.store.connect import is_remote, place
from duly.store.maintenance import Retention
from duly.store.store import Store
from duly.sync import Portal


def notify(*facts: str) -> None:
    """Send facts such as ``READY=1`` to systemd, if it asks for them."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address  # @: an abstract socket
    with (
        contextlib.suppress(OSError),  # systemd notices a service that says nothing
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line,
    ):
        line.settimeout(0)
        line.sendto("\n".join(facts).encode(), name)


@asynccontextmanager
async def notified(is_open: asyncio.Event) -> AsyncIterator[None]:
    """Tell systemd when ``is_open`` is set, that the event loop is alive, and that it stops."""
    telling = asyncio.create_task(_tell(is_open), name="systemd")
    try:
        yield
    finally:
        notify("STOPPING=1")
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell(is_open: asyncio.Event) -> None:
    await asyncio.gather(_tell_ready(is_open), _tell_alive())


async def _tell_ready(is_open: asyncio.Event) -> None:
    await is_open.wait()
    notify("READY=1")


async def _tell_alive() -> None:
    """Also while the database is unavailable: a restart would not bring it back."""
    while (seconds := watchdog_seconds()) is not None:
        notify("WATCHDOG=1")
        await sleep(seconds / 2)


def watchdog_seconds() -> float | None:
    """Return the time after which systemd restarts a silent process; None if it never does."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # meant for the parent
    limit = os.environ.get("WATCHDOG_USEC", "")
    return int(limit) / 1_000_000 if limit.isdecimal() and int(limit) else None


SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
AGAIN_SECONDS = 1.0  # between two attempts to open a store that is away
SCHEMA_SECONDS: Final = 15.0  # between looks whether the store was migrated


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The services that a node runs, and the tasks they run for."""

    url: str
    registry: Registry
    worker: WorkerOptions | None
    scheduler: bool
    target: str | None  # what a child process imports to find the same tasks
    app: str = ""  # the name of the app
    announcement: DeclarationSet | None = None  # the schedules that the app declares
    retention: Retention | None = None  # how long history is kept
    alerts: AlertSettings | None = None
    zone: str | None = None  # of the times in alerts
    migrate: bool = False  # also a database that its operator usually migrates
    patient: bool = False  # wait at the start for a store that is unavailable
    stop_timeout: timedelta | None = None  # how long a warm stop may take; None: no limit

    def __post_init__(self) -> None:
        if is_remote(self.url):
            raise InvalidValue(
                f"a {('worker' if self.worker else 'scheduler')} needs the database itself, but "
                f"{place(self.url)} is a duly server: give --store postgresql://… or a path"
            )
        if self.worker is None or self.target is not None:
            return
        for definition in self.registry:
            if definition.executor == "process":
                raise InvalidValue(
                    f'{definition.name} has executor="process", but a child process could not '
                    "import it: assign Duly() to a variable at the top of a module or script"
                )


_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def to_the_log(event: EngineEvent) -> None:
    """Log an event with ``logging``, for a node inside another program."""
    text = sentence(event)
    if text:
        logging.getLogger("duly").log(_LEVELS[level_of(event)], text)


class NodeLifecycle:
    """A node from the opening of its store to its orderly end."""

    def __init__(self, options: NodeOptions, emit: Emit = to_the_log) -> None:
        self._options = options
        self._emit = emit
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self.is_open: asyncio.Event = asyncio.Event()
        self._store: Store | None = None
        self._node: Node | None = None
        self._outgrown: str | None = None
        self.worker: Worker | None = None

    @property
    def is_verbose(self) -> bool:
        """Return whether an event is printed for every job."""
        return self._options.worker is not None and self._options.worker.verbose

    @property
    def load(self) -> int:
        """Return the number of jobs that run here."""
        return self.worker.load() if self.worker is not None else 0

    @property
    def stop_timeout(self) -> timedelta | None:
        return self._options.stop_timeout

    def finish(self) -> None:
        """Stop warm: start nothing more and finish running jobs."""
        self._stop.set()

    def halt(self) -> None:
        """Stop cold: stop running jobs and give them back."""
        self._stop.set()
        self._hurry.set()

    async def open(self) -> None:
        """Open the store and make the node; raise if that is impossible."""
        began, lost = boottime(), False
        while self._store is None and not (lost and self._stop.is_set()):
            try:
                await self._open()
            except StoreUnavailable as error:
                if not self._options.patient:
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
            self._options.url, migrate=self._options.migrate, create=not self._options.patient
        )
        try:
            self.worker = self._make_worker(store)
            if self.worker is not None:
                refuse_another_app(self.worker.profile, await store.work.living())
            reconciler = self._make_reconciler(store)
            if reconciler is not None:
                await reconciler.tick()  # an invalid declaration is reported before anything runs
            self._node = Node(
                store,
                worker=self.worker,
                scheduler=self._options.scheduler,
                reconciler=reconciler,
                retention=self._options.retention,
                alerts=self._options.alerts,
                zone=self._options.zone,
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
            return  # stopped while it waited for the store
        assert self._node is not None  # noqa: S101
        deadline = asyncio.create_task(self._halt_in_time())
        watch = asyncio.create_task(self._stop_if_outgrown(self._store))
        try:
            await self._node.run(self._stop, self._hurry)
        except BaseException:
            # Cancelled, perhaps with the whole loop. The lease is ended nevertheless, so that
            # others need not wait for it to take the jobs.
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
        """Stop warm when the store was migrated to a schema that this version cannot use."""
        while self._outgrown is None:
            await sleep(SCHEMA_SECONDS)
            with contextlib.suppress(StoreUnavailable):
                self._outgrown = await outgrown(store)
        self._emit(StoreOutgrown(self._outgrown))
        self._stop.set()

    async def _halt_in_time(self) -> None:
        """Turn a warm stop into a cold one when its time is over."""
        if self._options.stop_timeout is None:
            return
        await self._stop.wait()
        await sleep(self._options.stop_timeout.total_seconds())
        if self.load and not self._hurry.is_set():
            self._emit(StopOverdue(self._options.stop_timeout, self.load))
        self._hurry.set()

    def _make_worker(self, store: Store) -> Worker | None:
        options = self._options
        if options.worker is None:
            return None
        return make_worker(
            store,
            options.registry,
            replace(options.worker, app=options.app),
            url=options.url,
            target=options.target,
            on_stop=self._on_stop,
            emit=self._emit,
        )

    def _make_reconciler(self, store: Store) -> Reconciler | None:
        declarations = self._options.announcement
        if declarations is None or not self._options.scheduler:
            return None
        return Reconciler(store, declarations, emit=self._emit)

    def _on_stop(self) -> None:
        """The worker asks to stop: once for a warm stop, twice for a cold one."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()


class Running:
    """Runs a node beside other code: ``async with`` on the running loop, ``with`` in a thread."""

    def __init__(self, node: Callable[[], NodeLifecycle], *, grace: timedelta) -> None:
        self._new_node = node
        self._grace = grace.total_seconds()
        self._node: NodeLifecycle | None = None
        self._work: asyncio.Task[None] | None = None
        self._portal: Portal | None = None

    async def __aenter__(self) -> Self:
        if self._work is not None:
            raise RuntimeError("this duly.running() is in use already; create another one")
        self._node = self._new_node()
        await self._node.open()
        self._work = asyncio.create_task(self._node.work(), name="duly")
        self._work.add_done_callback(_tell_of_failure)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop warm, and cold when the grace is over or this task is cancelled."""
        node, work = self._node, self._work
        if node is None or work is None:
            return
        node.finish()
        try:
            await asyncio.wait({work}, timeout=self._grace)
        finally:
            if not work.done():
                node.halt()
            self._node = self._work = None
            await work

    def __enter__(self) -> Self:
        self._portal = Portal("duly-running")
        try:
            return self._portal.call(self.__aenter__)
        except BaseException:
            self._portal.close()
            raise

    def __exit__(self, *_: object) -> None:
        portal, self._portal = self._portal, None
        if portal is None:
            return
        try:
            portal.call(lambda: self.__aexit__(None, None, None))
        finally:
            portal.close()


def _tell_of_failure(work: asyncio.Task[None]) -> None:
    """Report a node that failed: nothing awaits it before the end."""
    if not work.cancelled() and (error := work.exception()) is not None:
        told = {
            "message": "the duly node of this process has failed",
            "exception": error,
            "task": work,
        }
        work.get_loop().call_exception_handler(told)


async def serve(node: NodeLifecycle, say: Callable[[str], None]) -> None:
    """Run until done or until a signal: the first one stops warm, the second one cold."""
    loop = asyncio.get_running_loop()
    signals = 0

    def hear() -> None:
        nonlocal signals
        signals += 1
        notify("STOPPING=1")
        if signals > 1:
            say("stopping now")
            node.halt()
            return
        if node.load:
            limit = node.stop_timeout
            within = "" if limit is None else f" within {show_duration(limit)}"
            say(f"finishing {job_count(node.load)}{within}; send the signal again to stop now")
        node.finish()

    for number in SIGNALS:
        loop.add_signal_handler(number, hear)
    try:
        with job_log(say if node.is_verbose else None):
            async with notified(node.is_open):
                await node.work()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
