"""Jobs that fail for one reason are one kind, in however many ways they say it."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.model.job_filter import EVERYTHING, Filter, parse_filter
from duly.model.states import State
from duly.store.job_search import LONGEST_TAIL, Failure
from duly.views.failures import FailureGroup, error_line, grouped

NOON = datetime(2027, 1, 3, 12, tzinfo=UTC)
TRACEBACK = """
Traceback (most recent call last):
  File "/srv/app.py", line 7, in send
    relay(message)
"""


def failure(error: str, *, number: int = 1, task: str = "send", reason: str = "") -> Failure:
    at = NOON + timedelta(minutes=number)
    return Failure(id=number, task=task, queue="mail", ended_at=at, reason=reason, error=error)


def kinds(*errors: str) -> list[FailureGroup]:
    """Of these errors, the oldest first, as a store gives them: the newest first."""
    numbered = [failure(error, number=number) for number, error in enumerate(errors, 1)]
    return grouped(reversed(numbered), EVERYTHING)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TimeoutError: after 3 s", "TimeoutError: after 12.5 s"),
        ("KeyError: 'ada'", "KeyError: 'grace hopper'"),
        ('ValueError: no "x"', 'ValueError: no "y z"'),
        ("OSError: at 0x7f3a", "OSError: at 0xdeadbeef"),
        ("OSError: blob d41d8cd98f00b204", "OSError: blob 0a1b2c3d4e5f6071"),
        (
            "LookupError: 3f2b8c1e-9d4a-4c55-8f6e-2a1b3c4d5e6f",
            "LookupError: 00000000-0000-4000-8000-abcdefabcdef",
        ),
        ("OSError: 10.0.0.1:5432 refused", "OSError: 10.0.0.27:5433 refused"),
        ("KeyError: no token=abc", "KeyError: no token=xyz"),
    ],
)
def test_what_differs_by_a_value_is_one_kind(one: str, other: str) -> None:
    [kind] = kinds(one, other)
    assert (kind.jobs, kind.job_id, kind.job_ids) == (2, 2, (2, 1))
    assert (kind.first_at, kind.last_at) == (
        NOON + timedelta(minutes=1),
        NOON + timedelta(minutes=2),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TimeoutError: read", "TimeoutError: write"),
        ("TimeoutError: read", "OSError: read"),
        ("OSError: dead beef", "OSError: dead cafe"),
    ],
)
def test_what_differs_by_a_word_is_two_kinds(one: str, other: str) -> None:
    assert [kind.error for kind in kinds(one, other)] == [other, one]


def test_the_same_error_of_two_tasks_is_two_kinds() -> None:
    errors = [failure("OSError: no", task=task) for task in ("send", "fetch")]
    assert {kind.task for kind in grouped(errors, EVERYTHING)} == {"send", "fetch"}


def test_the_most_frequent_comes_first_and_then_the_newest() -> None:
    told = kinds("OSError: a", "KeyError: b", "OSError: a", "ValueError: c")
    assert [(kind.error, kind.jobs) for kind in told] == [
        ("OSError: a", 2), ("ValueError: c", 1), ("KeyError: b", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (f"OSError: gone\n{TRACEBACK}OSError: gone", "OSError: gone"),
        (f"OSError\n{TRACEBACK}OSError", "OSError"),
        (f"{TRACEBACK}pydantic.Error: 1 for X\nfield\n  Input", "pydantic.Error: 1 for X"),
        (f"{TRACEBACK}sql.Error: (lost)\n[SQL: select]\n(See: https://x)", "sql.Error: (lost)"),
        ("it went wrong\n", "it went wrong"),
        ("Authorization: Bearer abc was refused", "Authorization: *** was refused"),
    ],
)  # fmt: skip
def test_an_error_is_the_line_that_names_what_was_raised(error: str, line: str) -> None:
    assert error_line(failure(error)) == line


def test_a_line_that_lost_its_beginning_is_not_shown() -> None:
    cut = ("en=hunter2 " + "x" * LONGEST_TAIL)[:LONGEST_TAIL]
    reason = "attempt 3 of 3 raised OSError: no token=hunter2; no attempt is left"
    assert error_line(failure(cut, reason=reason)) == "OSError: no token=***"
    assert error_line(failure("", reason="crashed with its worker 3 times")) == (
        "crashed with its worker 3 times"
    )
    assert error_line(failure("")) == ""


def test_a_kind_has_words_that_keep_what_was_asked() -> None:
    asked = parse_filter("queue:mail since:2h task:s*")
    [kind] = grouped([failure("TimeoutError: 'x' timed out after 7 s")], asked)
    assert parse_filter(kind.filter) == Filter(
        states=(State.FAILED,),
        task="send",
        queue="mail",
        since=timedelta(hours=2),
        error="timed out after",
    )


def test_a_kind_that_says_nothing_of_its_own_is_found_by_its_task() -> None:
    [kind] = grouped([failure("7")], EVERYTHING)
    assert kind.filter == "state:failed task:send"


def test_a_line_that_is_long_is_cut() -> None:
    [kind] = kinds("ValueError: " + "long " * 60)
    assert (len(kind.error), kind.error[-1]) == (200, "…")
