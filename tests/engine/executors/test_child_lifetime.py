"""Children live no longer than their worker wants them to, nor than their worker."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from duly.clock import boottime, sleep
from duly.engine.executors.process import pool as pools
from duly.engine.executors.process.pool import ProcessPool
from duly.engine.process_identity import identity
from duly.events import ChildNotStarted
from duly.model.outcome import Lost, Outcome, Returned, Succeeded
from duly.model.payload import Json
from tests.engine.executors.calling import (
    CHORES,
    is_alive,
    number_in,
    order,
    outcome_of,
    until,
    watch_it_die,
)
from tests.engine.executors.conftest import Open

UNSTARTED = Returned("given back: no process could be started for it")
WORKER = """
import asyncio, sys
from tests.engine.executors.calling import CHORES, order, outcome_of
from duly.engine.executors.process.pool import ProcessPool

async def work():
    pool = ProcessPool(target=str(CHORES), size=1, emit=print)
    await outcome_of(pool, order("resist", note=sys.argv[1]))

asyncio.run(work())
"""


async def test_a_child_says_whose_it_is_in_its_command_line(pool: ProcessPool) -> None:
    await outcome_of(pool, order("pid"))
    (child,) = pool.pids()
    words = command_of(child)
    assert words[words.index("--parent") + 1] == identity(os.getpid())
    assert os.getpgid(child) == os.getsid(child) == child, "and leads a session of its own"


async def test_the_start_in_an_identity_is_that_of_the_process() -> None:
    number, _, start = identity(os.getpid()).partition(":")
    assert number == str(os.getpid())
    ticks = int(start) / os.sysconf("SC_CLK_TCK")
    assert 0 < ticks < boottime()


async def test_a_killed_worker_leaves_neither_children_nor_what_they_started(
    tmp_path: Path,
) -> None:
    note = tmp_path / "note"
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(note), cwd=CHORES.parents[3]
    )
    await until(lambda: number_in(note) is not None)
    grandchild = number_in(note)
    assert grandchild is not None
    child = os.getpgid(grandchild)
    assert is_alive(child)
    worker.kill()
    await worker.wait()
    await until(lambda: not is_alive(child), within=1)
    await until(lambda: not is_alive(grandchild), within=1)


async def test_a_child_whose_parent_is_another_one_ends_at_once() -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "duly.engine.executors.process.child", "--parent", "1:1"]
    asked = [*command, "--socket", "0", "--lifeline", str(reading), "nothing"]
    process = await asyncio.create_subprocess_exec(
        *asked, pass_fds=[reading], start_new_session=True
    )
    os.close(reading)
    try:
        assert await process.wait() == os.EX_UNAVAILABLE
    finally:
        os.close(writing)


async def test_everything_can_be_killed_from_any_thread_at_once(
    open_pool: Open, tmp_path: Path
) -> None:
    pool, note = open_pool(size=1), tmp_path / "note"
    running = asyncio.create_task(outcome_of(pool, order("ignore_everybody", note=str(note))))
    waiting = asyncio.create_task(outcome_of(pool, order("add", job_id=2, a=1, b=2)))
    await until(note.exists)
    (child,) = pool.pids()
    killer = threading.Thread(target=pool.kill_everything)
    killer.start()
    killer.join()  # with the event loop standing still
    watch_it_die(child)
    lost = Lost(reason="the process that ran it was killed by SIGKILL", alone=True)
    assert await running == lost
    assert await waiting == Returned(), "it was claimed before the worker gave up what it held"
    assert await outcome_of(pool, order("add", a=1, b=2)) == Succeeded(Json("3")), "a new beginning"


async def test_a_child_that_dies_idle_is_replaced(pool: ProcessPool) -> None:
    await outcome_of(pool, order("pid"))
    (child,) = pool.pids()
    os.kill(child, signal.SIGKILL)
    watch_it_die(child)
    assert await outcome_of(pool, order("add", a=1, b=2)) == Succeeded(Json("3"))


async def test_a_job_whose_child_died_before_it_began_is_given_back(pool: ProcessPool) -> None:
    await outcome_of(pool, order("pid"))
    (child,) = pool.pids()
    os.kill(child, signal.SIGSTOP)
    running = asyncio.create_task(outcome_of(pool, order("add", a=1, b=2)))
    await sleep(0.05)  # it is on its way, and not received
    os.kill(child, signal.SIGKILL)
    assert await running == Returned()


async def test_an_application_that_cannot_be_imported_is_told_and_jobs_are_given_back(
    open_pool: Open, told: list[ChildNotStarted], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import nonsense_of_no_module\n")
    pool = open_pool(target=str(broken))
    before = boottime()
    assert await outcome_of(pool, order("add", a=1, b=2)) == UNSTARTED
    assert boottime() - before > 1, "it was given back after a pause"
    (event,) = told
    assert event.target == str(broken)
    assert event.reason == "ended with exit status 1"
    assert "No module named 'nonsense_of_no_module'" in event.output.splitlines()[-1]


async def test_a_child_that_never_gets_ready_is_given_up(
    open_pool: Open,
    told: list[ChildNotStarted],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "START_LIMIT", 1.0)
    stuck = tmp_path / "stuck.py"
    stuck.write_text("import threading; threading.Event().wait()\n")
    pool = open_pool(target=str(stuck))
    assert await outcome_of(pool, order("add", a=1, b=2)) == UNSTARTED
    assert told == [ChildNotStarted(str(stuck), "was not ready after 1 s", "")]
    assert pool.pids() == []


async def test_closing_ends_what_runs_and_takes_a_second_at_most(
    open_pool: Open, tmp_path: Path
) -> None:
    pool, note = open_pool(size=1), tmp_path / "note"
    running, waiting = (
        asyncio.create_task(outcome_of(pool, order("resist", job_id=n, note=str(note))))
        for n in range(2)
    )
    await until(lambda: number_in(note) is not None)
    before = boottime()
    await pool.close()
    assert boottime() - before < 1
    assert isinstance(await running, Lost)
    assert await waiting == Returned()
    await pool.close()
    late: Outcome = await outcome_of(pool, order("add", a=1, b=2))
    assert late == Returned()
    assert pool.pids() == []


async def test_an_idle_child_leaves_in_good_order(open_pool: Open, tmp_path: Path) -> None:
    pool, note = open_pool(), tmp_path / "note"
    await outcome_of(pool, order("say_goodbye", note=str(note)))
    await pool.close()
    assert note.read_text() == "goodbye"


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
