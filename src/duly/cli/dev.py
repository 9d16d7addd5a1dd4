"""``duly dev``: an app while it is written, started anew whenever one of its files changes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import click

from duly.cli.finding import app_of
from duly.cli.options import app_argument, parted, serving_options, typed, working_options
from duly.cli.serving import say, serve_app
from duly.cli.store import refuse, settled
from duly.errors import DulyError

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 5.0
MOST_FILES = 10_000
# Where nobody writes the app: others' code, and what tools make.
NOT_OURS = {"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"}


@click.command("dev")
@app_argument
@serving_options
@working_options
@click.option("--reload/--no-reload", default=True, help="Start anew when a file changes.")
def dev(app: str | None, *, reload: bool, **words: Any) -> None:
    """Run APP while you write it: schedules and jobs, on SQLite, started anew at every change.

    \b
      duly dev                    tasks.py here, kept in duly.db here
      duly dev shop.tasks -v      a line for every job

    \b
    Exit codes: 0 it was told to stop, 2 something in the command line is wrong, 3 there is no such
    app.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        if not reload:
            serve_app(app, words, command="dev", worker=True, scheduler=True)
            return
        settings = settled(app=app, **parted(words)[0])
        raise SystemExit(_keep(app_of(settings, "dev"), words))
    except DulyError as error:
        refuse(error)


def _keep(target: str, words: Mapping[str, Any]) -> int:
    """Have the app run in a process of its own, and look at its files: the code to exit with."""
    command = [sys.executable, "-m", "duly", "up", target, *typed(words)]
    watched = Watched(_folder(target))
    stop = Event()

    def hear(*_: object) -> None:
        stop.set()

    # A terminal's Ctrl-C reaches the app as well, and it stops as it should; we wait for it.
    signal.signal(signal.SIGINT, hear)
    signal.signal(signal.SIGTERM, hear)
    while True:
        app = subprocess.Popen(command)  # noqa: S603 - ourselves
        changed = _until_changed(app, watched, stop)
        if changed is None:
            return _ended(app)
        say(f"{changed} changed: starting anew")
        _ended(app)


def _until_changed(app: "subprocess.Popen[bytes]", watched: "Watched", stop: Event) -> str | None:
    """The file that changed; None once we are told to stop, or it came to a good end."""
    told = False
    while not stop.wait(LOOK_SECONDS):
        changed = watched.changed()
        if changed:
            return changed
        if app.poll() == 0:
            return None
        if app.poll() is not None and not told:
            told = True
            say("it ended; waiting for a change")
    return None


def _ended(app: "subprocess.Popen[bytes]") -> int:
    """Ask it to end, twice, and do not ask again."""
    for _ in range(2):
        if app.poll() is None:
            app.terminate()
            try:
                app.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
    if app.poll() is None:
        app.kill()
    return max(app.wait(), 0)


class Watched:
    """The Python files below a folder, and when each was written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = self._look()

    def changed(self) -> str | None:
        """One that was written, made or removed since this was asked last."""
        before, self._written = self._written, self._look()
        for path in sorted(before.keys() | self._written.keys()):
            if before.get(path) != self._written.get(path):
                return os.path.relpath(path, self._folder)
        return None

    def _look(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for path in _python_files(self._folder):
            try:
                found[str(path)] = path.stat().st_mtime_ns
            except OSError:  # it went while we looked
                continue
            if len(found) >= MOST_FILES:
                break
        return found


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_OURS and name[0] != "."]
        yield from (Path(place, name) for name in files if name.endswith(".py"))


def _folder(target: str) -> Path:
    place = target.partition(":")[0]
    return Path(place).resolve().parent if place.endswith(".py") else Path.cwd()
