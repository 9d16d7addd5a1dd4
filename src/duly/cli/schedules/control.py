"""Manual control of a schedule: run, pause, resume, skip, rewind, take back, remove, backfill."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

import click

from duly.app import Store
from duly.app.nouns import StoreNouns
from duly.app.schedules import taken_back
from duly.cli.app_and_store import NEEDS_YOU, ask, store_option
from duly.cli.formats import (
    Listing,
    View,
    format_option,
    iso,
    utc_option,
    written,
)
from duly.cli.options import count_option
from duly.cli.output import is_confirmed
from duly.model.fire import Backfill
from duly.model.schedule import StoredSchedule
from duly.settings.loading import machine_zone
from duly.views.schedule_detail import drift
from duly.views.schedules import Schedule, own_zone, zone_of
from duly.views.times import read_past, read_when

NAME = click.argument("name", metavar="NAME")
MOST_SKIPPED = 100


@click.command("run")
@NAME
@store_option
def run_command(name: str, store: str) -> None:
    """Run a schedule once, now, under its own overlap policy.

    \b
      duly schedules run nightly

    Exits with 1 if the overlap policy allows no run now; the reason names the run in the way.
    """
    fire = ask(store, lambda there: StoreNouns(there).schedules.arun(name))
    if fire.job_id is None:
        click.echo(f"Error: {name} was not run: {fire.reason}", err=True)
        raise SystemExit(NEEDS_YOU)
    click.echo(f"{fire.outcome}  job {fire.job_id}  {fire.reason}".rstrip())


@click.command("pause")
@NAME
@click.option("--until", metavar="TIME", help="Resume automatically: 2h, 2026-11-16T09:00.")
@click.option("--note", default="", help="Reason, shown to others.")
@click.option(
    "--catch-up",
    is_flag=True,
    help="Treat runs during the pause as missed, instead of skipping them.",
)
@utc_option
@store_option
def pause(
    *, name: str, until: str | None, note: str, catch_up: bool, utc: bool, store: str
) -> None:
    """Pause a schedule. Runs that are due meanwhile are skipped, and the history says so.

    \b
      duly schedules pause nightly
      duly schedules pause nightly --until 2h --note "the disk is full"
      duly schedules pause nightly --until "2026-11-16 09:00"     in the schedule's zone
      duly schedules pause nightly --catch-up                     missed runs are caught up
    """

    async def paused(there: Store) -> tuple[Schedule, str | None]:
        zone = await zone_of(there, name)
        here = zone or machine_zone() or "UTC"
        moment = None if until is None else read_when(until, zone=here, what="--until")
        done = await StoreNouns(there).schedules.apause(
            name, until=moment, note=note, catch_up=catch_up
        )
        return done, zone

    done, zone = ask(store, paused)
    shown = View(utc=utc).moment(done.paused_until, zone)
    click.echo(f"paused  {name}" + (f"  until {shown}" if done.paused_until else ""))


@click.command("resume")
@NAME
@utc_option
@store_option
def resume(*, name: str, utc: bool, store: str) -> None:
    """Resume a schedule, from now on.

    \b
      duly schedules resume nightly
    """
    done = ask(store, lambda there: StoreNouns(there).schedules.aresume(name))
    click.echo(f"resumed  {name}  next {View(utc=utc).moment(done.next_at, own_zone(done.plan))}")


@click.command("skip-next")
@NAME
@count_option("How many runs to skip.", most=MOST_SKIPPED, default=1)
@click.option("--undo", is_flag=True, help="Restore every run that was skipped in advance.")
@utc_option
@store_option
def skip_next(*, name: str, count: int, undo: bool, utc: bool, store: str) -> None:
    """Skip the next runs of a schedule, or restore skipped ones.

    \b
      duly schedules skip-next nightly
      duly schedules skip-next nightly -n 3
      duly schedules skip-next nightly --undo
    """

    async def skipped(there: Store) -> tuple[list[datetime], str | None]:
        people = StoreNouns(there).schedules
        moments = await (people.aunskip(name) if undo else people.askip_next(name, count=count))
        return moments, await zone_of(there, name)

    moments, zone = ask(store, skipped)
    if not moments:
        missing = "skipped run ahead" if undo else "run ahead that could be skipped"
        click.echo(f"Error: {name} has no {missing}", err=True)
        raise SystemExit(NEEDS_YOU)
    for moment in moments:
        done = "unskipped" if undo else "skipped"
        click.echo(f"{done}  {View(utc=utc).moment(moment, zone)}")


@click.command("rewind")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--to", metavar="TIME", help="Decide the runs since then again. Default: continue from now."
)
@click.option("--ahead", is_flag=True, help="All schedules that were fired ahead by a wrong clock.")
@utc_option
@store_option
def rewind(*, name: str | None, to: str | None, ahead: bool, utc: bool, store: str) -> None:
    """Set a schedule back after the clock of the database was ahead.

    \b
      duly schedules rewind --ahead                     all schedules that this affects
      duly schedules rewind nightly                     one of them
      duly schedules rewind nightly --to "2026-11-16 09:00"

    A schedule that was fired while the clock was ahead does not run until the clock reaches that
    time again. Times that were fired already are not fired twice.
    """
    if (name is None) is not ahead:
        raise click.UsageError("give the NAME of a schedule, or --ahead for all that are")
    if ahead and to is not None:
        raise click.UsageError("--to goes with a NAME; --ahead lets schedules go on from now")

    async def rewound(there: Store) -> list[StoredSchedule]:
        progress = await there.maintenance.progress()
        moment = progress.now
        if name is not None and to is not None:
            zone = await zone_of(there, name) or View().zone
            moment = read_past(to, zone=zone, what="--to", now=progress.now)
        names = progress.ahead if name is None else [name]
        return [await there.schedules.rewind(one, to=moment) for one in names]

    done = ask(store, rewound)
    for one in done:
        shown = View(utc=utc).moment(one.next_at, own_zone(one.plan))
        click.echo(f"rewound  {one.plan.name}  next {shown}")
    if not done:
        click.echo("no schedule is ahead of the clock")


@click.command("take-back")
@NAME
@store_option
def take_back(*, name: str, store: str) -> None:
    """Revert a schedule to its declaration in code; edits by people are undone.

    A schedule that was removed is added again.

    \b
      duly schedules show nightly         shows the differences
      duly schedules take-back nightly
    """

    async def taken(there: Store) -> list[str]:
        found = await drift(there, name)
        await taken_back(there, name)
        return [f"{one.field}: {one.here} → {one.in_code}" for one in found]

    changed = ask(store, taken)
    for line in changed or [f"{name} is as the code says"]:
        click.echo(line)


_STILL_DECLARED = (
    "is declared in code and stays removed until that code changes; to bring it back: "
    "duly schedules take-back {}"
)


@click.command("remove")
@NAME
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@store_option
def remove(*, name: str, yes: bool, store: str) -> None:
    """Remove a schedule. Its jobs stay, and run.

    \b
      duly schedules remove nightly
      duly schedules remove nightly --yes        in a script

    To stop it for a while, pause it. A schedule that is declared in code stays removed until that
    code changes: remove it there, too. Until then duly status lists it, and duly schedules
    take-back restores it.
    """

    async def removed(there: Store) -> bool:
        people = StoreNouns(there).schedules
        schedule = await people.aget(name)
        if not yes:
            _make_sure(schedule)
        await people.aremove(name)
        return schedule.owner == "code"

    declared = ask(store, removed)
    click.echo(f"removed  {name}")
    if declared:
        click.echo(f"note: {name} {_STILL_DECLARED.format(quote(name))}", err=True)


def _make_sure(schedule: Schedule) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"not a terminal, so the removal of {schedule.name} cannot be confirmed: pass --yes"
        )
    declared = ""
    if schedule.owner == "code":
        declared = f" It {_STILL_DECLARED.format(quote(schedule.name))}."
    if not click.confirm(f'Remove "{schedule.name}", {schedule.rule}?{declared}', err=True):
        raise SystemExit(NEEDS_YOU)


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
@format_option("wide lists the skipped runs; json and jsonl are for programs.")
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
            read_past(text, zone=zone, what=option, now=now)
            for text, option in ((start, "--from"), (end, "--to"))
        ]
        people = StoreNouns(there).schedules
        foreseen = await people.abackfill(name, *between, dry_run=True, again=again)
        for note in foreseen.notes:
            click.echo(f"Note: {note}.", err=True)
        if dry_run or not foreseen.queued:
            return foreseen
        _confirm_backfill(foreseen, view, zone, yes=yes)
        return await people.abackfill(name, *between, again=again)

    done = ask(store, backfilled)
    _show_backfill(done, view, zone)


def _confirm_backfill(foreseen: Backfill, view: View, zone: str, *, yes: bool) -> None:
    count = len(foreseen.queued)
    if yes or count <= FEW:
        return
    first, last = (view.moment(moment, zone) for moment in foreseen.queued[:: count - 1])
    if not is_confirmed(f"start {count:,} runs of {foreseen.schedule}, from {first} to {last}"):
        raise SystemExit(NEEDS_YOU)


def _show_backfill(done: Backfill, view: View, zone: str) -> None:
    lines = _backfill_lines(done, view.output)
    shown = lines[:MOST_SHOWN] if view.output == "table" else lines
    text = written(shown, view, _backfill_listing(zone))
    if text:
        click.echo(text)
    if len(shown) < len(lines):
        click.echo(f"… and {len(lines) - len(shown):,} more (-o wide shows all)", err=True)
    click.echo(_backfill_summary(done), err=True)


def _backfill_summary(done: Backfill) -> str:
    queued, left = len(done.queued), len(done.left_alone)
    if not queued and not left:
        return f"nothing to do: {done.schedule} has no run in this period"
    would = "would be queued" if done.dry_run and queued else "queued"
    said = f"{queued:,} run{'s' * (queued != 1)} {would}"
    if left:
        had = "has" if left == 1 else "have"
        said += f"; {left:,} {had} a job already (-o wide lists them, --again runs all)"
    return said


def _backfill_lines(done: Backfill, output: str) -> Sequence[BackfillLine]:
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


def _backfill_listing(zone: str) -> Listing[BackfillLine]:
    return Listing(
        columns={
            "DUE": lambda line, view: view.moment(line.due_at, zone),
            "OUTCOME": "outcome",
            "WHY": "reason",
            "JOB": "job_id",
        },
        name=lambda line: str(iso(line.due_at)),
        nothing="",
    )
