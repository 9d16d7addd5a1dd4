"""``duly dev``: run an app and restart it whenever one of its files changes."""

import os
import signal
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, Final

import click

from duly.app import followed, is_postgres
from duly.cli.app_and_store import MISSING, UNREACHABLE, app_of, run, settled
from duly.cli.options import (
    app_argument,
    as_arguments,
    dashboard_options,
    serving_options,
    split_settings,
    working_options,
)
from duly.cli.output import say
from duly.cli.serving import begin, serve_app, with_secret
from duly.demo.past import make_past

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
DEMO: Final = "duly.demo"
LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 5.0
MOST_FILES = 10_000
# Folders of installed packages and of build tools.
IGNORED_FOLDERS = {"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"}


@click.command("dev")
@app_argument
@serving_options
@working_options
@dashboard_options
@click.option("--reload/--no-reload", default=True, help="Restart when a file changes.")
@click.option("--demo", is_flag=True, help="Run an example shop, in duly-demo.db here.")
def dev(app: str | None, *, reload: bool, demo: bool, **words: Any) -> None:
    """Run APP during development: schedules, jobs and dashboard; restart it when a file changes.

    \b
      duly dev                    tasks.py here, with the database duly.db here
      duly dev shop.tasks -v      print a line for every job
      duly dev --demo             run an example shop instead of an app

    \b
    Exit codes: 0 stopped, 1 the app cannot be imported, 2 invalid usage or a mistake in the app, 3
    no such app, 5 the database cannot be opened.
    """
    if demo and app is not None:
        raise click.UsageError(f"--demo runs its own app: leave out {app}")
    if demo:
        _run_demo(words)
        return
    if not reload:
        serve_app(app, words, command="dev", worker=True, scheduler=True)
        return
    settings = settled(app=app, **split_settings(words)[0])
    begin(settings)
    raise SystemExit(_run_with_reload(app_of(settings, "dev"), words))


def _run_demo(words: Mapping[str, Any]) -> None:
    store = words["store"] or "duly-demo.db"
    _make_history(store)
    say("An example shop, until Ctrl-C. In another terminal, in this folder, try:")
    for asked in ("status --watch", "schedules", "jobs", "why rollup"):
        say(f"  duly {asked} --store {store}")
    serve_app(DEMO, {**words, "verbose": True}, command="dev", worker=True, scheduler=True)


def _make_history(store: str) -> None:
    """Fill a new database with one past day, so that there is something to look at."""
    if not is_postgres(store) and not Path(store).exists():
        run(make_past(Path(store)))


def _run_with_reload(target: str, words: Mapping[str, Any]) -> int:
    """Run the app in a child process, restart it when its files change; return the exit code."""
    files = WatchedFiles(_folder(target))
    process = AppProcess([sys.executable, "-m", "duly", "up", target, *as_arguments(words)])
    final = {0, UNREACHABLE, MISSING}  # no change of a file makes a database writable
    while True:
        process.start()
        changed = process.until_changed(files, final)
        final.discard(MISSING)  # the app was found once, so its file may come back
        if changed is None:
            return process.end()
        say(f"{changed} changed: restarting")
        process.replace()


class AppProcess:
    """The app's child process. It receives each of our signals once, and dies with us (Linux).

    So the first signal lets running jobs finish and the second stops them, as if the app had been
    started directly.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._app: subprocess.Popen[bytes] | None = None
        self._stop = Event()
        for number in SIGNALS:
            signal.signal(number, self._forward)

    def start(self) -> None:
        if not self._stop.is_set():
            environment = followed(with_secret(os.environ))
            self._app = subprocess.Popen(self._command, env=environment)  # noqa: S603 - ourselves

    def until_changed(self, files: "WatchedFiles", final: Container[int]) -> str | None:
        """Wait until a file changes and return its name; None after an exit code in ``final``."""
        told = False
        while not self._stop.wait(LOOK_SECONDS):
            changed = files.changed()
            if changed:
                return changed
            code = None if self._app is None else self._app.poll()
            if code is not None and code in final:
                return None
            if code is not None and not told:
                told = True
                say("the app exited; waiting for a file to change")
        return None

    def end(self) -> int:
        """Wait until running jobs have finished, or a second signal; return the exit code."""
        return 0 if self._app is None else max(self._app.wait(), 0)

    def replace(self) -> None:
        """Stop the process: terminate it twice, then kill it."""
        app = self._app
        if app is None:
            return
        for _ in range(2):
            app.terminate()
            try:
                app.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return
        app.kill()
        app.wait()

    def _forward(self, number: int, _: object) -> None:
        self._stop.set()
        if self._app is not None and not (number == signal.SIGINT and _is_typed()):
            self._app.send_signal(number)


def _is_typed() -> bool:
    """Return whether the signal may be Ctrl-C, which terminals send to the foreground group.

    The app is in that group, so that its tasks can read from the terminal, as a debugger does, and
    Ctrl-Z stops all of them.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:  # no terminal
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


class WatchedFiles:
    """The Python files below a folder, and when each was last written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = self._look()

    def changed(self) -> str | None:
        """Return a file that was written, created or removed since the last call."""
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
            except OSError:  # removed in between
                continue
            if len(found) >= MOST_FILES:
                break
        return found


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in IGNORED_FOLDERS and name[0] != "."]
        yield from (Path(place, name) for name in files if name.endswith(".py"))


def _folder(target: str) -> Path:
    place = target.partition(":")[0]
    return Path(place).resolve().parent if place.endswith(".py") else Path.cwd()
