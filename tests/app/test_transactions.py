"""``current().transaction()`` in a running worker: effects and completion together, or neither."""

import importlib
from collections.abc import Iterator

import psycopg
import pytest

from duly.errors import JobFailed
from tests.app import ledger_shop


@pytest.fixture
def invoices(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    monkeypatch.setenv("DULY_URL", postgres_url)
    importlib.reload(ledger_shop)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table invoice (number int primary key)")
        yield connection
    ledger_shop.duly.close()


@pytest.mark.parametrize("name", ["bill_async", "bill_in_a_thread", "bill_in_a_process"])
def test_what_a_task_writes_and_the_end_of_its_job_are_committed_together(
    invoices: psycopg.Connection, name: str
) -> None:
    with ledger_shop.duly.running(scheduler=False):
        job = getattr(ledger_shop, name).enqueue(7)
        assert job.result("20s") == {"invoice": 7}
    assert invoices.execute("select number from invoice").fetchall() == [(7,)]
    assert invoices.execute("select state from duly.history").fetchall() == [("succeeded",)]


def test_a_task_that_raises_in_its_transaction_has_written_nothing(
    invoices: psycopg.Connection,
) -> None:
    with ledger_shop.duly.running(scheduler=False):
        job = ledger_shop.bill_and_fail.enqueue(7)
        with pytest.raises(JobFailed, match="before the commit"):
            job.result("20s")
    assert invoices.execute("select number from invoice").fetchall() == []
