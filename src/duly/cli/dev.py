"""``duly dev``: an app while it is written, started anew whenever one of its files changes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, Final

import click

from duly.cli.find_app import app_of
from duly.cli.options import (
    app_argument,
    beside_options,
    parted,
    serving_options,
    typed,
    working_options,
)
from duly.cli.output import say
from duly.cli.serving import obey, serve_app, with_secret
from duly.cli.store import refuse, run, settled
from duly.errors import DulyError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
DEMO: Final = "duly.demo"
LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 5.0
MOST_FILES = 10_000
# Where nobody writes the app: others' code, and what tools make.
NOT_OURS = {"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"}


@click.command("dev")
@app_argument
@serving_options
@working_options
@beside_options
@click.option("--reload/--no-reload", default=True, help="Start anew when a file changes.")
@click.option("--demo", is_flag=True, help="A small shop, kept in duly-demo.db here, to look at.")
def dev(app: str | None, *, reload: bool, demo: bool, **words: Any) -> None:
    """Run APP while you write it: schedules and jobs, on SQLite, started anew at every change.

    \b
      duly dev                    tasks.py here, kept in duly.db here
      duly dev shop.tasks -v      a line for every job
      duly dev --demo             without an app of yours: a small shop, and what to ask about it

    \b
    Exit codes: 0 it was told to stop, 1 the app cannot be imported, 2 something in the command line
    or in the app is wrong, 3 there is no such app.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    if demo and app is not None:
        raise click.UsageError(f"--demo is an app of its own: without {app}")
    try:
        if demo:
            _show_shop(words)
            return
        if not reload:
            serve_app(app, words, command="dev", worker=True, scheduler=True)
            return
        settings = settled(app=app, **parted(words)[0])
        obey(settings)
        raise SystemExit(_keep(app_of(settings, "dev"), words))
    except DulyError as error:
        refuse(error)


def _show_shop(words: Mapping[str, Any]) -> None:
    store = words["store"] or "duly-demo.db"
    _give_past(store)
    say("A small shop, until Ctrl-C. Ask in another terminal, here:")
    for asked in ("status --watch", "schedules", "jobs", "why rollup"):
        say(f"  duly {asked} --store {store}")
    serve_app(DEMO, {**words, "verbose": True}, command="dev", worker=True, scheduler=True)


def _give_past(store: str) -> None:
    """A store that is new has one, so that there is something to look at."""
    from duly.app import is_postgres
    from duly.demo.past import make_past

    if not is_postgres(store) and not Path(store).exists():
        run(make_past(Path(store)))


def _keep(target: str, words: Mapping[str, Any]) -> int:
    """Have the app run in a process of its own, and look at its files: the code to exit with."""
    watched = WatchedFiles(_folder(target))
    kept = AppProcess([sys.executable, "-m", "duly", "up", target, *typed(words)])
    while True:
        kept.start()
        changed = kept.until_changed(watched)
        if changed is None:
            return kept.end()
        say(f"{changed} changed: starting anew")
        kept.replace()


class AppProcess:
    """The app in a process of its own. Each signal that we hear, it hears once.

    So the first one lets what runs come to its end, and the second one does not, as if the app had
    been started by itself.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._app: subprocess.Popen[bytes] | None = None
        self._stop = Event()
        for number in SIGNALS:
            signal.signal(number, self._hear)

    def start(self) -> None:
        if not self._stop.is_set():
            environment = with_secret(os.environ)
            self._app = subprocess.Popen(self._command, env=environment)  # noqa: S603 - ourselves

    def until_changed(self, watched: "WatchedFiles") -> str | None:
        """The file that changed; None once we are told to stop, or it came to a good end."""
        told = False
        while not self._stop.wait(LOOK_SECONDS):
            changed = watched.changed()
            if changed:
                return changed
            code = None if self._app is None else self._app.poll()
            if code == 0:
                return None
            if code is not None and not told:
                told = True
                say("it ended; waiting for a change")
        return None

    def end(self) -> int:
        """Wait for it, however long what it runs may take: whoever cannot wait says stop again."""
        return 0 if self._app is None else max(self._app.wait(), 0)

    def replace(self) -> None:
        """Ask it to end, twice, and do not ask again."""
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

    def _hear(self, number: int, _: object) -> None:
        self._stop.set()
        if self._app is not None and not (number == signal.SIGINT and _is_typed()):
            self._app.send_signal(number)


def _is_typed() -> bool:
    """Whether this may be Ctrl-C, which a terminal sends to all processes in front of it.

    The app is one of them, so that its tasks may read from the terminal, as a debugger does, and
    Ctrl-Z stops all.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:  # there is none
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


class WatchedFiles:
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
