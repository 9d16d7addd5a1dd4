"""``duly run``: enqueue one job of a task, and optionally wait for its result."""

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import click

from duly.app import Store
from duly.app.access import login
from duly.app.schedule_files import built_in
from duly.cli.app_and_store import NEEDS_YOU, app_of, ask, has_app, imported, settled
from duly.cli.inputs import read_arguments
from duly.cli.options import app_option
from duly.cli.output import command, say
from duly.cli.serving import address_of
from duly.clock import boottime, sleep
from duly.errors import InvalidValue
from duly.model.job import JobRequest, StoredJob
from duly.model.journal import ProgressNote
from duly.model.states import State
from duly.policy.redaction import one_line
from duly.registry.app_loading import find
from duly.registry.option_values import is_rule
from duly.views.times import read_length, read_when
from duly.views.why import hindrance, unfinished

TIMED_OUT: Final = 4
INTERRUPTED: Final = 130  # shell convention: 128 + SIGINT
POLL_SECONDS: Final = 0.1
PATIENCE: Final = 2.0  # seconds until the user is told that no worker can run the job
LINES: Final = 1_000
BAR: Final = 30
_REWRITE_LINE: Final = "\r\x1b[K"


@click.command("run")
@click.argument("task", metavar="TASK")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]…")
@app_option
@click.option(
    "--store", metavar="URL", help="Database: a SQLite file or postgresql://… Default: the app's."
)
@click.option("--queue", metavar="NAME", help="Queue of the job. Default: the task's.")
@click.option("--priority", metavar="N", help="Priority: -100 to 100, or high, normal, low, idle.")
@click.option("--key", help="Unique key: an unfinished job of the task with it is replaced.")
@click.option("--tenant", help="Tenant that the job belongs to.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Tag of the job; can be given several times.",
)
@click.option(
    "--run-after",
    metavar="WHEN",
    help="Earliest start: 5m (from now), 2026-03-05T02:00Z, or the next time of a rule.",
)
@click.option(
    "--wait", is_flag=True, help="Wait: show log lines, print the result, exit by the outcome."
)
@click.option("--timeout", metavar="TIME", help="Stop waiting after this long; the job continues.")
def run_command(
    task: str,
    arguments: tuple[str, ...],
    *,
    app: str | None,
    store: str | None,
    wait: bool,
    timeout: str | None,
    **words: Any,
) -> None:
    """Enqueue one job of TASK and print its number; a worker runs it.

    Values are parsed by the parameter's type: text for str, otherwise JSON if it looks like JSON.

    \b
      duly run send to=ada subject="7 new books"
      duly run import_rows rows=[1,2,3] day=2026-03-05 dry_run=true --queue slow
      duly run report --wait                log lines on stderr, the result as JSON on stdout
      duly run report --wait --timeout 5m   wait at most five minutes
      duly run remind user=7 --run-after 2d --key reminder:7
      duly run reindex --run-after "Mon..Fri 22:00 Europe/Berlin"
      duly run duly.send target=main task=shop.report    a built-in task needs no app

    \b
    Exit codes: 0 success, 1 the job failed or was cancelled, 2 invalid usage, 3 no such task, 4
    timed out, 5 the database cannot be reached, 130 interrupted (Ctrl-C); the job continues.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait")
    patience = None if timeout is None else _length(timeout)
    url, call = _call(task, arguments, app=app, store=store, words=words)
    if wait:
        raise SystemExit(JobWaiter(call, patience).until_it_ends(url))
    [number] = ask(url, lambda opened: opened.jobs.enqueue([call]))
    click.echo(number)


def _call(
    task: str,
    arguments: tuple[str, ...],
    *,
    app: str | None,
    store: str | None,
    words: dict[str, Any],
) -> tuple[str, JobRequest]:
    """Return the database and the call to enqueue."""
    settings = settled(app=app, url=store)
    is_built_in = task.startswith("duly.")
    if is_built_in and not has_app(settings):
        registry, url = built_in(), settings.url
    else:
        target = app_of(settings, "run TASK --app")
        registry = imported(target, settings)
        registry = built_in() if is_built_in else registry
        url = settings.url if store else address_of(find(target), settings)
    definition = registry.get(task)
    given = read_arguments(definition, arguments)
    call = registry.call(definition, (), given, submitter=login(), **_choices(words))
    return url, call


def _choices(words: dict[str, Any]) -> dict[str, Any]:
    """Return the given options as the registry takes them; the task decides the others."""
    said = {name: value for name, value in words.items() if value not in (None, ())}
    if "run_after" in said:
        said["run_after"] = _moment(said["run_after"])
    if said.get("priority", "").lstrip("-").isdigit():
        said["priority"] = int(said["priority"])
    return said


def _moment(text: str) -> timedelta | datetime | str:
    """Read the earliest start; a rule, which stands for its next moment, stays a text."""
    if text.strip().isdecimal():
        number = text.strip()
        raise InvalidValue(
            f'--run-after {text}: give a unit, "{number}s", "{number}m" or "{number}h", or a time, '
            "as 2026-03-05T02:00Z"
        )
    if is_rule(text):
        return text
    return read_when(text, zone=None, what="--run-after")


def _length(text: str) -> timedelta:
    length = read_length(text)
    if length is None:
        raise InvalidValue(f'--timeout {text}: expected a duration, as "90s", "5m" or "1h30m"')
    return length


@dataclass(slots=True)
class JobWaiter:
    """Enqueue a job and wait for its end; on Ctrl-C the job continues."""

    call: JobRequest
    patience: timedelta | None
    output: "JobOutput | None" = None

    def until_it_ends(self, url: str) -> int:
        """Wait until the job has ended; return the exit code."""
        try:
            return ask(url, self._run)
        except KeyboardInterrupt:
            if self.output is None:  # not enqueued yet
                raise
            self.output.stop()
            say(f"job {self.output.job} continues")
            return INTERRUPTED

    async def _run(self, store: Store) -> int:
        begun, told, tried = boottime(), False, 0
        [number] = await store.jobs.enqueue([self.call])
        self.output = output = JobOutput(number)
        say(f"job {number}")
        end = None if self.patience is None else boottime() + self.patience.total_seconds()
        while True:
            # The state is read first: a job logs before it ends.
            job = await store.jobs.get(number)
            await output.show_new(store)
            if job.ended_at is not None:
                output.stop()
                return _report(job)
            if end is not None and boottime() >= end:
                output.stop()
                say(f"Error: {await unfinished(store, job, waited=self.patience)}")
                return TIMED_OUT
            if job.attempt > tried and job.state is State.SCHEDULED:
                tried = job.attempt
                output.stop()
                say(f"job {number}: {job.reason}")
            if boottime() - begun >= PATIENCE and not told:
                told = True
                await _report_hindrance(store, job)
            await sleep(POLL_SECONDS)


async def _report_hindrance(store: Store, job: StoredJob) -> None:
    """Say why the job cannot start, for example because no worker serves its queue."""
    hindered = await hindrance(store, job)
    if hindered is not None:
        say(f"job {job.id}: {hindered}")


def _report(job: StoredJob) -> int:
    if job.state.value == "succeeded":
        click.echo(job.result or "null")
        return 0
    if job.error:
        say(job.error.rstrip())
    say(f"Error: job {job.id} {job.state}: {job.reason}")
    return NEEDS_YOU


@dataclass(slots=True)
class JobOutput:
    """Prints a job's log lines and progress; on a terminal, progress is a bar."""

    job: int
    last: int = 0
    note: ProgressNote | None = None
    has_bar: bool = False

    async def show_new(self, store: Store) -> None:
        while lines := await store.journal.logs(self.job, after=self.last, limit=LINES):
            for line in lines:
                self._line(one_line(line.text, tabs=True))
            self.last = lines[-1].seq
        note = await store.journal.note(self.job)
        if note is not None and note != self.note:
            self.note = note
            self._progress(note)

    def stop(self) -> None:
        if self.has_bar:
            click.echo(err=True)
            self.has_bar = False

    def _line(self, text: str) -> None:
        if self.has_bar:
            command(_REWRITE_LINE, err=True)
        say(text)
        if self.has_bar and self.note is not None:
            self._progress(self.note)

    def _progress(self, note: ProgressNote) -> None:
        far = f"{note.percent:3.0f} % {one_line(note.message, tabs=True)}".rstrip()
        if not sys.stderr.isatty():
            say(far.strip())
            return
        full = round(BAR * note.percent / 100)
        command(_REWRITE_LINE, err=True)
        click.echo(f"[{'#' * full}{' ' * (BAR - full)}] {far}", nl=False, err=True)
        self.has_bar = True
