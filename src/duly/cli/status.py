"""``duly status`` (results, problems, running and next runs) and ``duly why`` (the reason)."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from shlex import quote

import click

from duly.app import Store
from duly.cli.app_and_store import (
    NEEDS_YOU,
    ask,
    declares,
    output_option,
    settled,
    store_option,
)
from duly.cli.formats import View, utc_option, view_json, watch_option
from duly.cli.formats import watch as keep_showing
from duly.cli.output import lined_up
from duly.durations import about
from duly.errors import NotFound
from duly.policy.redaction import one_line
from duly.policy.why import LocalClock
from duly.views.attention import Need
from duly.views.today import Status, TodayView
from duly.views.today import status as look
from duly.views.why import WhyView, answer_job, answer_schedule

FIRST_STEP = (
    'Put @duly.schedule("every 10s") above a task and start duly up, '
    'or: duly schedules add "every 10s" -- date'
)


@click.command("status")
@store_option
@output_option
@watch_option
@utc_option
def status(store: str, output: str, *, watch: bool, utc: bool) -> None:
    """Show whether all runs since yesterday were OK, and what needs attention.

    \b
      duly status
      duly status --watch             again every 2 seconds
      duly status -o json | jq .needs


    \b
    A run of the last 24 hours needs attention if it was skipped because it was late or because the
    run before had not ended, if it failed, waits for a worker that is not there, is blocked by a
    changed signature, or is overdue because no scheduler is running.

    \b
    Exit codes: 0 nothing needs attention, 1 something does, 5 the database cannot be reached.
    """
    zone = View(utc=utc).zone

    async def again(opened: Store) -> str:
        return _written(await look(opened, zone=zone), output, zone)

    if watch:
        keep_showing(store, again)
        return
    found = ask(store, lambda opened: look(opened, zone=zone))
    click.echo(_written(found, output, zone))
    if not found.ok:
        raise SystemExit(NEEDS_YOU)


def _written(found: Status, output: str, zone: str) -> str:
    if output == "json":
        return view_json(TodayView.of(found, zone))
    return "\n".join(map(one_line, _lines(found, zone)))


def _lines(found: Status, zone: str) -> Iterator[str]:
    yield f"{'●' if found.ok else '▲'} {found.headline(zone)}"
    if not found.scheduled:
        yield f"  {FIRST_STEP}"
    for need in found.needs:
        yield from _need(found, need, zone)
    yield from _counts(found)
    yield from _running(found)
    yield from _awaiting(found, zone)
    yield from _coming(found, zone)
    if found.scheduled:
        yield f"times are in {zone}"


def _need(found: Status, need: Need, zone: str) -> Iterator[str]:
    due = ""
    if need.due_at is not None:
        due = f"  {need.moment_word} {LocalClock(zone, found.now).near(need.due_at)}"
    yield f"  {need.name}{due}  {need.sentence}"
    for command in need.commands:
        yield f"      {command.what:14} {command.line}"


def _counts(found: Status) -> Iterator[str]:
    """Yield the results of the runs that were due, unless all of them were OK."""
    counts = found.counts
    late = f" ({counts.late:,} of them late)" if counts.late else ""
    rest = {
        "overdue": counts.overdue,
        "in progress": counts.in_progress,
        "missed or failed": counts.failed,
    }
    others = [f"{count:,} {what}" for what, count in rest.items() if count]
    said = []
    if late or others:
        parts = ", ".join([f"{counts.succeeded:,} OK{late}", *others])
        said.append(f"{counts.due:,} due: {parts}")
    if counts.merged:
        said.append(f"{counts.merged:,} merged into another run")
    if counts.skipped:
        said.append(f"{counts.skipped:,} skipped on purpose or cancelled")
    if said:
        yield f"  {'; '.join(said)}"


def _running(found: Status) -> list[str]:
    rows = []
    for job in found.running:
        far = "" if job.percent is None else f"{job.percent:.0f} %"
        rows.append((str(job.id), job.name, about(found.now - job.since), f"{far} {job.message}"))
    return _section(f"running {found.running_count:,}", rows)


def _awaiting(found: Status, zone: str) -> list[str]:
    rows = []
    for step in found.awaiting:
        about = "" if step.key is None else f" about {step.key}"
        ends = "" if step.until is None else f"until {LocalClock(zone, found.now).near(step.until)}"
        rows.append((str(step.id), step.name, f"{step.event}{about}", ends))
    return _section("waiting for an answer", rows)


def _coming(found: Status, zone: str) -> list[str]:
    rows = []
    for one in found.coming:
        due = LocalClock(zone, found.now).near(one.due_at)
        ago = f"overdue by {about(found.now - one.due_at)}"
        left = ago if one.overdue else f"in {about(max(one.due_at - found.now, timedelta()))}"
        rows.append((due, one.name, left))
    return _section("next", rows)


def _section(heading: str, rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the heading and the rows as an indented table; nothing if there are no rows."""
    return [heading, *(f"  {line}" for line in lined_up(rows))] if rows else []


@click.command("why")
@click.argument("what", metavar="SCHEDULE|JOB")
@click.argument("time", metavar="[TIME]", nargs=-1)
@store_option
@output_option
def why(what: str, time: tuple[str, ...], store: str, output: str) -> None:
    """Explain why a schedule did or did not run, or why a job is in its state.

    \b
      duly why nightly_report                      the last time it was due
      duly why nightly_report 02:00                the last 02:00 on the schedule's own clock
      duly why nightly_report Thu 02:00
      duly why nightly_report 2026-11-13 02:00
      duly why 1042                                a job, by its number

    \b
    Exit codes: 0 success, 2 a time that cannot be read, 3 no such schedule or job, 5 the database
    cannot be reached.
    """
    try:
        answer = ask(store, lambda there: _answer(there, what, " ".join(time) or None))
    except NotFound:
        if (app := declares(settled(), what)) is None:
            raise
        raise NotFound(
            f'the schedule "{what}" is declared in {app}, but not in the database yet: a scheduler '
            f"writes it when it starts (duly up {quote(app)})"
        ) from None
    click.echo(view_json(answer) if output == "json" else str(answer))


async def _answer(store: Store, what: str, time: str | None) -> WhyView:
    if not (what.isascii() and what.isdigit()) or time is not None:
        return await answer_schedule(store, what, time)
    try:  # the name of a schedule may be a number, too
        return await answer_schedule(store, what)
    except NotFound:
        return await answer_job(store, int(what))
