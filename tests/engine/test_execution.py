"""From whatever a task does to an outcome: nothing that it does can leave its job without one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import clock
from duly.engine import execution
from duly.engine.execution import raised, returned
from duly.errors import Permanent, RetryAfter
from duly.model.outcome import Raised, Succeeded
from duly.policy.retry import Retry
from duly.registry.definition import define

RETRY = Retry()


def anything() -> Any:  # noqa: ANN401
    pass


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Untold(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Hurried(RetryAfter):
    """Somebody's own, who did not call the first one's __init__."""

    def __init__(self) -> None:
        pass


class Circle:
    pass


def caught(error: BaseException) -> BaseException:
    try:
        raise error  # noqa: TRY301 - that is all it does
    except BaseException as found:  # noqa: BLE001 - any
        return found


def test_nothing_is_a_success_without_a_result() -> None:
    assert returned(None, define(anything)) == Succeeded()


def test_a_result_is_kept_as_json() -> None:
    assert returned({"a": [1, 2]}, define(anything)) == Succeeded('{"a":[1,2]}')  # type: ignore[arg-type]


def test_a_result_that_nobody_wants_is_not_looked_at() -> None:
    assert returned(object(), define(anything, keep_result=None)) == Succeeded()


@pytest.mark.parametrize("value", [Circle(), float("nan"), "a\0b", "\ud800", 2**70, b"\xff" * 9])
def test_a_result_that_cannot_be_kept_fails_its_job_for_good_or_is_kept(value: object) -> None:
    outcome = returned(value, define(anything))
    assert isinstance(outcome, Succeeded) or outcome.permanent


def test_a_result_without_an_end_fails_its_job_for_good() -> None:
    endless: list[object] = []
    endless.append(endless)
    outcome = returned(endless, define(anything))
    assert isinstance(outcome, Raised)
    assert outcome.permanent


def test_an_error_is_told_with_its_place() -> None:
    outcome = raised(caught(ValueError("oh")), RETRY)
    assert (outcome.error, outcome.message, outcome.retryable) == ("ValueError", "oh", True)
    assert "raise error" in outcome.traceback
    assert not outcome.permanent


def test_permanent_says_that_trying_again_is_no_use() -> None:
    assert raised(Permanent("never"), RETRY).permanent


def test_an_error_outside_of_on_is_not_retried() -> None:
    outcome = raised(ValueError("oh"), Retry(on=OSError))
    assert not outcome.retryable


def test_what_the_task_asks_for_is_within_on() -> None:
    outcome = raised(RetryAfter("5m"), Retry(on=OSError))
    assert (outcome.retryable, outcome.retry_after) == (True, timedelta(minutes=5))


def test_what_would_end_an_interpreter_is_nothing_that_on_could_name() -> None:
    assert raised(SystemExit(3), Retry(on=OSError)).retryable


def test_a_moment_to_try_again_is_a_wait_from_now() -> None:
    wait = raised(RetryAfter(clock.now() + timedelta(hours=1)), RETRY).retry_after
    assert wait is not None
    assert timedelta(minutes=59) < wait <= timedelta(hours=1)


def test_a_moment_that_has_passed_is_at_once() -> None:
    assert raised(RetryAfter(datetime(2020, 1, 1, tzinfo=UTC)), RETRY).retry_after == timedelta()


@pytest.mark.parametrize(
    "error",
    [
        RetryAfter("soon"),
        RetryAfter(datetime(2030, 1, 1)),  # noqa: DTZ001 - whose time?
        Hurried(),
    ],
)
def test_a_wait_that_cannot_be_read_is_the_usual_one(error: RetryAfter) -> None:
    outcome = raised(error, RETRY)
    assert outcome.retry_after is None
    assert not outcome.permanent


@pytest.mark.parametrize("error", [Wordless(), Untold()])
def test_an_error_whose_text_cannot_be_made_is_still_told(error: BaseException) -> None:
    outcome = raised(caught(error), RETRY)
    assert outcome.error == type(error).__name__
    assert "cannot be made" in outcome.message


def test_a_predicate_that_fails_has_not_said_no() -> None:
    def unsure(error: Exception) -> bool:
        raise KeyError(error)

    assert raised(caught(ValueError("oh")), Retry(on=unsure)).retryable


def test_our_own_steps_are_left_out_of_the_traceback() -> None:
    outcome = raised(caught(ValueError("oh")), RETRY)
    assert str(Path(execution.__file__).parent) not in outcome.traceback
