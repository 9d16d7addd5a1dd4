"""Queues with what is in them: for those who look at how much may run, and how much waits."""

from dataclasses import dataclass
from typing import TypeAlias

from duly.app.capacity import known_queues
from duly.model.queue import Queue
from duly.store.protocol import Depth, LaneInfo, Store

LimitFacts: TypeAlias = LaneInfo


@dataclass(frozen=True, slots=True)
class QueueFacts:
    queue: Queue
    depth: Depth


async def queue_facts(store: Store) -> list[QueueFacts]:
    """Those that were set, that a worker listens to, or that hold jobs; by name."""
    queues = {queue.name: queue for queue in await known_queues(store)}
    depths = {depth.queue: depth for depth in await store.evidence.depths()}
    return [
        QueueFacts(queues.get(name) or Queue(name=name), depths.get(name) or Depth(queue=name))
        for name in sorted({*queues, *depths})
    ]


async def queue_fact(store: Store, queue: Queue) -> QueueFacts:
    """One that was just changed."""
    depths = {depth.queue: depth for depth in await store.evidence.depths()}
    return QueueFacts(queue, depths.get(queue.name) or Depth(queue=queue.name))
