"""Queues, limits and workers over HTTP: how much may run, and who runs it."""

from collections.abc import Sequence
from typing import Final

from duly.model import queue as model
from duly.model.worker import WorkerInfo
from duly.views import Listed
from duly.views.capacity import queue_fact, queue_facts
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.capacity import (
    Limit,
    LimitSet,
    NoteBody,
    Queue,
    Scale,
    SetLimit,
    SetQueue,
    StopBody,
    Worker,
)
from duly.web.api.schemas.common import said_in
from duly.web.request import WebRequest


async def queues(request: WebRequest, _: Nothing) -> Listed[Queue]:
    return Listed(items=[Queue.of(one) for one in await request.app.ask(queue_facts)])


async def pause_queue(request: WebRequest, body: NoteBody) -> Queue:
    return await _seen(
        request, await request.app.queues.apause(request.name("name"), note=body.note)
    )


async def resume_queue(request: WebRequest, _: Nothing) -> Queue:
    return await _seen(request, await request.app.queues.aresume(request.name("name")))


async def set_queue(request: WebRequest, body: SetQueue) -> Queue:
    said = said_in(body, *body.__struct_fields__)
    return await _seen(request, await request.app.queues.aset(request.name("name"), **said))


async def limits(request: WebRequest, _: Nothing) -> Listed[Limit]:
    return Listed(items=[Limit.of(lane) for lane in await request.app.limits.alist()])


async def set_limit(request: WebRequest, body: SetLimit) -> LimitSet:
    name = request.name("name")
    await request.app.limits.aset(name, concurrency=body.concurrency, rate=body.rate)
    return LimitSet(name=name, concurrency=body.concurrency, rate=body.rate)


async def reset_limit(request: WebRequest, _: Nothing) -> None:
    await request.app.limits.areset(request.name("name"))


async def workers(request: WebRequest, _: Nothing) -> Listed[Worker]:
    return _told(await request.app.workers.alist())


async def drain(request: WebRequest, _: Nothing) -> Listed[Worker]:
    return _told(await request.app.workers.adrain(request.name("who")))


async def resume_worker(request: WebRequest, _: Nothing) -> Listed[Worker]:
    return _told(await request.app.workers.aresume(request.name("who")))


async def stop(request: WebRequest, body: StopBody) -> Listed[Worker]:
    return _told(await request.app.workers.astop(request.name("who"), now=body.now))


async def scale(request: WebRequest, body: Scale) -> Listed[Worker]:
    return _told(
        await request.app.workers.ascale(request.name("who"), concurrency=body.concurrency)
    )


async def _seen(request: WebRequest, queue: model.Queue) -> Queue:
    return Queue.of(await request.app.ask(queue_fact, queue))


def _told(found: Sequence[WorkerInfo]) -> Listed[Worker]:
    """As they were when they were told."""
    return Listed(items=[Worker.of(info) for info in found])


def _names(found: Listed[Worker]) -> str:
    return ", ".join(sorted({one.name for one in found.items}))


CAPACITY: Final = (
    Endpoint(
        method="GET",
        path="/queues",
        role="viewer",
        run=queues,
        summary="Queues that were set, that a worker listens to, or that hold jobs",
        tag="capacity",
        answer=Listed[Queue],
    ),
    Endpoint(
        method="POST",
        path="/queues/{name:path}/pause",
        role="operator",
        run=pause_queue,
        summary="Begin nothing of it; what runs comes to its end",
        tag="capacity",
        body=NoteBody,
        answer=Queue,
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
        answer=Queue,
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
        answer=Queue,
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
        answer=Listed[Limit],
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
        answer=Listed[Worker],
    ),
    Endpoint(
        method="POST",
        path="/workers/{who:path}/drain",
        role="operator",
        run=drain,
        summary="Begin nothing more there; what runs comes to its end",
        tag="capacity",
        answer=Listed[Worker],
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
        answer=Listed[Worker],
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
        answer=Listed[Worker],
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
        answer=Listed[Worker],
        say=lambda found: f"{_names(found)} is told how many jobs to run at once.",
        example={"concurrency": 8},
    ),
)
