"""A promise made in one place is kept in another, and its result comes back as it was declared."""

import asyncio
import inspect
import os
import sqlite3
import warnings
from datetime import date, timedelta
from pathlib import Path
from types import AsyncGeneratorType

import psycopg
import pytest

from duly import Duly, JobFailed, NotInAJob, current
from duly.clock import now
from duly.errors import InvalidValue, KeyTaken, PayloadError, WrongState
from duly.model.states import State
from tests.app import shop
from tests.app.waiting import eventually

pytestmark = pytest.mark.usefixtures("shop_is_open")


def test_code_without_a_loop_enqueues_and_reads_the_typed_result() -> None:
    day = date(2027, 1, 3)
    job = shop.bill.enqueue(7, day)
    assert (job.state, job.title, job.task) == (State.READY, "invoice of 7", "bill")
    with shop.duly.running():
        assert job.result("9s") == shop.Invoice(7, day, [1.5, 7.0])
    assert job.state is State.SUCCEEDED


def test_asyncio_may_run_twice_in_one_program() -> None:
    async def main() -> int:
        async with shop.duly.running():
            return await (await shop.add.aenqueue(40)).aresult("9s")

    assert [asyncio.run(main()), asyncio.run(main())] == [42, 42]


def test_a_job_may_promise_more_work() -> None:
    with shop.duly.running():
        number = shop.order.enqueue(5).result("9s")
        again = shop.add.using(key="same").enqueue(5)
        assert again.id > number
        assert again.result("9s") == 7


async def test_enqueue_on_a_running_loop_works_and_says_once_what_to_await() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jobs = [shop.add.enqueue(1), shop.add.enqueue(2)]
    assert [str(one.message) for one in caught] == [
        "called on a running event loop, which it blocks: use await add.aenqueue()"
    ]
    assert caught[0].filename == __file__
    assert jobs[0].id != jobs[1].id


def test_using_leaves_the_task_as_it_is() -> None:
    later = shop.add.using(run_after="1h", queue="slow")
    both = later.using(priority="high", tags=("a",), tenant="acme")
    assert shop.add.enqueue(1).queue == "default"
    job = both.enqueue(1)
    assert (job.queue, job.state, job.tags, job.tenant) == ("slow", "scheduled", ("a",), "acme")
    assert timedelta(minutes=59) < job.refresh().due_at - now() <= timedelta(hours=1)


def test_a_key_moves_the_job_and_can_be_called_off() -> None:
    first = shop.add.using(key="k", run_after="1h").enqueue(1)
    assert shop.add.using(key="k", run_after="2h").enqueue(2).id == first.id
    assert shop.add.using(key="k", if_exists="keep").enqueue(3).id == first.id
    with pytest.raises(KeyTaken):
        shop.add.using(key="k", if_exists="error").enqueue(4)
    assert (shop.add.cancel(key="k"), shop.add.cancel(key="k")) == (True, False)
    assert first.refresh().state is State.CANCELLED


def test_many_are_promised_in_one_go_or_not_at_all() -> None:
    jobs = shop.duly.enqueue_many(shop.add.bind(n) for n in range(20))
    assert len({job.id for job in jobs}) == 20
    before = shop.add.enqueue(0).id
    with pytest.raises(KeyTaken):
        shop.duly.enqueue_many(shop.add.using(key="k", if_exists="error").bind(n) for n in range(2))
    with shop.duly.running():
        assert [job.result("9s") for job in jobs] == list(range(2, 22))
    assert shop.add.enqueue(0).id > before


def test_a_failed_job_raises_where_its_result_is_wanted() -> None:
    job = shop.fail.enqueue("no such customer")
    with shop.duly.running(), pytest.raises(JobFailed, match="no such customer") as caught:
        job.result("9s")
    assert (caught.value.job, caught.value.state) == (job.id, "failed")
    assert "raise ValueError(text)" in caught.value.error
    assert [attempt.number for attempt in job.attempts] == [1]


def test_a_job_called_off_has_no_result_and_says_so() -> None:
    job = shop.add.enqueue(1)
    assert job.cancel(reason="not needed")
    with pytest.raises(JobFailed, match="cancelled: not needed"):
        job.result()
    assert job.state is State.CANCELLED


def test_who_waits_no_longer_is_told_what_the_job_waits_for() -> None:
    told = "is ready after 50ms: it waits for a worker: none is running; start one: duly worker"
    with pytest.raises(TimeoutError, match=told):
        shop.add.enqueue(1).result("50ms")


def test_a_job_is_the_same_however_often_it_is_looked_up() -> None:
    job, other = shop.add.enqueue(1), shop.add.enqueue(1)
    again = shop.duly.jobs.get(job.id)
    assert (job, hash(job)) == (again, hash(again))
    assert len({job, other, again}) == 2
    assert job != other
    assert job != job.id


def test_what_a_job_says_can_be_followed_to_its_end() -> None:
    job = shop.add.enqueue(1, b=5)
    with shop.duly.running():
        assert list(job.logs(follow=True)) == ["duly.job.add: adding 1 and 5"]
    assert job.refresh().state is State.SUCCEEDED


def test_a_callback_is_a_task_that_gets_the_number_of_the_job() -> None:
    def told() -> list[tuple[str, str]]:
        ended = shop.duly._lazy.call(lambda store: store.jobs.ended(State.SUCCEEDED), async_name="")
        return [(job.task, job.args) for job in ended]

    job = shop.fail_and_tell.enqueue()
    with shop.duly.running():
        eventually(told, "a job that succeeds")
    assert told() == [("add", f'{{"a":{job.id}}}')]


def test_wrong_arguments_are_the_callers_error() -> None:
    with pytest.raises(PayloadError, match="argument `a`"):
        shop.add.enqueue("one")  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match="missing a required argument"):
        shop.add.bind()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean run_after"):
        shop.add.using(after="5m")  # type: ignore[call-arg]


async def test_a_task_is_still_its_function() -> None:
    assert shop.bill(1, date(2027, 1, 1)).customer == 1
    with pytest.raises(NotInAJob):
        await shop.add(1)
    assert inspect.signature(shop.bill) == inspect.signature(shop.bill.definition.function)
    assert shop.hold.__doc__ == shop.hold.definition.function.__doc__
    with pytest.raises(NotInAJob):
        shop.whose("x")
    with pytest.raises(NotInAJob):
        current()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("delay", "enqueue(…)"), ("apply_async", "using(…).enqueue(…)"), ("s", "bind(…)")],
)
def test_a_method_of_celery_is_answered_with_the_one_of_duly(theirs: str, ours: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(shop.add, theirs)
    assert str(refused.value) == f"a task of duly has no {theirs}(): use add.{ours}"
    with pytest.raises(AttributeError, match="'AsyncTask' object has no attribute 'nonsense'"):
        _ = shop.add.nonsense  # type: ignore[attr-defined]  # an editor says so, too


def test_a_context_comes_from_the_worker() -> None:
    with shop.duly.running():
        assert shop.whose.enqueue("try").result("9s") == "try 1 whose"


def test_a_job_is_part_of_the_callers_transaction(url: str) -> None:
    shop.add.enqueue(0)  # so that the tables are there
    with _connected(url) as connection:
        gone = shop.add.using(connection=connection).enqueue(1)
        connection.rollback()
        kept = shop.add.using(connection=connection).enqueue(2)
        connection.commit()
    connection.close()
    assert kept.refresh().state is State.READY
    with pytest.raises(LookupError):
        gone.refresh() if gone.id != kept.id else _missing()


def test_a_fork_has_a_thread_and_a_store_of_its_own() -> None:
    first = shop.add.enqueue(1)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            os.write(writing, str(shop.add.enqueue(2).id).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        number = int(answer.read())
    os.waitpid(child, 0)
    after = shop.add.enqueue(3)
    assert len({first.id, number, after.id}) == 3
    with shop.duly.running():
        assert [first.result("9s"), after.result("9s")] == [3, 5]


def _connected(url: str) -> "sqlite3.Connection | psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(url) if url.startswith("postgres") else sqlite3.connect(url)


def _missing() -> None:
    """Of a block that was rolled back the numbers are given again, so there is nothing to ask."""
    raise LookupError


def test_making_an_app_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("DULY_URL")
    duly = Duly("there.db")
    duly.task(name="add")(shop.add.definition.function)
    assert list(here.iterdir()) == []
    assert duly.url == str(here / "there.db")
    assert Duly().url == str(here / "duly.db")
    monkeypatch.setenv("DULY_STORE", "other.db")
    assert Duly().url == str(here / "other.db")
    with pytest.raises(InvalidValue, match="in-memory"):
        _ = Duly(":memory:").url


def test_a_store_that_was_opened_and_forgotten_is_closed_with_its_loop() -> None:
    async def main() -> None:
        await shop.add.aenqueue(1)

    asyncio.run(main())
    [opened] = shop.duly._lazy._opened.values()
    assert isinstance(opened.keeper, AsyncGeneratorType)
    assert opened.keeper.ag_frame is None


def test_a_failed_job_is_found_by_its_number_and_given_another_chance() -> None:
    with shop.duly.running(scheduler=False):
        job = shop.fail.enqueue("no")
        with pytest.raises(JobFailed, match="no"):
            job.result("9s")
    found = shop.duly.jobs.get(job.id)
    assert (found.task, found.state) == ("fail", State.FAILED)
    assert shop.duly.jobs.count("state:failed task:fail error:ValueError") == 1
    assert found.retry().state is State.READY


def test_failed_jobs_are_retried_by_what_they_have_in_common_the_oldest_first() -> None:
    with shop.duly.running(scheduler=False):
        failed = [_number_of_one_that_failed(f"the {which}") for which in ("1st", "2nd", "3rd")]
    assert shop.duly.jobs.retry("task:fail", first=2) == failed[:2]
    assert shop.duly.jobs.retry() == failed[2:]
    assert shop.duly.jobs.retry("task:another") == []
    with pytest.raises(
        InvalidValue, match=r"4711 is not a filter.*duly\.jobs\.get\(number\)\.retry"
    ):
        shop.duly.jobs.retry(4711)  # type: ignore[arg-type]


def _number_of_one_that_failed(text: str) -> int:
    """It has ended when this returns: those that run beside each other end in any order."""
    job = shop.fail.enqueue(text)
    with pytest.raises(JobFailed):
        job.result("9s")
    return job.id


def test_whoever_asks_again_under_an_idempotency_key_gets_the_same_job() -> None:
    asking = shop.add.using(idempotency_key="order 7")
    first = asking.enqueue(7)
    with shop.duly.running():
        assert first.result("9s") == 9
    assert asking.using(run_after="1h").enqueue(7) == first, "also when it has ended"
    assert asyncio.run(asking.aenqueue(7)) == first
    with pytest.raises(WrongState, match='"order 7" was used for another request within a day'):
        asking.enqueue(8)
    assert shop.add.using(idempotency_key="order 8").enqueue(7) != first


def test_the_jobs_of_many_calls_are_a_sequence_of_handles_that_stay_the_same() -> None:
    jobs = shop.duly.enqueue_many([shop.add.bind(n) for n in range(4)])
    assert (len(jobs), jobs[-1], list(jobs[1:3])) == (4, jobs[3], [jobs[1], jobs[2]])
    assert [job.id for job in jobs] == sorted({job.id for job in jobs})
    jobs[0].cancel()
    jobs[0].refresh()
    assert [job.state for job in jobs] == [State.CANCELLED, *[State.READY] * 3]
    with pytest.raises(IndexError):
        jobs[4]


def test_many_are_enqueued_once_under_one_idempotency_key() -> None:
    def ask() -> list[int]:
        calls = [shop.add.bind(n) for n in range(3)]
        return [job.id for job in shop.duly.enqueue_many(calls, idempotency_key="all of them")]

    assert ask() == ask()
    one = shop.add.using(idempotency_key="mine").bind(1)
    with pytest.raises(InvalidValue, match=r"give it once: enqueue_many\(…, idempotency_key=…\)"):
        shop.duly.enqueue_many([one])
    with pytest.raises(InvalidValue, match="idempotency_key= and connection= exclude each other"):
        shop.duly.enqueue_many([shop.add.bind(1)], idempotency_key="k", connection=object())
