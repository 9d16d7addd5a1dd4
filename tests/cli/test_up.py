"""An app by one command: its schedules fire and its jobs run, in production and while written."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from duly import Duly
from duly.clock import boottime

TASKS = """
from duly import Duly
duly = Duly()

@duly.schedule("every 1s")
@duly.task
def hello() -> None:
    print("hello, world", flush=True)
"""


@contextmanager
def started(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "duly", *words],
        cwd=folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        log.close()


def said(folder: Path, text: str, *, within: float = 30.0) -> str:
    """The log, as soon as it has the text."""
    end, pause = boottime() + within, Event()
    while text not in (log := (folder / "log").read_text()):
        assert boottime() < end, log
        pause.wait(0.05)
    return log


def stopped(process: "subprocess.Popen[str]") -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(20)


def test_up_fires_what_the_code_declares_and_runs_it(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    with started(tmp_path, "up") as process:
        log = said(tmp_path, "hello, world")
        assert stopped(process) == 0
    assert "schedules of tasks:duly: added hello" in log
    [found] = Duly(str(tmp_path / "duly.db")).schedules.list()
    assert (found.name, found.owner, found.paused) == ("hello", "code", False)


def test_a_scheduler_fires_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    with started(tmp_path, "scheduler", "tasks.py") as process:
        said(tmp_path, "added hello")
        app, pause = Duly(str(tmp_path / "duly.db")), Event()
        while not app.schedules.history("hello"):
            pause.wait(0.05)
        assert stopped(process) == 0
    fired = app.schedules.history("hello")
    assert {fire.outcome for fire in fired} <= {"queued", "skipped"}
    assert "hello, world" not in (tmp_path / "log").read_text()


def test_dev_starts_anew_when_a_file_changes_and_waits_out_a_mistake(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.py"
    tasks.write_text(TASKS)
    with started(tmp_path, "dev") as process:
        said(tmp_path, "hello, world")
        tasks.write_text("this is no Python")
        said(tmp_path, "the app exited; waiting for a file to change")
        tasks.write_text(TASKS.replace("hello, world", "hello, moon"))
        log = said(tmp_path, "hello, moon")
        assert stopped(process) == 0
    assert "tasks.py changed: restarting" in log


@pytest.mark.parametrize("command", ["up", "scheduler", "dev"])
def test_without_an_app_it_says_what_to_type(tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "duly", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert f"duly {command} shop.tasks, or set DULY_APP" in done.stderr


def test_a_task_that_is_not_allowed_cannot_be_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    done = subprocess.run(
        [sys.executable, "-m", "duly", "up", "--allow", "shel"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "did you mean shell?" in done.stderr


FAILING = """
from duly import Duly, Retry
duly = Duly()

@duly.task(retry=Retry(attempts=2, first="1ms"))
def charge(order: int) -> None:
    raise KeyError(f"\\x1b[31mcard {order}")
"""


@pytest.mark.parametrize(("level", "told"), [("info", 2), ("error", 1)])
def test_what_a_task_raises_is_told_with_its_traceback(
    tmp_path: Path, level: str, told: int
) -> None:
    (tmp_path / "tasks.py").write_text(FAILING)
    asked = "from tasks import charge; charge.enqueue(7)"
    subprocess.run([sys.executable, "-c", asked], cwd=tmp_path, check=True)
    with started(tmp_path, "up", "--log-level", level) as process:
        said(tmp_path, "no attempt is left")
        assert stopped(process) == 0
    log = (tmp_path / "log").read_text()
    assert log.count('tasks.py", line 7, in charge') == told
    assert log.count("attempt 1 of 2 raised KeyError") == told - 1
    assert "\x1b" not in log
