"""``duly import``: convert schedules of other schedulers to a file for ``duly apply``.

It only prints: the file to stdout, and notes about what could not be converted to stderr.
"""

import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from duly.app.import_sources import (
    is_database,
    read_beat_dump,
    read_beat_tables,
    read_django_q,
    read_django_q_dump,
    read_rq_scheduler,
    read_tasks_export,
    read_tasks_scheduler,
    shown_address,
)
from duly.cli.app_and_store import NEEDS_YOU, USAGE, settled, store_of
from duly.cli.inputs import BoundedReader
from duly.cli.output import say
from duly.errors import DulyError, InvalidValue, RuleError
from duly.files.file_text import write
from duly.files.importers import Imported
from duly.files.importers.apscheduler import PRINT_JOBS, from_printed, job_store_refused
from duly.files.importers.celery_beat import from_schedule
from duly.files.importers.collector import LEFT_OUT, ImportCollector
from duly.files.importers.crontab import from_crontab
from duly.files.importers.systemd import from_shown_units, from_units
from duly.policy.redaction import one_line, redacted
from duly.registry.app_loading import find
from duly.settings.loading import machine_zone

STDIN: Final = "-"
MOST_FILES: Final = 10_000

_SOURCE = click.argument("source", required=False, metavar="[SRC]")
_ZONE = click.option(
    "--zone",
    metavar="ZONE",
    callback=lambda _context, _option, value: value or _configured_zone(),
    help="Time zone of the source, as Europe/Berlin. Default: zone in duly.toml.",
)
_READ_BY_CRON = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)  # file names that cron reads in a folder
_UNITS = (".timer", ".service")


@click.group("import")
def import_command() -> None:
    """Convert the schedules of another scheduler to a file of schedules; nothing is stored.

    \b
      crontab -l | duly import crontab --zone Europe/Berlin > schedules.toml
      duly plan && duly apply

    Notes on stderr say what could not be converted and what to do about it, and list and count
    the entries that could not be read. All other entries are printed.

    \b
    Exit codes: 0 success, 1 an entry could not be read and is not in the file, 2 invalid usage or
    source, 3 no such source.
    """


def _importer(
    name: str,
    *,
    each: tuple[str, str] = ("entry", "entries"),
    cls: type[click.Command] | None = None,
) -> Callable[[Callable[..., Imported]], click.Command]:
    """Declare a command that prints what the function has converted."""

    def declare(read: Callable[..., Imported]) -> click.Command:
        @import_command.command(name, cls=cls)
        @wraps(read)
        def command(*, partial: bool = True, **words: Any) -> None:
            try:
                imported = read(**words)
            except RuleError as error:
                say(f"Error: {error}")
                raise SystemExit(USAGE) from None
            _print(imported, each=each, partial=partial)

        return command

    return declare


@_importer("crontab", each=("line", "lines"))
@_SOURCE
@_ZONE
@click.option(
    "--system/--user",
    default=None,
    help="Whether each line has a user name before the command. Default: detect it.",
)
def crontab(source: str | None, *, zone: str | None, system: bool | None) -> Imported:
    """Convert a crontab: SRC is a file, a folder such as /etc/cron.d, or - for stdin.

    \b
      crontab -l | duly import crontab --zone Europe/Berlin
      duly import crontab /etc/crontab --system --zone UTC
      duly import crontab /etc/cron.d --zone UTC
    """
    is_folder = source is not None and Path(source).is_dir()
    with_users = True if is_folder and system is None else system

    def read(text: str) -> Imported:
        return from_crontab(text, zone=zone, machine_zone=machine_zone(), system=with_users)

    if is_folder:
        return _joined(str(source), read)
    return read(_text(source, "crontab -l | duly import crontab"))


@_importer("systemd")
@_SOURCE
@_ZONE
def systemd(source: str | None, *, zone: str | None) -> Imported:
    """Convert timers and their services: SRC is a folder of units, a .timer, or - for stdin.

    \b
      duly import systemd /etc/systemd/system --zone Europe/Berlin
      duly import systemd backup.timer             with backup.service in the same folder
      systemctl cat backup.timer backup.service | duly import systemd
    """
    if source in (None, STDIN):
        shown = _text(source, "systemctl cat backup.timer backup.service | duly import systemd")
        return from_shown_units(shown, zone=zone, machine_zone=machine_zone())
    return from_units(_units(Path(str(source))), zone=zone, machine_zone=machine_zone())


@_importer("celery-beat")
@_SOURCE
@click.option("--zone", metavar="ZONE", help="Time zone. Default: the Celery app's, or UTC.")
def celery_beat(source: str | None, *, zone: str | None) -> Imported:
    """Convert a Celery beat_schedule, or the tables of django-celery-beat.

    SRC is module:attribute of a Celery app or of the schedule itself, the database with the tables
    of django-celery-beat (by default the one that duly uses), or - for the output of manage.py
    dumpdata.

    \b
      duly import celery-beat shop.celery:app
      duly import celery-beat shop/settings.py:CELERY_BEAT_SCHEDULE --zone Europe/Berlin
      manage.py duly import celery-beat
      duly import celery-beat db.sqlite3
      duly import celery-beat postgresql://user@host/shop
      python manage.py dumpdata django_celery_beat | duly import celery-beat -

    A module is imported in this Python: run the command where Celery is installed. A database is
    only read. For databases other than SQLite and PostgreSQL, use a dump.
    """
    if _is_text(source):
        return read_beat_dump(_text(source, "-"), zone=zone)
    if source is None or is_database(source):
        return read_beat_tables(_database(source), zone=zone)
    schedule, own = beat_schedule(source)
    return from_schedule(schedule, zone=zone or own)


_PARTIAL = click.option(
    "--partial", is_flag=True, help="Print the other entries if one cannot be read."
)


@_importer("django-tasks-scheduler")
@_SOURCE
@_PARTIAL
def django_tasks_scheduler(source: str | None) -> Imported:
    """Convert the tasks of django-tasks-scheduler 4.

    SRC is the database with its tables, by default the one that duly uses, or - for the output of
    its own manage.py export. It is only read. If a task cannot be read, nothing is printed.

    \b
      manage.py duly import django-tasks-scheduler > schedules.toml
      duly import django-tasks-scheduler postgresql://user@host/shop
      python manage.py export | duly import django-tasks-scheduler -
    """
    if _is_text(source):
        return read_tasks_export(_text(source, "-"))
    return read_tasks_scheduler(_database(source))


@_importer("django-q2")
@_SOURCE
@_ZONE
@_PARTIAL
def django_q2(source: str | None, *, zone: str | None) -> Imported:
    """Convert the schedules of django-q2.

    SRC is the database with its tables, by default the one that duly uses, or - for the output of
    manage.py dumpdata. It is only read. If a schedule cannot be read, nothing is printed. ZONE is
    TIME_ZONE of the Django project.

    \b
      manage.py duly import django-q2 > schedules.toml
      duly import django-q2 postgresql://user@host/shop --zone Europe/Berlin
      python manage.py dumpdata django_q.schedule | duly import django-q2 - --zone Europe/Berlin
    """
    if _is_text(source):
        return read_django_q_dump(_text(source, "-"), zone=zone)
    return read_django_q(_database(source), zone=zone)


@_importer("rq-scheduler")
@click.argument("source", metavar="SRC")
@_ZONE
@_PARTIAL
def rq_scheduler(source: str, *, zone: str | None) -> Imported:
    """Convert the scheduled jobs of rq-scheduler: SRC is the URL of its Redis, which is only read.

    Jobs are pickles there; none is unpickled. A job whose arguments are plain values is converted,
    any other is paused until you write its arguments. ZONE is that of the machine of rq-scheduler.
    If a job cannot be read, nothing is printed.

    \b
      duly import rq-scheduler redis://host:6379/0 --zone Europe/Berlin > schedules.toml
    """
    return read_rq_scheduler(source, zone=zone, machine_zone=machine_zone())


def _is_text(source: str | None) -> bool:
    return source is not None and (source == STDIN or source.endswith(".json"))


def _database(source: str | None) -> str:
    """Return the named database, or the one that duly uses."""
    return source or store_of(settled())


class _ShowsScript(click.Command):
    """A command whose help ends with the script that prints the jobs."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("print_jobs.py"):
            formatter.write(textwrap.indent(PRINT_JOBS, "  "))


@_importer("apscheduler", cls=_ShowsScript)
@_SOURCE
@_ZONE
def apscheduler(source: str | None, *, zone: str | None) -> Imported:
    """Convert jobs of APScheduler 3, one JSON object per line: SRC is a file, or - for stdin.

    A job store holds pickles, and unpickling runs code: duly never opens one. Run the lines of
    print_jobs.py below in the program that has the scheduler instead. In another program,
    APScheduler deletes the jobs whose functions it cannot import.

    \b
      python print_jobs.py | duly import apscheduler --zone Europe/Berlin
    """
    if source is None and sys.stdin.isatty():
        say("Run this in the program that has the scheduler, and pipe its output here:\n")
        click.echo(PRINT_JOBS, nl=False, err=True)
        raise SystemExit(USAGE)

    if source not in (None, STDIN) and is_database(str(source)):
        raise job_store_refused(shown_address(str(source)))
    text = _text(source, "python print_jobs.py | duly import apscheduler")
    if not text.strip():
        raise InvalidValue(
            "no input. Run this in the program that has the scheduler, and pipe its output "
            f"here:\n\n{PRINT_JOBS}"
        )
    return from_printed(text, zone=zone, machine_zone=machine_zone())


def _configured_zone() -> str | None:
    """Return the configured zone, and print it: the source may be from a machine in another."""
    settings = settled()
    if settings.zone is not None:
        origin = settings.origin("zone")
        say(f"zone: {settings.zone} (from {origin}); use --zone ZONE for another")
    return settings.zone


def _print(imported: Imported, *, each: tuple[str, str], partial: bool) -> None:
    """Print the file, the notes, and the entries that could not be read (exit code 1).

    Without ``partial``, the file is not printed if an entry could not be read.
    """
    for note in imported.notes:
        if note not in imported.unread:
            say(f"note: {one_line(redacted(note))}")
    count, lost = len(imported.sheet.schedules), len(imported.unread)
    shown = partial or not lost
    if shown:
        say(f"{count} schedule{'s' * (count != 1)}")
        if count:
            click.echo(write(imported.sheet), nl=False)
    if not lost:
        return
    for problem in imported.unread:
        said = problem if shown else problem.removesuffix(LEFT_OUT)
        say(f"warning: {one_line(redacted(said))}")
    out = f" and {'is' if lost == 1 else 'are'} left out"
    end = out if shown else ": nothing is printed; --partial prints the rest"
    say(f"{lost} {each[lost != 1]} could not be read{end}")
    raise SystemExit(NEEDS_YOU)


def _text(source: str | None, example: str) -> str:
    """Read the file, or stdin."""
    if source not in (None, STDIN):
        return _file(Path(str(source)), BoundedReader())
    if source is None and sys.stdin.isatty():
        raise InvalidValue(f"name a file, or pipe it here: {example}")
    return _decoded(BoundedReader().stream(sys.stdin.buffer, "stdin"), "stdin")


def _file(path: Path, reader: BoundedReader) -> str:
    return _decoded(reader.file(path), str(path))


def _decoded(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidValue(
            f"{place} is not UTF-8 at byte {error.start}: pass it through iconv -f latin1 first"
        ) from None


def _joined(folder: str, read: Callable[[str], Imported]) -> Imported:
    """Convert all files of a folder; entries of the same name get distinct ones."""
    basket, reader = ImportCollector(), BoundedReader()
    for path in sorted(Path(folder).iterdir())[:MOST_FILES]:
        if not path.is_file() or path.name.startswith("."):
            continue
        if not _READ_BY_CRON.fullmatch(path.name):
            basket.note(path.name, "cron does not read a file of such a name; it is left out")
            continue
        imported = read(_file(path, reader))
        for entry in imported.sheet.schedules.values():
            basket.add(path.name, replace(entry, name=basket.free_name(entry.name)))
        for note in imported.notes:
            basket.note(path.name, note)
        basket.unread += [f"{path.name}: {note}" for note in imported.unread]
    return basket.imported()


def _units(place: Path) -> dict[str, str]:
    """Read timers and services, with their drop-ins, by path."""
    if not place.is_dir():
        beside = [place.with_suffix(suffix) for suffix in _UNITS]
        paths = [place, *(path for path in beside if path != place and path.is_file())]
    else:
        paths = [path for suffix in _UNITS for path in place.glob(f"*{suffix}")]
        paths += [path for suffix in _UNITS for path in place.glob(f"*{suffix}.d/*.conf")]
    reader = BoundedReader()
    found = (path for path in sorted(paths)[:MOST_FILES] if not path.is_dir())
    return {str(path): _file(path, reader) for path in found}


def beat_schedule(source: str) -> tuple[Mapping[str, Any], str | None]:
    """Import the program and return its schedule and the app's time zone."""
    if ":" not in source:
        raise InvalidValue(
            f"{source}: name the Celery app in it, as {source}:app, or the beat_schedule itself; "
            "or a database, as db.sqlite3, sqlite:///path or postgresql://…"
        )
    try:
        found = find(source)
    except DulyError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the program does when imported
        say(f"Error: {source} cannot be imported: {type(error).__name__}: {error}")
        raise SystemExit(NEEDS_YOU) from None
    if isinstance(found, Mapping):
        return found, None
    conf = getattr(found, "conf", None)
    schedule = getattr(conf, "beat_schedule", None)
    if not isinstance(schedule, Mapping):
        raise InvalidValue(
            f"{source} is neither a Celery app nor a beat_schedule but {type(found).__name__}"
        )
    # Celery's default is UTC.
    return schedule, str(getattr(conf, "timezone", None) or "UTC")
