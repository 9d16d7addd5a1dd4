"""Queues, limits and workers over HTTP: how much may run, and who runs it."""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from duly.model.queue import Queue
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
from duly.web.api.endpoint import Nothing, Router
from duly.web.api.fields import Body, Said, said_in
from duly.web.request import WebRequest

MOST_AT_ONCE = 1_000_000

Concurrency: TypeAlias = Annotated[
    int, Meta(ge=1, le=MOST_AT_ONCE, description="So many run at once, in the whole cluster.")
]
Rate: TypeAlias = Annotated[
    str, Meta(description="How often one may begin, as 5/s or 100/m.", examples=["100/m"])
]


class NoteBody(Body, frozen=True):
    """Why, for whoever wonders."""

    note: str = ""


class SetQueue(Body, frozen=True):
    """How much may run; what is left out stays as it is, and null is for no limit."""

    concurrency: Concurrency | UnsetType | None = UNSET
    rate: Rate | UnsetType | None = UNSET
    fair: Annotated[bool | UnsetType, Meta(description="Whether tenants take turns.")] = UNSET


class SetLimit(Body, frozen=True):
    """What counts for a limit from now on, whatever code says; null is for no limit."""

    concurrency: Concurrency | None = None
    rate: Rate | None = None


class StopBody(Body, frozen=True):
    """When."""

    now: Annotated[bool, Meta(description="Stop what runs, too; others run it again.")] = False


class Scale(Body, frozen=True):
    """How many jobs it runs at once."""

    concurrency: Annotated[int, Meta(ge=1, le=10_000)]


class LimitSet(Said, frozen=True):
    """What counts for a limit from now on."""

    name: str
    concurrency: int | None
    rate: str | None


CAPACITY: Final = Router("capacity")


@CAPACITY("GET /queues", "viewer")
async def queues(request: WebRequest, _: Nothing) -> Listed[QueueView]:
    """Queues that were set, that a worker listens to, or that hold jobs."""
    return Listed(items=await request.app.ask(queue_list))


@CAPACITY(
    "POST /queues/{name:path}/pause",
    "operator",
    say=lambda found: f"The queue {found.name} is paused.",
    example={"note": "the relay is down"},
)
async def pause_queue(request: WebRequest, body: NoteBody) -> QueueView:
    """Begin nothing of it; what runs comes to its end."""
    return await _seen(
        request, await request.app.queues.apause(request.name("name"), note=body.note)
    )


@CAPACITY(
    "POST /queues/{name:path}/resume",
    "operator",
    say=lambda found: f"The queue {found.name} is resumed.",
)
async def resume_queue(request: WebRequest, _: Nothing) -> QueueView:
    """Begin jobs of it again."""
    return await _seen(request, await request.app.queues.aresume(request.name("name")))


@CAPACITY(
    "PUT /queues/{name:path}",
    "operator",
    say=lambda found: f"The queue {found.name} is set.",
    example={"concurrency": 20, "rate": "100/m", "fair": True},
)
async def set_queue(request: WebRequest, body: SetQueue) -> QueueView:
    """Limit it in the whole cluster; what is left out stays."""
    said = said_in(body, *body.__struct_fields__)
    return await _seen(request, await request.app.queues.aset(request.name("name"), **said))


@CAPACITY("GET /limits", "viewer")
async def limits(request: WebRequest, _: Nothing) -> Listed[LimitView]:
    """Limits that jobs have met, the last used first."""
    return Listed(items=await request.app.ask(limit_list))


@CAPACITY(
    "PUT /limits/{name:path}",
    "operator",
    say=lambda found: f"The limit {found.name} is set.",
    example={"concurrency": 1, "rate": "5/s"},
)
async def set_limit(request: WebRequest, body: SetLimit) -> LimitSet:
    """What counts for a limit, by its name or its template, whatever code says."""
    name = request.name("name")
    await request.app.limits.aset(name, concurrency=body.concurrency, rate=body.rate)
    return LimitSet(name=name, concurrency=body.concurrency, rate=body.rate)


@CAPACITY("DELETE /limits/{name:path}", "operator", say=lambda _: "What code says counts again.")
async def reset_limit(request: WebRequest, _: Nothing) -> None:
    """Let the code's word count again."""
    await request.app.limits.areset(request.name("name"))


@CAPACITY("GET /workers", "viewer")
async def workers(request: WebRequest, _: Nothing) -> Listed[WorkerView]:
    """Workers that live."""
    return _told(await request.app.workers.alist())


@CAPACITY(
    "POST /workers/{who:path}/drain",
    "operator",
    say=lambda found: f"{_names(found)} begins nothing more.",
)
async def drain(request: WebRequest, _: Nothing) -> Listed[WorkerView]:
    """Begin nothing more there; what runs comes to its end.

    `who` is the number of a worker, or a name: then all who have it are told.
    """
    return _told(await request.app.workers.adrain(request.name("who")))


@CAPACITY(
    "POST /workers/{who:path}/resume",
    "operator",
    say=lambda found: f"{_names(found)} runs jobs again.",
)
async def resume_worker(request: WebRequest, _: Nothing) -> Listed[WorkerView]:
    """Begin jobs there again."""
    return _told(await request.app.workers.aresume(request.name("who")))


@CAPACITY(
    "POST /workers/{who:path}/stop",
    "operator",
    say=lambda found: f"{_names(found)} is told to stop.",
    example={"now": False},
)
async def stop(request: WebRequest, body: StopBody) -> Listed[WorkerView]:
    """Finish what runs, and end."""
    return _told(await request.app.workers.astop(request.name("who"), now=body.now))


@CAPACITY(
    "POST /workers/{who:path}/scale",
    "operator",
    say=lambda found: f"{_names(found)} is told how many jobs to run at once.",
    example={"concurrency": 8},
)
async def scale(request: WebRequest, body: Scale) -> Listed[WorkerView]:
    """Have it run so many jobs at once."""
    return _told(
        await request.app.workers.ascale(request.name("who"), concurrency=body.concurrency)
    )


async def _seen(request: WebRequest, queue: Queue) -> QueueView:
    return await request.app.ask(queue_view, queue)


def _told(found: Sequence[WorkerInfo]) -> Listed[WorkerView]:
    """As they were when they were told."""
    return Listed(items=[WorkerView.of(info) for info in found])


def _names(found: Listed[WorkerView]) -> str:
    return ", ".join(sorted({one.name for one in found.items}))
