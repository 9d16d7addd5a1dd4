"""A night in a test: your own app, in memory, on a clock that moves when told.

pytest 10_virtual_time.py
"""

from datetime import UTC, datetime

from duly import Duly
from duly.testing import Sandbox, context

duly = Duly(zone="Europe/Berlin")


@duly.task
async def remind(class_id: int) -> None: ...


@duly.schedule("02:00")
@duly.task
def nightly_report() -> str:
    remind.using(run_after="1h").enqueue(42)
    return f"the report of {duly.current().due_at:%d %B}"


def test_a_night_on_which_nobody_was_running_is_made_up_for_once() -> None:
    with Sandbox(duly, now="2027-01-03T23:00+01:00") as box:
        box.travel("6h", down=True)  # from 23:00 to 05:00
        [fire] = box.travel("1s")
        assert (fire.due_at.hour, fire.outcome) == (1, "queued")  # 02:00 in Berlin is 01:00 UTC
        [report] = box.run()
        assert report.result() == "the report of 04 January"
        box.assert_enqueued(remind.bind(42), at="1h")
        box.travel("1h")
        [reminder] = box.run()
        assert reminder.state == "succeeded"


def test_the_function_itself_needs_no_store() -> None:
    with (
        Sandbox(duly, now="2027-01-03T23:00+01:00"),
        context(due_at=datetime(2027, 1, 4, 1, tzinfo=UTC)),
    ):
        assert nightly_report() == "the report of 04 January"
