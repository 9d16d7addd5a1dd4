"""What a job writes, wherever it does, arrives as lines."""

import asyncio
from pathlib import Path

from duly.engine.executors.process.output import BATCH, LONGEST_LINE, MOST_PER_JOB
from duly.engine.executors.process.pool import ProcessPool
from duly.model.outcome import Stopped, Succeeded
from duly.model.payload import Json
from tests.engine.executors.calling import Heard, order, outcome_of, until
from tests.engine.executors.conftest import Open


async def test_everything_that_a_job_writes_is_heard(open_pool: Open) -> None:
    pool, heard = open_pool(environment={"PYTHONUNBUFFERED": ""}), Heard()
    assert await outcome_of(pool, order("speak"), heard) == Succeeded(None)
    printed = ["printed", "raw \ufffd", "from a process", "from C"]
    assert heard.said("stdout") == printed
    assert heard.said("stderr") == ["no newline"]
    assert heard.said("info") == ["informed"]
    (failed,) = heard.said("error")
    assert failed.startswith("failed\nTraceback")
    assert failed.endswith("'oh'")
    moments = [line.at_us for line in heard.lines if line.level in ("info", "error")]
    assert moments == sorted(moments)


async def test_of_a_very_long_line_both_ends_are_kept(pool: ProcessPool) -> None:
    heard = Heard()
    await outcome_of(pool, order("write", lines=2, width=10 * LONGEST_LINE), heard)
    first, second = heard.said("stdout")
    assert first == second
    assert len(first.encode()) <= LONGEST_LINE
    assert first.startswith("y" * 1000)
    assert "left out" in first


async def test_of_endless_output_the_beginning_is_kept_and_the_job_is_not_held_up(
    pool: ProcessPool,
) -> None:
    heard = Heard()
    found = await outcome_of(pool, order("write", lines=8_000, width=999), heard)
    assert found == Succeeded(None)
    *kept, last = heard.lines
    assert sum(len(line.text) + 1 for line in kept) <= MOST_PER_JOB
    assert len(kept) > MOST_PER_JOB / 1_000 * 0.99
    assert last.text == "… more was written than is kept"
    assert max(map(len, heard.batches)) <= BATCH
    after = Heard()
    await outcome_of(pool, order("say", text="of the next job there is room again"), after)
    assert after.said("stdout") == ["of the next job there is room again"]


async def test_a_job_is_heard_while_it_runs(pool: ProcessPool) -> None:
    heard = Heard()
    running = asyncio.create_task(outcome_of(pool, order("announce", job_id=3), heard))
    await until(lambda: bool(heard.lines and heard.progress))
    assert not running.done()
    pool.cancel(3, "that will do")
    assert await running == Stopped("that will do")
    assert heard.said("stdout") == ["on air"]
    assert heard.progress == [(1.0, "", None)]


async def test_what_one_job_left_behind_does_not_speak_in_the_next(open_pool: Open) -> None:
    pool, heard = open_pool(size=1), Heard()
    await outcome_of(pool, order("mutter_on", text="I am still here"))
    await outcome_of(pool, order("say", text="hello"), heard)
    assert [line.text for line in heard.lines] == ["hello"]


async def test_a_job_has_a_stdout_of_its_own(pool: ProcessPool) -> None:
    first, second = [await outcome_of(pool, order("stdout")) for _ in range(2)]
    (child,) = pool.pids()
    assert len({first, second, Succeeded(Json(f'"{stdout_of(child)}"'))}) == 3


async def test_of_progress_the_last_is_told_and_not_every_step(pool: ProcessPool) -> None:
    heard = Heard()
    assert await outcome_of(pool, order("advance", steps=1_000), heard) == Succeeded(None)
    assert heard.progress[-1] == (100.0, "step 1000", Json('{"of":1000}'))
    assert len(heard.progress) < 100


async def test_a_listener_that_fails_does_not_harm_the_job(pool: ProcessPool) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    found = await pool.run(order("speak"), on_log=broken, on_progress=broken)
    assert found == Succeeded(None)


def stdout_of(pid: int) -> Path:
    return Path(f"/proc/{pid}/fd/1").readlink()
