"""Schedules over HTTP: list, add, change, pause, run, backfill; their history and previews."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, defstruct, field

from duly.app.calls_by_name import edited_by_name, plan_named, run_with, runs_without_event
from duly.app.schedules import added, rewound, taken_back
from duly.model.fire import Backfill
from duly.model.job import Owner
from duly.model.schedule_fields import ScheduleField, fields_on
from duly.model.schedule_filter import parse_schedule_filter
from duly.views import Listed
from duly.views.access import own_filter
from duly.views.fires import FireView
from duly.views.schedule_detail import ScheduleChangeView, schedule_changes
from duly.views.schedules import RuleView, ScheduleView, rule_facts, schedule_moments, zone_of
from duly.views.times import read_moment
from duly.views.why import WhyView, answer_schedule
from duly.web.api.endpoint import (
    Body,
    Limit,
    Router,
    Said,
    Since,
    When,
    described,
    said_in,
    since_in,
    when_in,
)
from duly.web.api.jobs import Arguments, Priority
from duly.web.request import WebRequest

MOST_MOMENTS = 1_000

Rule: TypeAlias = Annotated[
    str,
    described(
        "A cron line, a calendar expression, an interval, a time or a recurrence.",
        examples=["Mon..Fri 02:00 Europe/Berlin"],
    ),
]
Dst: TypeAlias = Annotated[
    str, described("Effect of clock changes: cron, systemd, elapsed, quartz, or GAP/FOLD.")
]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_MOMENTS)]


def _member(one: ScheduleField) -> tuple[str, Any, UnsetType]:
    """Return the field of the body, which is not the same as null if it is omitted."""
    examples = [one.example] if one.kind == "length" and one.example else None
    kind: Any = Literal[tuple(one.choices)] if one.choices else _KINDS.get(one.kind, str)
    if one.most:
        kind = Annotated[int, Meta(ge=1, le=one.most)]
    if one.optional:
        kind |= None
    return one.name, Annotated[kind | UnsetType, described(one.about, examples=examples)], UNSET


_KINDS: Final = {"tags": list[str], "priority": Priority}
_MEMBERS: Final = {one.name: one for one in fields_on("api")}

if TYPE_CHECKING:

    class PolicyFields(Body, frozen=True, kw_only=True):
        """Options beside the rule and the task. Omitted options stay, or have their default."""

else:
    PolicyFields = defstruct(
        "PolicyFields",
        [_member(one) for one in _MEMBERS.values()],
        bases=(Body,),
        frozen=True,
        kw_only=True,
    )


class Add(PolicyFields, frozen=True, kw_only=True):
    """A new schedule: a rule, and the task that it runs."""

    name: Annotated[str, Meta(min_length=1)]
    rule: Rule
    task: Annotated[str, Meta(min_length=1)]
    args: Arguments = field(default_factory=dict)
    paused: Annotated[bool, described("Add it paused: nothing runs until then.")] = False
    if_exists: Annotated[
        Literal["error", "replace", "keep"], described("Policy if the name is taken.")
    ] = "error"


class ScheduleEdit(PolicyFields, frozen=True, kw_only=True):
    """The fields to change. In arguments, *** keeps a hidden value if no other value changes."""

    rule: Rule | UnsetType = UNSET
    args: Arguments | UnsetType = UNSET


class ScheduleQuery(Body, frozen=True):
    """A page of schedules."""

    filter: Annotated[
        str, described("As state:paused owner:code start:event nightly. Empty: all.")
    ] = ""
    after: Annotated[str, described("After this name: the `next` of the previous page.")] = ""
    limit: Limit = 100


class PauseBody(Body, frozen=True):
    """The duration and the reason of a pause."""

    until: When | None = None
    note: str = ""
    catch_up: Annotated[
        bool, described("Treat runs during the pause as missed, instead of skipping them.")
    ] = False


class SkipNext(Body, frozen=True):
    """The number of upcoming runs to skip."""

    count: Annotated[int, Meta(ge=1, le=100)] = 1


class RewindBody(Body, frozen=True):
    """The time from which runs are decided again; runs that were fired are not fired twice."""

    to: Annotated[Since | None, described("null: continue from now.")] = None


class RunBody(Body, frozen=True):
    """Other arguments than the schedule has.

    With them, a job of the schedule's task is enqueued beside the schedule, whatever still runs.
    """

    args: Arguments | None = None


class Backfilling(Body, frozen=True):
    """The past runs to make now: from `start` up to `end` (exclusive)."""

    start: Annotated[str, Meta(examples=["2026-03-05T00:00:00Z"])]
    end: Annotated[str, Meta(examples=["2026-03-06T00:00:00Z"])]
    dry_run: Annotated[bool, described("Return the result without changing anything.")] = False
    again: Annotated[bool, described("Also run those that have run.")] = False


class HistoryQuery(Body, frozen=True):
    """A page of due runs."""

    since: Since | None = None
    until: Annotated[
        Since | None, described("Before this time: the `next` of the previous page.")
    ] = None
    limit: Limit = 100


class PreviewQuery(Body, frozen=True):
    """The number of runs."""

    count: Count = 10


class WhyQuery(Body, frozen=True):
    """The run to explain; default: the last."""

    at: Annotated[
        str | None, described("A time, as 02:00, yesterday 02:00 or 2026-03-05T02:00:00Z.")
    ] = None


class RuleQuery(Body, frozen=True):
    """A rule to preview."""

    rule: Rule
    zone: str | None = None
    count: Count = 10
    dst: Dst = "cron"


class Skipped(Said, frozen=True):
    """The runs that were skipped, or restored."""

    moments: list[datetime]


SCHEDULES: Final = Router("schedules", tenants=True)


@SCHEDULES(
    "POST /schedules/{name:path}/pause",
    "operator",
    say=lambda found: f"{found.name} is paused.",
    example={"until": "2h", "note": "the disk is full"},
)
async def pause(request: WebRequest, name: str, body: PauseBody) -> ScheduleView:
    """Pause a schedule, until a time or until it is resumed."""
    until = when_in("until", body.until, zone=await zone_here(request))
    found = await request.app.schedules.apause(
        name, until=until, note=body.note, catch_up=body.catch_up
    )
    return ScheduleView.of(found)


@SCHEDULES(
    "POST /schedules/{name:path}/resume",
    "operator",
    say=lambda found: f"{found.name} is resumed.",
)
async def resume(request: WebRequest, name: str) -> ScheduleView:
    """Resume a schedule, from now on."""
    return ScheduleView.of(await request.app.schedules.aresume(name))


@SCHEDULES(
    "POST /schedules/{name:path}/skip-next",
    "operator",
    say=lambda found: (
        f"Skipped {_listed(found)}." if found.moments else "There is no upcoming run to skip."
    ),
    example={"count": 1},
)
async def skip_next(request: WebRequest, name: str, body: SkipNext) -> Skipped:
    """Skip the next runs."""
    return Skipped(moments=await request.app.schedules.askip_next(name, count=body.count))


@SCHEDULES(
    "POST /schedules/{name:path}/unskip",
    "operator",
    say=lambda found: (
        f"{_listed(found)} will run again." if found.moments else "No upcoming run is skipped."
    ),
)
async def unskip(request: WebRequest, name: str) -> Skipped:
    """Restore every upcoming run that was skipped in advance."""
    return Skipped(moments=await request.app.schedules.aunskip(name))


@SCHEDULES(
    "POST /schedules/{name:path}/run",
    "operator",
    say=lambda found: (
        f"Job {found.job_id} is enqueued."
        if found.job_id is not None
        else f"It was not run: {found.reason}."
    ),
)
async def run(request: WebRequest, name: str, body: RunBody) -> FireView:
    """Run a schedule once, now, under its own overlap policy."""
    args, registry = body.args, request.app.registry
    if args is None and not await request.app.ask(runs_without_event, registry, name):
        return FireView.of(await request.app.schedules.arun(name))
    return FireView.of(await request.app.ask(run_with, registry, name, args or {}))


@SCHEDULES(
    "POST /schedules/{name:path}/backfill",
    "operator",
    say=lambda found: f"{len(found.queued):,} {'would be' if found.dry_run else 'are'} queued.",
    example={
        "start": "2026-03-05T00:00:00Z",
        "end": "2026-03-06T00:00:00Z",
        "dry_run": True,
    },
)
async def backfill(request: WebRequest, name: str, body: Backfilling) -> Backfill:
    """Backfill past runs: all are queued, or none."""
    zone = await zone_here(request)
    return await request.app.schedules.abackfill(
        name,
        read_moment(body.start, what="start", zone=zone),
        read_moment(body.end, what="end", zone=zone),
        dry_run=body.dry_run,
        again=body.again,
    )


@SCHEDULES(
    "POST /schedules/{name:path}/rewind", "admin", say=lambda found: f"{found.name} is rewound."
)
async def rewind(request: WebRequest, name: str, body: RewindBody) -> ScheduleView:
    """Rewind a schedule after the database's clock was ahead; nothing runs twice."""
    to = since_in("to", body.to, zone=await zone_here(request))
    return ScheduleView.of(await request.app.ask(rewound, name, to=to))


@SCHEDULES(
    "POST /schedules/{name:path}/take-back",
    "operator",
    say=lambda found: f"{found.name} is as the code says.",
)
async def take_back(request: WebRequest, name: str) -> ScheduleView:
    """Revert a schedule to its declaration in code."""
    return ScheduleView.of(await request.app.ask(taken_back, name))


@SCHEDULES("GET /schedules", "viewer")
async def schedules(request: WebRequest, query: ScheduleQuery) -> Listed[ScheduleView]:
    """List matching schedules by name."""
    wanted = own_filter(parse_schedule_filter(query.filter), request.user.tenant)
    found = await request.app.schedules.alist(str(wanted), after=query.after, limit=query.limit)
    after = found[-1].name if len(found) == query.limit else None
    return Listed(items=[ScheduleView.of(one) for one in found], next=after)


@SCHEDULES(
    "POST /schedules",
    "operator",
    status=201,
    say=lambda found: f"{found.name} is scheduled.",
    example={"name": "nightly", "rule": "02:00 Europe/Berlin", "task": "report"},
)
async def add(request: WebRequest, body: Add) -> ScheduleView:
    """Add a schedule; its first run is in the future."""
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
    found = await request.app.ask_own(added, plan, body.if_exists, paused=body.paused)
    return ScheduleView.of(found)


@SCHEDULES("GET /schedules/{name:path}/history", "viewer")
async def history(request: WebRequest, name: str, query: HistoryQuery) -> Listed[FireView]:
    """List the history of a schedule: its due runs and their outcomes, newest first.

    For older runs, pass the `next` of this page as `until`.
    """
    found = await request.app.schedules.ahistory(
        name,
        since=since_in("since", query.since),
        until=since_in("until", query.until),
        limit=query.limit,
    )
    after = found[-1].due_at.isoformat() if len(found) == query.limit else None
    return Listed(items=[FireView.of(fire) for fire in found], next=after)


@SCHEDULES("GET /schedules/{name:path}/preview", "viewer")
async def preview(request: WebRequest, name: str, query: PreviewQuery) -> RuleView:
    """Preview the next runs of a schedule."""
    return await request.app.ask(schedule_moments, name, count=query.count)


@SCHEDULES("GET /schedules/{name:path}/why", "viewer")
async def why(request: WebRequest, name: str, query: WhyQuery) -> WhyView:
    """Explain the outcome of a scheduled run."""
    return await request.app.ask(answer_schedule, name, query.at)


@SCHEDULES("GET /schedules/{name:path}/changes", "viewer")
async def changed(request: WebRequest, name: str) -> Listed[ScheduleChangeView]:
    """List the changes of a schedule: who changed which field."""
    return Listed(items=await request.app.ask(schedule_changes, name))


@SCHEDULES("GET /schedules/{name:path}", "viewer")
async def schedule(request: WebRequest, name: str) -> ScheduleView:
    """Show a schedule."""
    return ScheduleView.of(await request.app.schedules.aget(name))


@SCHEDULES(
    "PATCH /schedules/{name:path}",
    "operator",
    say=lambda found: f"{found.name} is changed.",
    example={"rule": "03:00 Europe/Berlin", "start_within": "4h"},
)
async def edit(request: WebRequest, name: str, body: ScheduleEdit) -> ScheduleView:
    """Change the given fields of a schedule; an edit never makes runs missed."""
    found = await request.app.ask_own(
        edited_by_name,
        request.app.registry,
        name,
        rule=None if body.rule is UNSET else body.rule,
        args=None if body.args is UNSET else body.args,
        words=_words(body, await zone_here(request)),
    )
    return ScheduleView.of(found)


@SCHEDULES(
    "DELETE /schedules/{name:path}", "operator", say=lambda _: "Removed.", leads_to="/schedules"
)
async def remove(request: WebRequest, name: str) -> None:
    """Remove a schedule; its jobs stay."""
    await request.app.schedules.aremove(name)


@SCHEDULES("GET /rules/next", "viewer")
async def next_moments(request: WebRequest, query: RuleQuery) -> RuleView:
    """Explain a rule: in words, its next times, and the effect of clock changes."""
    zone = query.zone or request.app.backend.zone
    return await request.app.ask(
        rule_facts, query.rule, zone=zone, dst=query.dst, count=query.count
    )


def _words(body: PolicyFields, zone: str | None) -> dict[str, Any]:
    """Return the given options, in the form that ``@duly.schedule`` takes."""
    said = said_in(body, *_MEMBERS)
    for name, value in said.items():
        if _MEMBERS[name].kind == "moment" and value is not None:
            said[name] = read_moment(value, what=name, zone=said.get("zone") or zone)
    return said


async def zone_here(request: WebRequest) -> str | None:
    """Return the zone of times without an offset: the schedule's, or the configured one."""
    return await request.app.ask(zone_of, request.name("name")) or request.app.backend.zone


def _listed(found: Skipped) -> str:
    first = f"{found.moments[0]:%Y-%m-%d %H:%M} UTC"
    return first if len(found.moments) == 1 else f"{len(found.moments)} runs from {first}"
