"""``duly next``: explain a rule, list when it is due, and show effects of clock changes.

The rule is typed, or it is that of a schedule in the store.
"""

import json
import re
from collections.abc import Collection
from datetime import UTC, datetime
from shlex import quote

import click

from duly.cli.app_and_store import settled, store_of
from duly.cli.formats import format_option
from duly.cli.options import count_option
from duly.cli.output import RuleRefused, roughly, table
from duly.clock import now
from duly.errors import DulyError, RuleError
from duly.rules import On, Rule, Spaced, clock_change_notes, local_time, parse
from duly.settings import Settings
from duly.views.times import read_moment

MOST_MOMENTS = 10_000
MOST_SKIPPED = 1_000


class _QuotedRule(click.Command):
    """A command with one argument, which a shell splits at its spaces unless it is quoted."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            quoted = 'put the rule in quotes: duly next "0 2 * * * Europe/Berlin"'
            raise click.UsageError(f"{error.message}; {quoted}", ctx) from None


@click.command("next", cls=_QuotedRule)
@click.argument("rule", metavar="RULE | SCHEDULE")
@click.option("--zone", metavar="ZONE", help="Time zone, if RULE names none: Europe/Berlin, UTC.")
@click.option("--store", metavar="URL", help="Where SCHEDULE is; as for duly schedules.")
@click.option(
    "--from",
    "start",
    metavar="TIME",
    help="Begin after this ISO time, by default now; without an offset, in the zone of the rule.",
)
@count_option("How many times to show.", most=MOST_MOMENTS, default=10)
@click.option(
    "--dst",
    default="cron",
    show_default=True,
    metavar="CHOICE",
    help="Effect of clock changes: cron, systemd, elapsed, quartz, or GAP/FOLD such as end/first.",
)
@click.option("--name", help="Name of the schedule, which determines H.")
@format_option("json is a list of UTC times.", ["table", "json"])
def next_moments(
    *,
    rule: str,
    zone: str | None,
    store: str | None,
    start: str | None,
    count: int,
    dst: str,
    name: str | None,
    output: str,
) -> None:
    """Explain RULE: in a sentence, its next times, and notes on clock changes.

    RULE may be a cron line, a systemd calendar expression, an interval, one moment or a
    recurrence. A rule that names an hour or a day needs a time zone. A text that is not a rule is
    taken as the name of a schedule; times that it excludes or skips are not shown.

    \b
      duly next "Mon..Fri 09:00 Europe/Berlin"
      duly next "30 2 * * *" --zone Europe/Berlin -n 3
      duly next "*-*~01 18:00 UTC"                  the last day of each month
      duly next "every 90m from 2026-01-01T00:15Z"
      duly next "0 9 * * 1-5 Europe/Berlin - holidays(DE-BE)"
      duly next "DTSTART:20260105T090000Z RRULE:FREQ=WEEKLY;BYDAY=MO,WE"
      duly next nightly_report                      the schedule of that name

    \b
    Exit codes: 0 success, 2 neither a rule nor the name of a schedule.
    """
    settings = settled(url=store, zone=zone)
    zone = settings.zone
    try:
        found, skipped = _found(rule, settings, dst=dst, name=name)
        after = now()
        if start:
            after = read_moment(start, zone=found.stated_zone or zone, what="--from")
        if isinstance(found, Spaced):
            _show_spaced(found, after.replace(microsecond=0), output)
        else:
            _show(found, after, count=count, zone=zone, output=output, skipped=skipped)
    except RuleError as error:
        raise RuleRefused(error, rule) from None


def _found(
    text: str, settings: Settings, *, dst: str, name: str | None
) -> tuple[Rule | Spaced, Collection[datetime]]:
    """Return the typed rule; or that of the schedule of this name, and its skipped times."""
    try:
        return parse(text, zone=settings.zone, dst=dst, name=name), ()
    except RuleError as error:
        url = store_of(settings, hint=False)
        known = _schedule(text, url)
        if known is None:
            raise _neither(error, text, url=url) from None
        return known


def _schedule(name: str, url: str) -> tuple[Rule | Spaced, Collection[datetime]] | None:
    """Return the rule of the schedule and its skipped times; None if it cannot be read."""
    import asyncio

    from duly.app import open_store
    from duly.views.schedules import upcoming_one

    async def asked() -> tuple[Rule | Spaced, Collection[datetime]]:
        store = await open_store(url)
        try:
            schedule = await store.schedules.get(name)
            ahead = await store.ledger.fires(name, since=schedule.cursor, limit=MOST_SKIPPED)
            overdue = (await upcoming_one(store, schedule)).overdue_at(now())
        finally:
            await store.close()
        if overdue is not None:
            since = f"{roughly(now() - overdue)} ago and has not been fired: duly why {quote(name)}"
            click.echo(f"Overdue: it was due {since}", err=True)
        return schedule.plan.kept, {fire.due_at for fire in ahead if fire.outcome == "skipped"}

    try:
        return asyncio.run(asked())
    except DulyError:
        return None


def _neither(error: RuleError, text: str, *, url: str) -> RuleError:
    """Add to the error that no schedule has this name, if the text looks like a name."""
    if not re.fullmatch(r"[^\W\d][\w.-]*", text):
        return error
    from duly.app import place

    error.add_note(f'No schedule is called "{text}" in {place(url)} either.')
    return error


def _show(
    rule: Rule,
    after: datetime,
    *,
    count: int,
    zone: str | None,
    output: str,
    skipped: Collection[datetime] = (),
) -> None:
    found = rule.between(after, datetime.max.replace(tzinfo=UTC), count + len(skipped))
    moments = [moment for moment in found if moment not in skipped][:count]
    if output == "json":
        click.echo(json.dumps([_utc(moment) for moment in moments]))
        return
    click.echo(rule.explain())
    if isinstance(rule, On):
        click.echo("\nIt has no times of its own: events make it due.")
        return
    if moments:
        click.echo()
        click.echo(_table(moments, rule.zone or zone or "UTC", after))
    if len(moments) < count:
        click.echo(f"\nNothing after {moments[-1] if moments else after:%Y-%m-%d %H:%M:%S %Z}.")
    notes = clock_change_notes(rule, after)
    if notes:
        click.echo()
    for note in notes:
        click.echo(f"Note: {note}")


def _table(moments: list[datetime], zone: str, after: datetime) -> str:
    if zone == "UTC":
        short = [
            (f"{moment:%a} {_utc(moment)}", f"in {roughly(moment - after)}") for moment in moments
        ]
        return table(("UTC", "IN"), short)
    rows = []
    for moment in moments:
        local = local_time(moment, zone)
        time = local.replace(tzinfo=None).isoformat(" ")
        offset = local.isoformat(" ").removeprefix(time)
        rows.append((f"{local:%a} {time}", offset, _utc(moment), f"in {roughly(moment - after)}"))
    return table((zone, "OFFSET", "UTC", "IN"), rows)


def _show_spaced(timing: Spaced, after: datetime, output: str) -> None:
    following = timing.after_end(after)
    if output == "json":
        click.echo(json.dumps([_utc(following)] if following else []))
        return
    click.echo(timing.explain())
    said = _utc(following) if following else "never again"
    click.echo(f"\nAfter a run that ends at {_utc(after)}: {said}.")


def _utc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
