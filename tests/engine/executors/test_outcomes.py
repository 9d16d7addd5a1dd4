"""Whatever a task does in its process, the worker is told what it came to, and goes on."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from duly.engine.executors.process.frames import RunRequest, facts_of
from duly.engine.executors.process.pool import ProcessPool
from duly.model.job import Claimed
from duly.model.outcome import Lost, Mismatched, Outcome, Raised, Succeeded
from duly.model.payload import Json
from tests.engine.executors.calling import (
    Heard,
    is_alive,
    number_in,
    order,
    outcome_of,
    until,
    watch_it_die,
)
from tests.engine.executors.conftest import Open


async def test_a_result_comes_back_and_the_child_runs_the_next_job(pool: ProcessPool) -> None:
    assert await outcome_of(pool, order("add", a=1, b=2)) == Succeeded(Json("3"))
    pids = pool.pids()
    assert await outcome_of(pool, order("add_later", a=2, b=2)) == Succeeded(Json("4"))
    assert await outcome_of(pool, order("unwanted")) == Succeeded(None)
    assert pool.pids() == pids


async def test_a_task_knows_its_job(pool: ProcessPool) -> None:
    found = await outcome_of(pool, order("facts", job_id=2**62))
    assert found == Succeeded(Json(f'[{2**62},1,false,{{"gpu":1}}]'))


async def test_a_job_may_come_as_the_row_that_was_claimed(pool: ProcessPool) -> None:
    row = Claimed(
        id=5,
        task="facts",
        args="{}",
        queue="default",
        priority=0,
        tenant="",
        submitter="",
        title="",
        tags="[]",
        owner="api",
        version=1,
        key=None,
        state="running",
        created_at=0,
        due_at=0,
        ready_at=0,
        deadline=None,
        late="skip",
        retry=None,
        attempt=3,
        crashes=0,
        worker=1,
        fence=1,
        claimed_at=0,
        schedule_id=None,
        fire_id=None,
        reason="",
        limits=None,
        needs='{"gpu": 2}',
        terms_text=None,
        parent=None,
        step=None,
        part=None,
        rank=0,
    )
    claimed = RunRequest(task="facts", args="{}", facts=facts_of(row))
    assert claimed.job_id == 5
    assert await outcome_of(pool, claimed) == Succeeded(Json('[5,3,true,{"gpu":2}]'))


async def test_what_a_task_raises_is_told(pool: ProcessPool) -> None:
    plain = await raised(pool, "plain")
    assert (plain.error, plain.message) == ("ConnectionError", "nobody there")
    assert plain.retryable
    assert not plain.permanent
    assert not (await raised(pool, "uncovered")).retryable
    assert (await raised(pool, "permanent")).permanent
    later = await raised(pool, "later")
    assert later.retry_after == timedelta(minutes=10)
    assert later.retryable, "RetryAfter is not in on=, and asks for it all the same"
    assert (await raised(pool, "mute")).message == "(its text cannot be made: ValueError)"
    leaving = await raised(pool, "exit")
    assert (leaving.error, leaving.message, leaving.retryable) == ("SystemExit", "4", True)
    assert (await raised(pool, "nul")).message == "a\ufffdb \ufffd"
    assert len(pool.pids()) == 1, "all of it in one child"


async def test_a_traceback_shows_the_task_and_neither_our_code_nor_its_variables(
    pool: ProcessPool,
) -> None:
    shown = (await raised(pool, "plain")).traceback
    assert 'raise ConnectionError("nobody there")' in shown
    assert "bench.py" not in shown
    assert "a local variable" not in shown


async def test_a_result_that_cannot_be_kept_is_not_asked_for_again(pool: ProcessPool) -> None:
    found = await outcome_of(pool, order("unkeepable"))
    assert isinstance(found, Raised)
    assert (found.error, found.permanent) == ("PayloadError", True)


async def test_arguments_that_do_not_fit_any_more_are_no_failure(pool: ProcessPool) -> None:
    misfit = await outcome_of(pool, order("add", a="one", b=2))
    assert isinstance(misfit, Mismatched)
    assert misfit.signature
    assert "expected int" in misfit.reason
    unknown = await outcome_of(pool, order("subtract"))
    assert isinstance(unknown, Mismatched)
    assert "subtract" in unknown.reason


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("segfault", "was killed by SIGSEGV"),
        ("exit", "ended with exit status 3"),
        ("kill", "was killed by SIGKILL"),
    ],
)
async def test_the_death_of_a_child_is_an_outcome(pool: ProcessPool, how: str, reason: str) -> None:
    heard = Heard()
    found = await outcome_of(pool, order("die", how=how), heard)
    assert found == Lost(reason=f"the process that ran it {reason}")
    assert "last words" in heard.said("stdout")
    assert pool.pids() == []


async def test_a_child_that_hangs_up_is_lost_and_there_is_another_one(pool: ProcessPool) -> None:
    assert isinstance(await outcome_of(pool, order("die", how="hang up")), Lost)
    assert await outcome_of(pool, order("add", a=1, b=2)) == Succeeded(Json("3"))


async def test_a_result_that_was_said_before_its_child_died_counts(
    pool: ProcessPool, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    running = asyncio.create_task(outcome_of(pool, order("say_and_die", note=str(note))))
    await until(note.exists)
    (child,) = pool.pids()
    watch_it_die(child)  # so that the result and the death are noticed at once
    assert await running == Succeeded(Json('"' + 150_000 * "x" + '"'))


async def test_what_a_dead_child_has_started_dies_with_it(
    pool: ProcessPool, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    found = await outcome_of(pool, order("leave_behind", note=str(note)))
    assert isinstance(found, Lost)
    orphan = number_in(note)
    assert orphan is not None
    await until(lambda: not is_alive(orphan), within=1)


async def test_a_task_may_fork_and_only_one_of_the_two_is_heard(pool: ProcessPool) -> None:
    (child,) = await several(pool, "pid")
    assert await outcome_of(pool, order("fork_and_return")) == child
    assert await outcome_of(pool, order("pid")) == child


async def test_no_more_jobs_run_at_once_than_there_are_seats(
    pool: ProcessPool, tmp_path: Path
) -> None:
    met = await asyncio.gather(
        *(
            outcome_of(pool, order("meet", job_id=n, folder=str(tmp_path), name=str(n)))
            for n in range(5)
        )
    )
    assert max(met, key=repr) == Succeeded(Json("2"))
    assert len(pool.pids()) == 2


async def test_a_child_is_replaced_after_so_many_jobs(open_pool: Open) -> None:
    first, second, third = await several(open_pool(recycle_jobs=2), "pid", times=3)
    assert first == second
    assert third != second


async def test_a_child_that_has_grown_is_replaced(open_pool: Open) -> None:
    pool = open_pool(recycle_bytes=150_000_000)
    before, again = await several(pool, "pid", times=2)
    assert before == again
    assert await outcome_of(pool, order("keep", size=200_000_000)) == before
    assert await outcome_of(pool, order("pid")) != before
    await until(lambda: len(pool.pids()) == 1)


async def several(pool: ProcessPool, task: str, *, times: int = 1) -> list[Outcome]:
    return [await outcome_of(pool, order(task)) for _ in range(times)]


async def raised(pool: ProcessPool, how: str) -> Raised:
    found = await outcome_of(pool, order("fail", how=how))
    assert isinstance(found, Raised), found
    return found
