"""Queues, limits and workers over HTTP: how much may run, and who runs it."""

from collections.abc import Sequence
from typing import Final

from duly.model import queue as model
from duly.model.worker import WorkerInfo
from duly.views.capacity_facts import queue_fact, queue_facts
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.capacity import (
    Limit,
    LimitSet,
    Note,
    Queue,
    Scale,
    SetLimit,
    SetQueue,
    Stop,
    Worker,
)
from duly.web.api.schemas.common import Listed, said_in
from duly.web.request import Ask


async def queues(ask: Ask, _: Nothing) -> Listed[Queue]:
    return Listed(items=[Queue.of(one) for one in await ask.front.ask(queue_facts)])


async def pause_queue(ask: Ask, body: Note) -> Queue:
    return await _seen(ask, await ask.front.queues.apause(ask.name("name"), note=body.note))


async def resume_queue(ask: Ask, _: Nothing) -> Queue:
    return await _seen(ask, await ask.front.queues.aresume(ask.name("name")))


async def set_queue(ask: Ask, body: SetQueue) -> Queue:
    said = said_in(body, *body.__struct_fields__)
    return await _seen(ask, await ask.front.queues.aset(ask.name("name"), **said))


async def limits(ask: Ask, _: Nothing) -> Listed[Limit]:
    return Listed(items=[Limit.of(lane) for lane in await ask.front.limits.alist()])


async def set_limit(ask: Ask, body: SetLimit) -> LimitSet:
    name = ask.name("name")
    await ask.front.limits.aset(name, concurrency=body.concurrency, rate=body.rate)
    return LimitSet(name=name, concurrency=body.concurrency, rate=body.rate)


async def reset_limit(ask: Ask, _: Nothing) -> None:
    await ask.front.limits.areset(ask.name("name"))


async def workers(ask: Ask, _: Nothing) -> Listed[Worker]:
    return _told(await ask.front.workers.alist())


async def drain(ask: Ask, _: Nothing) -> Listed[Worker]:
    return _told(await ask.front.workers.adrain(ask.name("who")))


async def resume_worker(ask: Ask, _: Nothing) -> Listed[Worker]:
    return _told(await ask.front.workers.aresume(ask.name("who")))


async def stop(ask: Ask, body: Stop) -> Listed[Worker]:
    return _told(await ask.front.workers.astop(ask.name("who"), now=body.now))


async def scale(ask: Ask, body: Scale) -> Listed[Worker]:
    return _told(await ask.front.workers.ascale(ask.name("who"), concurrency=body.concurrency))


async def _seen(ask: Ask, queue: model.Queue) -> Queue:
    return Queue.of(await ask.front.ask(queue_fact, queue))


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
        body=Note,
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
        body=Stop,
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
