"""``duly schedules backfill``: enqueue runs for past due times; many need a confirmation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import click

from duly.app import Store
from duly.app.nouns import StoreNouns
from duly.cli.formats import (
    NOTHING,
    OUTPUTS,
    Listing,
    View,
    iso,
    read_past,
    utc_option,
    written,
)
from duly.cli.output import is_confirmed
from duly.cli.store import NEEDS_YOU, ask, store_option
from duly.model.fire import Backfill
from duly.settings.loading import machine_zone
from duly.views.schedules import zone_of

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
    help="Start of the period (inclusive): 2026-11-01, or 7d for 7 days ago.",
)
@click.option(
    "--to",
    "end",
    metavar="TIME",
    required=True,
    help="End of the period (exclusive): 2026-11-08, 1d, or now.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the runs that would be queued, and change nothing."
)
@click.option("--again", is_flag=True, help="Also repeat runs that have had a job.")
@click.option("-y", "--yes", is_flag=True, help=f"Do not ask for confirmation of more than {FEW}.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUTS),
    default="table",
    show_default=True,
    help="wide lists the skipped runs; json and jsonl are for programs.",
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
    """Enqueue a job for each past due time that has had none.

    \b
      duly schedules backfill nightly --from 2026-11-01 --to 2026-11-08 --dry-run
      duly schedules backfill nightly --from 2026-11-01 --to 2026-11-08
      duly schedules backfill nightly --from 7d --to now --yes        in a script
      duly schedules backfill nightly --from 7d --to 6d --again       also repeat those that ran

    --from is inclusive and --to exclusive: --from 2026-11-01 --to 2026-11-08 is seven days. Times
    are in the schedule's zone. The current rule decides which times are due; each job gets its own
    time as due_at, and runs however late it is.

    Either all jobs are enqueued or none, at most 10,000; so the command can be repeated, and adds
    only the missing ones. Unless the schedule has overlap="allow", they run one after the other,
    the oldest first, and never beside another run of the schedule.

    \b
    Exit codes: 0 success (also if there was nothing left to do), 1 not confirmed, 2 invalid usage,
    3 no such schedule, 5 the database cannot be reached.
    """
    view, zone = View(output=output, utc=utc), "UTC"

    async def backfilled(there: Store) -> Backfill:
        nonlocal zone
        zone = await zone_of(there, name) or machine_zone() or "UTC"
        now = (await there.maintenance.progress()).now
        between = [
            read_past(text, zone=zone, option=option, now=now)
            for text, option in ((start, "--from"), (end, "--to"))
        ]
        people = StoreNouns(there).schedules
        foreseen = await people.abackfill(name, *between, dry_run=True, again=again)
        for note in foreseen.notes:
            click.echo(f"Note: {note}.", err=True)
        if dry_run or not foreseen.queued:
            return foreseen
        _make_sure(foreseen, view, zone, yes=yes)
        return await people.abackfill(name, *between, again=again)

    done = ask(store, backfilled)
    _show(done, view, zone)


def _make_sure(foreseen: Backfill, view: View, zone: str, *, yes: bool) -> None:
    count = len(foreseen.queued)
    if yes or count <= FEW:
        return
    first, last = (view.moment(moment, zone) for moment in foreseen.queued[:: count - 1])
    if not is_confirmed(f"run {count:,} moments of {foreseen.schedule}, from {first} to {last}"):
        raise SystemExit(NEEDS_YOU)


def _show(done: Backfill, view: View, zone: str) -> None:
    lines = _lines(done, view.output)
    shown = lines[:MOST_SHOWN] if view.output == "table" else lines
    text = written(shown, view, _listing(zone))
    if text:
        click.echo(text)
    if len(shown) < len(lines):
        click.echo(f"… and {len(lines) - len(shown):,} more (-o wide shows all)", err=True)
    click.echo(_summary(done), err=True)


def _summary(done: Backfill) -> str:
    queued, left = len(done.queued), len(done.left_alone)
    if not queued and not left:
        return f"nothing to do: {done.schedule} has no run in this period"
    would = "would be queued" if done.dry_run and queued else "queued"
    said = f"{queued:,} moment{'s' * (queued != 1)} {would}"
    if left:
        had = "has" if left == 1 else "have"
        said += f"; {left:,} {had} a job already (-o wide lists them, --again runs all)"
    return said


def _lines(done: Backfill, output: str) -> Sequence[BackfillLine]:
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
            BackfillLine(one.due_at, "unchanged", one.reason, one.job_id) for one in done.left_alone
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
        name=lambda line: str(iso(line.due_at)),
        nothing="",
    )
