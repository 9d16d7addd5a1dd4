"""Jobs run in a sandbox as a worker would run them, one after the other, when they are told to."""

import os
import threading
from datetime import UTC, datetime, timedelta

import pytest

from duly import Context, Duly, Limit, Permanent, Retry, RetryAfter, clock, current
from duly.errors import InvalidValue, JobFailed
from duly.testing import Sandbox

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


def test_a_failing_job_waits_for_its_next_attempt() -> None:
    app, tries = Duly(), list[int]()

    @app.task(retry=Retry(attempts=3, backoff=["10s", "1m"]))
    def flaky() -> str:
        tries.append(current().attempt)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return "done"

    with Sandbox(app, now=NEW_YEAR) as box:
        job = flaky.enqueue()
        [tried] = box.run()
        assert (tried.state, box.run()) == ("scheduled", [])
        box.travel("10s")
        [tried] = box.run()
        assert "attempt 2 of 3 raised ConnectionError: not yet" in tried.attempts[-1].reason
        box.travel("59s")
        assert box.run() == []
        box.travel("1s")
        box.run()
        assert (job.result(), tries) == ("done", [1, 2, 3])


def test_a_task_says_itself_when_it_is_tried_again() -> None:
    app = Duly()

    @app.task
    def patient() -> str:
        if current().attempt == 1:
            raise RetryAfter(NEW_YEAR + timedelta(hours=2))
        return "at last"

    with Sandbox(app, now=NEW_YEAR) as box:
        job = patient.enqueue()
        box.run()
        box.travel(timedelta(hours=2, seconds=-1))
        assert box.run() == []
        box.travel("1s")
        box.run()
        assert job.result() == "at last"


def test_what_fails_for_good_calls_back() -> None:
    app, told = Duly(), list[int]()

    @app.task
    def tell(job_id: int) -> None:
        told.append(job_id)

    @app.task(on_failure=tell)
    def hopeless() -> None:
        raise Permanent("no such card")

    with Sandbox(app, now=NEW_YEAR) as box:
        job = hopeless.enqueue()
        assert [job.task for job in box.run()] == ["hopeless", "tell"]
        assert told == [job.id]
        with pytest.raises(JobFailed, match="no such card"):
            job.result()
        assert "raise Permanent" in (job.refresh().error or "")


def test_the_first_error_of_a_task_can_be_raised_and_the_others_wait() -> None:
    app = Duly()

    @app.task
    def broken() -> None:
        raise KeyError("the_column")

    @app.task
    async def fine() -> None: ...

    with Sandbox(app, now=NEW_YEAR) as box:
        broken.enqueue()
        fine.enqueue()
        with pytest.raises(KeyError, match="the_column") as raised:
            box.run(raising=True)
        assert raised.traceback[-1].name == "broken"
        assert [job.state for job in box.jobs()] == ["scheduled", "ready"]
        assert [job.task for job in box.run(raising=True)] == ["fine"]


def test_an_interrupt_ends_the_test_and_not_the_task() -> None:
    app = Duly()

    @app.task
    def interrupted() -> None:
        raise KeyboardInterrupt

    with Sandbox(app, now=NEW_YEAR) as box:
        interrupted.enqueue()
        with pytest.raises(KeyboardInterrupt):
            box.run()


def test_plain_functions_run_where_the_test_does() -> None:
    app, where = Duly(), list[threading.Thread]()

    @app.task
    def plain() -> None:
        where.append(threading.current_thread())

    @app.task(executor="process", timeout="1h", memory="2GB")
    def heavy() -> int:
        return os.getpid()

    with Sandbox(app, now=NEW_YEAR) as box:
        plain.enqueue()
        job = heavy.enqueue()
        box.run()
        assert where == [threading.current_thread()]
        assert job.result() == os.getpid()


def test_jobs_run_in_the_order_of_their_priority_one_at_a_time() -> None:
    app, order = Duly(), list[str]()

    @app.task
    def step(name: str) -> None:
        order.append(name)
        if name == "first":
            step.using(priority="high").enqueue("urgent")

    with Sandbox(app, now=NEW_YEAR) as box:
        step.using(priority="low").enqueue("last")
        step.enqueue("first")
        step.enqueue("third")
        box.run()
        assert order == ["first", "urgent", "third", "last"]


def test_every_queue_and_resource_is_there() -> None:
    app = Duly()

    @app.task(queue="mail", needs={"gpu": 2})
    def far() -> None:
        near.using(queue="made up").enqueue()

    @app.task
    def near() -> None: ...

    with Sandbox(app, now=NEW_YEAR) as box:
        far.enqueue()
        assert [(job.task, job.queue) for job in box.run()] == [
            ("far", "mail"),
            ("near", "made up"),
        ]


def test_a_rate_lets_the_next_job_through_when_its_time_has_come() -> None:
    app = Duly()

    @app.task(limits=[Limit("crm", rate="1/m")])
    def sync() -> None: ...

    with Sandbox(app, now=NEW_YEAR) as box:
        sync.enqueue()
        sync.enqueue()
        assert len(box.run()) == 1
        box.travel("59s")
        assert box.run() == []
        box.travel("1s")
        assert len(box.run()) == 1


def test_time_may_pass_while_a_task_runs() -> None:
    app = Duly()

    @app.schedule("every 1h")
    @app.task
    def slow() -> None:
        box.travel("90m")

    with Sandbox(app, now=NEW_YEAR) as box:
        box.travel("1h")
        assert [job.state for job in box.run()] == ["succeeded"]
        assert [fire.outcome for fire in box.fires("slow")] == ["queued", "skipped"]


def test_a_task_cannot_run_the_others() -> None:
    app = Duly()

    @app.task
    def impatient() -> None:
        box.run()

    with Sandbox(app, now=NEW_YEAR) as box:
        impatient.enqueue()
        with pytest.raises(InvalidValue, match="under way"):
            box.run(raising=True)


def test_a_task_sees_its_context_and_a_transaction_is_refused() -> None:
    app = Duly()

    @app.task(takes_context=True)
    def exact(context: Context) -> int:
        context.log.info("it is %s", clock.now())
        context.progress(50, "half")
        context.transaction()
        return context.attempt

    with Sandbox(app, now=NEW_YEAR) as box:
        job = exact.enqueue()
        with pytest.raises(InvalidValue, match="a sandbox keeps its jobs in memory"):
            box.run(raising=True)
        assert list(job.logs()) == ["duly.job.exact: it is 2027-01-01 00:00:00+00:00"]
