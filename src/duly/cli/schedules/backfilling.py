"""``duly schedules backfill``: enqueue runs for past due times; many need a confirmation."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from duly.cli.formats import (
    NOTHING,
    OUTPUTS,
    Listing,
    View,
    iso,
    read_when,
    utc_option,
    written,
)
from duly.cli.store import NEEDS_YOU, ask, store_option
from duly.settings.loading import machine_zone

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.fire import Backfill

FEW = 5  # up to this many runs need no confirmation
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class BackfillLine:
    """A due time of the backfill, and its outcome."""

    due_at: datetime
    outcome: str
    reason: str
    job_id: int | None = None


@click.command("backfill")
@click.argument("name", metavar="NAME")
@click.option(
    "--from",
    "start",
    metavar="TIME",
    required=True,
    help="The first moment that may be part of it: 2026-11-01, or 7d ago as 7d.",
)
@click.option(
    "--to",
    "end",
    metavar="TIME",
    required=True,
    help="The end, which is not part of it: 2026-11-08, 1d, or now.",
)
@click.option("--dry-run", is_flag=True, help="Say which moments it would be, and do nothing.")
@click.option("--again", is_flag=True, help="Run those again, too, that have had a job.")
@click.option("-y", "--yes", is_flag=True, help=f"Do not ask, also if it is more than {FEW}.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUTS),
    default="table",
    show_default=True,
    help="wide lists the skipped moments; json and jsonl are for programs.",
)
@utc_option
@store_option
def backfill(  # noqa: PLR0913 - one for each option
    *,
    name: str,
    start: str,
    end: str,
    dry_run: bool,
    again: bool,
    yes: bool,
    output: str,
    utc: bool,
    store: str,
) -> None:
    """Run moments that have passed: one job for each that has had none.

    \b
      duly schedules backfill nightly --from 2026-11-01 --to 2026-11-08 --dry-run
      duly schedules backfill nightly --from 2026-11-01 --to 2026-11-08
      duly schedules backfill nightly --from 7d --to now --yes        in a script
      duly schedules backfill nightly --from 7d --to 6d --again       those that have run, too

    From is part of it and to is not: --from 2026-11-01 --to 2026-11-08 is seven days. Times are on
    the schedule's own clock. The moments are those of its rule as it is now; each job gets its own
    moment as due_at, and runs however late it is.

    All of them are queued, or none; so it can be repeated, and adds only what is missing. At most
    10,000 at once. Unless the schedule has overlap="allow" they run one after the other, the oldest
    first, and never beside another run of it.

    \b
    Exit codes: 0 ok (also if there was nothing left to do), 1 it was not done, 2 something in the
    command line is wrong, 3 there is no such schedule, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    view, zone = View(output=output, utc=utc), "UTC"

    async def backfilled(there: "Store") -> "Backfill":
        from duly.app.typed_schedules import steered
        from duly.views.schedules import zone_of

        nonlocal zone
        zone = await zone_of(there, name) or machine_zone() or "UTC"
        now = (await there.upkeep.progress()).now
        between = [
            _moment(text, option, zone=zone, now=now)
            for text, option in ((start, "--from"), (end, "--to"))
        ]
        people = steered(there)
        foreseen = await people.abackfill(name, *between, dry_run=True, again=again)
        for note in foreseen.notes:
            click.echo(f"Note: {note}.", err=True)
        if dry_run or not foreseen.queued:
            return foreseen
        _make_sure(foreseen, view, zone, yes=yes)
        return await people.abackfill(name, *between, again=again)

    done = ask(store, backfilled)
    _show(done, view, zone)


def _moment(text: str, option: str, *, zone: str, now: datetime) -> datetime:
    if text.strip() == "now":
        return now
    found = read_when(text, zone=zone, option=option)
    return now - found if isinstance(found, timedelta) else found


def _make_sure(foreseen: "Backfill", view: View, zone: str, *, yes: bool) -> None:
    count = len(foreseen.queued)
    if yes or count <= FEW:
        return
    first, last = (view.moment(moment, zone) for moment in foreseen.queued[:: count - 1])
    question = f"run {count:,} moments of {foreseen.schedule}, from {first} to {last}"
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would {question}: say --yes")
    if not click.confirm(f"{question}?", err=True):
        raise SystemExit(NEEDS_YOU)


def _show(done: "Backfill", view: View, zone: str) -> None:
    lines = _lines(done, view.output)
    shown = lines[:MOST_SHOWN] if view.output == "table" else lines
    text = written(shown, view, _listing(zone))
    if text:
        click.echo(text)
    if len(shown) < len(lines):
        click.echo(f"… and {len(lines) - len(shown):,} more (-o wide shows all)", err=True)
    click.echo(_summary(done), err=True)


def _summary(done: "Backfill") -> str:
    queued, left = len(done.queued), len(done.left_alone)
    if not queued and not left:
        return f"nothing to do: no moment of {done.schedule} is in that stretch"
    would = "would be queued" if done.dry_run and queued else "queued"
    said = f"{queued:,} moment{'s' * (queued != 1)} {would}"
    if left:
        had = "has had a job and is" if left == 1 else "have had a job and are"
        said += f"; {left:,} {had} left alone (-o wide says which, --again runs all)"
    return said


def _lines(done: "Backfill", output: str) -> Sequence[BackfillLine]:
    lost, jobs = set(done.forgotten), done.jobs or [None] * len(done.queued)
    found = [
        BackfillLine(
            due_at,
            "to be queued" if done.dry_run else "queued",
            "perhaps not for the first time" if due_at in lost else "",
            job_id,
        )
        for due_at, job_id in zip(done.queued, jobs, strict=True)
    ]
    if output not in ("table", "name"):
        found += [
            BackfillLine(one.due_at, "left alone", one.reason, one.job_id)
            for one in done.left_alone
        ]
    return sorted(found, key=lambda line: line.due_at)


def _listing(zone: str) -> Listing[BackfillLine]:
    return Listing(
        headings=("DUE", "OUTCOME", "WHY", "JOB"),
        row=lambda line, view: (
            view.moment(line.due_at, zone),
            line.outcome,
            line.reason or NOTHING,
            NOTHING if line.job_id is None else str(line.job_id),
        ),
        plain=_plain,
        name=lambda line: str(iso(line.due_at)),
        nothing="",
    )


def _plain(line: BackfillLine) -> dict[str, object]:
    return {
        "due_at": iso(line.due_at),
        "outcome": line.outcome,
        "reason": line.reason,
        "job_id": line.job_id,
    }
