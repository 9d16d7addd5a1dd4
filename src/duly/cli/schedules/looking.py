"""``duly schedules`` and ``history``: what is to come, and what became of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
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
)
from duly.cli.options import WholeNumber
from duly.cli.output import roughly
from duly.cli.store import refuse, store_option
from duly.clock import now
from duly.errors import DulyError
from duly.model.schedule import PROMPT
from duly.policy.redaction import hidden_call
from duly.settings.machine import machine_zone

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.schedule_filter import ScheduleFilter
    from duly.views.schedules import Fire, Schedule

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
        from duly.policy.why import Clock
        from duly.views.drift import removed_schedules

        every = await every_schedule(there, wanted)
        if len(every) >= MOST_LISTED:
            click.echo(f"there are more than these {MOST_LISTED:,}", err=True)
        for gone in await removed_schedules(there):
            said = gone.sentence(Clock(view.zone, view.now))
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
