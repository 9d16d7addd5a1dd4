"""``duly schedules show``: one schedule, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import TYPE_CHECKING

import click

from duly.cli.formats import View, iso, utc_option
from duly.cli.output import roughly, table
from duly.cli.schedules.looking import overdue_for, plain_fire, plain_schedule
from duly.cli.store import ask, output_option, store_option
from duly.errors import DulyError
from duly.policy.printable import json_text, one_line
from duly.policy.redaction import hidden_json
from duly.rules import Spaced, clock_change_notes

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.schedule import Plan
    from duly.views.drift import Drift
    from duly.views.schedules import Fire, Schedule

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
    from duly.views.drift import drift
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
