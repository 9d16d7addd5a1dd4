"""``duly.queues``, ``duly.limits`` and ``duly.workers``: concurrency, rates and workers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from duly.connection import LazyStore
from duly.errors import InvalidValue, NotFound
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.worker import Order, WorkerInfo
from duly.registry.registry import UNSET, Unset
from duly.runtime.workers import MOST_SLOTS
from duly.store.store import Store
from duly.store.values import LaneInfo
from duly.views.capacity import known_queues

KEEP: Final = UNSET  # an omitted option stays unchanged


class Queues:
    """The queues, which can be paused or limited for all workers."""

    def __init__(self, lazy: LazyStore) -> None:
        self._lazy = lazy

    def list(self) -> "Sequence[Queue]":
        """Return the queues that have settings or that a worker listens to."""
        return self._lazy.call(known_queues, twin="duly.queues.alist()")

    async def alist(self) -> "Sequence[Queue]":
        return await known_queues(await self._lazy.store())

    def pause(self, name: str, /, *, note: str = "") -> Queue:
        """Pause the queue: start none of its jobs; running jobs finish."""
        return self._lazy.call(
            lambda store: _changed(store, name, _paused(note)), twin="duly.queues.apause()"
        )

    async def apause(self, name: str, /, *, note: str = "") -> Queue:
        return await _changed(await self._lazy.store(), name, _paused(note))

    def resume(self, name: str, /) -> Queue:
        return self._lazy.call(
            lambda store: _changed(store, name, _resumed), twin="duly.queues.aresume()"
        )

    async def aresume(self, name: str, /) -> Queue:
        return await _changed(await self._lazy.store(), name, _resumed)

    def set(
        self,
        name: str,
        /,
        *,
        concurrency: int | Unset | None = KEEP,
        rate: str | Unset | None = KEEP,
        fair: bool | Unset = KEEP,
    ) -> Queue:
        """Limit the queue across the cluster.

        None removes a limit; omitted options stay unchanged.
        """
        change = _set(concurrency, rate, fair=fair)
        return self._lazy.call(
            lambda store: _changed(store, name, change), twin="duly.queues.aset()"
        )

    async def aset(
        self,
        name: str,
        /,
        *,
        concurrency: int | Unset | None = KEEP,
        rate: str | Unset | None = KEEP,
        fair: bool | Unset = KEEP,
    ) -> Queue:
        return await _changed(await self._lazy.store(), name, _set(concurrency, rate, fair=fair))


class Limits:
    """The limits that ``Limit`` declares in code, with their usage and the operator's overrides."""

    def __init__(self, lazy: LazyStore) -> None:
        self._lazy = lazy

    def list(self) -> "Sequence[LaneInfo]":
        """Return the limits, last used first."""
        return self._lazy.call(lambda store: store.limits.listed(), twin="duly.limits.alist()")

    async def alist(self) -> "Sequence[LaneInfo]":
        return await (await self._lazy.store()).limits.listed()

    def set(self, name: str, /, *, concurrency: int | None = None, rate: str | None = None) -> None:
        """Override a limit by its name or its template; its value in code no longer counts."""
        parsed = None if rate is None else Rate.parse(rate)
        self._lazy.call(
            lambda store: store.limits.set(name, concurrency=concurrency, rate=parsed),
            twin="duly.limits.aset()",
        )

    async def aset(
        self, name: str, /, *, concurrency: int | None = None, rate: str | None = None
    ) -> None:
        parsed = None if rate is None else Rate.parse(rate)
        await (await self._lazy.store()).limits.set(name, concurrency=concurrency, rate=parsed)

    def reset(self, name: str, /) -> None:
        """Remove the override, so that the limit in code counts again."""
        self._lazy.call(lambda store: store.limits.unset(name), twin="duly.limits.areset()")

    async def areset(self, name: str, /) -> None:
        await (await self._lazy.store()).limits.unset(name)


class Workers:
    """The workers. An order to a name goes to every worker of that name; returns those workers."""

    def __init__(self, lazy: LazyStore) -> None:
        self._lazy = lazy

    def list(self) -> "Sequence[WorkerInfo]":
        """Return the living workers."""
        return self._lazy.call(lambda store: store.work.living(), twin="duly.workers.alist()")

    async def alist(self) -> "Sequence[WorkerInfo]":
        return await (await self._lazy.store()).work.living()

    def drain(self, who: str | int, /) -> "Sequence[WorkerInfo]":
        """Drain the worker: it starts no more jobs; running jobs finish."""
        return self._lazy.call(
            lambda store: _tell(store, who, "drain"), twin="duly.workers.adrain()"
        )

    async def adrain(self, who: str | int, /) -> "Sequence[WorkerInfo]":
        return await _tell(await self._lazy.store(), who, "drain")

    def resume(self, who: str | int, /) -> "Sequence[WorkerInfo]":
        return self._lazy.call(
            lambda store: _tell(store, who, "run"), twin="duly.workers.aresume()"
        )

    async def aresume(self, who: str | int, /) -> "Sequence[WorkerInfo]":
        return await _tell(await self._lazy.store(), who, "run")

    def stop(self, who: str | int, /, *, now: bool = False) -> "Sequence[WorkerInfo]":
        """Stop a worker after its running jobs; ``now`` stops these too, to be rerun by others."""
        return self._lazy.call(
            lambda store: _tell(store, who, "kill" if now else "stop"),
            twin="duly.workers.astop()",
        )

    async def astop(self, who: str | int, /, *, now: bool = False) -> "Sequence[WorkerInfo]":
        return await _tell(await self._lazy.store(), who, "kill" if now else "stop")

    def scale(self, who: str | int, /, *, concurrency: int) -> "Sequence[WorkerInfo]":
        """Set the worker's concurrency."""
        _check_slots(concurrency)
        return self._lazy.call(
            lambda store: _tell(store, who, None, slots=concurrency),
            twin="duly.workers.ascale()",
        )

    async def ascale(self, who: str | int, /, *, concurrency: int) -> "Sequence[WorkerInfo]":
        _check_slots(concurrency)
        return await _tell(await self._lazy.store(), who, None, slots=concurrency)


async def _changed(store: Store, name: str, change: Callable[[Queue], Queue]) -> Queue:
    known = {queue.name: queue for queue in await store.work.queues()}
    queue = change(known.get(name) or Queue(name=name))
    await store.work.set_queue(queue)
    return queue


def _paused(note: str) -> Callable[[Queue], Queue]:
    return lambda queue: replace(queue, paused=True, note=note)


def _resumed(queue: Queue) -> Queue:
    return replace(queue, paused=False, note="")


def _set(
    concurrency: int | Unset | None, rate: str | Unset | None, *, fair: bool | Unset
) -> Callable[[Queue], Queue]:
    parsed = Rate.parse(rate) if isinstance(rate, str) else rate

    def change(queue: Queue) -> Queue:
        if not isinstance(concurrency, Unset):
            queue = replace(queue, concurrency=concurrency)
        if not isinstance(parsed, Unset):
            queue = replace(queue, rate=parsed)
        return queue if isinstance(fair, Unset) else replace(queue, fair=fair)

    return change


async def _tell(
    store: Store, who: str | int, order: Order | None, *, slots: int | None = None
) -> "Sequence[WorkerInfo]":
    """Send an order to the matching workers; without an order, each keeps its current one."""
    meant = _meant(who, await store.work.living())
    for info in meant:
        await store.work.tell(info.id, order or info.order, slots=slots)
    return meant


def _meant(who: str | int, living: "Sequence[WorkerInfo]") -> "Sequence[WorkerInfo]":
    """Return the living workers with this name, or else the one with this number."""
    meant = [info for info in living if info.name == who]
    meant = meant or [info for info in living if str(info.id) == str(who)]
    if not meant:
        there = ", ".join(sorted({info.name for info in living})) or "none"
        raise NotFound(f'no worker is called "{who}" and lives; there is {there}')
    return meant


def _check_slots(concurrency: int) -> None:
    if not 1 <= concurrency <= MOST_SLOTS:
        raise InvalidValue(f"concurrency={concurrency}: from 1 to {MOST_SLOTS:,}")
