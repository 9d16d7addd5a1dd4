"""``duly schedules``, ``show`` and ``history``: the next runs, and the past ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from shlex import quote

import click

from duly.app import Store
from duly.app.nouns import StoreNouns
from duly.cli.app_and_store import ask, output_option, store_option
from duly.cli.formats import (
    NOTHING,
    Listing,
    View,
    iso,
    list_options,
    show_list,
    utc_option,
    view_json,
)
from duly.cli.options import count_option
from duly.cli.output import roughly, table
from duly.clock import now
from duly.model.schedule import PROMPT
from duly.model.schedule_filter import schedule_filter_of
from duly.policy.redaction import hidden_json, one_line
from duly.policy.why import LocalClock
from duly.views import as_dict
from duly.views.fires import Fire, FireView
from duly.views.schedule_detail import ScheduleDetail, removed_schedules, schedule_detail
from duly.views.schedules import Schedule, ScheduleView, own_zone, schedule_list, zone_of
from duly.views.times import read_past

MOST_SHOWN = 10_000
SHOWN = 5  # next runs, last runs and changes that ``show`` prints
A_SECOND = timedelta(seconds=1)
NO_MATCH = "no schedule matches"


@click.command("list")
@click.argument("words", metavar="[FILTER]…", nargs=-1)
@store_option
@list_options
def list_command(words: tuple[str, ...], store: str, view: View) -> None:
    """List the schedules, the next to run first.

    \b
      duly schedules
      duly schedules state:paused,faulty
      duly schedules owner:code queue:mail nightly
      duly schedules -o wide --utc
      duly schedules --watch
      duly schedules -o jsonl | jq -r 'select(.paused) | .name'

    NEXT and LAST are in the zone of this machine, or in UTC with --utc; for a schedule that events
    start, NEXT is the event. OUTCOME is the outcome of LAST: queued, merged into another run, or
    skipped.
    """
    wanted = schedule_filter_of(words)

    async def found(there: Store) -> Sequence[Schedule]:
        every = await schedule_list(there, wanted, after="", limit=MOST_SHOWN)
        if len(every) >= MOST_SHOWN:
            click.echo(f"there are more than these {MOST_SHOWN:,}", err=True)
        for gone in await removed_schedules(there):
            said = gone.sentence(LocalClock(view.zone, view.now))
            click.echo(f"{gone.name}: {said}; {gone.command.line}", err=True)
        return sorted(every, key=_by_next)

    show_list(store, view, found, replace(SCHEDULES, nothing=NO_MATCH) if words else SCHEDULES)


@click.command("history")
@click.argument("name", metavar="NAME")
@click.option(
    "--since", metavar="TIME", help="Only runs since then, as 7d or 2026-11-16. Default: all."
)
@count_option("How many to show, newest first.", most=MOST_SHOWN, default=20)
@store_option
@list_options
def history(*, name: str, since: str | None, count: int, store: str, view: View) -> None:
    """List the past runs of a schedule with their outcomes and reasons.

    \b
      duly schedules history nightly
      duly schedules history nightly --since 7d -n 100
      duly schedules history nightly --since 2026-11-16T02:00 -o json

    OUTCOME is queued, merged into another run, or skipped. LATENESS is from the due time to the
    start of the job, TOOK the duration of its last attempt. One line may stand for many missed
    times; it then has their number. The history of a removed schedule is kept for a while.
    """
    zone: str | None = None

    async def found(there: Store) -> Sequence[Fire]:
        nonlocal zone
        zone = await zone_of(there, name)
        begin = None
        if since is not None:
            begin = read_past(since, zone=zone or View().zone, what="--since", now=now())
        return await StoreNouns(there).schedules.ahistory(name, since=begin, limit=count)

    nothing = f"no run of {name} was due" + (f" since {since}" if since is not None else " yet")
    show_list(store, view, found, _runs(lambda: zone, nothing))


def _runs(zone: Callable[[], str | None], nothing: str) -> Listing[Fire]:
    """Return the columns of the runs of a schedule, whose zone is known when they are read."""
    return Listing(
        columns={
            "DUE": lambda fire, view: view.moment(fire.due_at, zone()),
            "OUTCOME": lambda fire, _: _outcome(fire),
            "WHY": lambda fire, _: fire.reason,
            "LATENESS": lambda fire, _: _length(fire.lateness),
            "TOOK": lambda fire, _: _length(fire.took),
            "JOB": lambda fire, _: _job(fire),
        },
        plain=lambda fire: as_dict(FireView.of(fire)),
        name=lambda fire: str(iso(fire.due_at)),
        nothing=nothing,
        colour=_colour,
    )


def _by_next(schedule: Schedule) -> tuple[bool, float, str]:
    waits = schedule.next_at is None or schedule.paused
    return waits, schedule.next_at.timestamp() if schedule.next_at else 0, schedule.name


def _next(schedule: Schedule, view: View) -> str:
    """Return the time of the next run, or the event pattern that starts the schedule."""
    if (reaction := schedule.plan.reaction) is not None:
        return f"on {reaction.pattern}"
    return NOTHING if schedule.paused else view.moment(schedule.next_at)


def _left(schedule: Schedule, view: View) -> str:
    if schedule.paused:
        return "paused"
    if schedule.next_at is None and schedule.note:
        return "cannot be fired"
    if schedule.finished:
        return "finished"
    overdue = overdue_for(schedule, view)
    return view.left(schedule.next_at) if overdue is None else f"overdue {roughly(overdue)}"


def overdue_for(schedule: Schedule, view: View) -> timedelta | None:
    """Return how long the next run is overdue because no scheduler fired it; None if it is not."""
    due = None if schedule.paused else schedule.next_at
    return view.now - due if due is not None and view.now - due > PROMPT else None


SCHEDULES: Listing[Schedule] = Listing(
    columns={
        "NEXT": _next,
        "IN": _left,
        "LAST": lambda one, view: view.moment(one.last.due_at if one.last else None),
        "AGO": lambda one, view: view.passed(one.last.due_at if one.last else None),
        "OUTCOME": lambda one, _: one.last.outcome if one.last else NOTHING,
        "SCHEDULE": "name",
    },
    wide={
        "RULE": "rule",
        "ZONE": lambda schedule, _: own_zone(schedule.plan) or NOTHING,
        "TASK": "task",
        "OWNER": "owner",
    },
    plain=lambda schedule: as_dict(ScheduleView.of(schedule)),
    name=lambda schedule: schedule.name,
    nothing='nothing is scheduled; try: duly schedules add "every 5m" -- date',
    colour=lambda schedule: "yellow" if schedule.paused or schedule.note else None,
)


def _job(fire: Fire) -> str:
    return NOTHING if fire.job_id is None else f"{fire.job_id} {fire.state or 'deleted'}"


def _outcome(fire: Fire) -> str:
    if fire.manual:
        return f"{fire.outcome} by hand"
    if fire.count == 1:
        return fire.outcome
    return f"{fire.outcome} {'many' if fire.count is None else format(fire.count, ',')}"


def _colour(fire: Fire) -> str | None:
    bad = fire.outcome == "skipped" or fire.state in ("failed", "expired", "cancelled")
    return "yellow" if bad else None


def _length(length: timedelta | None) -> str:
    if length is None or length < timedelta():
        return NOTHING
    if length < A_SECOND:
        return f"{length // timedelta(milliseconds=1)} ms"
    return roughly(length)


@click.command("show")
@click.argument("name", metavar="NAME")
@utc_option
@store_option
@output_option
def show(name: str, *, utc: bool, store: str, output: str) -> None:
    """Show a schedule: its rule, task and policies, its next and last runs, and its changes.

    \b
      duly schedules show nightly
      duly schedules show nightly --utc
      duly schedules show nightly -o json
    """
    found = ask(store, lambda there: schedule_detail(there, name, page=SHOWN, coming=SHOWN))
    if output == "json":
        click.echo(view_json(found.as_view))
    else:
        click.echo("\n".join(_lines(found, View(utc=utc))))


def _lines(found: ScheduleDetail, view: View) -> Iterator[str]:
    schedule = found.schedule
    yield one_line(f"{schedule.name}: {schedule.title}" if schedule.title else schedule.name)
    yield found.sentence
    if found.policies:
        said = "; ".join(found.policies)
        yield f"{said[0].upper()}{said[1:]}."
    yield ""
    yield from _facts(found, view)
    for note in found.notes:
        yield f"Note: {note}"
    if found.overdue is not None:
        due = view.moment(found.overdue, found.zone)
        late = roughly(view.now - found.overdue)
        yield f"\nOverdue: it was due {due}, {late} ago, and has not been fired yet."
        yield f"  duly why {quote(schedule.name)}"
    yield from _tables(found, view)


def _tables(found: ScheduleDetail, view: View) -> Iterator[str]:
    """Yield tables of the next runs, the last runs, and the changes."""

    def shown(moment: datetime) -> str:
        return view.moment(moment, found.zone)

    if found.ahead and found.overdue is None:
        rows = [(shown(moment), view.left(moment)) for moment in found.ahead]
        yield f"\n{table(('NEXT', 'IN'), rows)}"
    if found.fires:
        last = [(shown(fire.due_at), fire.outcome, fire.reason) for fire in found.fires]
        yield f"\n{table(('LAST', 'OUTCOME', 'WHY'), last)}"
    if found.changes:
        changed = [(shown(one.at), one.by or "-", one.what) for one in found.changes[:SHOWN]]
        yield f"\n{table(('CHANGED', 'BY', 'WHAT'), changed)}"


def _facts(found: ScheduleDetail, view: View) -> Iterator[str]:
    schedule = found.schedule
    args = hidden_json(schedule.task, schedule.args)
    facts = {
        "rule": schedule.rule,
        "zone": found.zone or "",
        "task": schedule.task if args == "{}" else f"{schedule.task} {args}",
        "queue": schedule.queue,
        "tags": ", ".join(schedule.tags),
        "tenant": schedule.tenant,
        "owner": schedule.owner,
        "by": schedule.submitter,
        "runs": "" if schedule.runs_left is None else f"{schedule.runs_left} left",
        "made": view.moment(schedule.created_at, found.zone),
        "paused": _pause(schedule, found.zone, view),
        "note": schedule.note,
    }
    for fact, value in facts.items():
        if value:
            yield f"{fact:<7} {one_line(value)}"
    for one in found.drift:
        yield f"drift   {one_line(str(one))}: duly schedules take-back {schedule.name}"


def _pause(schedule: Schedule, zone: str | None, view: View) -> str:
    if not schedule.paused:
        return ""
    until = schedule.paused_until
    return f"until {view.moment(until, zone)}" if until else "until somebody resumes it"
