"""``duly.queues``, ``duly.limits`` and ``duly.workers``: concurrency, rates and workers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from duly.app.actions import Action, AppNoun, awaitable, blocking
from duly.engine.worker import MOST_SLOTS
from duly.errors import InvalidValue, NotFound
from duly.model.limit import LimitInfo, Queue, Rate
from duly.model.worker import Order, WorkerInfo
from duly.registry.registry import UNSET, Unset
from duly.store.store import Store
from duly.views.capacity import QueueView, queue_list

KEEP: Final = UNSET  # an omitted option stays unchanged


class Queues(AppNoun):
    """The queues, which can be paused or limited for all workers."""

    _noun = "duly.queues"

    @blocking
    def list(self) -> Action[Sequence[QueueView]]:
        """Return the queues that have settings, a worker or jobs, with their counts by state."""
        return Action(queue_list)

    @blocking
    def pause(self, name: str, /, *, note: str = "") -> Action[Queue]:
        """Pause the queue: start none of its jobs; running jobs finish."""
        return _change(name, paused=True, note=note)

    @blocking
    def resume(self, name: str, /) -> Action[Queue]:
        return _change(name, paused=False, note="")

    @blocking
    def set(
        self,
        name: str,
        /,
        *,
        concurrency: int | Unset | None = KEEP,
        rate: str | Unset | None = KEEP,
        fair: bool | Unset = KEEP,
    ) -> Action[Queue]:
        """Limit the queue across the cluster.

        None removes a limit; omitted options stay unchanged.
        """
        parsed = Rate.parse(rate) if isinstance(rate, str) else rate
        return _change(name, concurrency=concurrency, rate=parsed, fair=fair)

    alist: Final = awaitable(list)
    apause: Final = awaitable(pause)
    aresume: Final = awaitable(resume)
    aset: Final = awaitable(set)


class Limits(AppNoun):
    """The limits that ``Limit`` declares in code, with their usage and the operator's overrides."""

    _noun = "duly.limits"

    @blocking
    def list(self) -> Action[Sequence[LimitInfo]]:
        """Return the limits, last used first."""
        return Action(lambda store: store.limits.listed())

    @blocking
    def set(
        self, name: str, /, *, concurrency: int | None = None, rate: str | None = None
    ) -> Action[None]:
        """Override a limit by its name or its template; its value in code no longer counts."""
        parsed = None if rate is None else Rate.parse(rate)
        return Action(lambda store: store.limits.set(name, concurrency=concurrency, rate=parsed))

    @blocking
    def reset(self, name: str, /) -> Action[None]:
        """Remove the override, so that the limit in code counts again."""
        return Action(lambda store: store.limits.unset(name))

    alist: Final = awaitable(list)
    aset: Final = awaitable(set)
    areset: Final = awaitable(reset)


class Workers(AppNoun):
    """The workers. An order to a name goes to every worker of that name; returns those workers."""

    _noun = "duly.workers"

    @blocking
    def list(self) -> Action[Sequence[WorkerInfo]]:
        """Return the living workers."""
        return Action(lambda store: store.work.living())

    @blocking
    def drain(self, who: str | int, /) -> Action[Sequence[WorkerInfo]]:
        """Drain the worker: it starts no more jobs; running jobs finish."""
        return Action(lambda store: _tell(store, who, "drain"))

    @blocking
    def resume(self, who: str | int, /) -> Action[Sequence[WorkerInfo]]:
        return Action(lambda store: _tell(store, who, "run"))

    @blocking
    def stop(self, who: str | int, /, *, now: bool = False) -> Action[Sequence[WorkerInfo]]:
        """Stop a worker after its running jobs; ``now`` stops these too, to be rerun by others."""
        return Action(lambda store: _tell(store, who, "kill" if now else "stop"))

    @blocking
    def scale(self, who: str | int, /, *, concurrency: int) -> Action[Sequence[WorkerInfo]]:
        """Set the worker's concurrency."""
        _check_slots(concurrency)
        return Action(lambda store: _tell(store, who, None, slots=concurrency))

    alist: Final = awaitable(list)
    adrain: Final = awaitable(drain)
    aresume: Final = awaitable(resume)
    astop: Final = awaitable(stop)
    ascale: Final = awaitable(scale)


def _change(name: str, **options: Any) -> Action[Queue]:
    """Change the options of a queue that are given."""
    given = {option: value for option, value in options.items() if value is not KEEP}

    async def change(store: Store) -> Queue:
        known = {queue.name: queue for queue in await store.work.queues()}
        queue = replace(known.get(name) or Queue(name=name), **given)
        await store.work.set_queue(queue)
        return queue

    return Action(change)


async def _tell(
    store: Store, who: str | int, order: Order | None, *, slots: int | None = None
) -> Sequence[WorkerInfo]:
    """Send an order to the matching workers; without an order, each keeps its current one."""
    meant = _meant(who, await store.work.living())
    for info in meant:
        await store.work.tell(info.id, order or info.order, slots=slots)
    return meant


def _meant(who: str | int, living: Sequence[WorkerInfo]) -> Sequence[WorkerInfo]:
    """Return the living workers with this name, or else the one with this number."""
    meant = [info for info in living if info.name == who]
    meant = meant or [info for info in living if str(info.id) == str(who)]
    if not meant:
        there = ", ".join(sorted({info.name for info in living})) or "none"
        raise NotFound(f'no running worker is named "{who}"; running: {there}')
    return meant


def _check_slots(concurrency: int) -> None:
    if not 1 <= concurrency <= MOST_SLOTS:
        raise InvalidValue(f"concurrency={concurrency}: expected a number from 1 to {MOST_SLOTS:,}")
