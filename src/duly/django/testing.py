"""Jobs in the tests of a Django project: in its transaction, thread and connection.

    class OrderTest(TestCase):
        def test_a_paid_order_sends_a_mail(self):
            pay(order)
            assert_enqueued(send_mail.bind(order.id))
            run_jobs()

Jobs are rows in the test's own transaction, so that a rollback undoes them, as in production.
``run_jobs`` runs them with a real worker in this thread: a task uses the connection, the patches
and the thread locals of the test. For schedules and the passing of time there is
``duly.testing.Sandbox``.
"""

from datetime import datetime, timedelta
from typing import Any, TypeVar

from duly import clock
from duly.app.job import Job
from duly.app.tasks import Call, Enqueueable
from duly.django.app import duly
from duly.django.inline import run_ready
from duly.model.job import StoredJob
from duly.model.job_filter import EVERYTHING, parse_filter
from duly.testing.sandbox import assertions
from duly.testing.sandbox.assertions import end_of

R = TypeVar("R")


def run_jobs(*, raising: bool = False) -> list[Job[Any]]:
    """Run the jobs that are ready, one after the other, and those that they make ready.

    Return them in the order of their starts. A failed job waits for its next attempt. With
    ``raising``, the first error of a task is raised here, and the jobs behind it wait.
    """
    connection = duly.project_store.connection
    started = run_ready(connection, duly.registry, raising=raising)
    return [duly.jobs.get(number) for number in started]


def jobs(filter: str = "", /) -> list[Job[Any]]:  # noqa: A002 - what it is called
    """Return matching jobs, as ``"task:remind state:failed"``; by default all, oldest first."""
    wanted = parse_filter(filter)
    found = duly.project_store.call(lambda store: assertions.found(store, wanted), async_name="")
    return [duly.jobs.get(job.id) for job in found]


def assert_enqueued(
    call: Call[R] | Enqueueable[..., R], /, *, at: str | timedelta | datetime | None = None
) -> Job[R]:
    """Assert that a job of the call (``remind.bind(42)``) or task was enqueued; return the first.

    ``at`` is the time the job is for, or how long from now that is.
    """
    __tracebackhide__ = True
    found, moment, every = _found(call, at)
    if not found:
        raise AssertionError(assertions.missing(call, every, moment))
    return duly.jobs.get(found[0].id)


def assert_not_enqueued(
    call: assertions.Asked, /, *, at: str | timedelta | datetime | None = None
) -> None:
    """Assert that no such job is or was enqueued."""
    __tracebackhide__ = True
    found, moment, _ = _found(call, at)
    if found:
        raise AssertionError(assertions.unwanted(call, found, moment))


def _found(
    call: assertions.Asked, at: str | timedelta | datetime | None
) -> tuple[list[StoredJob], datetime | None, list[StoredJob]]:
    """Return the matching jobs, the time that ``at`` stands for, and all jobs."""
    now = clock.now()
    moment = None if at is None else end_of("at", at, now)
    every = duly.project_store.call(
        lambda store: assertions.found(store, EVERYTHING), async_name=""
    )
    return assertions.matching(call, every, moment, now), moment, every
