"""Queues, limits and workers with their capacity, running jobs and waiting jobs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Annotated

from msgspec import Meta

from duly.durations import HOUR, about
from duly.engine.death_watch import is_gone, present
from duly.model.job import StoredJob
from duly.model.limit import LimitInfo, Queue
from duly.model.worker import Order, WorkerInfo
from duly.policy.redaction import some
from duly.policy.why.answer import plural
from duly.store.activity import MOST_COUNTED, Depth
from duly.store.store import Store
from duly.views import FilledView, Made, RateText, Text, filled
from duly.views.attention import Need, without_worker
from duly.views.charts import Charts, QueueRateMeter, QueueRates, Series

MOST_LISTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView(FilledView):
    """A queue, its limits and its jobs. Above 10,000, a number means: more than that."""

    name: str
    paused: bool
    note: Text
    concurrency: int | None
    rate: RateText | None
    fair: Annotated[bool, Meta(description="Whether tenants take turns.")]
    ready: int
    scheduled: int
    blocked: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    expired: int
    ended_whole: Annotated[
        bool,
        Meta(description="False: only the last 10,000 jobs that ended in any queue are counted."),
    ]
    failed_whole: Annotated[bool, Meta(description="The same, for failed jobs.")]
    oldest_ready_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView(FilledView):
    """A limit under one rendered name, and its jobs."""

    name: str
    template: str
    concurrency: int | None
    rate: RateText | None
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker: its tasks and queues, its load, and its orders."""

    id: int
    name: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    slots: Annotated[int, Meta(description="How many jobs it may run at once.")]
    slots_ordered: Annotated[int | None, Meta(description="The same, if somebody has set it.")]
    running: int
    resources: Annotated[dict[str, int], Made(dict)]
    order: Annotated[Order, Meta(description="The state that was requested.")]
    gone: Annotated[bool, Meta(description="Its process has ended, and its lease has not.")]
    version: str
    pid: int
    started_at: datetime
    beat_at: Annotated[datetime, Meta(description="Its last heartbeat.")]
    lease_until: datetime

    @classmethod
    def of(cls, info: WorkerInfo) -> "WorkerView":
        return filled(cls, info, info.profile, gone=is_gone(info), pid=info.profile.host.pid)


async def queue_list(store: Store) -> list[QueueView]:
    """Return the queues that have settings, a listening worker, or jobs; by name."""
    found = with_depths(await known_queues(store), await store.activity.depths(ended=True))
    return [QueueView.of(queue, depth) for queue, depth in found]


async def limit_list(store: Store, *, limit: int = MOST_LISTED) -> list[LimitView]:
    """Return the limits that jobs have used, last used first."""
    return list(map(LimitView.of, await store.limits.listed(limit=limit)))


async def worker_list(store: Store) -> list[WorkerView]:
    return [WorkerView.of(info) for info in await store.work.living()]


async def queue_view(store: Store, queue: Queue) -> QueueView:
    """A queue that was just changed."""
    depths = {depth.queue: depth for depth in await store.activity.depths(ended=True)}
    return QueueView.of(queue, depths.get(queue.name) or Depth(queue=queue.name))


def with_depths(known: Iterable[Queue], depths: Iterable[Depth]) -> list[tuple[Queue, Depth]]:
    """Pair each queue with its depth; include queues that hold jobs but have no settings."""
    queues = {queue.name: queue for queue in known}
    inside = {depth.queue: depth for depth in depths}
    return [
        (queues.get(name) or Queue(name=name), inside.get(name) or Depth(queue=name))
        for name in sorted({*queues, *inside})
    ]


async def known_queues(store: Store) -> "Sequence[Queue]":
    found = {queue.name: queue for queue in await store.work.queues()}
    for info in await store.work.living():
        for name in info.queues:
            found.setdefault(name, Queue(name=name))
    return [found[name] for name in sorted(found)]


MOST_QUEUES = 200
MOST_LIMITS = 100
MOST_WORKERS = 200
MOST_RUNNING = 500
MOST_OF_ONE = 5  # jobs listed per worker, longest-running first


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
    jobs: Sequence[StoredJob] = ()  # some of its running jobs
    gone: bool = False  # its process is not there any more, as far as can be seen from here

    @property
    def slots(self) -> int:
        return self.info.slots

    @property
    def doing(self) -> str:
        """The worker's status in one word."""
        return "gone" if self.gone else _DOING[self.info.order]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityView:
    now: datetime
    queues: Sequence[QueueLine]
    limits: Sequence[LimitInfo]
    workers: Sequence[WorkerLine]
    unable: Sequence[Need]  # jobs that no worker can take
    series: Series
    more: Mapping[str, int] = field(
        default_factory=dict
    )  # how many queues, limits and workers are not shown

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
        """Summarize workers, running jobs and waiting jobs in a sentence."""
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


def many(number: int, *, whole: bool = True) -> str:
    """Format a job count; a ``+`` means that counting stopped at the maximum."""
    is_all = whole and number <= MOST_COUNTED
    return f"{min(number, MOST_COUNTED):,}{'' if is_all else '+'}"


async def capacity(
    store: Store, charts: Charts, flows: QueueRateMeter, *, span: timedelta
) -> CapacityView:
    """Return the capacity with charts of the last ``span``; rates and depths are current."""
    now = await store.diagnostics.now()
    depths = await store.activity.depths(ended=True)
    living = await store.diagnostics.living()
    limits = await store.limits.listed(limit=MOST_LIMITS + 1)
    hour = await charts.look(store, now, span=HOUR)
    flow = flows.look(depths, charts, now=now)
    queues = _queues(with_depths(await known_queues(store), depths), flow, living=living)
    running = await store.activity.running(limit=MOST_RUNNING)
    return CapacityView(
        now=now,
        queues=queues[:MOST_QUEUES],
        limits=limits[:MOST_LIMITS],
        workers=_workers(living[:MOST_WORKERS], running),
        unable=await without_worker(store, living),
        series=hour if span == HOUR else await charts.look(store, now, span=span),
        more={
            "queues": max(0, len(queues) - MOST_QUEUES),
            "limits": max(0, len(limits) - MOST_LIMITS),
            "workers": max(0, len(living) - MOST_WORKERS),
        },
    )


async def queue_named(store: Store, name: str) -> Queue:
    """Return a queue with its settings, or with the defaults if it has none."""
    found = {queue.name: queue for queue in await store.work.queues()}
    return found.get(name) or Queue(name=name)


async def limit_named(store: Store, name: str) -> LimitInfo:
    """Return a limit with its recent usage, or without numbers if no job has used it."""
    for limit in await store.limits.listed(limit=MOST_LIMITS):
        if limit.name == name:
            return limit
    return LimitInfo(name=name, template="", concurrency=None, rate=None, running=0, waiting=0)


def _queues(
    facts: Iterable[tuple[Queue, Depth]],
    flows: Mapping[str, QueueRates],
    *,
    living: Iterable[WorkerInfo],
) -> list[QueueLine]:
    heard = {name for worker in living for name in worker.queues}
    return [
        QueueLine(
            queue=queue,
            depth=depth,
            flow=flows.get(queue.name) or QueueRates(came=None, ended=0.0),
            heard=queue.name in heard,
        )
        for queue, depth in facts
    ]


def _workers(living: Iterable[WorkerInfo], running: Sequence[StoredJob]) -> list[WorkerLine]:
    """Return one line per worker.

    The count of running jobs comes from the jobs themselves, which is more recent than the worker's
    last heartbeat.
    """
    held: dict[int, list[StoredJob]] = {}
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
    """Round down to whole seconds, since the display is refreshed every second."""
    return max(timedelta(), timedelta(seconds=int(span.total_seconds())))


_DOING = {"run": "working", "drain": "draining", "stop": "stopping", "kill": "stopping now"}


MOST_NAMED = 5


async def unknown_task(store: Store, task: str) -> str | None:
    """Return why no living worker can run the task; None if one can."""
    living = await _living(store)
    known = {name for worker in living for name in worker.tasks}
    if not living:
        return f'no worker is running, so nobody can say whether there is a task "{task}"'
    said = f'no running worker knows the task "{task}"{_meant(task, known)}'
    return None if task in known else said


async def unheard_queue(store: Store, queue: str) -> str | None:
    """Return why no living worker takes jobs from the queue; None if one does."""
    living = await _living(store)
    names = sorted({name for worker in living for name in worker.queues})
    if not living:
        return f'no worker is running, and so none listens to the queue "{queue}"'
    theirs = some(names, MOST_NAMED)
    said = f'no worker listens to the queue "{queue}": they listen to {theirs}'
    return None if queue in names else f"{said}{_meant(queue, names)}"


async def _living(store: Store) -> list[WorkerInfo]:
    return present(await store.work.living())


def _meant(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
