"""What users come to duly for, as they would write it: each example does what it promises.

On a virtual clock here; what needs real programs is in ``test_situations_running``, what needs a
database in ``test_situations_transaction``.
"""

import builtins
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly.testing import Sandbox
from tests.docs.situations import EXAMPLES, Open


def test_1_it_is_due_every_ten_seconds(situation: Open) -> None:
    first = situation("01_first_schedule")
    with Sandbox(first.duly, now="2027-01-03T23:00:01Z") as box:
        fires = box.travel("30s")
    assert [fire.due_at.second for fire in fires] == [10, 20, 30]


def test_2_a_night_is_made_up_for_with_its_own_date(situation: Open) -> None:
    nightly = situation("02_nightly_report")
    with Sandbox(nightly.duly, now="2027-01-04T23:00+01:00") as box:
        box.travel("6h40m", down=True)  # 05:40, on Tuesday
        [fire] = box.travel("1s")
        assert (fire.outcome, fire.reason) == ("queued", "queued 3 hours and 40 minutes late")
        [job] = box.run()
        assert job.result() == nightly.Report(day=datetime(2027, 1, 5, tzinfo=UTC).date(), sales=42)


def test_2_after_four_hours_it_is_too_late(situation: Open) -> None:
    nightly = situation("02_nightly_report")
    with Sandbox(nightly.duly, now="2027-01-04T23:00+01:00") as box:
        box.travel("8h", down=True)
        [fire] = box.travel("1s")
        assert (fire.outcome, fire.due_at) == ("skipped", datetime(2027, 1, 5, 1, tzinfo=UTC))


def test_3_a_reminder_moves_and_goes(situation: Open) -> None:
    reminders = situation("03_reminder")
    starts_at = datetime(2027, 1, 10, 9, tzinfo=UTC)
    with Sandbox(reminders.duly, now="2027-01-04T09:00Z") as box:
        reminders.plan(42, "A1", starts_at)
        reminders.plan(42, "B2", starts_at + timedelta(hours=2))
        [job] = box.jobs()
        assert (job.title, job.due_at) == ("remind class 42", datetime(2027, 1, 9, 11, tzinfo=UTC))
        box.assert_enqueued(reminders.remind.bind(42, "B2"))
        assert reminders.call_off(42)
        assert not reminders.call_off(42)
        assert [job.state for job in box.jobs()] == ["cancelled"]


def test_3_a_class_that_begins_soon_is_not_reminded_of(situation: Open) -> None:
    reminders = situation("03_reminder")
    with Sandbox(reminders.duly, now="2027-01-04T09:00Z") as box:
        reminders.plan(42, "A1", box.now + timedelta(hours=3))
        reminders.plan(43, "A1", box.now + timedelta(hours=20))
        box.travel("1s")
        box.run()
        assert [job.state for job in box.jobs()] == ["expired", "succeeded"]


def test_4_a_bank_that_is_away_is_asked_again(situation: Open) -> None:
    shop = situation("04_retries")
    errors = [ConnectionError("away"), shop.BusyError("90"), TimeoutError(), None]

    def ask_bank(order: int) -> str:
        error = errors.pop(0)
        if error is not None:
            raise error
        return f"order {order} is paid"

    shop.ask_bank = ask_bank
    with Sandbox(shop.duly, now="2027-01-04T09:00Z") as box:
        job = shop.charge.enqueue(7)
        for wait in ("10s", "90s", "10m"):
            box.run()
            assert job.refresh().state == "scheduled"
            assert (box.travel(wait), job.refresh().state) == ([], "ready"), wait
        box.run()
        assert job.result() == "order 7 is paid"


@pytest.mark.parametrize(
    ("task", "error", "reason"),
    [
        ("charge", "CardGoneError", "failed for good: Permanent: the card is gone"),
        ("charge", "ValueError", "not retried: ValueError is not in on="),
        ("charge_once", "ConnectionError", "attempt 1 of 1 raised ConnectionError: order 7"),
    ],
)
def test_4_what_would_fail_again_is_not_tried_again(
    situation: Open, task: str, error: str, reason: str
) -> None:
    shop = situation("04_retries")

    def ask_bank(order: int) -> str:
        raise {**vars(shop), **vars(builtins)}[error](f"order {order}")

    shop.ask_bank = ask_bank
    with Sandbox(shop.duly, now="2027-01-04T09:00Z") as box:
        job = getattr(shop, task).enqueue(7)
        box.run()
        assert job.refresh().state == "failed"
        assert reason in job.reason


def test_every_situation_is_in_the_table_and_tested_here() -> None:
    table = (EXAMPLES / "README.md").read_text()
    files = sorted(path.name for path in EXAMPLES.glob("[0-9]*"))
    assert [int(name[:2]) for name in files] == list(range(1, len(files) + 1))
    assert [name for name in files if f"({name})" not in table] == []
    tested = "".join(path.read_text() for path in Path(__file__).parent.glob("test_situation*.py"))
    assert [name for name in files if f"test_{int(name[:2])}_" not in tested] == []


def test_11_a_night_is_a_flow_with_one_report(situation: Open) -> None:
    etl = situation("11_etl")
    with Sandbox(etl.duly, now="2027-01-03T23:00+01:00") as box:
        box.travel("4h")
        box.run()
        [night] = box.jobs("task:etl")
        report = night.result()
        assert report == etl.Report(day=datetime(2027, 1, 4, tzinfo=UTC).date(), total=14.0)
        assert box.jobs("task:tell_ops") == []
        assert len(box.jobs("task:transform state:succeeded")) == 3


def test_12_what_is_saved_often_is_indexed_once_it_is_quiet(situation: Open) -> None:
    react = situation("12_react")
    with Sandbox(react.duly, now="2027-01-03T23:00Z") as box:
        for _ in range(3):
            react.save(7)
            box.run()
            box.travel("20s")
        assert react.indexed == []
        box.travel("20s")
        box.run()
        assert react.indexed == [7]


def test_12_an_invoice_that_is_paid_is_not_dunned(situation: Open) -> None:
    react = situation("12_react")
    with Sandbox(react.duly, now="2027-01-03T09:00Z") as box:
        for invoice in (1, 2):
            react.bill(invoice, datetime(2027, 1, 17, 9, tzinfo=UTC))
        box.run()
        react.duly.emit("invoice.paid", {"invoice_id": 1, "due_on": "2027-01-17T09:00:00Z"})
        box.travel("12d")
        box.run()
        done = [job.state for job in box.jobs("task:dun")]
        assert sorted(done) == ["cancelled", "succeeded"]
