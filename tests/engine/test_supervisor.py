"""A supervisor keeps its processes, passes signals on, and takes them with it when it dies."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from duly.clock import boottime, sleep
from duly.engine import supervisor as supervising
from duly.engine.supervisor import Supervisor
from duly.events import EngineEvent, ProcessReplaced, TickFailed

PATIENCE = 10.0

# Says that it is there, and does what a worker does with signals.
PROGRAM = """
import pathlib, signal, sys, threading
from duly.engine.supervisor import follow
follow()
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
folder = pathlib.Path(sys.argv[1])
name = str(__import__("os").getpid())
(folder / f"{name}.lives").touch()
while len(heard) < int(sys.argv[2]):
    threading.Event().wait(0.02)
    if heard:
        (folder / f"{name}.heard").write_text(str(len(heard)))
"""

PARENT = """
import asyncio, sys
from duly.engine.supervisor import Supervisor
asyncio.run(Supervisor([sys.argv[1:]] * 2).run())
"""


def program(folder: Path, signals: int = 1) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(folder), str(signals)]


def exiting(code: int) -> list[str]:
    return [sys.executable, "-c", f"raise SystemExit({code})"]


def alive(folder: Path) -> set[int]:
    return {int(sign.stem) for sign in folder.glob("*.lives") if lives(int(sign.stem))}


def signs(folder: Path, what: str) -> int:
    return len(list(folder.glob(f"*.{what}")))


def lives(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def until(condition: Callable[[], object]) -> None:
    end = boottime() + PATIENCE
    while not condition():
        assert boottime() < end, "waited in vain"
        await sleep(0.02)


async def test_one_that_is_killed_is_replaced_within_two_seconds(tmp_path: Path) -> None:
    told: list[EngineEvent] = []
    supervisor = Supervisor([program(tmp_path)] * 2, emit=told.append)
    running = asyncio.create_task(supervisor.run())
    await until(lambda: len(alive(tmp_path)) == 2)
    victim, spared = sorted(alive(tmp_path))
    began = boottime()
    os.kill(victim, signal.SIGKILL)
    await until(lambda: len(alive(tmp_path) - {victim, spared}) == 1)
    assert boottime() - began < 2
    assert told == [ProcessReplaced(victim, "was killed by SIGKILL")]
    assert sorted(supervisor.pids) == sorted(alive(tmp_path))
    supervisor.stop()
    assert await running == 0
    assert alive(tmp_path) == set()


async def test_each_signal_is_passed_on_and_nobody_is_replaced_after_it(tmp_path: Path) -> None:
    supervisor = Supervisor([program(tmp_path, signals=2)] * 2)
    running = asyncio.create_task(supervisor.run())
    await until(lambda: len(alive(tmp_path)) == 2)
    supervisor.stop()
    await until(lambda: signs(tmp_path, "heard") == 2)
    assert not running.done()
    supervisor.stop()
    assert await running == 0
    assert signs(tmp_path, "lives") == 2


async def test_one_that_ends_well_has_done_its_work() -> None:
    assert await Supervisor([exiting(0)] * 2).run() == 0


@pytest.mark.parametrize("code", supervising.HOPELESS)
async def test_what_could_never_start_ends_them_all(tmp_path: Path, code: int) -> None:
    assert await Supervisor([program(tmp_path), exiting(code)]).run() == code
    assert alive(tmp_path) == set()


async def test_one_that_dies_again_and_again_is_given_more_and_more_time() -> None:
    told: list[float] = []
    supervisor = Supervisor([exiting(1)], emit=lambda _: told.append(boottime()))
    running = asyncio.create_task(supervisor.run())
    await until(lambda: len(told) == 3)
    supervisor.stop()
    assert await running == 0
    assert told[2] - told[1] > told[1] - told[0]


async def test_one_that_is_killed_again_and_again_is_replaced_within_two_seconds(
    tmp_path: Path,
) -> None:
    # Its clock is ten times as fast: what lived for 0.3 seconds lived for three.
    supervisor = Supervisor([program(tmp_path)], time=lambda: 10 * boottime())
    running = asyncio.create_task(supervisor.run())
    await until(lambda: alive(tmp_path))
    for _ in range(6):
        [victim] = alive(tmp_path)
        well = boottime() + 0.3
        await until(lambda well=well: boottime() > well)  # type: ignore[misc]
        killed = boottime()
        os.kill(victim, signal.SIGKILL)
        await until(lambda victim=victim: alive(tmp_path) - {victim})  # type: ignore[misc]
        assert boottime() - killed < 2
    supervisor.stop()
    assert await running == 0


async def test_one_that_cannot_be_started_just_now_costs_the_others_nothing(tmp_path: Path) -> None:
    told: list[EngineEvent] = []
    missing = tmp_path / "program"
    supervisor = Supervisor([program(tmp_path), [str(missing)]], emit=told.append)
    running = asyncio.create_task(supervisor.run())
    await until(lambda: len(alive(tmp_path)) == 1 and len(told) >= 2)
    assert all(isinstance(event, TickFailed) for event in told)
    [healthy] = alive(tmp_path)
    missing.write_text(f"#!/bin/sh\nexec {shlex.join(program(tmp_path))}\n")
    missing.chmod(0o700)
    await until(lambda: len(alive(tmp_path)) == 2)
    assert healthy in alive(tmp_path)
    supervisor.stop()
    assert await running == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
async def test_they_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, *program(tmp_path))
    await until(lambda: len(alive(tmp_path)) == 2)
    parent.kill()
    await parent.wait()
    await until(lambda: not alive(tmp_path))
