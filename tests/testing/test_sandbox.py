"""A user's own test of a schedule takes no time, and says what would happen."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.errors import InvalidValue
from duly.model.fire import Cause, Outcome
from duly.model.job import Call
from duly.model.outcome import Raised
from duly.model.policies import Policies
from duly.model.schedule import Plan
from duly.model.states import State
from duly.testing.sandbox import Sandbox


def test_a_night_down_makes_up_one_report() -> None:
    with Sandbox(now="2027-01-03T23:00+01:00") as box:
        box.schedule(Plan(name="report", rule="02:00 Europe/Berlin", task="report"))
        assert box.travel("6h", down=True) == []
        [fire] = box.travel("1s")
        assert (fire.due_at, fire.outcome) == (
            datetime(2027, 1, 4, 1, tzinfo=UTC),
            Outcome.QUEUED,
        )
        [job] = box.run()
        assert (job.task, job.state, job.due_at) == ("report", State.SUCCEEDED, fire.due_at)


def test_a_day_has_its_hours_and_what_is_still_running_is_in_the_way() -> None:
    with Sandbox(now="2027-01-04T00:00Z") as box:
        box.schedule(Plan(name="hourly", rule="every 1h", task="work"))
        fires = box.travel("3h")
        assert [(fire.due_at.hour, fire.outcome, fire.cause) for fire in fires] == [
            (1, Outcome.QUEUED, None),
            (2, Outcome.SKIPPED, Cause.OVERLAP),
            (3, Outcome.SKIPPED, Cause.OVERLAP),
        ]


def test_a_fixed_delay_begins_when_the_work_ends() -> None:
    with Sandbox(now="2027-01-04T00:00Z") as box:
        box.schedule(Plan(name="poll", rule="spaced 10m", task="poll"))
        assert len(box.travel("1h")) == 1
        box.run()
        [fire] = box.travel("15m")
        assert fire.due_at == datetime(2027, 1, 4, 1, 10, tzinfo=UTC)


def test_a_reminder_is_due_to_the_second() -> None:
    with Sandbox(now="2027-01-04T00:00Z") as box:
        box.enqueue(Call(task="remind", run_after=timedelta(hours=24)))
        box.travel(timedelta(hours=24, seconds=-1))
        assert box.run() == []
        box.travel("1s")
        assert [job.task for job in box.run()] == ["remind"]


def test_a_failing_job_is_tried_again_after_a_pause() -> None:
    with Sandbox(now="2027-01-04T00:00Z") as box:
        box.enqueue(Call(task="flaky"))
        box.run(lambda _: Raised(error="ConnectionError", message="no", traceback=""))
        [job] = box.jobs()
        assert (job.state, job.attempt) == (State.SCHEDULED, 1)
        box.travel("1m")
        [job] = box.run()
        assert (job.state, job.attempt) == (State.SUCCEEDED, 2)


def test_a_policy_applies_to_what_was_missed() -> None:
    with Sandbox(now="2027-01-04T00:00Z") as box:
        policies = Policies(start_within=timedelta(minutes=30))
        box.schedule(Plan(name="hourly", rule="every 1h", task="work", policies=policies))
        box.travel("2h 45m", down=True)
        fires = box.travel("1s")
        assert [(fire.cause, fire.count) for fire in fires] == [(Cause.LATE, 2)]


def test_time_does_not_go_back() -> None:
    with Sandbox(now="2027-01-04T00:00Z") as box, pytest.raises(InvalidValue, match="forward"):
        box.travel(datetime(2027, 1, 3, tzinfo=UTC))


def test_a_naive_moment_is_refused() -> None:
    with pytest.raises(InvalidValue, match="naive"):
        Sandbox(now="2027-01-04T00:00")
