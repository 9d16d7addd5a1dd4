"""Verdicts: every outcome leads to one legal move, with a sentence; no job is tried for ever."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.model.flow import FlowPlan, StepPlan
from duly.model.job import JobRequest
from duly.model.outcome import (
    HandedOff,
    Late,
    Lost,
    Mismatched,
    Opened,
    Outcome,
    Postponed,
    Raised,
    Returned,
    Stopped,
    Succeeded,
    TimedOut,
)
from duly.model.payload import Json
from duly.model.states import ENDED, TRANSITIONS, Move, State
from duly.policy.retry import LONGEST_WAIT, NEVER, Retry
from duly.policy.verdict import HAUNTED, POISON, Tried, Verdict, judge

NOW = datetime(2026, 11, 13, 2, tzinfo=UTC)
REFUSED = Raised("ConnectionError", "refused")
TEN_MINUTES = timedelta(minutes=10)


PLAIN = Retry(jitter=False)


@dataclass(frozen=True)
class Try(Tried):
    attempt: int = 1
    crashes: int = 0
    retry: Retry = PLAIN


def verdict(job: Try, outcome: Outcome) -> Verdict:
    return judge(job, outcome, NOW, dice=0.5)


def test_what_returned_has_succeeded_and_its_crashes_are_forgotten() -> None:
    found = verdict(Try(attempt=3, crashes=2), Succeeded(Json("42")))
    assert (found.state, found.crashes, found.ready_at) == (State.SUCCEEDED, 0, None)
    assert found.reason == "succeeded at attempt 3"
    assert found.error is None


def test_what_raised_waits_for_its_next_attempt() -> None:
    found = verdict(Try(attempt=2), REFUSED)
    assert (found.move, found.state) == (Move.AGAIN, State.SCHEDULED)
    assert found.ready_at == NOW + timedelta(seconds=20)
    assert found.reason == "attempt 2 of 3 raised ConnectionError: refused; next try in 20s"
    assert found.error == "ConnectionError: refused"


def test_what_raised_for_the_last_time_has_failed() -> None:
    found = verdict(Try(attempt=3), REFUSED)
    assert (found.state, found.ready_at) == (State.FAILED, None)
    assert found.reason == "attempt 3 of 3 raised ConnectionError: refused; no attempt is left"
    assert found.error == "ConnectionError: refused"


def test_what_is_never_retried_fails_at_its_first_error() -> None:
    assert verdict(Try(retry=NEVER), REFUSED).state is State.FAILED


def test_what_failed_for_good_is_not_tried_again() -> None:
    found = verdict(Try(), Raised("Permanent", "card gone", permanent=True))
    assert found.state is State.FAILED
    assert found.reason == "failed for good: Permanent: card gone"


def test_an_error_outside_on_is_not_tried_again() -> None:
    found = verdict(Try(), Raised("ValueError", "no such class", retryable=False))
    assert found.state is State.FAILED
    assert found.reason == "not retried: ValueError is not in on="
    assert found.error == "ValueError: no such class"


def test_what_asks_to_be_tried_later_is_tried_then() -> None:
    found = verdict(Try(), Raised("RetryAfter", retry_after=TEN_MINUTES))
    assert found.ready_at == NOW + TEN_MINUTES
    assert found.reason == "attempt 1 of 3 raised RetryAfter; next try in 10m"
    for wait, said in ((2.284, "2s"), (0.284, "284ms"), (1.0, "1s"), (75.6, "1m16s")):
        soon = Raised(error="RetryAfter", retry_after=timedelta(seconds=wait))
        assert verdict(Try(), soon).reason.endswith(f"; next try in {said}")


def test_what_asks_to_be_tried_later_spends_an_attempt_even_so() -> None:
    found = verdict(Try(attempt=3), Raised("RetryAfter", retry_after=TEN_MINUTES))
    assert found.state is State.FAILED


@pytest.mark.parametrize(
    ("asked", "given_"),
    [
        (timedelta(days=365), LONGEST_WAIT),
        (timedelta.max, LONGEST_WAIT),
        (timedelta(seconds=-5), timedelta()),
    ],
)
def test_what_asks_for_the_impossible_gets_the_possible(
    asked: timedelta, given_: timedelta
) -> None:
    assert verdict(Try(), Raised("RetryAfter", retry_after=asked)).ready_at == NOW + given_


def test_a_wait_of_nothing_is_said_in_words() -> None:
    found = verdict(Try(retry=Retry(first="0s")), REFUSED)
    assert found.ready_at == NOW
    assert found.reason.endswith("; next try at once")


def test_what_ran_too_long_is_tried_again_like_what_raised() -> None:
    found = verdict(Try(), TimedOut(TEN_MINUTES))
    assert (found.state, found.ready_at) == (State.SCHEDULED, NOW + timedelta(seconds=10))
    assert found.reason == "attempt 1 of 3 ran longer than 10m; next try in 10s"
    assert found.error == "TimedOut: ran longer than 10m"
    assert verdict(Try(attempt=3), TimedOut(TEN_MINUTES)).state is State.FAILED


def test_what_was_cancelled_while_it_ran_is_cancelled() -> None:
    found = verdict(Try(), Stopped("by ada"))
    assert (found.state, found.ready_at) == (State.CANCELLED, None)
    assert found.reason == "cancelled while it ran: by ada"


def test_what_came_too_late_is_expired() -> None:
    found = verdict(Try(), Late())
    assert (found.state, found.ready_at, found.error) == (State.EXPIRED, None, None)


def test_what_was_given_back_was_no_attempt() -> None:
    found = verdict(Try(attempt=3, crashes=1), Returned())
    assert (found.move, found.state, found.ready_at) == (Move.GIVE_BACK, State.READY, NOW)
    assert (found.counts, found.crashes) == (False, 1)


def test_what_was_lost_with_its_worker_is_ready_at_once() -> None:
    found = verdict(Try(), Lost(7, "its lease expired"))
    assert (found.move, found.state, found.ready_at) == (Move.LOSE, State.READY, NOW)
    assert (found.counts, found.crashes) == (True, 1)
    assert found.reason == "lost with worker 7: its lease expired; ready at once, crash 1 of 3"
    assert found.error == "Lost: with worker 7: its lease expired"
    named = verdict(Try(), Lost(7, "it has ended", name="web-1"))
    assert named.reason == "lost with web-1: it has ended; ready at once, crash 1 of 3"


def test_what_was_lost_three_times_is_not_tried_again() -> None:
    found = verdict(Try(attempt=3, crashes=2), Lost(9, "killed"))
    assert (found.state, found.crashes, found.ready_at) == (State.FAILED, 3, None)
    assert found.reason == "crashed with its worker 3 times: not tried again"
    assert found.error == "Poison: the last time with worker 9: killed"


def test_what_was_lost_around_its_own_process_is_probably_innocent() -> None:
    found = verdict(Try(attempt=3, crashes=2), Lost(9, alone=True))
    assert (found.state, found.crashes) == (State.READY, 3)
    assert found.reason == "lost with worker 9; ready at once, crash 3 of 10"


def test_what_is_lost_ten_times_is_given_up_even_so() -> None:
    found = verdict(Try(attempt=10, crashes=9), Lost(9, alone=True))
    assert (found.state, found.crashes, found.ready_at) == (State.FAILED, 10, None)
    assert found.reason == "crashed with its worker 10 times: not tried again"


def test_what_does_not_fit_waits_for_another_signature_and_was_no_attempt() -> None:
    found = verdict(Try(attempt=2, crashes=1), Mismatched("it has `to`,\nnot `address`", "f00d"))
    assert (found.move, found.state, found.ready_at) == (Move.PARK, State.BLOCKED, NOW)
    assert (found.counts, found.crashes) == (False, 1)
    assert (found.waits, found.waits_for) == ("signature", "f00d")
    assert found.reason == "it has `to`, not `address`"


@dataclass(frozen=True)
class Row:
    attempt: int = 4
    crashes: int = 2
    retry: str | None = None


def test_a_job_is_judged_by_its_own_retry_or_else_by_the_default_of_its_task() -> None:
    own = Retry(attempts=7)
    assert Tried.of(Row(retry=own.as_json()), NEVER) == Tried(4, 2, own)
    assert Tried.of(Row(), NEVER) == Tried(4, 2, NEVER)
    assert Tried.of(Row()) == Tried(4, 2, Retry())


def test_a_job_whose_retry_cannot_be_read_is_judged_by_the_default() -> None:
    assert Tried.of(Row(retry='{"backoff":"of the future"}'), NEVER) == Tried(4, 2, NEVER)


def test_a_crash_costs_none_of_the_attempts() -> None:
    never = Try(attempt=2, crashes=1, retry=NEVER)
    assert verdict(replace(never, attempt=1, crashes=0), Lost()).state is State.READY
    assert verdict(never, REFUSED).reason.startswith("attempt 2 (try 1 of 1) raised ")
    assert verdict(Try(attempt=4, crashes=2), REFUSED).state is State.SCHEDULED
    assert verdict(Try(attempt=5, crashes=2), REFUSED).state is State.FAILED


def test_a_crash_does_not_make_the_next_wait_longer() -> None:
    found = verdict(Try(attempt=3, crashes=2), REFUSED)
    assert found.ready_at == NOW + timedelta(seconds=10)


def test_an_error_does_not_clear_the_crashes() -> None:
    assert verdict(Try(attempt=3, crashes=2), REFUSED).crashes == 2


def test_a_sentence_holds_the_first_line_of_a_long_message() -> None:
    found = verdict(Try(), Raised("ValueError", f"first {'x' * 1000}\nsecond"))
    assert found.reason.startswith("attempt 1 of 3 raised ValueError: first xxx")
    assert "second" not in found.reason
    assert len(found.reason) < 300
    assert found.error is not None
    assert found.error.endswith("second")


def test_a_sentence_is_one_line_however_an_error_is_named() -> None:
    found = verdict(Try(), Raised("Odd\r\nName", retryable=False))
    assert found.reason == "not retried: Odd is not in on="


def test_the_same_failure_with_other_dice_is_retried_at_another_moment() -> None:
    job = Try(retry=Retry())
    moments = {judge(job, REFUSED, NOW, dice=dice / 10).ready_at for dice in range(10)}
    assert len(moments) == 10


lengths = st.timedeltas()
retries = st.builds(
    Retry,
    attempts=st.integers(1, 20),
    backoff=st.sampled_from(["exponential", "linear", "constant"]),
)
raised = st.builds(
    Raised,
    error=st.text(min_size=1),
    message=st.text(),
    permanent=st.booleans(),
    retry_after=st.none() | lengths,
    retryable=st.booleans(),
)
timed_out = st.builds(TimedOut, lengths)
lost = st.builds(Lost, st.none() | st.integers(0), st.text(), st.booleans())
unhappy = raised | timed_out | lost
outcomes = (
    unhappy
    | st.builds(Stopped, st.text())
    | st.builds(Mismatched, st.text(), st.text())
    | st.builds(Postponed, st.text(), lengths)
    | st.sampled_from([Succeeded(), Succeeded(Json("{}")), Late(), Returned()])
)
jobs = st.builds(Try, attempt=st.integers(1, 40), crashes=st.integers(0, POISON - 1), retry=retries)
dice = st.floats(0, 1, exclude_max=True)


@given(jobs, outcomes, dice)
def test_every_verdict_is_a_move_that_a_running_job_can_take(
    job: Try, outcome: Outcome, dice: float
) -> None:
    found = judge(job, outcome, NOW, dice=dice)
    assert TRANSITIONS[State.RUNNING][found.move] is found.state
    assert (found.ready_at is None) is (found.state in ENDED)
    assert found.ready_at is None or NOW <= found.ready_at <= NOW + LONGEST_WAIT
    assert found.reason
    assert found.reason.splitlines() == [found.reason]


@given(retries, st.data(), dice)
def test_a_job_that_never_succeeds_ends_once_both_its_counts_are_spent(
    retry: Retry, data: st.DataObject, dice: float
) -> None:
    job = Try(retry=retry)
    while (found := judge(job, data.draw(unhappy), NOW, dice=dice)).state not in ENDED:
        job = replace(job, attempt=job.attempt + 1, crashes=found.crashes)
        assert job.attempt < retry.attempts + HAUNTED


@given(st.data(), dice)
def test_a_job_may_start_from_any_place_and_ends_even_so(data: st.DataObject, dice: float) -> None:
    job = data.draw(jobs)
    for _ in range(job.retry.attempts + HAUNTED):
        found = judge(job, data.draw(unhappy), NOW, dice=dice)
        if found.state in ENDED:
            return
        job = replace(job, attempt=job.attempt + 1, crashes=found.crashes)
    pytest.fail(f"it is still alive: {job}")


def test_a_flow_that_is_opened_runs_on_and_its_crashes_are_forgotten() -> None:
    plan = FlowPlan(steps=(StepPlan(name="one", call=JobRequest(task="work")),))
    found = verdict(Try(crashes=2), Opened(plan))
    assert (found.move, found.state, found.crashes) == (Move.OPEN, State.RUNNING, 0)


def test_a_handed_off_job_runs_on_without_a_worker_and_keeps_its_crashes() -> None:
    found = verdict(Try(attempt=3, crashes=2), HandedOff("main (celery)", timedelta(hours=1)))
    assert (found.move, found.state, found.crashes) == (Move.HAND_OFF, State.RUNNING, 2)
    assert (found.waits, found.waits_for) == ("outcome", "main (celery)")
    assert found.within == timedelta(hours=1)
    assert found.reason == "handed to main (celery), no outcome yet"


def test_a_postponed_job_is_tried_later_with_all_its_attempts() -> None:
    found = verdict(
        Try(attempt=3, retry=Retry(attempts=3)), Postponed("Redis is down", TEN_MINUTES)
    )
    assert (found.move, found.state, found.counts) == (Move.POSTPONE, State.SCHEDULED, False)
    assert found.ready_at == NOW + TEN_MINUTES
    assert found.reason == "Redis is down; next try in 10m"


def test_every_outcome_is_among_those_tried_here() -> None:
    assert set(get_args(Outcome)) == {
        Succeeded, Raised, TimedOut, Stopped, Lost, Late, Returned, Mismatched, Opened,
        HandedOff, Postponed,
    }  # fmt: skip
