"""Metrics in the OpenMetrics format, and whether work makes progress.

All numbers are counted in the store on request, so every node returns the same ones.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from duly.store.store import Store
from duly.store.values import OVERDUE, Depth, StoreProgress
from duly.version import __version__
from duly.views.workers import present

METRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_SPECIAL = re.compile(r"[\\\"\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Progress, not presence: how long what is due has been waiting for a scheduler."""

    ready: bool
    oldest_unfired_seconds: float
    oldest_undispatched_seconds: float


async def readiness(store: Store) -> Readiness:
    progress = await store.upkeep.progress()
    return Readiness(
        ready=progress.problem is None,
        oldest_unfired_seconds=round(progress.unfired_for.total_seconds(), 3),
        oldest_undispatched_seconds=round(_undispatched(progress), 3),
    )


async def metrics(store: Store) -> str:
    progress = await store.upkeep.progress()
    depths = await store.evidence.depths()
    workers = present(await store.surroundings.living())
    lines = [
        *_family("duly_info", "The version that answers.", [({"version": __version__}, 1)]),
        *_family(
            "duly_oldest_unfired_seconds",
            f"How long the oldest due moment waits for a scheduler; {OVERDUE.seconds} is trouble.",
            [({}, progress.unfired_for.total_seconds())],
        ),
        *_family(
            "duly_oldest_undispatched_seconds",
            "How long the oldest due job waits to be made ready.",
            [({}, _undispatched(progress))],
        ),
        *_family(
            "duly_faulty_schedules", "Schedules that cannot be fired.", [({}, len(progress.faulty))]
        ),
        *_family("duly_jobs", "Jobs that have not ended, up to 10,001 of a kind.", _jobs(depths)),
        *_family(
            "duly_oldest_ready_seconds",
            "How long the job that is claimed next has been ready.",
            [
                ({"queue": one.queue}, (progress.now - one.oldest_ready_at).total_seconds())
                for one in depths
                if one.oldest_ready_at is not None
            ],
        ),
        *_family("duly_workers", "Workers that live.", [({}, len(workers))]),
        *_family(
            "duly_worker_slots",
            "How many jobs a worker runs at once.",
            [({"worker": one.name, "id": str(one.id)}, one.profile.slots) for one in workers],
        ),
        *_family(
            "duly_worker_running",
            "How many it runs, as it last said.",
            [({"worker": one.name, "id": str(one.id)}, one.running) for one in workers],
        ),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _jobs(depths: Iterable[Depth]) -> list[tuple[dict[str, str], float]]:
    return [
        ({"queue": one.queue, "state": state}, number)
        for one in depths
        for state, number in (
            ("ready", one.ready),
            ("scheduled", one.scheduled),
            ("blocked", one.blocked),
            ("running", one.running),
        )
    ]


def _family(name: str, about: str, samples: list[tuple[dict[str, str], float]]) -> Iterator[str]:
    kind, family = ("info", name.removesuffix("_info")) if name == "duly_info" else ("gauge", name)
    yield f"# TYPE {family} {kind}"
    yield f"# HELP {family} {about}"
    for labels, number in samples:
        said = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
        yield f"{name}{f'{{{said}}}' if said else ''} {number:g}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\n" if found[0] == "\n" else f"\\{found[0]}", text)


def _undispatched(progress: StoreProgress) -> float:
    oldest = progress.oldest_undispatched
    return 0.0 if oldest is None else max((progress.now - oldest).total_seconds(), 0.0)
