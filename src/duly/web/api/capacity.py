"""Queues, limits and workers over HTTP."""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from duly.model.limit import Queue
from duly.model.worker import WorkerInfo
from duly.views import Listed
from duly.views.capacity import (
    LimitView,
    QueueView,
    WorkerView,
    limit_list,
    queue_list,
    queue_view,
)
from duly.web.api.endpoint import Body, Router, Said, described, said_in
from duly.web.request import WebRequest

MOST_AT_ONCE = 1_000_000

Concurrency: TypeAlias = Annotated[
    int, described("Jobs that may run at once, in the whole cluster.", ge=1, le=MOST_AT_ONCE)
]
Rate: TypeAlias = Annotated[
    str, described("Rate at which jobs may start, as 5/s or 100/m.", examples=["100/m"])
]


class NoteBody(Body, frozen=True):
    """The reason, shown to others."""

    note: str = ""


class SetQueue(Body, frozen=True):
    """The limits of a queue; omitted fields stay unchanged, and null removes a limit."""

    concurrency: Concurrency | UnsetType | None = UNSET
    rate: Rate | UnsetType | None = UNSET
    fair: Annotated[bool | UnsetType, described("Whether tenants take turns.")] = UNSET


class SetLimit(Body, frozen=True):
    """The numbers of a limit, which override the code; null removes a limit."""

    concurrency: Concurrency | None = None
    rate: Rate | None = None


class StopBody(Body, frozen=True):
    """The timing of the request."""

    now: Annotated[bool, described("Also stop running jobs; other workers run them again.")] = False


class Scale(Body, frozen=True):
    """The number of jobs that a worker runs at once."""

    concurrency: Annotated[int, Meta(ge=1, le=10_000)]


class LimitSet(Said, frozen=True):
    """The numbers of a limit that are in effect now."""

    name: str
    concurrency: int | None
    rate: str | None


CAPACITY: Final = Router("capacity")


@CAPACITY("GET /queues", "viewer")
async def queues(request: WebRequest) -> Listed[QueueView]:
    """List queues that were configured, have a worker, or have jobs."""
    return Listed(items=await request.app.ask(queue_list))


@CAPACITY(
    "POST /queues/{name:path}/pause",
    "operator",
    say=lambda found: f"The queue {found.name} is paused.",
    example={"note": "the relay is down"},
)
async def pause_queue(request: WebRequest, name: str, body: NoteBody) -> QueueView:
    """Pause a queue: start no more jobs of it; running jobs finish."""
    return await _seen(request, await request.app.queues.apause(name, note=body.note))


@CAPACITY(
    "POST /queues/{name:path}/resume",
    "operator",
    say=lambda found: f"The queue {found.name} is resumed.",
)
async def resume_queue(request: WebRequest, name: str) -> QueueView:
    """Resume a queue."""
    return await _seen(request, await request.app.queues.aresume(name))


@CAPACITY(
    "PUT /queues/{name:path}",
    "operator",
    say=lambda found: f"The queue {found.name} is set.",
    example={"concurrency": 20, "rate": "100/m", "fair": True},
)
async def set_queue(request: WebRequest, name: str, body: SetQueue) -> QueueView:
    """Limit a queue in the whole cluster; omitted fields stay unchanged."""
    said = said_in(body, *body.__struct_fields__)
    return await _seen(request, await request.app.queues.aset(name, **said))


@CAPACITY("GET /limits", "viewer")
async def limits(request: WebRequest) -> Listed[LimitView]:
    """List limits that jobs have used, last used first."""
    return Listed(items=await request.app.ask(limit_list))


@CAPACITY(
    "PUT /limits/{name:path}",
    "operator",
    say=lambda found: f"The limit {found.name} is set.",
    example={"concurrency": 1, "rate": "5/s"},
)
async def set_limit(request: WebRequest, name: str, body: SetLimit) -> LimitSet:
    """Set a limit by its name or template; this overrides the code."""
    await request.app.limits.aset(name, concurrency=body.concurrency, rate=body.rate)
    return LimitSet(name=name, concurrency=body.concurrency, rate=body.rate)


@CAPACITY(
    "DELETE /limits/{name:path}", "operator", say=lambda _: "The limit of the code applies again."
)
async def reset_limit(request: WebRequest, name: str) -> None:
    """Remove the override of a limit; the limit of the code applies again."""
    await request.app.limits.areset(name)


@CAPACITY("GET /workers", "viewer")
async def workers(request: WebRequest) -> Listed[WorkerView]:
    """List running workers."""
    return _told(await request.app.workers.alist())


@CAPACITY(
    "POST /workers/{who:path}/drain",
    "operator",
    say=lambda found: f"{_names(found)} starts no more jobs.",
)
async def drain(request: WebRequest, who: str) -> Listed[WorkerView]:
    """Drain a worker: it starts no more jobs; running jobs finish.

    `who` is the number of a worker, or a name, which addresses all workers of that name.
    """
    return _told(await request.app.workers.adrain(who))


@CAPACITY(
    "POST /workers/{who:path}/resume",
    "operator",
    say=lambda found: f"{_names(found)} runs jobs again.",
)
async def resume_worker(request: WebRequest, who: str) -> Listed[WorkerView]:
    """Resume a worker."""
    return _told(await request.app.workers.aresume(who))


@CAPACITY(
    "POST /workers/{who:path}/stop",
    "operator",
    say=lambda found: f"{_names(found)} is told to stop.",
    example={"now": False},
)
async def stop(request: WebRequest, who: str, body: StopBody) -> Listed[WorkerView]:
    """Stop a worker: it finishes its jobs and ends."""
    return _told(await request.app.workers.astop(who, now=body.now))


@CAPACITY(
    "POST /workers/{who:path}/scale",
    "operator",
    say=lambda found: f"{_names(found)} changes how many jobs it runs at once.",
    example={"concurrency": 8},
)
async def scale(request: WebRequest, who: str, body: Scale) -> Listed[WorkerView]:
    """Change how many jobs a worker runs at once."""
    return _told(await request.app.workers.ascale(who, concurrency=body.concurrency))


async def _seen(request: WebRequest, queue: Queue) -> QueueView:
    return await request.app.ask(queue_view, queue)


def _told(found: Sequence[WorkerInfo]) -> Listed[WorkerView]:
    """Return the workers as they were when the order was recorded."""
    return Listed(items=[WorkerView.of(info) for info in found])


def _names(found: Listed[WorkerView]) -> str:
    return ", ".join(sorted({one.name for one in found.items}))
