"""Decisions, one story each: outages, lateness, exclusions, jitter, runs by hand."""

from dataclasses import replace
from datetime import timedelta

import pytest

from duly.model.fire import Cause, Outcome
from duly.model.policies import Late, Missed
from duly.model.states import State
from duly.policy.decision import Facts
from duly.policy.firing import first_moment, manual
from duly.policy.overlap import HURRIED
from tests.policy.deciding import HOUR, MINUTE, at, decided, job, rows, schedule

BERLIN = "Europe/Berlin"


# -- on time, and after an outage ------------------------------------------------------------------


def test_a_moment_that_has_come_gets_a_job_at_once() -> None:
    firing = decided(schedule("every 5m", "2026-06-03 08:00:01", priority=3), "2026-06-03 08:05")
    [entry] = firing.entries
    assert (entry.outcome, entry.reason) == (Outcome.QUEUED, "queued on time")
    assert entry.due_at == entry.covers_from == at("2026-06-03 08:05")
    [made] = firing.jobs
    assert (made.state, made.priority, made.deadline) == (State.READY, 3, None)
    assert made.due_at == made.ready_at == at("2026-06-03 08:05")
    assert firing.cursor == at("2026-06-03 08:05")
    assert firing.next_at == at("2026-06-03 08:10")
    assert not firing.awaits


def test_before_its_moment_nothing_happens() -> None:
    firing = decided(schedule("every 5m", "2026-06-03 08:00"), "2026-06-03 08:04:59.999999")
    assert firing.entries == []
    assert firing.next_at == at("2026-06-03 08:05")


def test_a_moment_that_is_alone_is_not_missed_however_late_it_is() -> None:
    firing = decided(schedule("0 9 3 6 *", "2026-06-01", zone="UTC"), "2026-06-30 21:30")
    assert rows(firing) == ["03 09:00 queued"]
    assert firing.entries[0].reason == "queued 660 hours and 30 minutes late"


def test_a_night_down_makes_up_one_report() -> None:
    firing = decided(schedule("every 1h", "2026-06-02 20:00"), "2026-06-03 06:30")
    assert rows(firing) == ["02 21:00 to 03 05:00 (9) merged", "03 06:00 queued"]
    assert firing.entries[0].reason == "merged into the run of Wed 2026-06-03 06:00 UTC"


def test_a_night_down_makes_up_every_report_if_asked_oldest_first() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", missed=Missed("all"), overlap="allow")
    firing = decided(found, "2026-06-02 23:30")
    assert rows(firing) == ["02 21:00 queued", "02 22:00 queued", "02 23:00 queued"]
    assert {made.state for made in firing.jobs} == {State.READY}


def test_of_too_many_missed_moments_the_newest_are_made_up_for() -> None:
    missed = Missed("all", at_most=2)
    found = schedule("every 1h", "2026-06-02 20:00", missed=missed, overlap="allow")
    firing = decided(found, "2026-06-03 02:30")
    assert rows(firing) == [
        "02 21:00 to 03 00:00 (4) skipped missed",
        "03 01:00 queued",
        "03 02:00 queued",
    ]
    said = 'no scheduler was running; missed="all" catches up the newest 2 runs'
    assert firing.entries[0].reason == said


def test_missed_jobs_start_apart_from_each_other() -> None:
    missed = Missed("all", spacing=10 * MINUTE)
    found = schedule("every 1h", "2026-06-02 20:00", missed=missed, overlap="allow")
    made = decided(found, "2026-06-02 23:30").jobs
    assert [one.ready_at for one in made] == [
        at("2026-06-02 23:30"),
        at("2026-06-02 23:40"),
        at("2026-06-02 23:50"),
    ]
    assert [one.state for one in made] == [State.READY, State.SCHEDULED, State.SCHEDULED]
    assert [one.due_at.hour for one in made] == [21, 22, 23]


def test_a_schedule_that_makes_up_for_nothing_still_fires_what_is_young_enough() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", missed=Missed("skip", grace=MINUTE))
    assert rows(decided(found, "2026-06-02 23:01")) == [
        "02 21:00 to 02 22:00 (2) skipped missed",
        "02 23:00 queued",
    ]
    firing = decided(found, "2026-06-02 23:01:00.000001")
    assert rows(firing) == ["02 21:00 to 02 23:00 (3) skipped missed"]
    assert firing.entries[0].reason == 'no scheduler was running; missed="skip" after 1 minute'
    assert firing.next_at == at("2026-06-03 00:00")


def test_moments_that_would_have_merged_into_a_skipped_one_are_skipped_with_it() -> None:
    running = job("running", "2026-06-02 20:00")
    firing = decided(schedule("every 1h", "2026-06-02 20:00"), "2026-06-02 23:30", live=[running])
    assert rows(firing) == ["02 21:00 to 02 22:00 (2) skipped overlap", "02 23:00 skipped overlap"]
    assert {entry.reason for entry in firing.entries} == {
        'overlap="skip", and the run of Tue 2026-06-02 20:00 UTC (job 7) has not ended: '
        "it is running"
    }
    assert firing.jobs == []


def test_a_clock_set_back_fires_nothing_twice() -> None:
    found = schedule("every 1m", "2026-06-03 08:30")
    firing = decided(found, "2026-06-03 07:59")
    assert firing.entries == []
    assert firing.cursor == at("2026-06-03 08:30")
    assert firing.next_at == at("2026-06-03 08:31")


def test_a_schedule_that_is_over_has_no_next_moment() -> None:
    found = schedule("every 1h", "2026-06-03 08:00", end=at("2026-06-03 09:30"))
    firing = decided(found, "2026-06-03 12:00")
    assert rows(firing) == ["03 09:00 queued"]
    assert firing.next_at is None


def test_a_new_schedule_begins_after_now_and_not_in_its_past() -> None:
    found = schedule("0 9 * * *", "2026-06-03 10:00", zone="UTC", start=at("2026-01-01"))
    assert first_moment(found.plan, at("2026-06-03 10:00")) == at("2026-06-04 09:00")


# -- settled ahead ---------------------------------------------------------------------------------


def test_a_moment_that_somebody_settled_ahead_is_left_alone() -> None:
    found = schedule("every 1h", "2026-06-03 08:00")
    firing = decided(found, "2026-06-03 09:00", settled=[at("2026-06-03 09:00")])
    assert firing.entries == []
    assert firing.next_at == at("2026-06-03 10:00")


def test_a_stretch_neither_counts_nor_begins_nor_ends_with_what_is_settled() -> None:
    settled = [at(f"2026-06-03 {hour:02}:00") for hour in (9, 11, 13)]
    firing = decided(schedule("every 1h", "2026-06-03 08:00"), "2026-06-03 14:30", settled=settled)
    assert rows(firing) == ["03 10:00 to 03 12:00 (2) merged", "03 14:00 queued"]


def test_an_excluded_moment_that_is_settled_takes_nothing_from_the_other_counts() -> None:
    found = schedule("every 1h", "2026-06-03 08:00", zone="UTC", exclude="0 */2 * * *")
    firing = decided(found, "2026-06-03 14:30", settled=[at("2026-06-03 14:00")])
    assert rows(firing) == [
        "03 09:00 to 03 11:00 (2) merged",
        "03 10:00 to 03 12:00 (2) skipped excluded",
        "03 13:00 queued",
    ]


# -- excluded --------------------------------------------------------------------------------------


def test_days_left_out_are_in_the_ledger_and_not_made_up_for() -> None:
    found = schedule("0 9 * * *", "2026-06-05 10:00", zone=BERLIN, exclude="Sat,Sun lasting=1d")
    firing = decided(found, "2026-06-08 07:00")
    assert rows(firing) == ["06 07:00 to 07 07:00 (2) skipped excluded", "08 07:00 queued"]
    assert firing.entries[0].reason == 'left out by exclude="Sat,Sun lasting=1d"'


def test_what_a_rule_itself_takes_away_is_in_the_ledger() -> None:
    found = schedule("every 1h - 0 12 * * *", "2026-06-03 11:00", zone="UTC")
    firing = decided(found, "2026-06-03 13:00")
    assert rows(firing) == ["03 12:00 skipped excluded", "03 13:00 queued"]
    assert firing.entries[0].reason == 'left out by its own rule, "every 1h - 0 12 * * *"'


# -- late ------------------------------------------------------------------------------------------


def test_what_cannot_start_in_time_is_skipped_as_late() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", start_within=90 * MINUTE)
    firing = decided(found, "2026-06-02 23:30")
    assert rows(firing) == [
        "02 21:00 skipped late",
        "02 22:00 merged",
        "02 23:00 queued",
    ]
    assert (
        firing.entries[0].reason == "could not start within 1 hour and 30 minutes of its due time"
    )
    assert firing.jobs[0].deadline == at("2026-06-03 00:30")


@pytest.mark.parametrize(
    ("late", "priority", "deadline"),
    [("run", 0, None), ("hurry", HURRIED, None)],
)
def test_what_is_late_runs_all_the_same_or_goes_first(
    late: Late, priority: int, deadline: None
) -> None:
    found = schedule("every 1h", "2026-06-02 20:00", start_within=5 * MINUTE, late=late)
    [made] = decided(found, "2026-06-02 21:30").jobs
    assert (made.priority, made.deadline, made.late) == (priority, deadline, late)


def test_what_is_in_time_is_not_hurried_yet() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", start_within=5 * MINUTE, late="hurry")
    [made] = decided(found, "2026-06-02 21:05").jobs
    assert (made.priority, made.deadline) == (0, at("2026-06-02 21:05"))


def test_hurry_never_lowers_a_priority() -> None:
    found = schedule(
        "every 1h", "2026-06-02 20:00", start_within=5 * MINUTE, late="hurry", priority=90
    )
    assert decided(found, "2026-06-02 21:30").jobs[0].priority == 90


# -- jitter ----------------------------------------------------------------------------------------


def test_jitter_delays_each_job_within_its_width_and_always_by_the_same() -> None:
    found = schedule(
        "every 1h", "2026-06-02 20:00", jitter=10 * MINUTE, missed=Missed("all"), overlap="allow"
    )
    made = decided(found, "2026-06-03 20:00").jobs
    delays = [one.ready_at - one.due_at for one in made]
    assert len(delays) == 24
    assert len(set(delays)) > 20
    assert all(timedelta(0) <= delay < 10 * MINUTE for delay in delays)
    later = decided(replace(found, cursor=at("2026-06-03 12:00")), "2026-06-03 19:30").jobs
    assert [one.ready_at - one.due_at for one in later] == delays[16:23]


def test_a_job_begins_neither_before_its_place_nor_before_its_jitter() -> None:
    now = at("2026-06-03 08:00")
    jittered, spaced = (
        decided(
            schedule("every 1h", "2026-06-02 20:00", overlap="allow", jitter=HOUR, missed=missed),
            now,
        ).jobs
        for missed in (Missed("all"), Missed("all", spacing=MINUTE))
    )
    assert len(spaced) == 12
    for place, (one, other) in enumerate(zip(spaced, jittered, strict=True)):
        assert one.ready_at == max(now + place * MINUTE, other.ready_at)


def test_a_job_that_jitter_delays_waits_for_its_moment() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", jitter=10 * MINUTE)
    [made] = decided(found, "2026-06-02 21:00").jobs
    assert made.ready_at > made.due_at
    assert made.state is State.SCHEDULED


# -- by hand ---------------------------------------------------------------------------------------


def test_a_run_by_hand_begins_at_once_whatever_the_jitter() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", jitter=HOUR, start_within=5 * MINUTE)
    entry, stopping = manual(Facts(schedule=found), at("2026-06-02 20:17"))
    assert stopping == []
    assert entry.job is not None
    assert (entry.job.state, entry.job.ready_at) == (State.READY, at("2026-06-02 20:17"))
    assert entry.job.deadline == at("2026-06-02 20:22")


def test_a_run_by_hand_respects_the_overlap_policy() -> None:
    live = (job("running", "2026-06-02 20:00"),)
    at_work = schedule("every 1h", "2026-06-02 20:00")
    entry, _ = manual(Facts(schedule=at_work, live=live), at("2026-06-02 20:17"))
    assert (entry.outcome, entry.cause) == (Outcome.SKIPPED, Cause.OVERLAP)
    replaced = schedule("every 1h", "2026-06-02 20:00", overlap="replace")
    entry, stopping = manual(Facts(schedule=replaced, live=live), at("2026-06-02 20:17"))
    assert entry.outcome is Outcome.QUEUED
    assert stopping == [7]
