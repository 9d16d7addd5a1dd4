"""What a running task may ask, and what reaches those who run it."""

import asyncio
import logging
import math
import threading
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from duly.errors import InvalidValue, NotInAJob, PayloadError
from duly.model.job import StoredJob
from duly.model.payload import Json
from duly.model.states import State
from duly.policy.retry import NEVER, Retry
from duly.registry.context import Context, current, entered

NOON = datetime(2027, 1, 3, 12, tzinfo=UTC)
JOB = StoredJob(
    id=7,
    task="send",
    state=State.RUNNING,
    created_at=NOON,
    due_at=NOON,
    ready_at=NOON,
    attempt=1,
    fire_id=3,
)


class Recorder:
    """Whoever runs the task, and writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, Json | None]] = []
        self.stop: str | None = None

    def cancelled(self) -> str | None:
        return self.stop

    def progress(self, percent: float, message: str, meta: Json | None) -> None:
        self.told.append((percent, message, meta))

    def guard(self) -> None: ...

    def transaction(self, context: Context) -> Any:  # noqa: ANN401
        return nullcontext(context.job.id)


def context(job: StoredJob = JOB, *, retry: Retry = NEVER) -> tuple[Context, Recorder]:
    port = Recorder()
    return Context(job, retry, port), port


def test_a_task_knows_its_job_and_the_moment_it_is_for() -> None:
    asked, _ = context()
    assert asked.job is JOB
    assert (asked.fire, asked.due_at, asked.attempt) == ((3, None, NOON), NOON, 1)
    assert asked.log is logging.getLogger("duly.job.send")


@pytest.mark.parametrize(
    ("attempt", "crashes", "is_last"),
    [(1, 0, False), (2, 0, False), (3, 0, True), (4, 0, True), (3, 1, False), (4, 1, True)],
)
def test_the_last_attempt_is_known_and_crashes_do_not_count(
    attempt: int, crashes: int, is_last: bool
) -> None:
    job = replace(JOB, attempt=attempt, crashes=crashes)
    assert context(job, retry=Retry(attempts=3))[0].is_last_attempt is is_last


def test_a_cancelled_task_learns_it_and_why() -> None:
    asked, port = context()
    assert (asked.cancelled, asked.reason) == (False, "")
    port.stop = ""
    assert (asked.cancelled, asked.reason) == (True, "")
    port.stop = "ada said so"
    assert (asked.cancelled, asked.reason) == (True, "ada said so")


def test_progress_reaches_those_who_watch() -> None:
    asked, port = context()
    asked.progress(50)
    asked.progress(62.5, "half", rows=7)
    assert port.told == [(50.0, "", None), (62.5, "half", '{"rows":7}')]


@pytest.mark.parametrize(("said", "told"), [(-1, 0.0), (100.4, 100.0), (math.inf, 100.0)])
def test_progress_stays_between_nothing_and_all(said: float, told: float) -> None:
    asked, port = context()
    asked.progress(said)
    assert port.told[0][0] == told


def test_a_message_that_no_database_takes_is_mended_not_refused() -> None:
    asked, port = context()
    asked.progress(1, "a\0b" + "x" * 5_000)
    assert "\0" not in port.told[0][1]
    assert len(port.told[0][1].encode()) <= 1_000


@pytest.mark.parametrize("percent", [math.nan, "half", None], ids=str)
def test_progress_is_a_number(percent: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValue, match="a number from 0 to 100"):
        context()[0].progress(percent)


def test_what_is_told_along_with_progress_is_plain_json() -> None:
    with pytest.raises(PayloadError, match=r"progress\.at: datetime is not plain JSON"):
        context()[0].progress(1, "", at=NOON)


def test_a_transaction_is_what_the_port_gives() -> None:
    with context()[0].transaction() as opened:
        assert opened == 7


def test_outside_of_a_job_there_is_no_current_one_and_what_to_do_is_said() -> None:
    with pytest.raises(NotInAJob, match="pass the values as arguments, or in a test"):
        current()


def test_the_innermost_context_is_the_current_one() -> None:
    outer, inner = context()[0], context()[0]
    with entered(outer) as asked:
        assert asked is current() is outer
        with suppress(ZeroDivisionError), entered(inner):
            assert current() is inner
            raise ZeroDivisionError
        assert current() is outer
    with pytest.raises(NotInAJob):
        current()


async def test_jobs_that_run_side_by_side_each_have_their_own() -> None:
    both = asyncio.Barrier(2)

    async def run(mine: Context) -> bool:
        with entered(mine):
            await both.wait()
            return current() is mine

    assert all(await asyncio.gather(run(context()[0]), run(context()[0])))


def test_a_thread_of_its_own_does_not_inherit_a_job() -> None:
    found: list[object] = []

    def look() -> None:
        try:
            found.append(current())
        except NotInAJob as error:
            found.append(type(error))

    with entered(context()[0]):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert found == [NotInAJob]
