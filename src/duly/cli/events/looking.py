"""``duly events`` and ``show``: what happened, and what came of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

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
from duly.cli.output import table
from duly.cli.store import ask, output_option, store_option
from duly.policy.printable import json_text, one_line
from duly.policy.redaction import redacted
from duly.settings.loading import machine_zone

if TYPE_CHECKING:
    from duly.app import Store
    from duly.views.event_page import EventSeen
    from duly.views.fires import Fire

MOST_LISTED: Final = 1_000
LONGEST_CELL: Final = 60
NO_MATCH: Final = "no event matches"
NO_REACTION: Final = "no schedule reacted to it: none means it, or nobody has looked yet"


@click.command("list")
@click.argument("pattern", metavar="[PATTERN]", default="*")
@click.option("--key", metavar="KEY", help="Only about this.")
@click.option("--since", metavar="TIME", help="From then on: 2d ago as 2d, or 2026-11-16.")
@click.option("--until", metavar="TIME", help="Before then.")
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(1, MOST_LISTED),
    default=50,
    show_default=True,
    help="How many to show.",
)
@click.option("--after", metavar="CURSOR", help="Go on where a list said that it ended.")
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
    """List what happened, the newest first, and what came of each.

    \b
      duly events
      duly events list invoice.paid              of that name
      duly events list "invoice.*" --since 2d    all below invoice.
      duly events list --key class:7
      duly events -o jsonl | jq -r .payload.invoice_id

    REACTIONS is how many jobs it started; merged: a later one took its place; skipped: duly events
    show ID says why.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    begin, end = (_ago(text, option) for text, option in ((since, "--since"), (until, "--until")))
    on: str | None = None

    async def found(opened: "Store") -> "list[EventSeen]":
        from duly.views.event_page import events_seen

        nonlocal on
        page = await events_seen(
            opened, pattern, key=key, since=begin, until=end, after=after, limit=limit
        )
        on = page.after
        return list(page.events)

    asked = pattern != "*" or any(one is not None for one in (key, since, until, after))
    show_list(store, view, found, replace(EVENTS, nothing=NO_MATCH) if asked else EVENTS)
    if on is not None:
        click.echo(f"there are more: go on with --after {on}, or say --limit", err=True)


@click.command("show")
@click.argument("number", metavar="ID", type=WholeNumber(1))
@store_option
@output_option
@utc_option
def show_command(number: int, store: str, output: str, *, utc: bool) -> None:
    """Show what an event says (secrets hidden), and what each schedule made of it."""

    async def looked(opened: "Store") -> "EventSeen":
        from duly.views.event_page import event_seen

        return await event_seen(opened, number)

    seen = ask(store, looked)
    if output == "json":
        click.echo(json_text(_plain(seen)))
    else:
        click.echo("\n".join(_lines(seen, View(utc=utc))))


def _ago(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    found = read_when(text, zone=machine_zone() or "UTC", option=option)
    return View().now - found if isinstance(found, timedelta) else found


def _row(seen: "EventSeen", view: View) -> tuple[str, ...]:
    event, payload = seen.event, json_text(seen.payload)
    return (
        view.moment(event.at),
        event.name,
        seen.key or NOTHING,
        payload if view.output == "wide" else _short(payload),
        seen.told or NOTHING,
        str(event.id),
        event.submitter or NOTHING,
        event.tenant or NOTHING,
    )


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def _plain(seen: "EventSeen") -> dict[str, object]:
    event = seen.event
    return {
        "id": event.id,
        "name": event.name,
        "key": seen.key,
        "payload": seen.payload,
        "at": iso(event.at),
        "submitter": event.submitter,
        "tenant": event.tenant,
        "reactions": [_plain_reaction(fire) for fire in seen.reactions],
    }


def _plain_reaction(fire: "Fire") -> dict[str, object]:
    return {
        "schedule": fire.schedule,
        "outcome": fire.outcome,
        "reason": redacted(fire.reason),
        "job_id": fire.job_id,
        "state": fire.state,
    }


def _lines(seen: "EventSeen", view: View) -> Iterator[str]:
    event = seen.event
    yield f"{event.name}, event {event.id}"
    facts = {
        "at": f"{view.moment(event.at)}, {view.passed(event.at)}",
        "key": seen.key or "",
        "said by": event.submitter,
        "tenant": event.tenant,
    }
    for fact, value in facts.items():
        if value:
            yield f"{fact:<8} {one_line(value)}"
    yield ""
    yield from json_text(seen.payload, indent=2).splitlines()
    yield ""
    yield _reactions(seen) if seen.reactions else f"{NO_REACTION}."


def _reactions(seen: "EventSeen") -> str:
    rows = [
        (
            fire.schedule,
            fire.outcome,
            redacted(fire.reason),
            NOTHING if fire.job_id is None else f"{fire.job_id} {fire.state or 'forgotten'}",
        )
        for fire in seen.reactions
    ]
    return table(("SCHEDULE", "OUTCOME", "WHY", "JOB"), rows)


def _colour(seen: "EventSeen") -> str | None:
    return "yellow" if any(fire.outcome == "skipped" for fire in seen.reactions) else None


EVENTS: "Listing[EventSeen]" = Listing(
    headings=("AT", "NAME", "KEY", "PAYLOAD", "REACTIONS", "ID"),
    wide=("SAID BY", "TENANT"),
    row=_row,
    plain=_plain,
    name=lambda seen: str(seen.event.id),
    nothing="nothing has happened yet; try: duly events emit doc.changed doc_id=7",
    colour=_colour,
)
