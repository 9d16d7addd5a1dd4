"""The sentences of the ledger: what they say, on whose clock, and that none is left unsaid."""

import inspect
from datetime import timedelta

import pytest

from duly.model.policies import Missed
from duly.model.schedule import Pause
from duly.policy import sentences
from tests.policy.deciding import MINUTE, SECOND, at, job, schedule

MOMENT = at("2026-06-03 08:00")
BERLIN = schedule("0 10 * * *", MOMENT, zone="Europe/Berlin", overlap="queue_one").plan


@pytest.mark.parametrize(
    ("late", "said"),
    [
        (timedelta(0), "queued on time"),
        (timedelta(milliseconds=999), "queued on time"),
        (SECOND, "queued 1 second late"),
        (timedelta(seconds=90.4), "queued 1 minute and 30 seconds late"),
        (timedelta(hours=5, minutes=2), "queued 5 hours and 2 minutes late"),
    ],
)
def test_a_queued_moment_says_how_late_it_is(late: timedelta, said: str) -> None:
    assert sentences.queued(MOMENT, MOMENT + late, "") == said


def test_a_queued_moment_says_what_it_waits_for() -> None:
    waits = sentences.waits(job("running", "2026-06-03 08:00"), BERLIN, stopping=False)
    assert waits == "waits for the run of Wed 2026-06-03 10:00 Europe/Berlin"
    assert sentences.queued(MOMENT, MOMENT, waits) == f"queued on time; {waits}"
    asked = sentences.waits(job("running", "2026-06-03 08:00"), BERLIN, stopping=True)
    assert asked == f"{waits}, which was asked to stop"


def test_a_moment_is_shown_on_the_clock_of_its_schedule() -> None:
    assert sentences.merged(BERLIN, MOMENT).endswith("Wed 2026-06-03 10:00 Europe/Berlin")
    in_utc = schedule("every 1h", MOMENT).plan
    assert sentences.merged(in_utc, MOMENT).endswith("Wed 2026-06-03 08:00 UTC")
    elapsed = schedule("every 1h", MOMENT, zone="America/New_York").plan
    assert sentences.merged(elapsed, MOMENT).endswith("Wed 2026-06-03 04:00 America/New_York")


def test_a_moment_is_shown_as_exactly_as_it_needs() -> None:
    assert sentences.merged(BERLIN, MOMENT + 7 * SECOND).endswith("10:00:07 Europe/Berlin")
    fine = MOMENT + timedelta(milliseconds=250)
    assert sentences.merged(BERLIN, fine).endswith("10:00:00.250000 Europe/Berlin")


def test_a_skipped_moment_names_the_job_in_its_way() -> None:
    plan = schedule("every 1h", MOMENT).plan
    assert sentences.overlap(job("ready", "2026-06-03 08:00", 12), plan) == (
        'overlap="skip", and the run of Wed 2026-06-03 08:00 UTC (job 12) has not ended: '
        "it is ready"
    )


def test_a_moment_that_takes_over_names_the_run_that_it_takes_over() -> None:
    assert sentences.took_over(job("blocked", "2026-06-03 08:00"), BERLIN) == (
        'overlap="queue_one": takes the place of the run of Wed 2026-06-03 10:00 Europe/Berlin, '
        "not yet begun"
    )


def test_what_was_missed_or_late_says_by_which_choice() -> None:
    assert sentences.missed(Missed("skip", grace=5 * MINUTE)) == (
        'no scheduler was running; missed="skip" after 5 minutes'
    )
    assert sentences.missed(Missed("all", at_most=1_000)) == (
        'no scheduler was running; missed="all" catches up the newest 1,000 runs'
    )
    assert sentences.late(90 * SECOND) == (
        "could not start within 1 minute and 30 seconds of its due time"
    )


def test_a_full_line_says_how_many_wait() -> None:
    assert sentences.full(1_000) == "1,000 jobs of this schedule wait already"


def test_what_is_left_out_says_by_what() -> None:
    chosen = schedule("0 9 * * *", MOMENT, zone="UTC", exclude="Sat lasting=1d").plan
    assert sentences.excluded(chosen) == 'left out by exclude="Sat lasting=1d"'
    own = schedule("every 1h - 0 9 * * *", MOMENT, zone="UTC").plan
    assert sentences.excluded(own) == 'left out by its own rule, "every 1h - 0 9 * * *"'


def test_a_pause_says_who_since_when_and_why() -> None:
    pause = Pause(since=MOMENT, by="ana", note="stocktaking")
    assert sentences.paused(schedule("every 1h", MOMENT, pause=pause)) == (
        "the schedule was paused by ana since Wed 2026-06-03 08:00 UTC: stocktaking"
    )
    plain = schedule("every 1h", MOMENT, pause=Pause(since=MOMENT))
    assert sentences.paused(plain) == "the schedule was paused since Wed 2026-06-03 08:00 UTC"
    assert sentences.paused(schedule("every 1h", MOMENT)) == "the schedule was paused"


def test_who_asked_for_a_skip_is_named_if_known() -> None:
    assert sentences.asked("ana") == "skipped because ana asked for it in advance"
    assert sentences.asked("") == "skipped because somebody asked for it in advance"


def test_what_is_skipped_says_which_moments() -> None:
    end = MOMENT + timedelta(days=1)
    first, last = (
        "Wed 2026-06-03 10:00 Europe/Berlin",
        "Thu 2026-06-04 10:00 Europe/Berlin",
    )
    assert sentences.skipped_moments([MOMENT], BERLIN) == f"skipped {first}"
    several = sentences.skipped_moments([MOMENT, MOMENT, end], BERLIN)
    assert several == f"skipped 3 runs, {first} to {last}"
    assert sentences.shown_whole(MOMENT + timedelta(microseconds=1), BERLIN) == first


def test_a_backfill_says_who_asked_and_from_when_to_when() -> None:
    assert sentences.backfilled("ana") == "backfilled by ana"
    assert sentences.backfilled("") == "backfilled by somebody"
    end = MOMENT + timedelta(days=1, microseconds=1)
    assert sentences.shown(end, BERLIN) == "Thu 2026-06-04 10:00:00.000001 Europe/Berlin"
    stretch = "Wed 2026-06-03 10:00 Europe/Berlin to Thu 2026-06-04 10:00 Europe/Berlin"
    said = sentences.backfill(MOMENT, end, 1_440, plan=BERLIN)
    assert said == f"backfilled {stretch}, 1,440 runs"
    assert sentences.backfill(MOMENT, end, 1, plan=BERLIN) == f"backfilled {stretch}, 1 run"


def test_what_a_clock_change_did_is_told_as_history() -> None:
    foretold = ["02:30 does not exist: will run at 03:00.", "02:30 does not exist: will not run."]
    assert sentences.clock_changes(foretold) == (
        "02:30 does not exist: due at 03:00. 02:30 does not exist: not due."
    )


def test_what_somebody_runs_by_hand_was_not_due_by_the_clock() -> None:
    assert sentences.by_hand("ada", "queued on time") == "run by hand by ada"
    assert sentences.by_hand("", "queued on time; waits") == "run by hand; waits"
    assert sentences.by_hand("", 'overlap="queue_one": …') == 'run by hand; overlap="queue_one": …'


def test_every_sentence_is_tested_here() -> None:
    said = {
        name
        for name, function in inspect.getmembers(sentences, inspect.isfunction)
        if function.__module__ == sentences.__name__ and not name.startswith("_")
    }
    tested = inspect.getsource(inspect.getmodule(test_every_sentence_is_tested_here))  # type: ignore[arg-type]
    assert {name for name in said if f"sentences.{name}(" not in tested} == set()
