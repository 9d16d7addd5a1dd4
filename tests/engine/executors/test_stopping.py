"""A job ends when it must: asked first, then made to."""

import asyncio
from pathlib import Path

from duly.engine.executors.process.pool import ProcessPool
from duly.model.outcome import Raised, Stopped, Succeeded, TimedOut
from duly.model.payload import Json
from tests.engine.executors.calling import (
    SOON,
    Heard,
    is_alive,
    number_in,
    order,
    outcome_of,
    until,
)
from tests.engine.executors.conftest import Open

MEGABYTE = 10**6


async def test_a_task_whose_time_is_over_may_clean_up_and_has_timed_out_even_so(
    pool: ProcessPool, tmp_path: Path
) -> None:
    notes = tmp_path / "sync", tmp_path / "async"
    ended = await asyncio.gather(
        *(
            outcome_of(pool, order(task, job_id=n, timeout=SOON, note=str(notes[n])))
            for n, task in enumerate(("clean_up", "clean_up_later"))
        )
    )
    assert ended == [TimedOut(SOON)] * 2
    assert [note.read_text() for note in notes] == ["cleaned up"] * 2


async def test_a_child_that_was_interrupted_runs_no_other_job(
    pool: ProcessPool, tmp_path: Path
) -> None:
    await outcome_of(pool, order("clean_up", timeout=SOON, note=str(tmp_path / "note")))
    interrupted = pool.pids()
    await outcome_of(pool, order("pid"))
    await until(lambda: len(pool.pids()) == 1)
    assert pool.pids() != interrupted


async def test_a_task_that_resists_is_killed_with_all_it_has_started(
    pool: ProcessPool, tmp_path: Path
) -> None:
    note, heard = tmp_path / "note", Heard()
    resisting = order("resist", timeout=SOON, note=str(note))
    assert await outcome_of(pool, resisting, heard) == TimedOut(SOON)
    assert heard.said("stdout") == ["not me"], "it was asked, once"
    started = number_in(note)
    assert started is not None
    await until(lambda: not is_alive(started), within=1)


async def test_a_task_that_ends_in_time_is_not_disturbed(pool: ProcessPool) -> None:
    timely = order("add", a=1, b=2, timeout=SOON * 100)
    assert await outcome_of(pool, timely) == Succeeded(Json("3"))


async def test_a_cancelled_task_that_looks_ends_by_itself(
    pool: ProcessPool, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    running = asyncio.create_task(outcome_of(pool, order("look", job_id=9, note=str(note))))
    await until(note.exists)
    pool.cancel(9, "no longer wanted")
    pool.cancel(8, "somebody else")
    assert await running == Stopped("no longer wanted")
    assert note.read_text() == "no longer wanted"
    pids = pool.pids()
    await outcome_of(pool, order("pid"))
    assert pool.pids() == pids, "and its child runs the next job, which is not cancelled"


async def test_a_cancelled_coroutine_is_cancelled(pool: ProcessPool, tmp_path: Path) -> None:
    note = tmp_path / "note"
    patient = order("clean_up_later", job_id=9, note=str(note), grace=SOON * 100)
    running = asyncio.create_task(outcome_of(pool, patient))
    await until(lambda: bool(pool.pids()))
    await outcome_of(pool, order("pid"))
    pool.cancel(9, "enough")
    assert await running == Stopped("enough")


async def test_a_cancelled_task_that_does_not_look_is_killed_after_its_grace(
    pool: ProcessPool, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    running = asyncio.create_task(
        outcome_of(pool, order("ignore_everybody", job_id=9, note=str(note)))
    )
    await until(note.exists)
    pool.cancel(9, "enough")
    assert await running == Stopped("enough")
    assert pool.pids() == []


async def test_a_job_that_is_cancelled_before_it_began_does_not_begin(
    open_pool: Open, tmp_path: Path
) -> None:
    pool, notes = open_pool(size=1), [tmp_path / "1", tmp_path / "2"]
    starting, waiting = (
        asyncio.create_task(outcome_of(pool, order("look", job_id=n, note=str(notes[n]))))
        for n in range(2)
    )
    await until(lambda: bool(pool.pids()))
    pool.cancel(1, "while it waited for a seat")
    assert await waiting == Stopped("while it waited for a seat")
    pool.cancel(0, "while its child started")
    assert await starting == Stopped("while its child started")
    assert not any(note.exists() for note in notes)
    assert await outcome_of(pool, order("add", a=1, b=2)) == Succeeded(Json("3"))
    assert len(pool.pids()) == 1


async def test_nobody_to_wait_for_a_job_is_the_end_of_it(pool: ProcessPool, tmp_path: Path) -> None:
    note = tmp_path / "note"
    running = asyncio.create_task(outcome_of(pool, order("ignore_everybody", note=str(note))))
    await until(note.exists)
    (child,) = pool.pids()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert not is_alive(child), "by then: the job may be given to somebody else"
    assert await outcome_of(pool, order("add", a=1, b=2)) == Succeeded(Json("3"))


async def test_an_allocation_beyond_the_limit_fails_in_the_task(pool: ProcessPool) -> None:
    much = order("allocate", size=400 * MEGABYTE, memory=50 * MEGABYTE)
    found = await outcome_of(pool, much)
    assert isinstance(found, Raised)
    assert found.error == "MemoryError"
    assert "bytearray(size)" in found.traceback
    pids = pool.pids()
    unlimited = await outcome_of(pool, order("allocate", size=400 * MEGABYTE))
    assert unlimited == Succeeded(Json(str(400 * MEGABYTE))), "the limit was that job's"
    assert pool.pids() == pids


async def test_a_task_that_grows_beyond_its_limit_is_killed(pool: ProcessPool) -> None:
    found = await outcome_of(pool, order("grow", step=2 * MEGABYTE, memory=80 * MEGABYTE))
    assert isinstance(found, Raised)
    assert (found.error, found.retryable) == ("MemoryLimit", True)
    assert found.message.startswith("used ")
    assert found.message.endswith(" MB, allowed 80 MB")
