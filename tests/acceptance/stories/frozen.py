"""Every service of a node hangs: the health of the node says so, and it recovers by itself."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from duly.app import Node, migrate_store, open_store
from duly.clock import boottime
from duly.engine.loop import DEFAULTS, Loop, LoopLimits, Service
from duly.engine.worker import WorkerOptions
from duly.events import EngineEvent, ServiceRestarted, TickStalled
from duly.runtime import node as nodes
from duly.runtime.node import SELDOM, make_worker
from duly.store.store import Store
from tests.acceptance import tasks
from tests.acceptance.fleet import calls, idle, until
from tests.acceptance.report import Report

RED, RESTARTED = 30.0, 60.0
TAKES_LONG = 120.0


@dataclass(eq=False)
class Frozen:
    """A service whose first tick does not end, not even when it is cancelled."""

    service: Service
    thaw: asyncio.Event
    ticked_at: float | None = None  # the first good tick
    is_stuck: bool = False

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def topics(self) -> frozenset[str]:
        return self.service.topics

    @property
    def patient(self) -> bool:
        return getattr(self.service, "patient", False)

    async def tick(self) -> timedelta:
        if not self.is_stuck:
            self.is_stuck = True
            while not self.thaw.is_set():
                with suppress(asyncio.CancelledError):
                    await self.thaw.wait()
        rest = await self.service.tick()
        self.ticked_at = self.ticked_at or boottime()
        return rest


@dataclass
class Events:
    """What a node has said."""

    stalled: set[str] = field(default_factory=set)
    restarted: set[str] = field(default_factory=set)

    def hear(self, event: EngineEvent) -> None:
        match event:
            case TickStalled(service=name):
                self.stalled.add(name)
            case ServiceRestarted(service=name):
                self.restarted.add(name)
            case _:
                pass


async def every_service_is_frozen(url: str, _: Path, *, limits: LoopLimits = DEFAULTS) -> Report:
    """A job that waits meanwhile is done without anybody's help."""
    report, heard, thaw = Report(), Events(), asyncio.Event()
    await migrate_store(url)
    store = await open_store(url)
    stop = asyncio.Event()
    try:
        await store.jobs.enqueue(list(calls(1, "quick")))
        with freezing(thaw, limits) as frozen:
            node = _node(store, url, heard)
            began = boottime()
            running = asyncio.create_task(node.run(stop))
            names = {one.service.name for one in frozen}
            missing = names - set(SELDOM)
            try:
                red = await until(lambda: _are_red(node, missing), seconds=TAKES_LONG)
                await until(lambda: all(one.ticked_at for one in frozen), seconds=TAKES_LONG)
                green = await until(lambda: _is_green(node), seconds=TAKES_LONG)
                await until(lambda: idle(store), seconds=TAKES_LONG)
            finally:
                thaw.set()
                stop.set()
                await running
        last = max(one.ticked_at or boottime() for one in frozen) - began
        report.say(f"{len(names)} services frozen in their first tick")
        report.must(names == heard.stalled == heard.restarted, f"{names}, {heard}")
        report.within(red, RED + 1, "all of them red after")
        report.within(last, RESTARTED, "the last one working again after")
        report.say(f"healthy {green:.1f} s later")
        return report
    finally:
        await store.close()


@contextmanager
def freezing(thaw: asyncio.Event, limits: LoopLimits) -> Iterator[list[Frozen]]:
    """Freeze every service of the nodes that are made meanwhile."""
    frozen = list[Frozen]()

    def loop(services: Sequence[Service], **options: Any) -> Loop:
        frozen.extend(Frozen(service, thaw) for service in services)
        return Loop(frozen, **options, limits=limits)

    usual = {name: vars(nodes)[name] for name in ("Loop", "LAGGING")}
    vars(nodes).update(Loop=loop, LAGGING=limits.tick)
    try:
        yield frozen
    finally:
        vars(nodes).update(usual)


def _node(store: Store, url: str, heard: Events) -> Node:
    worker = make_worker(
        store,
        tasks.registry,
        WorkerOptions(concurrency=2, lease=timedelta(seconds=15)),
        url=url,
        target=tasks.__file__,
        on_stop=lambda: None,
        emit=heard.hear,
    )
    return Node(store, worker=worker, emit=heard.hear)


async def _are_red(node: Node, missing: set[str]) -> bool:
    """Strike out services that are seen to make no progress; return whether none is left."""
    said = (await node.health()).problem or ""
    missing -= {name for name in missing if name in said}
    return not missing


async def _is_green(node: Node) -> bool:
    return (await node.health()).ok
