"""``duly dev`` in front of a terminal: Ctrl-C once lets work come to its end, twice does not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from duly import Duly
from duly.model.states import State
from tests.cli.terminals import CTRL_C, Terminal, terminal

TASKS = """
from duly import Duly
from duly.clock import sleep

duly = Duly()

@duly.task
async def work(seconds: int) -> None:
    print("the job has begun", flush=True)
    await sleep(seconds)
    print("the job is done", flush=True)
"""
DULY = [sys.executable, "-m", "duly"]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "tasks.py").write_text(TASKS)
    with terminal([*DULY, "dev"], tmp_path) as shown:
        shown.until("registered as number")
        yield shown


def begun(dev: Terminal, folder: Path, *, seconds: int) -> int:
    promise = [*DULY, "run", "work", f"seconds={seconds}"]
    done = subprocess.run(promise, cwd=folder, capture_output=True, text=True, check=True)
    dev.until("the job has begun")
    return int(done.stdout)


def state_of(folder: Path, number: int) -> State:
    app = Duly(str(folder / "duly.db"))
    try:
        return app.jobs.get(number).state
    finally:
        app.close()


def test_ctrl_c_lets_what_runs_come_to_its_end(dev: Terminal, tmp_path: Path) -> None:
    number = begun(dev, tmp_path, seconds=3)
    dev.type(CTRL_C)
    assert dev.ended() == 0
    assert "finishing 1 job within 25s; send the signal again to stop now" in dev.shown
    assert "stopping now" not in dev.shown
    assert "the job is done" in dev.shown
    assert state_of(tmp_path, number) is State.SUCCEEDED


def test_ctrl_c_twice_stops_at_once(dev: Terminal, tmp_path: Path) -> None:
    number = begun(dev, tmp_path, seconds=60)
    dev.type(CTRL_C)
    dev.until("again to stop now")
    dev.type(CTRL_C)
    assert dev.ended() == 0
    assert "stopping now" in dev.shown
    assert state_of(tmp_path, number) is not State.SUCCEEDED


def test_a_signal_that_only_dev_has_heard_reaches_the_app_once(
    dev: Terminal, tmp_path: Path
) -> None:
    number = begun(dev, tmp_path, seconds=3)
    dev.process.send_signal(signal.SIGTERM)
    assert dev.ended() == 0
    assert "stopping now" not in dev.shown
    assert state_of(tmp_path, number) is State.SUCCEEDED


def test_without_a_terminal_every_signal_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    process = subprocess.Popen(
        [*DULY, "dev"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    with process.stderr as log:
        assert any("registered as number" in line for line in log)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_an_app_that_does_not_exist_ends_dev_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    done = subprocess.run(
        [*DULY, "dev", "task.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    there = tmp_path.resolve() / "task.py"
    error = f"Error: there is no file {there}; that folder has tasks.py: name one of them\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", error)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel kills the app, on Linux only")
def test_the_app_does_not_outlive_a_dev_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    process = subprocess.Popen(
        [*DULY, "dev", "--no-web"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        assert any("registered as number" in line for line in process.stderr)
        process.kill()
        process.communicate(timeout=20)  # the app has the other end of the pipe
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_who_stops_waiting_for_a_job_does_not_stop_it(dev: Terminal, tmp_path: Path) -> None:
    with terminal([*DULY, "run", "work", "seconds=3", "--wait"], tmp_path) as waiting:
        dev.until("the job has begun")
        waiting.until("job ")
        waiting.type(CTRL_C)
        assert waiting.ended() == 130
    number = int(waiting.shown.split("job ")[1].split()[0])
    assert f"job {number} continues" in waiting.shown
    assert "Aborted" not in waiting.shown
    dev.until("the job is done")
    dev.type(CTRL_C)
    assert dev.ended() == 0
    assert state_of(tmp_path, number) is State.SUCCEEDED
