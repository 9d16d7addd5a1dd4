"""``duly events emit`` and ``replay``: something happened; or it did, and somebody missed it."""

import json
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from duly.cli.formats import read_when
from duly.cli.store import NEEDS_YOU, ask, output_option, refuse, store_option
from duly.errors import DulyError, InvalidValue
from duly.settings.loading import machine_zone

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.event import Emitted
    from duly.views.event_page import ReplayResult

FEW: Final = 5  # so many need no second thought


@click.command("emit")
@click.argument("name", metavar="NAME")
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]…")
@click.option("--key", metavar="KEY", help="What it is about, for a step that waits for that.")
@click.option("--json", "whole", metavar="OBJECT", help="What it says, as one JSON object.")
@store_option
def emit_command(
    name: str, fields: tuple[str, ...], *, key: str | None, whole: str | None, store: str
) -> None:
    """Say that something happened, and print its number. What reacts to it starts.

    Values are JSON where they look like it, and text otherwise.

    \b
      duly events emit doc.changed doc_id=7
      duly events emit class.scheduled class_id=7 starts_at=2027-01-06T10:00+01:00
      duly events emit invoice.paid --json '{"invoice_id": 7, "lines": [1, 2]}'
      duly events emit order.approved by=ada --key A7      for a flow that waits for this

    \b
    Exit codes: 0 ok, 2 something in the command line is wrong, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        event = _event(name, fields, key=key, whole=whole)
    except DulyError as error:
        refuse(error)

    async def emitted(opened: "Store") -> list[int]:
        from duly.views.event_page import said

        return await said(opened, [event])

    [number] = ask(store, emitted, make=True)
    click.echo(number)


@click.command("replay")
@click.argument("schedule", metavar="SCHEDULE")
@click.option(
    "--since", metavar="TIME", required=True, help="From then on: 2d ago as 2d, or 2026-11-16."
)
@click.option("--until", metavar="TIME", default="now", help="Before then; by default, now.")
@click.option("--only", "pattern", metavar="PATTERN", help='Only to some: "class.*".')
@click.option("--dry-run", is_flag=True, help="Say how many it would be, and do nothing.")
@click.option("-y", "--yes", is_flag=True, help=f"Do not ask, also if it is more than {FEW}.")
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
    """Let a schedule react to what happened before it was there, or while its code was wrong.

    \b
      duly events replay reindex --since 2d --dry-run
      duly events replay reindex --since 2d
      duly events replay reindex --since 2026-11-01 --until 2026-11-08 --yes      in a script
      duly events replay welcome --since 30d --only user.joined

    What it has reacted to is left alone, so it can be repeated. The numbers of the jobs are
    printed.

    \b
    Exit codes: 0 ok (also if there was nothing left to do), 1 it was not done, 2 something in the
    command line is wrong, 3 there is no such schedule, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are

    async def replayed(opened: "Store") -> "ReplayResult":
        from duly.app.events import Events
        from duly.connection import OpenStore

        now = (await opened.upkeep.progress()).now
        between = _moment(since, "--since", now), _moment(until, "--until", now)
        events = Events(OpenStore(opened))
        foreseen = await events.areplay(schedule, *between, pattern=pattern, dry_run=True)
        if dry_run or not foreseen.events:
            return foreseen
        _make_sure(foreseen, yes=yes)
        return await events.areplay(schedule, *between, pattern=pattern)

    done = ask(store, replayed)
    if output == "json":
        click.echo(json.dumps(_plain(done)))
    else:
        for number in done.jobs:
            click.echo(number)
    click.echo(_summary(done), err=True)


def _event(name: str, fields: tuple[str, ...], *, key: str | None, whole: str | None) -> "Emitted":
    from duly.app.events import emitted
    from duly.cli.inputs import read_untyped

    payload = {} if whole is None else _object(whole)
    for one in fields:
        field, equals, value = one.partition("=")
        if not equals or not field:
            raise InvalidValue(f'"{one}": what an event says has names: id={one}')
        if field in payload:
            raise InvalidValue(f"{one}: {field} was said before")
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
    """What has just happened is a part of it, where now is said."""
    if text.strip() == "now":
        return now + timedelta.resolution
    found = read_when(text, zone=machine_zone() or "UTC", option=option)
    return now - found if isinstance(found, timedelta) else found


def _make_sure(foreseen: "ReplayResult", *, yes: bool) -> None:
    if yes or foreseen.events <= FEW:
        return
    question = f"let {foreseen.schedule} react to {foreseen.events:,} events"
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would {question}: say --yes")
    if not click.confirm(f"{question}?", err=True):
        raise SystemExit(NEEDS_YOU)


def _summary(done: "ReplayResult") -> str:
    if not done.events:
        return f"nothing to do: {done.schedule} has reacted to all that it means in that stretch"
    many = f"{done.events:,} event{'s' * (done.events != 1)}"
    if done.dry_run:
        skipped = f", of which {done.skipped:,} come to no job" if done.skipped else ""
        return f"{done.schedule} would react to {many}{skipped}"
    jobs = f"{len(done.jobs):,} job{'s' * (len(done.jobs) != 1)}"
    skipped = f", {done.skipped:,} skipped" if done.skipped else ""
    return f"{done.schedule} reacted to {many}: {jobs}{skipped}"


def _plain(done: "ReplayResult") -> dict[str, object]:
    return {
        "schedule": done.schedule,
        "events": done.events,
        "jobs": list(done.jobs),
        "skipped": done.skipped,
        "dry_run": done.dry_run,
    }
