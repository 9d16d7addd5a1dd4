"""Queues with what is in them: for those who look at how much may run, and how much waits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from duly.model.queue import Queue
from duly.store.protocol import Depth, LaneInfo, Store

LimitFacts: TypeAlias = LaneInfo


@dataclass(frozen=True, slots=True)
class QueueFacts:
    queue: Queue
    depth: Depth


async def queue_facts(store: Store) -> list[QueueFacts]:
    """Those that were set, that a worker listens to, or that hold jobs; by name."""
    return with_depths(await known_queues(store), await store.evidence.depths())


def with_depths(known: Iterable[Queue], depths: Iterable[Depth]) -> list[QueueFacts]:
    """Each with what is in it. What is in a queue that nobody knows is shown all the same."""
    queues = {queue.name: queue for queue in known}
    inside = {depth.queue: depth for depth in depths}
    return [
        QueueFacts(queues.get(name) or Queue(name=name), inside.get(name) or Depth(queue=name))
        for name in sorted({*queues, *inside})
    ]


async def queue_fact(store: Store, queue: Queue) -> QueueFacts:
    """One that was just changed."""
    depths = {depth.queue: depth for depth in await store.evidence.depths()}
    return QueueFacts(queue, depths.get(queue.name) or Depth(queue=queue.name))


async def known_queues(store: Store) -> "Sequence[Queue]":
    found = {queue.name: queue for queue in await store.work.queues()}
    for info in await store.work.living():
        for name in info.queues:
            found.setdefault(name, Queue(name=name))
    return [found[name] for name in sorted(found)]
