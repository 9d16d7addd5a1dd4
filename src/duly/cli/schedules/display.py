"""``duly schedules`` and ``history``: what is to come, and what became of it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from shlex import quote
from typing import TYPE_CHECKING

import click

from duly.cli.formats import (
    NOTHING,
    Listing,
    View,
    iso,
    list_options,
    read_when,
    show_list,
    utc_option,
)
from duly.cli.options import WholeNumber
from duly.cli.output import roughly, table
from duly.cli.store import ask, output_option, refuse, store_option
from duly.clock import now
from duly.errors import DulyError
from duly.model.schedule import PROMPT
from duly.policy.printable import json_text, one_line
from duly.policy.redaction import hidden_call, hidden_json
from duly.rules import Spaced, clock_change_notes
from duly.settings.loading import machine_zone

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.schedule import Plan
    from duly.model.schedule_filter import ScheduleFilter
    from duly.views.fires import Fire
    from duly.views.schedule_detail import Drift
    from duly.views.schedules import Schedule


MOST_SHOWN = 10_000
A_SECOND = timedelta(seconds=1)
NO_MATCH = "no schedule matches"


@click.command("list")
@click.argument("words", metavar="[FILTER]…", nargs=-1)
@store_option
@list_options
def list_command(words: tuple[str, ...], store: str, view: View) -> None:
    """List the schedules, the next first.

    \b
      duly schedules
      duly schedules state:paused,faulty
      duly schedules owner:code queue:mail nightly
      duly schedules -o wide --utc
      duly schedules --watch
      duly schedules -o jsonl | jq -r 'select(.paused) | .name'

    NEXT and LAST are on the clock of this machine, as in duly jobs, or in UTC with --utc; what an
    event starts has the event there. OUTCOME is what became of LAST: queued, merged
    into another moment's run, or skipped.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    wanted = _filter_from(words)

    async def found(there: "Store") -> "Sequence[Schedule]":
        from duly.app.typed_schedules import MOST_LISTED, every_schedule
        from duly.policy.why import LocalClock
        from duly.views.schedule_detail import removed_schedules

        every = await every_schedule(there, wanted)
        if len(every) >= MOST_LISTED:
            click.echo(f"there are more than these {MOST_LISTED:,}", err=True)
        for gone in await removed_schedules(there):
            said = gone.sentence(LocalClock(view.zone, view.now))
            click.echo(f"{gone.name}: {said}; {gone.command.line}", err=True)
        return sorted(every, key=_by_next)

    show_list(store, view, found, replace(SCHEDULES, nothing=NO_MATCH) if words else SCHEDULES)


@click.command("history")
@click.argument("name", metavar="NAME")
@click.option("--since", metavar="TIME", help="From then on, as 7d or 2026-11-16; by default, all.")
@click.option(
    "-n",
    "--count",
    default=20,
    show_default=True,
    type=WholeNumber(1, MOST_SHOWN),
    help="So many, the newest first.",
)
@store_option
@list_options
def history(*, name: str, since: str | None, count: int, store: str, view: View) -> None:
    """Say what became of the due moments of a schedule, and why.

    \b
      duly schedules history nightly
      duly schedules history nightly --since 7d -n 100
      duly schedules history nightly --since 2026-11-16T02:00 -o json

    OUTCOME is what became of the moment: queued, merged into another moment's run, or skipped.
    LATENESS is how long after it the job was begun, TOOK how long its last run took. A line may
    stand for many moments that nobody saw: it then says how many. A removed schedule keeps its
    history for a while.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    zone: str | None = None

    async def found(there: "Store") -> "Sequence[Fire]":
        from duly.app.typed_schedules import steered
        from duly.views.schedules import zone_of

        nonlocal zone
        zone = await zone_of(there, name)
        begin = None if since is None else _since(since, zone)
        return await steered(there).ahistory(name, since=begin, limit=count)

    show_list(
        store,
        view,
        found,
        Listing(
            headings=("DUE", "OUTCOME", "WHY", "LATENESS", "TOOK", "JOB"),
            row=lambda fire, view: _moment_row(fire, view, zone),
            plain=plain_fire,
            name=lambda fire: str(iso(fire.due_at)),
            nothing=f"no moment of {name} was due"
            + (f" since {since}" if since is not None else " yet"),
            colour=_colour,
        ),
    )


def _filter_from(words: Sequence[str]) -> "ScheduleFilter":
    from duly.model.schedule_filter import schedule_filter_of

    try:
        return schedule_filter_of(words)
    except DulyError as error:
        refuse(error)


def _by_next(schedule: "Schedule") -> tuple[bool, float, str]:
    waits = schedule.next_at is None or schedule.paused
    return waits, schedule.next_at.timestamp() if schedule.next_at else 0, schedule.name


def _row(schedule: "Schedule", view: View) -> tuple[str, ...]:
    from duly.views.schedules import own_zone

    zone, last = own_zone(schedule.plan), schedule.last
    return (
        _next(schedule, view),
        _left(schedule, view),
        view.moment(last.due_at) if last else NOTHING,
        view.passed(last.due_at) if last else NOTHING,
        last.outcome if last else NOTHING,
        schedule.name,
        schedule.rule,
        zone or NOTHING,
        schedule.task,
        schedule.owner,
    )


def _next(schedule: "Schedule", view: View) -> str:
    """What the clock does not start has no moment: it says what does."""
    if (reaction := schedule.plan.reaction) is not None:
        return f"on {reaction.pattern}"
    return NOTHING if schedule.paused else view.moment(schedule.next_at)


def _left(schedule: "Schedule", view: View) -> str:
    if schedule.paused:
        return "paused"
    if schedule.next_at is None and schedule.note:
        return "stands still"
    overdue = overdue_for(schedule, view)
    return view.left(schedule.next_at) if overdue is None else f"overdue {roughly(overdue)}"


def overdue_for(schedule: "Schedule", view: View) -> timedelta | None:
    """Return how long the next run is overdue because no scheduler fired it; None if it is not."""
    due = None if schedule.paused else schedule.next_at
    return view.now - due if due is not None and view.now - due > PROMPT else None


def plain_schedule(schedule: "Schedule") -> dict[str, object]:
    """For programs; without secrets, as for people."""
    return {
        "name": schedule.name,
        "rule": schedule.rule,
        "zone": schedule.zone,
        "task": schedule.task,
        "args": hidden_call(schedule.task, json.loads(schedule.args)),
        "title": schedule.title,
        "queue": schedule.queue,
        "priority": schedule.plan.priority,
        "tags": list(schedule.tags),
        "owner": schedule.owner,
        "policies": json.loads(schedule.plan.policies.as_json()),
        "paused": schedule.paused,
        "paused_until": iso(schedule.paused_until),
        "note": schedule.note,
        "next_at": iso(schedule.next_at),
        "created_at": iso(schedule.created_at),
        "last": plain_fire(schedule.last) if schedule.last else None,
    }


def plain_fire(fire: "Fire") -> dict[str, object]:
    return {
        "due_at": iso(fire.due_at),
        "outcome": fire.outcome,
        "reason": fire.reason,
        "job_id": fire.job_id,
        "decided_at": iso(fire.decided_at),
        "covers_from": iso(fire.covers_from),
        "count": fire.count,
        "manual": fire.manual,
        "event": fire.event,
        "state": fire.state,
        "started_at": iso(fire.started_at),
        "took_seconds": None if fire.took is None else fire.took.total_seconds(),
    }


SCHEDULES: "Listing[Schedule]" = Listing(
    headings=("NEXT", "LEFT", "LAST", "PASSED", "OUTCOME", "SCHEDULE"),
    wide=("RULE", "ZONE", "TASK", "OWNER"),
    row=_row,
    plain=plain_schedule,
    name=lambda schedule: schedule.name,
    nothing='nothing is scheduled; try: duly schedules add "every 5m" -- date',
    colour=lambda schedule: "yellow" if schedule.paused or schedule.note else None,
)


def _moment_row(fire: "Fire", view: View, zone: str | None) -> tuple[str, ...]:
    return (
        view.moment(fire.due_at, zone),
        _outcome(fire),
        fire.reason,
        _length(fire.lateness),
        _length(fire.took),
        NOTHING if fire.job_id is None else f"{fire.job_id} {fire.state or 'forgotten'}",
    )


def _outcome(fire: "Fire") -> str:
    if fire.manual:
        return f"{fire.outcome} by hand"
    if fire.count == 1:
        return fire.outcome
    return f"{fire.outcome} {'many' if fire.count is None else format(fire.count, ',')}"


def _colour(fire: "Fire") -> str | None:
    bad = fire.outcome == "skipped" or fire.state in ("failed", "expired", "cancelled")
    return "yellow" if bad else None


def _length(length: timedelta | None) -> str:
    if length is None or length < timedelta():
        return NOTHING
    if length < A_SECOND:
        return f"{length // timedelta(milliseconds=1)} ms"
    return roughly(length)


def _since(text: str, zone: str | None) -> datetime:
    found = read_when(text, zone=zone or machine_zone() or "UTC", option="--since")
    return now() - found if isinstance(found, timedelta) else found


MOST_MOMENTS = 5
FAR = timedelta(days=366 * 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """What is known of a schedule."""

    schedule: "Schedule"
    zone: str | None
    policies: Sequence[str]
    ahead: Sequence[datetime]
    behind: "Sequence[Fire]"
    changes: Sequence[tuple[datetime, str, str]]
    drift: "Sequence[Drift]" = ()


@click.command("show")
@click.argument("name", metavar="NAME")
@utc_option
@store_option
@output_option
def show(name: str, *, utc: bool, store: str, output: str) -> None:
    """Say all about a schedule: when, what, what if, what is next and what was.

    \b
      duly schedules show nightly
      duly schedules show nightly --utc
      duly schedules show nightly -o json
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    portrait = ask(store, lambda there: _portrait(there, name))
    if output == "json":
        click.echo(json_text(_plain(portrait)))
    else:
        click.echo("\n".join(_lines(portrait, View(utc=utc))))


async def _portrait(store: "Store", name: str) -> Portrait:
    from duly.app.typed_schedules import steered
    from duly.views.schedule_detail import drift
    from duly.views.schedules import own_zone, policies_in_words

    people = steered(store)
    schedule = await people.aget(name)
    readable = schedule.plan.is_readable
    return Portrait(
        schedule=schedule,
        zone=own_zone(schedule.plan),
        policies=policies_in_words(schedule.plan) if readable else (),
        ahead=await _ahead(store, schedule) if readable else (),
        behind=await people.ahistory(name, until=View().now, limit=MOST_MOMENTS),
        changes=await store.schedules.changes(name, limit=MOST_MOMENTS),
        drift=await drift(store, name),
    )


async def _ahead(store: "Store", schedule: "Schedule") -> Sequence[datetime]:
    from duly.app.typed_schedules import steered

    if not schedule.paused:
        return await steered(store).apreview(schedule.name, count=MOST_MOMENTS)
    until, kept = schedule.paused_until, schedule.plan.kept
    if until is None or isinstance(kept, Spaced):
        return ()
    return list(kept.between(until - timedelta.resolution, until + FAR, MOST_MOMENTS))


def _lines(portrait: Portrait, view: View) -> Iterator[str]:
    schedule, plan = portrait.schedule, portrait.schedule.plan
    yield one_line(f"{schedule.name}: {schedule.title}" if schedule.title else schedule.name)
    yield _sentence(plan)
    if portrait.policies:
        said = "; ".join(portrait.policies)
        yield f"{said[0].upper()}{said[1:]}."
    yield ""
    yield from _facts(portrait, view)
    if plan.is_readable:
        for note in clock_change_notes(plan.kept, view.now):
            yield f"Note: {note}"
    overdue = overdue_for(schedule, view)
    if overdue is not None:
        due = view.moment(schedule.next_at, portrait.zone)
        yield f"\nOverdue: it was due {due}, {roughly(overdue)} ago, and has not been fired yet."
        yield f"  duly why {quote(schedule.name)}"
    elif portrait.ahead:
        rows = [
            (view.moment(moment, portrait.zone), view.left(moment)) for moment in portrait.ahead
        ]
        yield f"\n{table(('NEXT', 'LEFT'), rows)}"
    if portrait.behind:
        last = [
            (view.moment(fire.due_at, portrait.zone), fire.outcome, fire.reason)
            for fire in portrait.behind
        ]
        yield f"\n{table(('LAST', 'OUTCOME', 'WHY'), last)}"
    if portrait.changes:
        changed = [
            (view.moment(moment, portrait.zone), who or "-", what)
            for moment, who, what in portrait.changes
        ]
        yield f"\n{table(('CHANGED', 'BY', 'WHAT'), changed)}"


def _sentence(plan: "Plan") -> str:
    try:
        return plan.kept.explain()
    except DulyError as error:
        return f"This version of duly cannot read it: {error}"


def _facts(portrait: Portrait, view: View) -> Iterator[str]:
    schedule = portrait.schedule
    args = hidden_json(schedule.task, schedule.args)
    facts = {
        "rule": schedule.rule,
        "zone": portrait.zone or "",
        "task": schedule.task if args == "{}" else f"{schedule.task} {args}",
        "queue": schedule.queue,
        "tags": ", ".join(schedule.tags),
        "owner": schedule.owner,
        "made": view.moment(schedule.created_at, portrait.zone),
        "paused": _pause(schedule, portrait.zone, view),
        "note": schedule.note,
    }
    for fact, value in facts.items():
        if value:
            yield f"{fact:<7} {one_line(value)}"
    for one in portrait.drift:
        yield f"drift   {one_line(str(one))}: duly schedules take-back {schedule.name}"


def _pause(schedule: "Schedule", zone: str | None, view: View) -> str:
    if not schedule.paused:
        return ""
    until = schedule.paused_until
    return f"until {view.moment(until, zone)}" if until else "until somebody resumes it"


def _plain(portrait: Portrait) -> dict[str, object]:
    return plain_schedule(portrait.schedule) | {
        "explained": _sentence(portrait.schedule.plan),
        "policies_in_words": list(portrait.policies),
        "next": [iso(moment) for moment in portrait.ahead],
        "history": [plain_fire(fire) for fire in portrait.behind],
        "changes": [
            {"at": iso(moment), "by": who, "what": what} for moment, who, what in portrait.changes
        ],
        "drift": [
            {"field": one.field, "here": one.here, "in_code": one.in_code, "app": one.app}
            for one in portrait.drift
        ],
    }
