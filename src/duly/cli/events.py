"""``duly events``: list and show events, emit one, let a schedule react to past ones."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import click

from duly.app import Store
from duly.app.events import emitted
from duly.app.nouns import StoreNouns
from duly.cli.app_and_store import NEEDS_YOU, ask, output_option, store_option
from duly.cli.formats import (
    NOTHING,
    Listing,
    NounGroup,
    View,
    list_options,
    show_list,
    utc_option,
    view_json,
)
from duly.cli.inputs import read_untyped
from duly.cli.options import WholeNumber, page_options
from duly.cli.output import is_confirmed, table
from duly.errors import InvalidValue
from duly.model.event import Emitted, EventFilter
from duly.policy.redaction import json_text, one_line, shortened
from duly.views import Listed
from duly.views.event import (
    NO_REACTION,
    EventView,
    ReplayResult,
    emit_events,
    event_detail,
    event_list,
)
from duly.views.times import read_past

MOST_LISTED: Final = 1_000
LONGEST_CELL: Final = 60
NO_MATCH: Final = "no event matches"
FEW: Final = 5  # up to this many events are replayed without confirmation


@click.group(cls=NounGroup)
def events() -> None:
    """List events, emit one, or let a schedule react to past ones.

    An event is a named fact with a payload. Tasks with @duly.on, and schedules whose rule is as
    "on invoice.*", react to it.

    \b
      duly events                                    the newest
      duly events list "class.*" --since 2d
      duly events show 1002                          one event and the reactions to it
      duly events emit doc.changed doc_id=7
      duly events emit order.approved --key A7 --json '{"by": "ada"}'
      duly events replay reindex --since 2d --dry-run

    \b
    Exit codes: 0 success, 1 not confirmed, 2 invalid usage, 3 no such event or schedule, 5 the
    database cannot be reached.
    """


@events.command("list")
@click.argument("pattern", metavar="[PATTERN]", default="*")
@click.option("--key", metavar="KEY", help="Only events with this key.")
@click.option(
    "--since", metavar="TIME", help="Only events since then: 2d for two days ago, or 2026-11-16."
)
@click.option("--until", metavar="TIME", help="Only events before then.")
@page_options(MOST_LISTED)
@store_option
@list_options
def list_command(
    *,
    pattern: str,
    key: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    after: str | None,
    store: str,
    view: View,
) -> None:
    """List events, the newest first, and the reactions to each.

    \b
      duly events
      duly events list invoice.paid              with this name
      duly events list "invoice.*" --since 2d    all below invoice.
      duly events list --key class:7
      duly events -o jsonl | jq -r .payload.invoice_id

    REACTIONS is how many jobs it started; merged: a later event replaced it; skipped: duly events
    show ID says why.
    """
    begin, end = (_ago(text, option) for text, option in ((since, "--since"), (until, "--until")))

    async def found(opened: Store) -> Listed[EventView]:
        wanted = EventFilter(pattern=pattern, key=key, since=begin, until=end)
        return await event_list(opened, wanted, after=after, limit=limit)

    asked = pattern != "*" or any(one is not None for one in (key, since, until, after))
    listing = replace(EVENTS, nothing=NO_MATCH) if asked else EVENTS
    if on := show_list(store, view, found, listing).next:
        click.echo(f"there are more: continue with --after {on}, or raise --limit", err=True)


@events.command("show")
@click.argument("number", metavar="ID", type=WholeNumber(1))
@store_option
@output_option
@utc_option
def show_command(number: int, store: str, output: str, *, utc: bool) -> None:
    """Show the payload of an event (secrets hidden), and the reaction of each schedule."""
    found = ask(store, lambda opened: event_detail(opened, number))
    click.echo(view_json(found) if output == "json" else "\n".join(_lines(found, View(utc=utc))))


@events.command("emit")
@click.argument("name", metavar="NAME")
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]…")
@click.option("--key", metavar="KEY", help="Key, for a step that waits for an event with this key.")
@click.option("--json", "whole", metavar="OBJECT", help="The payload, as one JSON object.")
@store_option
def emit_command(
    name: str, fields: tuple[str, ...], *, key: str | None, whole: str | None, store: str
) -> None:
    """Emit an event, and print its number. Tasks and schedules that react to it start.

    Values are JSON where they look like it, and text otherwise.

    \b
      duly events emit doc.changed doc_id=7
      duly events emit class.scheduled class_id=7 starts_at=2027-01-06T10:00+01:00
      duly events emit invoice.paid --json '{"invoice_id": 7, "lines": [1, 2]}'
      duly events emit order.approved by=ada --key A7      for a flow that waits for this

    \b
    Exit codes: 0 success, 2 invalid usage, 5 the database cannot be reached.
    """
    event = _event(name, fields, key=key, whole=whole)
    [number] = ask(store, lambda opened: emit_events(opened, [event]), make=True)
    click.echo(number)


@events.command("replay")
@click.argument("schedule", metavar="SCHEDULE")
@click.option(
    "--since",
    metavar="TIME",
    required=True,
    help="Only events since then: 2d for two days ago, or 2026-11-16.",
)
@click.option(
    "--until", metavar="TIME", default="now", help="Only events before then. Default: now."
)
@click.option("--only", "pattern", metavar="PATTERN", help='Only events that match: "class.*".')
@click.option("--dry-run", is_flag=True, help="Print the number of events, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help=f"Do not ask for confirmation of more than {FEW}.")
@output_option
@store_option
def replay_command(
    *,
    schedule: str,
    since: str,
    until: str,
    pattern: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
    store: str,
) -> None:
    """Let a schedule react to events from before it existed, or while its code was wrong.

    \b
      duly events replay reindex --since 2d --dry-run
      duly events replay reindex --since 2d
      duly events replay reindex --since 2026-11-01 --until 2026-11-08 --yes      in a script
      duly events replay welcome --since 30d --only user.joined

    Events it has reacted to are left alone, so it can be repeated. The numbers of the jobs are
    printed.

    \b
    Exit codes: 0 success (also if there was nothing left to do), 1 not confirmed, 2 invalid usage,
    3 no such schedule, 5 the database cannot be reached.
    """

    async def replayed(opened: Store) -> ReplayResult:
        now = (await opened.maintenance.progress()).now
        between = _moment(since, "--since", now), _moment(until, "--until", now)
        events = StoreNouns(opened).events
        foreseen = await events.areplay(schedule, *between, pattern=pattern, dry_run=True)
        if dry_run or not foreseen.events:
            return foreseen
        _make_sure(foreseen, yes=yes)
        return await events.areplay(schedule, *between, pattern=pattern)

    done = ask(store, replayed)
    if output == "json":
        click.echo(view_json(done))
    else:
        for number in done.jobs:
            click.echo(number)
    click.echo(_summary(done), err=True)


def _ago(text: str | None, option: str) -> datetime | None:
    return None if text is None else _moment(text, option, View().now)


def _payload(event: EventView, view: View) -> str:
    payload = json_text(event.payload)
    return payload if view.output == "wide" else shortened(payload, LONGEST_CELL)


def _lines(event: EventView, view: View) -> Iterator[str]:
    yield f"{event.name}, event {event.id}"
    facts = {
        "at": f"{view.moment(event.at)}, {view.passed(event.at)}",
        "key": event.key or "",
        "source": event.submitter,
        "tenant": event.tenant,
    }
    for fact, value in facts.items():
        if value:
            yield f"{fact:<8} {one_line(value)}"
    yield ""
    yield from json_text(event.payload, indent=2).splitlines()
    yield ""
    yield _reactions(event) if event.reactions else f"{NO_REACTION}."


def _reactions(event: EventView) -> str:
    rows = [
        (
            one.schedule,
            one.outcome,
            one.reason,
            NOTHING if one.job_id is None else f"{one.job_id} {one.state or 'deleted'}",
        )
        for one in event.reactions
    ]
    return table(("SCHEDULE", "OUTCOME", "WHY", "JOB"), rows)


def _colour(event: EventView) -> str | None:
    return "yellow" if any(one.outcome == "skipped" for one in event.reactions) else None


EVENTS: Listing[EventView] = Listing(
    columns={
        "AT": "at",
        "NAME": "name",
        "KEY": "key",
        "PAYLOAD": _payload,
        "REACTIONS": "summary",
        "ID": "id",
    },
    wide={"SOURCE": "submitter", "TENANT": "tenant"},
    name=lambda event: str(event.id),
    nothing="there are no events yet; try: duly events emit doc.changed doc_id=7",
    colour=_colour,
)


def _event(name: str, fields: tuple[str, ...], *, key: str | None, whole: str | None) -> Emitted:
    payload = {} if whole is None else _object(whole)
    for one in fields:
        field, equals, value = one.partition("=")
        if not equals or not field:
            raise InvalidValue(f'"{one}": the fields of a payload have names: id={one}')
        if field in payload:
            raise InvalidValue(f"{one}: {field} is given twice")
        payload[field] = read_untyped(value)
    return emitted(name, payload, key=key)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"--json {text[:100]}: that is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidValue(f'--json {text[:100]}: an object, as {{"doc_id": 7}}')
    return found


def _moment(text: str, option: str, now: datetime) -> datetime:
    """Parse a time, or a duration before now; ``now`` includes events of this moment."""
    if text.strip() == "now":
        return now + timedelta.resolution
    return read_past(text, zone=View().zone, what=option, now=now)


def _make_sure(foreseen: ReplayResult, *, yes: bool) -> None:
    deed = f"let {foreseen.schedule} react to {foreseen.events:,} events"
    if not yes and foreseen.events > FEW and not is_confirmed(deed):
        raise SystemExit(NEEDS_YOU)


def _summary(done: ReplayResult) -> str:
    if not done.events:
        return f"nothing to do: {done.schedule} has reacted to all matching events in that time"
    many = f"{done.events:,} event{'s' * (done.events != 1)}"
    if done.dry_run:
        skipped = f", of which {done.skipped:,} start no job" if done.skipped else ""
        return f"{done.schedule} would react to {many}{skipped}"
    jobs = f"{len(done.jobs):,} job{'s' * (len(done.jobs) != 1)}"
    skipped = f", {done.skipped:,} skipped" if done.skipped else ""
    return f"{done.schedule} reacted to {many}: {jobs}{skipped}"
