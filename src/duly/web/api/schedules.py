"""Schedules over HTTP: what is to run when, what became of it, and all that can be done to it."""

import asyncio
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET

from duly.app.calls_by_name import edited_by_name, plan_named
from duly.app.schedules import added
from duly.clock import now
from duly.model.job import Owner
from duly.policy.redaction import redacted
from duly.rules import local_time
from duly.views.schedule_facts import RuleFacts, changes, rule_facts, schedule_moments
from duly.views.schedules import zone_of
from duly.views.why import answer_schedule
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.common import Listed, Why, moment_in, said_in, since_in
from duly.web.api.schemas.schedules import (
    Add,
    Change,
    Due,
    Edit,
    HistoryQuery,
    Moment,
    Moments,
    Policies,
    PreviewQuery,
    RuleQuery,
    Schedule,
    ScheduleQuery,
    WhyQuery,
)
from duly.web.request import WebRequest

_WORDS: Final = tuple(Policies.__struct_fields__)


async def schedules(request: WebRequest, query: ScheduleQuery) -> Listed[Schedule]:
    found = await request.app.schedules.alist(query.filter, after=query.after, limit=query.limit)
    after = found[-1].name if len(found) == query.limit else None
    return Listed(items=[Schedule.of(one) for one in found], next=after)


async def schedule(request: WebRequest, _: Nothing) -> Schedule:
    return Schedule.of(await request.app.schedules.aget(request.name("name")))


async def add(request: WebRequest, body: Add) -> Schedule:
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
    return Schedule.of(await request.app.ask(added, plan, body.if_exists))


async def edit(request: WebRequest, body: Edit) -> Schedule:
    found = await request.app.ask(
        edited_by_name,
        request.app.registry,
        request.name("name"),
        rule=None if body.rule is UNSET else body.rule,
        args=None if body.args is UNSET else body.args,
        words=_words(body, await zone_here(request)),
    )
    return Schedule.of(found)


async def remove(request: WebRequest, _: Nothing) -> None:
    await request.app.schedules.aremove(request.name("name"))


async def history(request: WebRequest, query: HistoryQuery) -> Listed[Due]:
    found = await request.app.schedules.ahistory(
        request.name("name"),
        since=since_in("since", query.since, now()),
        until=since_in("until", query.until, now()),
        limit=query.limit,
    )
    after = found[-1].due_at.isoformat() if len(found) == query.limit else None
    return Listed(items=[Due.of(fire) for fire in found], next=after)


async def preview(request: WebRequest, query: PreviewQuery) -> Moments:
    return _moments(
        await request.app.ask(schedule_moments, request.name("name"), count=query.count)
    )


async def why(request: WebRequest, query: WhyQuery) -> Why:
    return Why.of(await request.app.ask(answer_schedule, request.name("name"), query.at))


async def changed(request: WebRequest, _: Nothing) -> Listed[Change]:
    found = await request.app.ask(changes, request.name("name"))
    return Listed(items=[Change(at=at, by=who, what=redacted(what)) for at, who, what in found])


async def next_moments(request: WebRequest, query: RuleQuery) -> Moments:
    zone = query.zone or request.app.backend.zone
    found = await request.app.ask(
        rule_facts, query.rule, zone=zone, dst=query.dst, count=query.count
    )
    return _moments(found)


def _words(body: Policies, zone: str | None) -> dict[str, Any]:
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


def _moments(found: RuleFacts) -> Moments:
    return Moments(
        sentence=found.sentence,
        zone=found.zone,
        items=[Moment(at=moment, local=_local(moment, found.zone)) for moment in found.moments],
        notes=list(found.notes),
    )


def _local(moment: datetime, zone: str | None) -> str:
    return local_time(moment, zone or "UTC").isoformat()


SCHEDULES: Final = (
    Endpoint(
        method="GET",
        path="/schedules",
        role="viewer",
        run=schedules,
        summary="Schedules that match, by name",
        tag="schedules",
        body=ScheduleQuery,
        answer=Listed[Schedule],
    ),
    Endpoint(
        method="POST",
        path="/schedules",
        role="operator",
        run=add,
        summary="Remember a schedule; its first moment is after now",
        tag="schedules",
        body=Add,
        answer=Schedule,
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
        answer=Listed[Due],
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
        answer=Moments,
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}/why",
        role="viewer",
        run=why,
        summary="What became of a due moment, and why",
        tag="schedules",
        body=WhyQuery,
        answer=Why,
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}/changes",
        role="viewer",
        run=changed,
        summary="Who changed it, and what",
        tag="schedules",
        answer=Listed[Change],
    ),
    Endpoint(
        method="GET",
        path="/schedules/{name:path}",
        role="viewer",
        run=schedule,
        summary="A schedule, and where it stands",
        tag="schedules",
        answer=Schedule,
    ),
    Endpoint(
        method="PATCH",
        path="/schedules/{name:path}",
        role="operator",
        run=edit,
        summary="Change what is said, and nothing else; no moment becomes missed by it",
        tag="schedules",
        body=Edit,
        answer=Schedule,
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
        answer=Moments,
    ),
)
