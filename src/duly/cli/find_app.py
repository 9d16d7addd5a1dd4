"""Which app a command is about: what was typed, what is configured, tasks.py; or what there is."""

import os
import sys
import traceback
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duly.errors import DulyError, InvalidValue, NotFound

if TYPE_CHECKING:
    from duly.registry.registry import Registry
    from duly.settings import Settings

MOST_SCANNED = 2_000
TASKS = "tasks.py"  # where an app is looked for that nobody has named
_OURS = str(Path(__file__).parents[1]) + os.sep


def app_of(settings: "Settings", command: str) -> str:
    """The app that is meant; ``command`` is what its name could be added to."""
    return settings.app or _default_app(command)


def has_app(settings: "Settings") -> bool:
    """Whether one is at hand without anybody naming it."""
    return settings.app is not None or Path(TASKS).is_file()


def address_at_hand(settings: "Settings", *, hint: bool) -> str:
    """The store of the app that ``duly up`` would run here; or the configured one, without it."""
    from duly.app import address
    from duly.registry.app_loading import find

    if not has_app(settings):
        if hint and not Path(settings.url).exists() and (likely := _likely_app()):
            click.echo(
                f"note: Duly() is created in {likely}; if its store is meant, say --store, or set "
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
            f"note: {target} cannot be imported ({type(error).__name__}: {error}), so the store "
            f"that it names is not known; this is {settings.url}. Say --store, or set DULY_URL",
            err=True,
        )
        return settings.url


def imported(target: str, settings: "Settings") -> "Registry":
    """The tasks of an app; or what its author has to know."""
    try:
        return _load(target, settings)
    except DulyError as error:
        line = _line_of_theirs(error)
        if line is None:
            raise
        click.echo(f"Error: {line}: {error}", err=True)
        raise SystemExit(click.UsageError.exit_code) from None
    except Exception as error:  # noqa: BLE001 - whatever the application does when imported
        raise SystemExit(_not_imported(target, error)) from None


def _load(target: str, settings: "Settings") -> "Registry":
    from duly.registry.app_loading import load

    if settings.file is not None and str(settings.folder) not in sys.path:
        sys.path.insert(0, str(settings.folder))
    return load(target)


def _line_of_theirs(error: DulyError) -> str | None:
    """The line of the app that was refused, as ``tasks.py:12``; None: it was not one of its own."""
    steps = traceback.extract_tb(error.__traceback__)
    imports = [number for number, step in enumerate(steps) if "importlib" in step.filename]
    inside = steps[imports[-1] + 1 :] if imports else []
    theirs = [*takewhile(lambda step: not _is_no_step_of_theirs(step.filename), inside)]
    return f"{os.path.relpath(theirs[-1].filename)}:{theirs[-1].lineno}" if theirs else None


def _not_imported(target: str, error: Exception) -> int:
    """Without the steps of those who imported it."""
    step = error.__traceback__
    while step is not None and _is_no_step_of_theirs(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    said = "".join(traceback.format_exception(error.with_traceback(step), chain=False))
    click.echo(f"Error: {target} cannot be imported:\n{said.rstrip()}", err=True)
    return click.ClickException.exit_code


def _is_no_step_of_theirs(file: str) -> bool:
    return "importlib" in file or file.startswith(_OURS)


def _default_app(command: str) -> str:
    if Path(TASKS).is_file():
        return TASKS
    found = _likely_app()
    if found:
        raise InvalidValue(
            f"no app named. Duly() is created in {found}: try  duly {command} {found}"
        )
    raise NotFound(
        f"no app named, and there is no tasks.py here: duly {command} shop.tasks, or set DULY_APP"
    )


def _likely_app() -> str | None:
    """A file that makes one, by its text: nothing is imported."""
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
