"""Schedules over HTTP: what is to run when, what became of it, and all that can be done to it."""

import asyncio
from typing import Any, Final

from msgspec import UNSET

from duly.app.calls_by_name import edited_by_name, plan_named, run_with, runs_without_event
from duly.app.schedules import added, rewound, taken_back
from duly.clock import now
from duly.model.fire import Backfill
from duly.model.job import Owner
from duly.views import Listed
from duly.views.fires import FireView
from duly.views.schedule_detail import ScheduleChangeView, schedule_changes
from duly.views.schedules import RuleView, ScheduleView, rule_facts, schedule_moments, zone_of
from duly.views.why import WhyView, answer_schedule
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.common import moment_in, said_in, since_in, when_in
from duly.web.api.schemas.schedules import (
    Add,
    Backfilling,
    HistoryQuery,
    PauseBody,
    PolicyFields,
    PreviewQuery,
    RewindBody,
    RuleQuery,
    RunBody,
    ScheduleEdit,
    ScheduleQuery,
    SkipNext,
    Skipped,
    WhyQuery,
)
from duly.web.request import WebRequest

_WORDS: Final = tuple(PolicyFields.__struct_fields__)


async def schedules(request: WebRequest, query: ScheduleQuery) -> Listed[ScheduleView]:
    found = await request.app.schedules.alist(query.filter, after=query.after, limit=query.limit)
    after = found[-1].name if len(found) == query.limit else None
    return Listed(items=[ScheduleView.of(one) for one in found], next=after)


async def schedule(request: WebRequest, _: Nothing) -> ScheduleView:
    return ScheduleView.of(await request.app.schedules.aget(request.name("name")))


async def add(request: WebRequest, body: Add) -> ScheduleView:
    words = _words(body, request.app.backend.zone)
    plan = await asyncio.to_thread(
        plan_named,
        request.app.registry,
        body.name,
        body.rule,
        task=body.task,
        args=body.args,
        owner=Owner.PERSON if request.is_htmx else Owner.API,
        submitter=request.user.name,
        words={"zone": request.app.backend.zone, **words},
    )
    return ScheduleView.of(await request.app.ask(added, plan, body.if_exists))


async def edit(request: WebRequest, body: ScheduleEdit) -> ScheduleView:
    found = await request.app.ask(
        edited_by_name,
        request.app.registry,
        request.name("name"),
        rule=None if body.rule is UNSET else body.rule,
        args=None if body.args is UNSET else body.args,
        words=_words(body, await zone_here(request)),
    )
    return ScheduleView.of(found)


async def remove(request: WebRequest, _: Nothing) -> None:
    await request.app.schedules.aremove(request.name("name"))


async def history(request: WebRequest, query: HistoryQuery) -> Listed[FireView]:
    found = await request.app.schedules.ahistory(
        request.name("name"),
        since=since_in("since", query.since, now()),
        until=since_in("until", query.until, now()),
        limit=query.limit,
    )
    after = found[-1].due_at.isoformat() if len(found) == query.limit else None
    return Listed(items=[FireView.of(fire) for fire in found], next=after)


async def preview(request: WebRequest, query: PreviewQuery) -> RuleView:
    return await request.app.ask(schedule_moments, request.name("name"), count=query.count)


async def why(request: WebRequest, query: WhyQuery) -> WhyView:
    return await request.app.ask(answer_schedule, request.name("name"), query.at)


async def changed(request: WebRequest, _: Nothing) -> Listed[ScheduleChangeView]:
    return Listed(items=await request.app.ask(schedule_changes, request.name("name")))


async def next_moments(request: WebRequest, query: RuleQuery) -> RuleView:
    zone = query.zone or request.app.backend.zone
    return await request.app.ask(
        rule_facts, query.rule, zone=zone, dst=query.dst, count=query.count
    )


def _words(body: PolicyFields, zone: str | None) -> dict[str, Any]:
    """What was said, as ``@duly.schedule`` takes it."""
    said = said_in(body, *_WORDS)
    for bound in ("start", "end"):
        if said.get(bound) is not None:
            said[bound] = moment_in(bound, said[bound], zone=said.get("zone") or zone)
    if "tags" in said:
        said["tags"] = tuple(said["tags"])
    return said


async def zone_here(request: WebRequest) -> str | None:
    """On whose clock a time is meant that has no offset."""
    return await request.app.ask(zone_of, request.name("name")) or request.app.backend.zone


SCHEDULES: Final = (
    Endpoint(
        method="GET",
        path="/schedules",
        role="viewer",
        run=schedules,
        summary="Schedules that match, by name",
        tag="schedules",
        body=ScheduleQuery,
        answer=Listed[ScheduleView],
    ),
    Endpoint(
        method="POST",
        path="/schedules",
        role="operator",
        run=add,
        summary="Remember a schedule; its first moment is after now",
        tag="schedules",
        body=Add,
        answer=ScheduleView,
        status=201,
        say=lambda found: f"{found.name} is scheduled.",
        example={"name": "nightly", "rule": "02:00 Europe/Berlin", "task": "report"},
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}/history",
        role="viewer",
        run=history,
        summary="What became of its due moments, the newest first",
        tag="schedules",
        body=HistoryQuery,
        answer=Listed[FireView],
        about="For what is older, ask again with `until` as the `next` of this part.",
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}/preview",
        role="viewer",
        run=preview,
        summary="Its next moments, if nothing changes",
        tag="schedules",
        body=PreviewQuery,
        answer=RuleView,
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}/why",
        role="viewer",
        run=why,
        summary="What became of a due moment, and why",
        tag="schedules",
        body=WhyQuery,
        answer=WhyView,
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}/changes",
        role="viewer",
        run=changed,
        summary="Who changed it, and what",
        tag="schedules",
        answer=Listed[ScheduleChangeView],
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}",
        role="viewer",
        run=schedule,
        summary="A schedule, and where it stands",
        tag="schedules",
        answer=ScheduleView,
    ),
    Endpoint(
        method="PATCH",
        path="/schedules/{name:path}",
        role="operator",
        run=edit,
        summary="Change what is said, and nothing else; no moment becomes missed by it",
        tag="schedules",
        body=ScheduleEdit,
        answer=ScheduleView,
        say=lambda found: f"{found.name} is changed.",
        example={"rule": "03:00 Europe/Berlin", "start_within": "4h"},
    ),
    Endpoint(
        method="DELETE",
        path="/schedules/{name:path}",
        role="operator",
        run=remove,
        summary="Forget the schedule; its jobs stay",
        tag="schedules",
        say=lambda _: "Removed.",
        leads_to="/schedules",
    ),
    Endpoint(
        method="GET",
        path="/rules/next",
        role="viewer",
        run=next_moments,
        summary="What a rule means, when it is due, and what clock changes will do to it",
        tag="schedules",
        body=RuleQuery,
        answer=RuleView,
    ),
)


async def pause(request: WebRequest, body: PauseBody) -> ScheduleView:
    until = when_in("until", body.until, zone=await zone_here(request))
    found = await request.app.schedules.apause(
        request.name("name"), until=until, note=body.note, catch_up=body.catch_up
    )
    return ScheduleView.of(found)


async def resume(request: WebRequest, _: Nothing) -> ScheduleView:
    return ScheduleView.of(await request.app.schedules.aresume(request.name("name")))


async def skip_next(request: WebRequest, body: SkipNext) -> Skipped:
    return Skipped(
        moments=await request.app.schedules.askip_next(request.name("name"), count=body.count)
    )


async def unskip(request: WebRequest, _: Nothing) -> Skipped:
    return Skipped(moments=await request.app.schedules.aunskip(request.name("name")))


async def run(request: WebRequest, body: RunBody) -> FireView:
    name = request.name("name")
    args, registry = body.args, request.app.registry
    if args is None and not await request.app.ask(runs_without_event, registry, name):
        return FireView.of(await request.app.schedules.arun(name))
    return FireView.of(await request.app.ask(run_with, registry, name, args or {}))


async def backfill(request: WebRequest, body: Backfilling) -> Backfill:
    zone = await zone_here(request)
    return await request.app.schedules.abackfill(
        request.name("name"),
        moment_in("start", body.start, zone=zone),
        moment_in("end", body.end, zone=zone),
        dry_run=body.dry_run,
        again=body.again,
    )


async def rewind(request: WebRequest, body: RewindBody) -> ScheduleView:
    to = since_in("to", body.to, now(), zone=await zone_here(request))
    return ScheduleView.of(await request.app.ask(rewound, request.name("name"), to=to))


async def take_back(request: WebRequest, _: Nothing) -> ScheduleView:
    return ScheduleView.of(await request.app.ask(taken_back, request.name("name")))


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
        body=PauseBody,
        answer=ScheduleView,
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
        answer=ScheduleView,
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
        body=RunBody,
        answer=FireView,
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
        answer=Backfill,
        say=lambda found: f"{len(found.queued):,} {'would be' if found.dry_run else 'are'} queued.",
        example={
            "start": "2026-03-05T00:00:00Z",
            "end": "2026-03-06T00:00:00Z",
            "dry_run": True,
        },
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/rewind",
        role="admin",
        run=rewind,
        summary="Set its cursor back, after the database's clock was ahead; nothing runs twice",
        tag="schedules",
        body=RewindBody,
        answer=ScheduleView,
        say=lambda found: f"{found.name} is rewound.",
    ),
    Endpoint(
        method="POST",
        path="/schedules/{name:path}/take-back",
        role="operator",
        run=take_back,
        summary="Undo what people have edited of a schedule that code declares",
        tag="schedules",
        answer=ScheduleView,
        say=lambda found: f"{found.name} is as the code says.",
    ),
)
