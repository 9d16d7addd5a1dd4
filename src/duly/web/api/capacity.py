"""Queues, limits and workers over HTTP: how much may run, and who runs it."""

from collections.abc import Sequence
from typing import Final

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
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.capacity import (
    LimitSet,
    NoteBody,
    Scale,
    SetLimit,
    SetQueue,
    StopBody,
)
from duly.web.api.schemas.common import said_in
from duly.web.request import WebRequest


async def queues(request: WebRequest, _: Nothing) -> Listed[QueueView]:
    return Listed(items=await request.app.ask(queue_list))


async def pause_queue(request: WebRequest, body: NoteBody) -> QueueView:
    return await _seen(
        request, await request.app.queues.apause(request.name("name"), note=body.note)
    )


async def resume_queue(request: WebRequest, _: Nothing) -> QueueView:
    return await _seen(request, await request.app.queues.aresume(request.name("name")))


async def set_queue(request: WebRequest, body: SetQueue) -> QueueView:
    said = said_in(body, *body.__struct_fields__)
    return await _seen(request, await request.app.queues.aset(request.name("name"), **said))


async def limits(request: WebRequest, _: Nothing) -> Listed[LimitView]:
    return Listed(items=await request.app.ask(limit_list))


async def set_limit(request: WebRequest, body: SetLimit) -> LimitSet:
    name = request.name("name")
    await request.app.limits.aset(name, concurrency=body.concurrency, rate=body.rate)
    return LimitSet(name=name, concurrency=body.concurrency, rate=body.rate)


async def reset_limit(request: WebRequest, _: Nothing) -> None:
    await request.app.limits.areset(request.name("name"))


async def workers(request: WebRequest, _: Nothing) -> Listed[WorkerView]:
    return _told(await request.app.workers.alist())


async def drain(request: WebRequest, _: Nothing) -> Listed[WorkerView]:
    return _told(await request.app.workers.adrain(request.name("who")))


async def resume_worker(request: WebRequest, _: Nothing) -> Listed[WorkerView]:
    return _told(await request.app.workers.aresume(request.name("who")))


async def stop(request: WebRequest, body: StopBody) -> Listed[WorkerView]:
    return _told(await request.app.workers.astop(request.name("who"), now=body.now))


async def scale(request: WebRequest, body: Scale) -> Listed[WorkerView]:
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


CAPACITY: Final = (
    Endpoint(
        method="GET",
        path="/queues",
        role="viewer",
        run=queues,
        summary="Queues that were set, that a worker listens to, or that hold jobs",
        tag="capacity",
        answer=Listed[QueueView],
    ),
    Endpoint(
        method="POST",
        path="/queues/{name:path}/pause",
        role="operator",
        run=pause_queue,
        summary="Begin nothing of it; what runs comes to its end",
        tag="capacity",
        body=NoteBody,
        answer=QueueView,
        say=lambda found: f"The queue {found.name} is paused.",
        example={"note": "the relay is down"},
    ),
    Endpoint(
        method="POST",
        path="/queues/{name:path}/resume",
        role="operator",
        run=resume_queue,
        summary="Begin jobs of it again",
        tag="capacity",
        answer=QueueView,
        say=lambda found: f"The queue {found.name} is resumed.",
    ),
    Endpoint(
        method="PUT",
        path="/queues/{name:path}",
        role="operator",
        run=set_queue,
        summary="Limit it in the whole cluster; what is left out stays",
        tag="capacity",
        body=SetQueue,
        answer=QueueView,
        say=lambda found: f"The queue {found.name} is set.",
        example={"concurrency": 20, "rate": "100/m", "fair": True},
    ),
    Endpoint(
        method="GET",
        path="/limits",
        role="viewer",
        run=limits,
        summary="Limits that jobs have met, the last used first",
        tag="capacity",
        answer=Listed[LimitView],
    ),
    Endpoint(
        method="PUT",
        path="/limits/{name:path}",
        role="operator",
        run=set_limit,
        summary="What counts for a limit, by its name or its template, whatever code says",
        tag="capacity",
        body=SetLimit,
        answer=LimitSet,
        say=lambda found: f"The limit {found.name} is set.",
        example={"concurrency": 1, "rate": "5/s"},
    ),
    Endpoint(
        method="DELETE",
        path="/limits/{name:path}",
        role="operator",
        run=reset_limit,
        summary="Let the code's word count again",
        tag="capacity",
        say=lambda _: "What code says counts again.",
    ),
    Endpoint(
        method="GET",
        path="/workers",
        role="viewer",
        run=workers,
        summary="Workers that live",
        tag="capacity",
        answer=Listed[WorkerView],
    ),
    Endpoint(
        method="POST",
        path="/workers/{who:path}/drain",
        role="operator",
        run=drain,
        summary="Begin nothing more there; what runs comes to its end",
        tag="capacity",
        answer=Listed[WorkerView],
        say=lambda found: f"{_names(found)} begins nothing more.",
        about="`who` is the number of a worker, or a name: then all who have it are told.",
    ),
    Endpoint(
        method="POST",
        path="/workers/{who:path}/resume",
        role="operator",
        run=resume_worker,
        summary="Begin jobs there again",
        tag="capacity",
        answer=Listed[WorkerView],
        say=lambda found: f"{_names(found)} runs jobs again.",
    ),
    Endpoint(
        method="POST",
        path="/workers/{who:path}/stop",
        role="operator",
        run=stop,
        summary="Finish what runs, and end",
        tag="capacity",
        body=StopBody,
        answer=Listed[WorkerView],
        say=lambda found: f"{_names(found)} is told to stop.",
        example={"now": False},
    ),
    Endpoint(
        method="POST",
        path="/workers/{who:path}/scale",
        role="operator",
        run=scale,
        summary="Have it run so many jobs at once",
        tag="capacity",
        body=Scale,
        answer=Listed[WorkerView],
        say=lambda found: f"{_names(found)} is told how many jobs to run at once.",
        example={"concurrency": 8},
    ),
)
