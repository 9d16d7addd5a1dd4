"""A schedule over HTTP as it is steered by hand: paused, skipped, run, backfilled, taken back."""

from typing import Final

from duly.app.calls_by_name import run_with, runs_without_event
from duly.app.schedules import taken_back
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schedules import zone_here
from duly.web.api.schemas.common import moment_in, when_in
from duly.web.api.schemas.schedules import (
    Backfilled,
    Backfilling,
    Due,
    Pause,
    Run,
    Schedule,
    SkipNext,
    Skipped,
)
from duly.web.request import WebRequest


async def pause(request: WebRequest, body: Pause) -> Schedule:
    until = when_in("until", body.until, zone=await zone_here(request))
    found = await request.app.schedules.apause(
        request.name("name"), until=until, note=body.note, catch_up=body.catch_up
    )
    return Schedule.of(found)


async def resume(request: WebRequest, _: Nothing) -> Schedule:
    return Schedule.of(await request.app.schedules.aresume(request.name("name")))


async def skip_next(request: WebRequest, body: SkipNext) -> Skipped:
    return Skipped(
        moments=await request.app.schedules.askip_next(request.name("name"), count=body.count)
    )


async def unskip(request: WebRequest, _: Nothing) -> Skipped:
    return Skipped(moments=await request.app.schedules.aunskip(request.name("name")))


async def run(request: WebRequest, body: Run) -> Due:
    name = request.name("name")
    args, registry = body.args, request.app.registry
    if args is None and not await request.app.ask(runs_without_event, registry, name):
        return Due.of(await request.app.schedules.arun(name))
    return Due.of(await request.app.ask(run_with, registry, name, args or {}))


async def backfill(request: WebRequest, body: Backfilling) -> Backfilled:
    zone = await zone_here(request)
    done = await request.app.schedules.abackfill(
        request.name("name"),
        moment_in("start", body.start, zone=zone),
        moment_in("end", body.end, zone=zone),
        dry_run=body.dry_run,
        again=body.again,
    )
    return Backfilled.of(done)


async def take_back(request: WebRequest, _: Nothing) -> Schedule:
    return Schedule.of(await request.app.ask(taken_back, request.name("name")))


def _listed(found: Skipped) -> str:
    first = f"{found.moments[0]:%Y-%m-%d %H:%M} UTC"
    return first if len(found.moments) == 1 else f"{len(found.moments)} moments from {first}"


STEERING: Final = (
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/pause",
        role="operator",
        run=pause,
        summary="Run nothing, until a time or until it is resumed",
        tag="schedules",
        body=Pause,
        answer=Schedule,
        say=lambda found: f"{found.name} is paused.",
        example={"until": "2h", "note": "the disk is full"},
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/resume",
        role="operator",
        run=resume,
        summary="Run again, from now on",
        tag="schedules",
        answer=Schedule,
        say=lambda found: f"{found.name} is resumed.",
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/skip-next",
        role="operator",
        run=skip_next,
        summary="Leave the next moments out",
        tag="schedules",
        body=SkipNext,
        answer=Skipped,
        say=lambda found: (
            f"Skipped {_listed(found)}." if found.moments else "No moment ahead can be skipped."
        ),
        example={"count": 1},
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/unskip",
        role="operator",
        run=unskip,
        summary="Take back every moment ahead that was skipped in advance",
        tag="schedules",
        answer=Skipped,
        say=lambda found: (
            f"{_listed(found)} will run again." if found.moments else "No moment ahead is skipped."
        ),
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/run",
        role="operator",
        run=run,
        summary="Run it once, now, under its own overlap policy",
        tag="schedules",
        body=Run,
        answer=Due,
        say=lambda found: (
            f"Job {found.job_id} is enqueued."
            if found.job_id is not None
            else f"It was not run: {found.reason}."
        ),
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/backfill",
        role="operator",
        run=backfill,
        summary="Run moments that have passed: all of them are queued, or none",
        tag="schedules",
        body=Backfilling,
        answer=Backfilled,
        say=lambda found: f"{len(found.queued):,} {'would be' if found.dry_run else 'are'} queued.",
        example={
            "start": "2026-03-05T00:00:00Z",
            "end": "2026-03-06T00:00:00Z",
            "dry_run": True,
        },
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/take-back",
        role="operator",
        run=take_back,
        summary="Undo what people have edited of a schedule that code declares",
        tag="schedules",
        answer=Schedule,
        say=lambda found: f"{found.name} is as the code says.",
    ),
)
