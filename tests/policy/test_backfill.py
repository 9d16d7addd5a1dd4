"""Moments that somebody asks for when they have passed: which they are, and what they meet."""

from dataclasses import replace
from typing import get_args

import pytest

from duly.errors import InvalidValue, WrongState
from duly.model.fire import Cause, Outcome
from duly.model.policies import Overlap
from duly.model.states import State
from duly.policy.backfill import backfilled, check_stretch, forgotten, moments_of, notes
from duly.policy.decision import Facts
from duly.policy.overlap import MOST_QUEUED, SkipMoment, TakeOver, Wait, answer
from tests.policy.deciding import at, job, schedule

NOW = at("2026-06-03 12:00")
HOURLY = replace(schedule("every 1h", "2026-06-03 06:00"), cursor=NOW)
NINE, TEN = at("2026-06-03 09:00"), at("2026-06-03 10:00")
ASKED = replace(job("blocked", "2026-06-03 09:00", 1), backfilled=True)
RUNNING = replace(ASKED, id=2, state=State.RUNNING)
OWN = job("blocked", "2026-06-03 11:00", 3)


def test_moments_go_from_the_start_up_to_the_end_which_is_not_part_of_them() -> None:
    found = moments_of(HOURLY, NINE, at("2026-06-03 11:00"), cursor=NOW, now=NOW)
    assert found == [NINE, TEN]


def test_a_stretch_that_ends_before_it_begins_is_refused() -> None:
    check_stretch(NINE, TEN)
    for start, end in ((TEN, NINE), (NINE, NINE)):
        with pytest.raises(InvalidValue, match="end is not included"):
            check_stretch(start, end)


def test_what_is_not_decided_yet_is_refused_with_the_reason() -> None:
    asked = {"cursor": at("2026-06-03 09:30"), "now": NOW}
    with pytest.raises(WrongState, match=r'"report": 2026-06-03 10:00:00.* wait for the scheduler'):
        moments_of(HOURLY, NINE, NOW, **asked)
    still = replace(HOURLY, fault="RuleError: oops")
    with pytest.raises(WrongState, match=r"it cannot be fired \(RuleError: oops\).* or end there"):
        moments_of(still, NINE, NOW, **asked)
    assert moments_of(HOURLY, NINE, TEN, **asked) == [NINE]


@pytest.mark.parametrize("overlap", get_args(Overlap))
def test_each_gets_a_job_of_its_own_in_a_line_unless_overlap_is_allowed(overlap: Overlap) -> None:
    found = schedule("every 1h", NOW, overlap=overlap, start_within=NOW - TEN, priority=4)
    running = job("running", "2026-06-03 08:00")
    live = () if overlap == "allow" else (running,)
    entries = backfilled(Facts(schedule=found, live=live), [NINE, TEN], NOW, who="ana")
    assert [(e.outcome, e.cause, e.reason) for e in entries] == [
        (Outcome.QUEUED, Cause.ASKED, "backfilled by ana")
    ] * 2
    jobs = [entry.job for entry in entries if entry.job]
    assert [(j.due_at, j.deadline, j.priority) for j in jobs] == [(NINE, None, 4), (TEN, None, 4)]
    behind = [j.reason.removeprefix("waits for the run of Wed 2026-06-03 ") for j in jobs]
    assert behind == (["", ""] if overlap == "allow" else ["08:00 UTC", "09:00 UTC"])


def test_the_first_of_them_starts_at_once_where_nothing_lives() -> None:
    entries = backfilled(Facts(schedule=HOURLY), [NINE, TEN], NOW, who="")
    assert [e.job and e.job.state for e in entries] == [State.READY, State.BLOCKED]


def test_a_later_moment_neither_takes_the_place_of_one_nor_stops_it() -> None:
    assert answer("queue_one", [ASKED]) == Wait(ASKED)
    assert answer("queue_one", [ASKED, OWN]) == TakeOver(OWN)
    assert answer("replace", [RUNNING, ASKED]) == Wait(ASKED)
    assert answer("replace", [RUNNING, OWN]) == TakeOver(OWN)
    assert answer("skip", [ASKED]) == SkipMoment(ASKED)


def test_a_line_is_not_full_for_those_that_were_asked_for() -> None:
    assert answer("queue_all", [ASKED] * MOST_QUEUED) == Wait(ASKED)


def test_what_was_before_the_oldest_row_and_behind_the_beginning_is_forgotten() -> None:
    moments = [at(f"2026-06-03 {hour:02}:00") for hour in range(4, 12)]
    assert forgotten(HOURLY, moments, None) == moments[2:]
    assert forgotten(replace(HOURLY, cursor=HOURLY.created_at), moments, None) == []


def test_whoever_asks_is_told_what_it_means() -> None:
    said = notes(HOURLY, [NINE, TEN], [NINE])
    assert said == (
        "the history of 1 of them, up to Wed 2026-06-03 09:00 UTC, has been deleted: they may have"
        " run already",
        'overlap="skip": they run one after the other; a run that is due before the last of '
        "them has ended is skipped",
    )
    patient = replace(schedule("every 1h", NOW, overlap="replace"), created_at=NINE)
    assert notes(patient, [NINE], []) == (
        'overlap="replace": a run that is due before it has ended waits',
    )
    careless = replace(schedule("every 1h", NOW, overlap="allow"), created_at=TEN)
    assert notes(careless, [NINE, TEN], []) == (
        "1 of them is from before the schedule was created; if it was backfilled so long ago that"
        " its history has been deleted, it runs again",
    )
    late = replace(careless, created_at=NOW)
    assert notes(late, [NINE, TEN], []) == (
        "2 of them are from before the schedule was created; if they were backfilled so long ago"
        " that their history has been deleted, they run again",
    )
    assert notes(HOURLY, [], []) == ()
