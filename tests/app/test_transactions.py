"""``current().transaction()`` in a running worker: effects and completion together, or neither."""

import importlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from duly.app import is_postgres
from duly.errors import JobFailed
from tests.app import ledger_shop
from tests.app.programs import Programs
from tests.app.waiting import eventually


class Invoices:
    """The table that the tasks write to, asked over a connection of our own each time."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, text: str) -> list[tuple[object, ...]]:
        opened = psycopg.connect(self.url) if is_postgres(self.url) else sqlite3.connect(self.url)
        with closing(opened) as connection:
            cursor = connection.execute(text)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
            return found

    def count(self) -> int:
        return len(self.ask("select 1 from invoice"))


@pytest.fixture
def invoices(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Invoices]:
    monkeypatch.setenv("DULY_URL", url)
    importlib.reload(ledger_shop)
    table = Invoices(url)
    table.ask("create table invoice (number int)")
    yield table
    ledger_shop.duly.close()


@pytest.mark.parametrize("name", ["bill_async", "bill_in_a_thread", "bill_in_a_process"])
def test_what_a_task_writes_and_the_end_of_its_job_are_committed_together(
    invoices: Invoices, name: str
) -> None:
    with ledger_shop.duly.running(scheduler=False):
        job = getattr(ledger_shop, name).enqueue(7)
        assert job.result("20s") == {"invoice": 7}
    assert invoices.ask("select number from invoice") == [(7,)]
    assert [job.state for job in ledger_shop.duly.jobs.list()] == ["succeeded"]


def test_a_task_that_raises_in_its_transaction_has_written_nothing(
    invoices: Invoices,
) -> None:
    with ledger_shop.duly.running(scheduler=False):
        job = ledger_shop.bill_and_fail.enqueue(7)
        with pytest.raises(JobFailed, match="before the commit"):
            job.result("20s")
    assert invoices.ask("select number from invoice") == []


def kill_after_a_job(invoices: Invoices, programs: Programs) -> None:
    done = invoices.count()
    worker = programs.start("-m", "duly", "worker", "tests.app.ledger_shop:duly", DULY_LEASE="2s")
    eventually(lambda: invoices.count() > done, "a job to end")
    worker.kill()


@pytest.mark.thorough("kills at random where test_completing kills inside the block")
def test_whatever_is_killed_each_job_has_written_once(
    invoices: Invoices, programs: Programs
) -> None:
    jobs = [ledger_shop.bill_many.enqueue(number) for number in range(300)]
    for _ in range(3):
        kill_after_a_job(invoices, programs)
    assert invoices.count() < 3 * len(jobs), "the workers were killed too late to show anything"
    with ledger_shop.duly.running(scheduler=False):
        for job in jobs:
            job.result("60s")
    written = Counter(number for (number,) in invoices.ask("select number from invoice"))
    assert written == Counter(dict.fromkeys(range(len(jobs)), 3))
