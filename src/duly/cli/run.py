"""``duly run``: a job of a task, now or later; and what becomes of it, for whoever waits."""

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from duly.cli.find_app import app_of, imported
from duly.cli.formats import read_length, read_when
from duly.cli.options import app_option
from duly.cli.output import command, say
from duly.cli.serving import address_of
from duly.cli.store import NEEDS_YOU, ask, refuse, settled
from duly.clock import boottime, sleep
from duly.errors import DulyError, InvalidValue
from duly.policy.printable import one_line

if TYPE_CHECKING:
    from duly.app import Store
    from duly.model.job import Call, Job
    from duly.model.journal import ProgressNote

TIMED_OUT: Final = 4
INTERRUPTED: Final = 130  # as shells say it: 128 and the number of SIGINT
LOOK: Final = 0.1  # seconds between two looks at a job
PATIENCE: Final = 2.0  # seconds until somebody is told that nobody is there to run it
LINES: Final = 1_000
BAR: Final = 30
_LINE_ANEW: Final = "\r\x1b[K"


@click.command("run")
@click.argument("task", metavar="TASK")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]…")
@app_option
@click.option("--store", metavar="URL", help="Where jobs are kept; by default where APP says.")
@click.option("--queue", metavar="NAME", help="Another one than the task says.")
@click.option("--priority", metavar="N", help="-100 to 100, or high, normal, low, idle.")
@click.option("--key", help="The name of the promise: an unfinished job that has it is moved.")
@click.option("--tenant", help="Whose job it is.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="May be said several times.")
@click.option("--run-after", metavar="WHEN", help="Not before: 5m from now, 2026-03-05T02:00Z.")
@click.option("--wait", is_flag=True, help="Show what it says, and exit by what became of it.")
@click.option("--timeout", metavar="TIME", help="Wait no longer; the job goes on.")
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
    """Run TASK once: promise a job to the workers, and print its number.

    Values are read by the type of their parameter: text for str, JSON where it looks like it.

    \b
      duly run send to=ada subject="7 new books"
      duly run import_rows rows=[1,2,3] day=2026-03-05 dry_run=true --queue slow
      duly run report --wait                what it says on stderr, its result as JSON on stdout
      duly run report --wait --timeout 5m   as long as that
      duly run remind user=7 --run-after 2d --key reminder:7

    \b
    Exit codes: 0 ok, 1 it failed or was cancelled, 2 something in the command line is wrong,
    3 there is no such task, 4 it has not ended in time, 5 the store cannot be reached,
    130 you did not wait any longer (Ctrl-C): the job goes on without you.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is how long to --wait; say both")
    try:
        patience = None if timeout is None else _length(timeout)
        url, call = _asked(task, arguments, app=app, store=store, words=words)
    except DulyError as error:
        refuse(error)
    if wait:
        raise SystemExit(JobWaiter(call, patience).until_it_ends(url))
    [number] = ask(url, lambda opened: opened.jobs.enqueue([call]))
    click.echo(number)


def _asked(
    task: str,
    arguments: tuple[str, ...],
    *,
    app: str | None,
    store: str | None,
    words: dict[str, Any],
) -> "tuple[str, Call]":
    """Where the store is, and what it is asked to keep."""
    from duly.app.typed_schedules import login
    from duly.cli.inputs import read_arguments
    from duly.registry.app_loading import find

    settings = settled(app=app, url=store)
    target = app_of(settings, "run TASK --app")
    registry = imported(target, settings)
    definition = registry.get(task)
    given = read_arguments(definition, arguments)
    call = registry.call(definition, (), given, submitter=login(), **_worded(words))
    return settings.url if store else address_of(find(target), settings), call


def _worded(words: dict[str, Any]) -> dict[str, Any]:
    """What was typed, as it is said in Python; what was not, the task decides."""
    said = {name: value for name, value in words.items() if value not in (None, ())}
    if "run_after" in said:
        said["run_after"] = _moment(said["run_after"])
    if said.get("priority", "").lstrip("-").isdigit():
        said["priority"] = int(said["priority"])
    return said


def _moment(text: str) -> timedelta | datetime:
    if text.strip().isdecimal():
        number = text.strip()
        raise InvalidValue(
            f'--run-after {text}: say "{number}s", "{number}m" or "{number}h", or a moment, as '
            "2026-03-05T02:00Z"
        )
    return read_when(text, zone=None, option="--run-after")


def _length(text: str) -> timedelta:
    length = read_length(text)
    if length is None:
        raise InvalidValue(f'--timeout {text}: a length of time, as "90s", "5m" or "1h30m"')
    return length


@dataclass(slots=True)
class JobWaiter:
    """Somebody who waits for a job that they promise; they may leave, and it goes on."""

    call: "Call"
    patience: timedelta | None
    talk: "JobOutput | None" = None

    def until_it_ends(self, url: str) -> int:
        """The code to exit with."""
        try:
            return ask(url, self._run)
        except KeyboardInterrupt:
            if self.talk is None:  # nothing is promised
                raise
            self.talk.stop()
            say(f"job {self.talk.job} goes on without you")
            return INTERRUPTED

    async def _run(self, store: "Store") -> int:
        from duly.views.why import unfinished

        begun, told = boottime(), False
        [number] = await store.jobs.enqueue([self.call])
        self.talk = talk = JobOutput(number)
        say(f"job {number}")
        end = None if self.patience is None else boottime() + self.patience.total_seconds()
        while True:
            # Looked at first: what a job says, it says before its end.
            job = await store.jobs.get(number)
            await talk.go_on(store)
            if job.ended_at is not None:
                talk.stop()
                return _told(job)
            if end is not None and boottime() >= end:
                talk.stop()
                say(f"Error: {await unfinished(store, job, waited=self.patience)}")
                return TIMED_OUT
            if boottime() - begun >= PATIENCE and not told:
                told = True
                await _tell_hindrance(store, job)
            await sleep(LOOK)


async def _tell_hindrance(store: "Store", job: "Job") -> None:
    """Whoever waits where nobody works would wait for ever, and not know why."""
    from duly.views.why import hindrance

    hindered = await hindrance(store, job)
    if hindered is not None:
        say(f"job {job.id}: {hindered}")


def _told(job: "Job") -> int:
    if job.state.value == "succeeded":
        click.echo(job.result or "null")
        return 0
    if job.error:
        say(job.error.rstrip())
    say(f"Error: job {job.id} {job.state}: {job.reason}")
    return NEEDS_YOU


@dataclass(slots=True)
class JobOutput:
    """What a job says, as far as it was passed on; on a terminal, with a bar below."""

    job: int
    last: int = 0
    note: "ProgressNote | None" = None
    has_bar: bool = False

    async def go_on(self, store: "Store") -> None:
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
            command(_LINE_ANEW, err=True)
        say(text)
        if self.has_bar and self.note is not None:
            self._progress(self.note)

    def _progress(self, note: "ProgressNote") -> None:
        far = f"{note.percent:3.0f} % {one_line(note.message, tabs=True)}".rstrip()
        if not sys.stderr.isatty():
            say(far.strip())
            return
        full = round(BAR * note.percent / 100)
        command(_LINE_ANEW, err=True)
        click.echo(f"[{'#' * full}{' ' * (BAR - full)}] {far}", nl=False, err=True)
        self.has_bar = True
