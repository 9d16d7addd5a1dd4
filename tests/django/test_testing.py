"""The helpers for the tests of a Django project, in Django's own TestCase."""

import asyncio
from typing import Any

import pytest

from duly.errors import InvalidValue

pytestmark = pytest.mark.usefixtures("project")


def test_a_task_runs_in_the_transaction_of_the_test(db: None) -> None:
    from duly.django.testing import assert_enqueued, assert_not_enqueued, run_jobs
    from tests.django.shop.models import Order
    from tests.django.shop.tasks import mail, pack

    order = Order.objects.create(customer="ada")
    pack.enqueue(order.id)
    mail.using(run_after="1h").enqueue("ada")
    assert assert_enqueued(pack.bind(order.id)).state == "ready"
    assert_enqueued(mail)
    assert_not_enqueued(pack.bind(order.id + 1))
    with pytest.raises(AssertionError, match=r"pack\(order_id=.*was not enqueued; these were"):
        assert_enqueued(pack.bind(order.id + 1))
    [job] = run_jobs()
    assert job.result() == "ada: packed"
    order.refresh_from_db()
    assert order.state == "packed"


def test_a_failed_job_is_raised_where_that_is_asked_for(db: None) -> None:
    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import fail

    job = fail.enqueue("first")
    run_jobs()
    assert (job.refresh().state, "ValueError: first" in (job.error or "")) == ("failed", True)
    fail.enqueue("second")
    with pytest.raises(ValueError, match="second"):
        run_jobs(raising=True)


def test_a_job_in_the_thread_of_its_caller_has_an_hour_and_no_event_loop(db: None) -> None:
    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import lease_seconds

    lease_seconds.enqueue()
    [job] = run_jobs()
    assert job.state == "succeeded", job.attempts
    assert 3_000 < job.result() <= 3_600

    async def run() -> None:
        run_jobs()

    with pytest.raises(InvalidValue, match="inline on an event loop: use sync_to_async"):
        asyncio.run(run())


def test_a_connection_that_was_closed_is_opened_to_run_jobs(postgres: Any) -> None:
    from duly.django.testing import run_jobs
    from tests.django.shop.tasks import mail

    mail.enqueue("ada")
    postgres.close()
    assert [job.result() for job in run_jobs()] == ["ada has 0"]


def test_djangos_own_test_case_undoes_the_jobs_of_a_test(project: None) -> None:
    from unittest import TestLoader, TestResult

    from django.test import TestCase

    from duly.django.testing import jobs
    from tests.django.shop.tasks import pack

    class Twice(TestCase):
        def test_one(self) -> None:
            assert len(jobs("task:pack")) == 0
            with self.captureOnCommitCallbacks() as hooks:
                pack.enqueue(1)
            assert len(jobs("task:pack")) == 1
            assert hooks == []  # a worker on SQLite watches the file

        test_two = test_one

    result = TestResult()
    TestLoader().loadTestsFromTestCase(Twice).run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])


def test_time_passes_in_a_sandbox(project: None) -> None:
    from duly.django import duly
    from duly.testing import Sandbox
    from tests.django.shop.tasks import mail

    with Sandbox(duly, now="2027-01-03T23:00+01:00") as box:
        mail.using(run_after="1h").enqueue("ada")
        fires = box.travel("6h")
        assert [fire.schedule for fire in fires] == ["nightly"]
        assert {job.task for job in box.jobs()} == {"clean", "mail"}
