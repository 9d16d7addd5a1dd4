"""A job in Python: all its fields, its progress, and the jobs that callbacks are given."""

from dataclasses import fields
from datetime import date, timedelta
from typing import Any

import pytest

from duly import Duly, Job
from duly.errors import JobFailed, PayloadError
from duly.model.states import State
from duly.testing import Sandbox
from tests.app import shop

OF_THE_STORE = ("created_at", "due_at", "ready_at", "deadline", "fence")


@pytest.mark.usefixtures("shop_is_open")
def test_a_job_that_was_just_enqueued_has_the_fields_of_the_stored_one() -> None:
    task = shop.bill.using(queue="slow", priority=7, key="k", tenant="acme", tags=["a"])
    job = task.using(run_after="1h", start_within="2h").enqueue(7, date(2026, 3, 5))
    promised = job.stored
    stored = job.refresh().stored
    for field in fields(stored):
        if field.name not in OF_THE_STORE:
            assert getattr(promised, field.name) == getattr(stored, field.name), field.name
    for moment in OF_THE_STORE[:4]:
        apart = getattr(promised, moment) - getattr(stored, moment)
        assert abs(apart) < timedelta(seconds=5), moment
    assert job.args == {"customer": 7, "day": date(2026, 3, 5)}
    assert (job.priority, job.state, job.title) == (7, State.SCHEDULED, "invoice of 7")
    assert (job.attempt, job.started_at, job.ended_at, job.progress()) == (0, None, None, None)


@pytest.mark.usefixtures("shop_is_open")
def test_arguments_that_do_not_fit_the_task_any_more_are_plain_json() -> None:
    job = shop.add.enqueue(1)
    stranger = Duly()

    @stranger.task
    def add(*, word: str) -> None: ...

    assert stranger.jobs.get(job.id).args == {"a": 1}


class Office:
    """An app whose task has callbacks that note the jobs they are given."""

    def __init__(self) -> None:
        self.app = app = Duly()
        self.told: list[Any] = []

        @app.task(timeout="30s")
        async def tell(job: Job[Any]) -> None:
            last_line = (job.error or "").splitlines()[-1]
            self.told.append((job.state, job.args, last_line, len(job.attempts)))

        @app.task
        def hear(job: "Job[int]") -> None:
            self.told.append((job.state, job.args, job.result(), job.progress()))

        @app.task(retry=None, on_failure=tell, on_success=hear)
        def halve(number: int, day: date) -> int:
            app.current().progress(40, "dividing", rows=number)
            if number % 2:
                raise ValueError(f"{number} is odd")
            return number // 2

        self.tell, self.hear, self.halve = tell, hear, halve


def test_a_callback_is_given_the_job_with_its_arguments_its_error_and_its_result() -> None:
    office, day = Office(), date(2026, 3, 5)
    with Sandbox(office.app) as box:
        for number in (3, 4):
            office.halve.enqueue(number, day)
            box.run()
        failure, success = office.told
        assert failure == (State.FAILED, {"number": 3, "day": day}, "ValueError: 3 is odd", 1)
        assert success[:3] == (State.SUCCEEDED, {"number": 4, "day": day}, 2)
        assert (success[3].percent, success[3].message) == (40, "dividing")
        assert success[3].meta == {"rows": 4}


def test_a_callback_has_the_timeout_of_its_task() -> None:
    office = Office()
    with Sandbox(office.app) as box:
        job = office.halve.enqueue(3, date(2026, 3, 5))
        box.run()
        [callback] = office.app.jobs.list("task:tell")
        assert (callback.timeout, callback.parent) == (timedelta(seconds=30), job.id)


def test_a_job_is_enqueued_as_its_number_and_can_be_passed_in_a_direct_call() -> None:
    office = Office()
    with Sandbox(office.app) as box:
        job = office.halve.enqueue(3, date(2026, 3, 5))
        box.run()
        again = office.tell.enqueue(job)
        assert again.stored.args == f'{{"job":{job.id}}}'
        box.run()
        assert office.told[0] == office.told[1]
        fine = office.halve.enqueue(4, date(2026, 3, 5))
        box.run()
        office.hear(fine.refresh())
        assert office.told[2] == office.told[3]
        with pytest.raises(PayloadError, match="tell: argument `job`: expected int, got str"):
            office.tell.enqueue("nine")  # type: ignore[arg-type]


@pytest.mark.usefixtures("shop_is_open")
async def test_a_callback_in_a_process_reads_the_job_there() -> None:
    async with shop.duly.running():
        job = await shop.fail_and_write.aenqueue("x")
        with pytest.raises(JobFailed):
            await job.aresult("20s")
        [callback] = await shop.duly.jobs.alist("task:write_error")
        assert await callback.aresult("20s") == "ValueError: x of x"
    await shop.duly.aclose()
