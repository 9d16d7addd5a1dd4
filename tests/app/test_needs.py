"""What needs somebody: which job to open, which to stop, and what its moment is."""

from datetime import UTC, datetime

from duly.model.access import Matter
from duly.policy.why import SuggestedCommand
from duly.views.attention import Need

MOMENT = datetime(2026, 11, 13, 1, tzinfo=UTC)
SCHEDULE = Matter(subject="schedule:report", kind="overlap", until=MOMENT)
TASK = Matter(subject="task:report", kind="failed", until=MOMENT)


def test_of_a_moment_that_was_skipped_the_run_in_its_way_is_opened_and_stopped() -> None:
    commands = (
        SuggestedCommand("see it", "duly jobs logs 7 -f", 7),
        SuggestedCommand("stop it", "duly jobs cancel 7", 7),
        SuggestedCommand("run it anyway", "duly schedules run report"),
    )
    need = Need(
        name="report", kind="skipped", sentence="skipped", commands=commands, matter=SCHEDULE
    )
    assert (need.schedule, need.job_to_see, need.job_to_stop) == ("report", 7, 7)


def test_a_job_of_its_own_comes_first() -> None:
    shown = (SuggestedCommand("see it", "duly jobs show 7", 7),)
    need = Need(name="report", kind="failed", sentence="failed", job_id=9, commands=shown)
    assert (need.job_to_see, need.job_to_stop) == (9, None)


def test_its_moment_is_when_it_was_due_or_ended_or_since_when_it_waits() -> None:
    def word(kind: str, matter: Matter) -> str:
        return Need(name="report", kind=kind, sentence="", matter=matter).moment_word

    assert word("failed", SCHEDULE) == "due"
    assert word("failed", TASK) == "ended"
    assert word("no worker", TASK) == "since"
