"""Metrics in the OpenMetrics format, and whether work makes progress.

All numbers are of the whole store, so every node returns the same ones. Gauges are counted on
request; counters and histograms are kept in the store by the meter.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from duly import clock
from duly.clock import boottime
from duly.engine.death_watch import present
from duly.model.alert import KINDS
from duly.model.worker import WorkerInfo
from duly.store.activity import LENGTHS, Depth
from duly.store.counters import MOST_NAMES, OTHER, Durations
from duly.store.maintenance import OVERDUE, StoreProgress
from duly.store.store import Store
from duly.version import __version__

METRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
MICROSECONDS: Final = 1_000_000
_STATES: Final = ("ready", "scheduled", "blocked", "running")
_SPECIAL = re.compile(r"[\\\"\n]")

Samples: TypeAlias = list[tuple[dict[str, str], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The time for which due work has been waiting for a scheduler."""

    ready: bool
    oldest_unfired_seconds: float
    oldest_undispatched_seconds: float


async def readiness(store: Store) -> Readiness:
    progress = await store.maintenance.progress()
    return Readiness(
        ready=progress.problem is None,
        oldest_unfired_seconds=round(progress.unfired_for.total_seconds(), 3),
        oldest_undispatched_seconds=round(_undispatched(progress), 3),
    )


class MetricFamily(NamedTuple):
    """A metric with its samples; those of a histogram are its durations by one label."""

    kind: Literal["info", "gauge", "counter", "histogram"]
    name: str
    about: str
    samples: Samples | tuple[str, Mapping[str, Durations]]


async def metrics(store: Store) -> str:
    families = [*await _gauges(store), *await _counters(store)]
    return "\n".join([line for family in families for line in _lines(family)] + ["# EOF", ""])


async def _gauges(store: Store) -> list[MetricFamily]:
    skew = await _clock_skew(store)
    progress = await store.maintenance.progress()
    depths = await store.activity.depths()
    workers = present(await store.diagnostics.living())
    dead_rows = await store.diagnostics.dead_rows()
    alerts = await store.alerts.open()
    unsent = await store.alerts.messages(pending=True)
    return [
        MetricFamily("info", "duly", "The version that answers.", [({"version": __version__}, 1)]),
        *_of_progress(progress),
        *_of_queues(_shown(depths, workers), progress.now),
        *_of_workers(workers),
        _gauge(
            "clock_skew_seconds",
            "How far the database's clock is ahead of the clock of the process that answers.",
            skew,
        ),
        _gauge(
            "dead_tuples",
            "Rows of a table that wait for vacuum; on PostgreSQL only.",
            [({"table": table}, count) for table, count in dead_rows.items()],
        ),
        _gauge(
            "alerts",
            "Problems that are open.",
            sum(one.problem.kind in KINDS and not one.resolved_at for one in alerts),
        ),
        _gauge("unsent_alert_messages", "Alerts and pings in the outbox, up to 100.", len(unsent)),
    ]


def _gauge(name: str, about: str, found: Samples | float) -> MetricFamily:
    samples = found if isinstance(found, list) else [({}, found)]
    return MetricFamily("gauge", f"duly_{name}", about, samples)


def _of_progress(progress: StoreProgress) -> Iterator[MetricFamily]:
    yield _gauge(
        "oldest_unfired_seconds",
        f"How long the oldest due run waits for a scheduler; {OVERDUE.seconds} is trouble.",
        progress.unfired_for.total_seconds(),
    )
    yield _gauge(
        "oldest_undispatched_seconds",
        "How long the oldest due job waits to be made ready.",
        _undispatched(progress),
    )
    yield _gauge("faulty_schedules", "Schedules that cannot be fired.", len(progress.faulty))


def _of_queues(depths: Sequence[Depth], now: datetime) -> Iterator[MetricFamily]:
    yield _gauge(
        "jobs",
        "Jobs that have not ended, up to 10,001 of a kind.",
        [
            ({"queue": one.queue, "state": state}, getattr(one, state))
            for one in depths
            for state in _STATES
        ],
    )
    yield _gauge(
        "oldest_ready_seconds",
        "How long the job that is claimed next has been ready.",
        [
            ({"queue": one.queue}, (now - (one.oldest_ready_at or now)).total_seconds())
            for one in depths
        ],
    )


def _shown(depths: Sequence[Depth], workers: Sequence[WorkerInfo]) -> list[Depth]:
    """Return the queues that have jobs or workers: the fullest of many, the others as one."""
    known = {queue: Depth(queue=queue) for one in workers for queue in one.queues}
    known |= {one.queue: one for one in depths}
    most_first = sorted(known.values(), key=lambda one: (-_size(one), one.queue))
    shown, others = most_first[:MOST_NAMES], most_first[MOST_NAMES:]
    shown.sort(key=lambda one: one.queue)
    if others:
        since = [one.oldest_ready_at for one in others if one.oldest_ready_at is not None]
        numbers = {state: sum(getattr(one, state) for one in others) for state in _STATES}
        shown.append(Depth(queue=OTHER, oldest_ready_at=min(since, default=None), **numbers))
    return shown


def _size(depth: Depth) -> int:
    return sum(getattr(depth, state) for state in _STATES)


def _of_workers(workers: Sequence[WorkerInfo]) -> Iterator[MetricFamily]:
    labels = [{"worker": one.name, "id": str(one.id)} for one in workers]
    slots = [one.profile.slots for one in workers]
    running = [one.running for one in workers]
    yield _gauge("workers", "Workers that live.", len(workers))
    yield _gauge(
        "worker_slots",
        "How many jobs a worker runs at once.",
        list(zip(labels, slots, strict=True)),
    )
    yield _gauge(
        "worker_running",
        "How many it runs, as it last said.",
        list(zip(labels, running, strict=True)),
    )


async def _counters(store: Store) -> list[MetricFamily]:
    counters = await store.maintenance.counters()
    jobs = [
        ({"task": task, "queue": queue, "outcome": outcome}, float(count))
        for task, queues in counters.jobs.items()
        for queue, outcomes in queues.items()
        for outcome, count in outcomes.items()
    ]
    fires = [
        ({"outcome": outcome, "cause": cause}, float(count))
        for outcome, causes in counters.fires.items()
        for cause, count in causes.items()
    ]
    ended = "Jobs by how they ended, and attempts after which a job was retried."
    waited = "How long jobs were ready before they started."
    late = "How long after their due time jobs of schedules started."
    return [
        MetricFamily("counter", "duly_job_outcomes", ended, jobs),
        MetricFamily("counter", "duly_fires", "Moments of schedules that were decided.", fires),
        _histogram("wait", waited, ("queue", counters.wait)),
        _histogram("run", "How long attempts ran.", ("task", counters.run)),
        _histogram("lateness", late, ("queue", counters.lateness)),
    ]


def _histogram(name: str, about: str, found: tuple[str, Mapping[str, Durations]]) -> MetricFamily:
    return MetricFamily("histogram", f"duly_job_{name}_seconds", about, found)


async def _clock_skew(store: Store) -> float:
    """Return how far the database's clock is ahead of ours; half of the round trip is its own."""
    began, ours = boottime(), clock.now()
    theirs = await store.diagnostics.now()
    return (theirs - ours).total_seconds() - (boottime() - began) / 2


def _lines(family: MetricFamily) -> Iterator[str]:
    kind, name, about, samples = family
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {about}"
    if isinstance(samples, tuple):
        yield from _histograms(name, *samples)
        return
    suffix = {"info": "_info", "counter": "_total"}.get(kind, "")
    for labels, number in samples:
        yield _sample(f"{name}{suffix}", labels, number)


def _histograms(name: str, label: str, durations: Mapping[str, Durations]) -> Iterator[str]:
    for value, found in durations.items():
        count = 0
        for bound, more in zip((*LENGTHS, None), found.counts, strict=True):
            count += more
            limit = "+Inf" if bound is None else f"{bound / MICROSECONDS}"
            yield _sample(f"{name}_bucket", {label: value, "le": limit}, count)
        yield _sample(f"{name}_count", {label: value}, count)
        yield _sample(f"{name}_sum", {label: value}, found.total / MICROSECONDS)


def _sample(name: str, labels: Mapping[str, str], number: float) -> str:
    said = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
    return f"{name}{f'{{{said}}}' if said else ''} {number:.15g}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\n" if found[0] == "\n" else f"\\{found[0]}", text)


def _undispatched(progress: StoreProgress) -> float:
    oldest = progress.oldest_undispatched
    return 0.0 if oldest is None else max((progress.now - oldest).total_seconds(), 0.0)
