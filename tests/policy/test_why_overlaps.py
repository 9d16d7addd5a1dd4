"""Of a moment that met an earlier run: what that did then, and what would have helped."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from duly.model.fire import Cause, Outcome
from duly.model.job import Attempt, StoredJob
from duly.model.limit import Queue
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.policy.why import JobEvidence
from tests.policy.deciding import schedule
from tests.policy.test_why_sentences import (
    DUE,
    HOUR,
    MINUTE,
    NIGHTLY,
    NOW,
    SECOND,
    fire,
    job,
    of_moment,
    worker,
)

OFTEN = replace(schedule("every 3s", "2026-11-01 00:00"), cursor=NOW, next_at=None)


def prevention(run: StoredJob, there: StoredSchedule = OFTEN, **known: Any) -> tuple[str, str]:
    """What is said of the run that was in the way, and what would prevent it."""
    skipped = fire(
        Outcome.SKIPPED, Cause.OVERLAP, due_at=DUE + 3 * SECOND, decided_at=DUE + 3 * SECOND
    )
    found = JobEvidence(job=run, now=NOW, **known)
    answer = of_moment(skipped, schedule=there, in_the_way=found)
    _, _, said = answer.sentence.partition("(job 7) ")
    assert answer.commands[-1].what == "prevent it"
    return said, answer.commands[-1].line


def ended(claimed: timedelta, took: timedelta, **changes: Any) -> StoredJob:
    begun = DUE + claimed
    return job(State.SUCCEEDED, **{"claimed_at": begun, "ended_at": begun + took, **changes})


def test_runs_that_are_longer_than_their_interval_want_a_longer_interval() -> None:
    advice = 'a longer interval (it runs 4 s, and is due every 3 s), or overlap="queue_one"'
    done = ended(timedelta(), 4 * SECOND)
    assert prevention(done, usual=4 * SECOND) == (
        "had not ended: it ran 4 s, until 01:00:04, usually 4 s.",
        f"{advice}: the newest waits",
    )
    assert prevention(done)[1] == f"{advice}: the newest waits"
    running = job(State.RUNNING, claimed_at=DUE, worker=3)
    assert prevention(running, runner=worker(), usual=4 * SECOND)[1].startswith(advice)
    assert prevention(running, runner=worker())[1].startswith(
        "a longer interval (it is due every 3 s), or"
    )


def test_a_run_that_took_exceptionally_long_wants_a_round_timeout() -> None:
    running, queue_one = job(State.RUNNING, claimed_at=DUE, worker=3), "the newest waits"
    web = worker()
    keeps = 'on the task (async, or with executor="process")'
    for usual, wanted in ((7 * timedelta(milliseconds=1), "10s"), (SECOND, "10s")):
        assert prevention(running, runner=web, usual=usual)[1] == f'timeout="{wanted}" {keeps}'
    for usual, wanted in ((19 * SECOND, "1m"), (45 * MINUTE, "3h"), (16 * HOUR, "48h")):
        line = prevention(running, NIGHTLY, runner=web, usual=usual)[1]
        assert line == f'timeout="{wanted}" {keeps}'
    assert prevention(running, NIGHTLY, runner=web)[1] == f'timeout="1h" {keeps}'
    assert prevention(running, NIGHTLY, runner=web, usual=17 * HOUR)[1].endswith(queue_one)


def test_a_run_that_waited_is_not_said_to_have_run_long() -> None:
    late = ended(10 * SECOND, timedelta(milliseconds=19))
    assert prevention(late) == (
        "had not ended: it waited 10 s to start, until 01:00:10, and ended 01:00:10.",
        'overlap="queue_one" on the schedule: the newest waits',
    )


def test_a_run_that_waits_in_a_paused_queue_is_helped_by_resuming_it() -> None:
    skipped = fire(Outcome.SKIPPED, Cause.OVERLAP)
    found = JobEvidence(job=job(), now=NOW, queue=Queue(name="default", paused=True))
    answer = of_moment(skipped, in_the_way=found)
    assert answer.sentence.endswith('had not ended: it waits: queue "default" is paused.')
    assert [command.line for command in answer.commands] == [
        "duly jobs show 7",
        "duly queues resume default",
        "duly jobs cancel 7",
        "duly schedules run report",
        'overlap="queue_one" on the schedule: the newest waits',
    ]


def test_a_run_that_waits_for_its_next_attempt_says_so_and_when() -> None:
    tried = Attempt(
        job_id=7,
        number=1,
        fence=1,
        worker=3,
        started_at=DUE,
        ended_at=DUE + SECOND,
        outcome="failed",
        reason="",
        error="ConnectionError: down",
    )
    waiting = job(State.SCHEDULED, attempt=1, ready_at=NOW + 7 * SECOND, claimed_at=None)
    assert prevention(waiting, attempts=[tried]) == (
        "had not ended: it is tried again 05:00:07 (in 7 s): attempt 1 of 3 ended with "
        "ConnectionError: down.",
        'overlap="queue_one" on the schedule: the newest waits',
    )
    over = ended(10 * SECOND, SECOND, attempt=2)
    assert prevention(over, attempts=[tried])[0] == (
        "had not ended: it waited to be tried again after attempt 1 (ConnectionError: down), "
        "and ended 01:00:11."
    )
    again = job(State.RUNNING, claimed_at=DUE + 10 * SECOND, attempt=2, worker=3)
    assert prevention(again, attempts=[tried], runner=worker())[0].startswith(
        "had not ended: it is running since 01:00:10 "
    )


def test_a_run_whose_worker_is_gone_does_not_run_long() -> None:
    lost = job(State.RUNNING, claimed_at=DUE, worker=3, attempt=1)
    said, _ = prevention(lost, runner=worker(), is_gone=True, usual=SECOND)
    assert said.endswith("on web-1, which is gone.")
