"""A due moment meets the jobs before it: those that live, and those of its own decision."""

from dataclasses import replace
from typing import get_args

import pytest

from duly.model.fire import Outcome
from duly.model.policies import Missed, Overlap
from duly.model.states import LIVE, State
from duly.policy.decision import LiveJob
from duly.policy.overlap import (
    HURRIED,
    MOST_QUEUED,
    Full,
    RunNow,
    SkipMoment,
    TakeOver,
    Wait,
    answer,
)
from tests.policy.deciding import HOUR, MINUTE, at, decided, job, rows, schedule

RUNNING = job("running", "2026-06-02 19:00", 1)
WAITING = job("ready", "2026-06-02 20:00", 2)
ALL = Missed("all")
MORNING = "2026-06-02 23:30"


# -- one moment ------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", get_args(Overlap))
def test_where_nothing_lives_a_job_starts(overlap: Overlap) -> None:
    assert answer(overlap, []) == RunNow()


@pytest.mark.parametrize("state", LIVE)
def test_whatever_lives_is_in_the_way_unless_overlap_is_allowed(state: State) -> None:
    found = replace(WAITING, state=state)
    assert answer("allow", [found]) == RunNow()
    assert answer("skip", [found]) == SkipMoment(found)
    assert answer("queue_all", [found]) == Wait(found)
    for overlap in ("queue_one", "replace"):
        assert answer(overlap, [found]) != RunNow()


def test_behind_a_running_job_one_waits() -> None:
    assert answer("queue_one", [RUNNING]) == Wait(RUNNING)
    assert answer("queue_one", [RUNNING, WAITING]) == TakeOver(WAITING)


def test_of_several_that_wait_the_newest_is_taken_over() -> None:
    newer = replace(WAITING, id=3, due_at=at("2026-06-02 20:30"))
    assert answer("queue_one", [WAITING, newer]) == TakeOver(newer)
    assert answer("replace", [WAITING, newer, RUNNING]) == TakeOver(newer, (RUNNING,))


def test_whoever_replaces_asks_all_that_run_to_stop() -> None:
    other = replace(RUNNING, id=3)
    assert answer("replace", [RUNNING, other]) == Wait(other, (RUNNING, other))
    assert answer("replace", [RUNNING, WAITING]) == TakeOver(WAITING, (RUNNING,))
    assert answer("replace", [WAITING]) == TakeOver(WAITING, ())


def test_of_those_that_queue_only_so_many_wait() -> None:
    line = [replace(WAITING, id=number) for number in range(MOST_QUEUED)]
    assert answer("queue_all", [RUNNING, *line[1:]]) == Wait(line[-1])
    assert answer("queue_all", [RUNNING, *line]) == Full(MOST_QUEUED)


# -- many moments in one decision ------------------------------------------------------------------


def test_with_skip_the_oldest_missed_moment_runs_and_the_others_meet_it() -> None:
    firing = decided(schedule("every 1h", "2026-06-02 20:00", missed=ALL), MORNING)
    assert rows(firing) == [
        "02 21:00 queued",
        "02 22:00 skipped overlap",
        "02 23:00 skipped overlap",
    ]
    assert firing.entries[1].reason == (
        'overlap="skip", and the run of Tue 2026-06-02 21:00 UTC has not ended: it is ready'
    )


def test_with_queue_one_a_night_of_moments_makes_one_job_for_the_newest() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", missed=ALL, overlap="queue_one")
    firing = decided(found, MORNING)
    assert rows(firing) == ["02 21:00 merged", "02 22:00 merged", "02 23:00 queued"]
    assert [entry.reason for entry in firing.entries] == [
        "merged into the run of Tue 2026-06-02 23:00 UTC",
        "merged into the run of Tue 2026-06-02 23:00 UTC",
        "queued 30 minutes late",
    ]
    [made] = firing.jobs
    assert (made.state, made.due_at.hour, made.reason) == (State.READY, 23, "")


def test_with_queue_one_the_newest_waits_behind_what_runs() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", missed=ALL, overlap="queue_one")
    firing = decided(found, MORNING, live=[RUNNING])
    assert rows(firing) == ["02 21:00 merged", "02 22:00 merged", "02 23:00 queued"]
    [made] = firing.jobs
    assert made.state is State.BLOCKED
    assert made.reason == "waits for the run of Tue 2026-06-02 19:00 UTC"
    assert firing.entries[-1].reason == f"queued 30 minutes late; {made.reason}"
    assert firing.stopping == []


def test_a_waiting_job_is_taken_over_once_by_the_newest_of_a_chain() -> None:
    found = schedule(
        "every 1h", "2026-06-02 20:00", missed=ALL, overlap="queue_one", start_within=9 * HOUR
    )
    firing = decided(found, MORNING, live=[RUNNING, WAITING])
    assert rows(firing) == ["02 21:00 merged", "02 22:00 merged", "02 23:00 queued"]
    assert firing.jobs == []
    assert [entry.takes_over for entry in firing.entries] == [None, None, WAITING]
    assert [entry.deadline for entry in firing.entries] == [None, None, at("2026-06-03 08:00")]
    assert firing.entries[-1].reason == (
        'overlap="queue_one": takes the place of the run of Tue 2026-06-02 20:00 UTC, not yet begun'
    )


def test_with_replace_what_runs_is_asked_to_stop_once() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", missed=ALL, overlap="replace")
    firing = decided(found, MORNING, live=[RUNNING])
    assert rows(firing) == ["02 21:00 merged", "02 22:00 merged", "02 23:00 queued"]
    assert firing.stopping == [RUNNING.id]
    said = "waits for the run of Tue 2026-06-02 19:00 UTC, which was asked to stop"
    assert [made.reason for made in firing.jobs] == [said]


def test_with_queue_all_each_waits_for_the_one_before() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", missed=ALL, overlap="queue_all")
    firing = decided(found, MORNING)
    assert [made.state for made in firing.jobs] == [State.READY, State.BLOCKED, State.BLOCKED]
    assert [made.reason for made in firing.jobs] == [
        "",
        "waits for the run of Tue 2026-06-02 21:00 UTC",
        "waits for the run of Tue 2026-06-02 22:00 UTC",
    ]


def test_a_full_line_takes_nobody_in() -> None:
    line = [LiveJob(n, State.BLOCKED, at("2026-06-02 01:00")) for n in range(MOST_QUEUED - 1)]
    found = schedule("every 1h", "2026-06-02 20:00", missed=ALL, overlap="queue_all")
    firing = decided(found, MORNING, live=line)
    assert rows(firing) == [
        "02 21:00 queued",
        "02 22:00 skipped exhausted",
        "02 23:00 skipped exhausted",
    ]
    assert firing.entries[-1].reason == "1,000 jobs of this schedule wait already"


def test_with_allow_all_start_whatever_runs() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", missed=ALL, overlap="allow")
    firing = decided(found, MORNING)
    assert [made.state for made in firing.jobs] == [State.READY] * 3


def test_a_job_that_goes_on_to_a_newer_moment_is_judged_by_that() -> None:
    found = schedule(
        "every 1h",
        "2026-06-02 20:00",
        missed=ALL,
        overlap="queue_one",
        start_within=45 * MINUTE,
        late="hurry",
    )
    [made] = decided(found, "2026-06-02 22:10").jobs  # 21:00 was late, 22:00 is not
    assert (made.priority, made.deadline) == (0, at("2026-06-02 22:45"))
    [made] = decided(found, "2026-06-02 22:50").jobs
    assert (made.priority, made.deadline) == (HURRIED, None)


def test_the_latest_of_many_takes_over_and_stands_for_all() -> None:
    found = schedule("every 1h", "2026-06-02 20:00", overlap="queue_one")
    firing = decided(found, MORNING, live=[WAITING])
    assert rows(firing) == ["02 21:00 to 02 22:00 (2) merged", "02 23:00 queued"]
    assert firing.entries[-1].takes_over == WAITING
    assert firing.entries[0].outcome is Outcome.MERGED
