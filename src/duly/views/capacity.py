"""Queues with what is in them: for those who look at how much may run, and how much waits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from duly.model.job import Job
from duly.model.queue import Queue
from duly.model.worker import WorkerInfo
from duly.policy.why import about
from duly.policy.why.answer import plural
from duly.store.store import Store
from duly.store.values import MOST_COUNTED, Depth, LaneInfo
from duly.views.attention import Need, without_worker
from duly.views.charts import Charts, QueueRateMeter, QueueRates, Series
from duly.views.workers import is_gone

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


HOUR = timedelta(hours=1)
MOST_QUEUES = 200
MOST_LIMITS = 100
MOST_WORKERS = 200
MOST_RUNNING = 500
MOST_OF_ONE = 5  # of the jobs that a worker runs, those that have run longest are named


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    queue: Queue
    depth: Depth
    flow: QueueRates
    heard: bool  # whether a worker listens to it


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    info: WorkerInfo
    running: int = 0
    jobs: Sequence[Job] = ()  # some of those that it runs
    gone: bool = False  # its process is not there any more, as far as can be seen from here

    @property
    def slots(self) -> int:
        ordered = self.info.slots_ordered
        return self.info.profile.slots if ordered is None else ordered

    @property
    def doing(self) -> str:
        """What it is about, in a word."""
        return "gone" if self.gone else _DOING[self.info.order]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityView:
    now: datetime
    queues: Sequence[QueueLine]
    limits: Sequence[LaneInfo]
    workers: Sequence[WorkerLine]
    unable: Sequence[Need]  # jobs that no worker can take
    series: Series
    more: Mapping[str, int] = field(default_factory=dict)  # so many queues, … are not shown

    @property
    def present(self) -> Sequence[WorkerLine]:
        return [one for one in self.workers if not one.gone]

    @property
    def ready(self) -> int:
        return sum(one.depth.ready for one in self.queues)

    @property
    def oldest(self) -> datetime | None:
        found = [one.depth.oldest_ready_at for one in self.queues if one.depth.oldest_ready_at]
        return min(found, default=None)

    def headline(self) -> str:
        """Who runs how much, and what waits."""
        return f"{self._work()} {self._pauses()}".strip()

    def _work(self) -> str:
        count = len(self.present)
        if not count:
            waits = f"{_waits(self.ready)}." if self.ready else "Nothing waits for one."
            return f"No worker is connected. {waits}"
        slots = sum(one.slots for one in self.present)
        running = sum(one.running for one in self.present)
        who = plural(count, "worker")
        if not running:
            does = (
                f"{who} {'is' if count == 1 else 'are'} idle, with room for {plural(slots, 'job')}"
            )
        else:
            does = f"{who} run{'s' * (count == 1)} {running:,} of {plural(slots, 'job')}"
        return f"{does}; {self._line()}."

    def _line(self) -> str:
        if not self.ready:
            return "nothing waits"
        age = _whole(self.now - (self.oldest or self.now))
        since = f", the oldest for {about(age)}" if age else ""
        return f"{many(self.ready)} wait{'s' * (self.ready == 1)}{since}"

    def _pauses(self) -> str:
        paused = [one.queue.name for one in self.queues if one.queue.paused]
        if len(paused) == 1:
            return f"The queue {paused[0]} is paused."
        return f"{len(paused):,} queues are paused." if paused else ""


def many(number: int) -> str:
    """A number of a queue, as far as it was counted."""
    return f"{number:,}" if number <= MOST_COUNTED else f"{MOST_COUNTED:,}+"


async def capacity(
    store: Store, charts: Charts, flows: QueueRateMeter, *, span: timedelta
) -> CapacityView:
    """The charts are of the last ``span``; rates and depths are of now."""
    now = await store.surroundings.now()
    depths = await store.evidence.depths()
    living = await store.surroundings.living()
    limits = await store.limits.listed(limit=MOST_LIMITS + 1)
    hour = await charts.look(store, now, span=HOUR)
    flow = flows.look(depths, charts, now=now)
    queues = _queues(with_depths(await known_queues(store), depths), flow, living=living)
    running = await store.evidence.running(limit=MOST_RUNNING)
    return CapacityView(
        now=now,
        queues=queues[:MOST_QUEUES],
        limits=limits[:MOST_LIMITS],
        workers=_workers(living[:MOST_WORKERS], running),
        unable=await without_worker(store),
        series=hour if span == HOUR else await charts.look(store, now, span=span),
        more={
            "queues": max(0, len(queues) - MOST_QUEUES),
            "limits": max(0, len(limits) - MOST_LIMITS),
            "workers": max(0, len(living) - MOST_WORKERS),
        },
    )


async def queue_named(store: Store, name: str) -> Queue:
    """As it was set; or as it is if nobody has set it."""
    found = {queue.name: queue for queue in await store.work.queues()}
    return found.get(name) or Queue(name=name)


async def limit_named(store: Store, name: str) -> LaneInfo:
    """As jobs have met it lately; without numbers, if none has."""
    for lane in await store.limits.listed(limit=MOST_LIMITS):
        if lane.name == name:
            return lane
    return LaneInfo(name=name, template="", concurrency=None, rate=None, running=0, waiting=0)


def _queues(
    facts: Iterable[QueueFacts], flows: Mapping[str, QueueRates], *, living: Iterable[WorkerInfo]
) -> list[QueueLine]:
    heard = {name for worker in living for name in worker.queues}
    return [
        QueueLine(
            queue=one.queue,
            depth=one.depth,
            flow=flows.get(one.queue.name) or QueueRates(came=None, ended=0.0),
            heard=one.queue.name in heard,
        )
        for one in facts
    ]


def _workers(living: Iterable[WorkerInfo], running: Sequence[Job]) -> list[WorkerLine]:
    """What a worker runs is known from its jobs at once, and from itself when it next says so."""
    held: dict[int, list[Job]] = {}
    for job in running:
        held.setdefault(job.worker or 0, []).append(job)
    lines = [
        WorkerLine(
            info=info,
            running=len(jobs) if len(running) < MOST_RUNNING else info.running,
            jobs=jobs[:MOST_OF_ONE],
            gone=is_gone(info),
        )
        for info in living
        for jobs in [held.get(info.id, [])]
    ]
    return sorted(lines, key=lambda line: (line.info.name, line.info.id))


def _waits(jobs: int) -> str:
    return f"{many(jobs)} job{'s' * (jobs != 1)} wait{'s' * (jobs == 1)}"


def _whole(span: timedelta) -> timedelta:
    """What comes up to date every second shows no fractions."""
    return max(timedelta(), timedelta(seconds=int(span.total_seconds())))


_DOING = {"run": "working", "drain": "draining", "stop": "stopping", "kill": "stopping now"}
