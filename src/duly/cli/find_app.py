"""Find and import the app that a command works on: named, configured, or tasks.py here."""

import os
import sys
import traceback
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duly.cli.output import say
from duly.errors import DulyError, InvalidValue, NotFound

if TYPE_CHECKING:
    from duly.registry.registry import Registry
    from duly.settings import Settings

MOST_SCANNED = 2_000
TASKS = "tasks.py"  # the default app
_OURS = str(Path(__file__).parents[1]) + os.sep


def app_of(settings: "Settings", command: str) -> str:
    """Return the app's name; ``command`` is shown in the error if none is found."""
    return settings.app or _default_app(command)


def has_app(settings: "Settings") -> bool:
    """Return whether an app is configured, or there is a tasks.py here."""
    return settings.app is not None or Path(TASKS).is_file()


def address_at_hand(settings: "Settings", *, hint: bool) -> str:
    """Return the database of the app that ``duly up`` would run here, else the configured one."""
    from duly.app import address
    from duly.registry.app_loading import find

    if not has_app(settings):
        if hint and not Path(settings.url).exists() and (likely := _likely_app()):
            click.echo(
                f"note: {likely} creates a Duly(); to use its database, give --store, or set "
                f"DULY_APP={likely}",
                err=True,
            )
        return settings.url
    target = app_of(settings, "up")
    try:
        _load(target, settings)
        return str(getattr(find(target), "url", None) or address(settings.url))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the application does
        click.echo(
            f"note: {target} cannot be imported ({type(error).__name__}: {error}), so its database "
            f"is not known; using {settings.url}. Give --store, or set DULY_URL",
            err=True,
        )
        return settings.url


def declares(settings: "Settings", schedule: str) -> str | None:
    """Return the app that ``duly up`` would run here if its code declares the schedule."""
    from duly.registry.app_loading import find

    if not has_app(settings):
        return None
    target = app_of(settings, "up")
    try:
        _load(target, settings)
        names = {found.name for found in getattr(find(target), "declarations", ())}
    except (Exception, SystemExit):  # noqa: BLE001 - whatever the application does
        return None
    return target if schedule in names else None


def imported(target: str, settings: "Settings") -> "Registry":
    """Import the app and return its tasks; on an error, show the author's line and exit."""
    try:
        return _load(target, settings)
    except DulyError as error:
        line = _author_line(error)
        if line is None:
            raise
        say(f"Error: {line}: {error}", level="error")
        raise SystemExit(click.UsageError.exit_code) from None
    except Exception as error:  # noqa: BLE001 - whatever the application does when imported
        raise SystemExit(_show_traceback(target, error)) from None


def _load(target: str, settings: "Settings") -> "Registry":
    from duly.registry.app_loading import load

    if settings.file is not None and str(settings.folder) not in sys.path:
        sys.path.insert(0, str(settings.folder))
    return load(target)


def _author_line(error: DulyError) -> str | None:
    """Return the app's line that raised, as ``tasks.py:12``; None if it was not the app's."""
    steps = traceback.extract_tb(error.__traceback__)
    imports = [number for number, step in enumerate(steps) if "importlib" in step.filename]
    inside = steps[imports[-1] + 1 :] if imports else []
    theirs = [*takewhile(lambda step: not _is_foreign(step.filename), inside)]
    return f"{os.path.relpath(theirs[-1].filename)}:{theirs[-1].lineno}" if theirs else None


def _show_traceback(target: str, error: Exception) -> int:
    """Print the traceback without the frames of duly and of the import system."""
    step = error.__traceback__
    while step is not None and _is_foreign(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    said = "".join(traceback.format_exception(error.with_traceback(step), chain=False))
    say(f"Error: {target} cannot be imported:\n{said.rstrip()}", level="error")
    return click.ClickException.exit_code


def _is_foreign(file: str) -> bool:
    """Return whether a frame belongs to the import system or to duly, not to the app."""
    return "importlib" in file or file.startswith(_OURS)


def _default_app(command: str) -> str:
    if Path(TASKS).is_file():
        return TASKS
    found = _likely_app()
    if found:
        raise InvalidValue(f"no app named. {found} creates a Duly(): try  duly {command} {found}")
    raise NotFound(
        f"no app named, and there is no tasks.py here: duly {command} shop.tasks, or set DULY_APP"
    )


def _likely_app() -> str | None:
    """Return a file here whose text creates a Duly(); nothing is imported."""
    for count, path in enumerate(sorted(Path().glob("*.py")) + sorted(Path().glob("*/*.py"))):
        if count >= MOST_SCANNED:
            return None
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if "= Duly(" in text:
            return str(path)
    return None
