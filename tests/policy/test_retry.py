"""Retries: what may be asked for, and how long each wait is."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.durations import show_duration
from duly.errors import InvalidValue
from duly.model.payload import Json, decode, encode
from duly.policy.retry import LONGEST_WAIT, MOST_ATTEMPTS, MOST_WAITS, NEVER, Errors, Retry, delay

MIDDLE = 0.5  # of the dice: neither sooner nor later

lengths = st.timedeltas(timedelta(), LONGEST_WAIT)
tables = st.lists(lengths, min_size=1, max_size=8)
attempts = st.integers(1, MOST_ATTEMPTS)
dice = st.floats(0, 1, exclude_max=True)


@st.composite
def growing(draw: st.DrawFn) -> Retry:
    first, cap = sorted([draw(lengths), draw(lengths)])
    return Retry(
        attempts=draw(attempts),
        backoff=draw(st.sampled_from(["exponential", "linear", "constant"])),
        first=first,
        cap=cap,
        jitter=draw(st.booleans()),
    )


explicit = st.builds(Retry, attempts=attempts, backoff=tables, jitter=st.booleans())
retries = growing() | explicit


def waits(retry: Retry, count: int = 5, *, dice: float = MIDDLE) -> list[str]:
    return [show_duration(delay(retry, attempt, dice)) for attempt in range(1, count + 1)]


def test_an_exponential_wait_doubles_up_to_the_cap() -> None:
    retry = Retry(backoff="exponential", first="10s", cap="1m")
    assert waits(retry) == ["10s", "20s", "40s", "1m", "1m"]


def test_the_shortest_wait_doubles_up_to_the_longest_cap() -> None:
    retry = Retry(first="1us", cap=LONGEST_WAIT, jitter=False)
    assert delay(retry, 42, 0) == timedelta(microseconds=2**41)
    assert delay(retry, 43, 0) == delay(retry, MOST_ATTEMPTS, 0) == LONGEST_WAIT


def test_a_linear_wait_grows_by_the_first_up_to_the_cap() -> None:
    retry = Retry(backoff="linear", first="10s", cap="35s")
    assert waits(retry) == ["10s", "20s", "30s", "35s", "35s"]


def test_a_constant_wait_stays() -> None:
    assert waits(Retry(backoff="constant", first="10s")) == ["10s"] * 5


def test_the_last_wait_of_a_table_repeats_and_has_no_cap() -> None:
    retry = Retry(backoff=["10s", "1m", "10h"], cap="1h")
    assert waits(retry) == ["10s", "1m", "10h", "10h", "10h"]


def test_a_table_needs_no_cap_that_fits_a_first_wait_it_does_not_have() -> None:
    assert waits(Retry(backoff=["1s"], first="2h", cap="1h"), 1) == ["1s"]


def test_nothing_asked_for_is_three_attempts_from_ten_seconds() -> None:
    assert Retry() == Retry(
        attempts=3, backoff="exponential", first="10s", cap=timedelta(hours=1), jitter=True
    )


def test_jitter_spreads_a_wait_by_a_fifth_either_way() -> None:
    retry = Retry(backoff="constant", first="10s")
    assert waits(retry, 1, dice=0) == ["8s"]
    assert waits(retry, 1, dice=0.75) == ["11s"]


def test_jitter_spreads_the_cap_too() -> None:
    assert waits(Retry(first="1m", cap="1m"), 1, dice=0.75) == ["1m6s"]


def test_without_jitter_the_dice_change_nothing() -> None:
    retry = Retry(jitter=False)
    assert waits(retry, dice=0) == waits(retry, dice=0.99)


def test_never_is_one_attempt() -> None:
    assert NEVER.attempts == 1


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"attempts": 0}, "attempts=0, and it is from 1"),
        ({"attempts": MOST_ATTEMPTS + 1}, "from 1 .* to 10,000"),
        ({"attempts": True}, "attempts=True is not a whole number"),
        ({"attempts": 3.0}, "attempts=3.0 is not a whole number"),
        ({"attempts": None}, "attempts=None is not a whole number"),
        ({"backoff": "fibonacci"}, '\'fibonacci\' is none of "exponential", "linear", "const'),
        ({"backoff": "10s"}, r'nor a list of waits: \["10s", "1m"\]'),
        ({"backoff": b"10s"}, "is none of"),
        ({"backoff": 10}, "backoff=10 is none of"),
        ({"backoff": {"10s"}}, "nor a list of waits"),
        ({"backoff": []}, "backoff has 0 waits"),
        ({"backoff": ["1s"] * (MOST_WAITS + 1)}, "backoff has 101 waits"),
        ({"backoff": ["10s", 60]}, r'backoff\[1\]=60: say "60s" or "60m"'),
        ({"backoff": ["10s", "soon"]}, r'backoff\[1\]: "soon" is not a duration'),
        ({"first": 10}, 'first=10: say "10s" or "10m"'),
        ({"first": "10"}, 'first: "10" is not a duration: write "10s" or "10m"'),
        ({"first": timedelta(seconds=-1)}, "first: .* is less than nothing"),
        ({"first": "2h"}, 'first="2h" is longer than cap="1h": say cap="2h" or more'),
        ({"cap": "31d"}, 'cap: "31d" is too long; the longest wait is 30 days'),
        ({"cap": None}, "cap: None is not a duration"),
        ({"jitter": 0.5}, "jitter=0.5 is neither True nor False"),
        ({"on": "ConnectionError"}, "on='ConnectionError' is no kind of Exception: say on="),
        ({"on": ()}, r"on=\(\) is no kind of Exception"),
        ({"on": (ValueError, "x")}, "is no kind of Exception"),
        ({"on": int}, "is no kind of Exception"),
        ({"on": KeyboardInterrupt}, "is no kind of Exception"),
        ({"on": None}, "on=None is no kind of Exception"),
    ],
)
def test_what_cannot_be_kept_is_refused(asked: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidValue, match=refusal):
        Retry(**asked)


@pytest.mark.parametrize(
    ("on", "covered"),
    [
        (Exception, True),
        (OSError, True),
        ((ValueError, TimeoutError), True),
        (ValueError, False),
        ((ValueError, KeyError), False),
        (lambda error: "slow" in str(error), True),
        (lambda error: "fast" in str(error), False),
    ],
)
def test_an_error_is_covered_by_its_type_or_by_what_a_function_says(
    on: Errors, covered: bool
) -> None:
    assert Retry(on=on).covers(TimeoutError("too slow")) is covered


def test_every_error_is_covered_if_nothing_is_said() -> None:
    assert Retry().covers(ZeroDivisionError())


def test_a_predicate_that_raises_has_not_said_no_and_leaves_a_note() -> None:
    error = ValueError("card declined")
    assert Retry(on=lambda found: found.args[7] == 0).covers(error)
    assert error.__notes__ == ["Retry: on= raised IndexError: tuple index out of range"]


def test_which_errors_are_covered_is_neither_stored_nor_compared() -> None:
    picky = Retry(on=ConnectionError)
    assert picky == Retry()
    assert hash(picky) == hash(Retry())
    assert picky.as_json() == Retry().as_json()
    stored = decode(picky.as_json()) | {"on": "ConnectionError"}
    assert Retry.from_json(encode(stored)).covers(ValueError())


def test_attempts_are_asked_for_by_name() -> None:
    with pytest.raises(TypeError):
        Retry(5)  # type: ignore[call-arg]  # five tries, or five more?


def test_a_retry_is_stored_as_short_readable_text() -> None:
    assert Retry(backoff=["10s", timedelta(minutes=90)]).as_json() == (
        '{"attempts":3,"backoff":["10s","1h30m"],"first":"10s","cap":"1h","jitter":true}'
    )


def test_what_a_newer_version_stored_is_read_without_what_is_new() -> None:
    newer = decode(Retry(attempts=7).as_json()) | {"budget": "10/m"}
    assert Retry.from_json(encode(newer)) == Retry(attempts=7)


def test_what_an_older_version_did_not_store_is_the_default() -> None:
    assert Retry.from_json(Json('{"attempts":1}')) == NEVER


@pytest.mark.parametrize("text", ["", "[]", "null", '{"attempts":"3"}', '{"first":10}', "{"])
def test_a_stored_text_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Retry.from_json(Json(text))


@given(retries)
def test_what_is_stored_is_what_is_read(retry: Retry) -> None:
    assert Retry.from_json(retry.as_json()) == retry


@given(retries, attempts, dice)
def test_a_wait_is_within_a_fifth_of_what_was_asked_for(
    retry: Retry, attempt: int, dice: float
) -> None:
    shortest, longest = bounds(retry)
    spread = 0.2 if retry.jitter else 0
    assert shortest * (1 - spread) <= delay(retry, attempt, dice) <= longest * (1 + spread)


@given(growing(), attempts, attempts, dice)
def test_a_later_wait_is_never_shorter(retry: Retry, one: int, other: int, dice: float) -> None:
    earlier, later = sorted([one, other])
    assert delay(retry, earlier, dice) <= delay(retry, later, dice)


@given(retries, attempts, dice, dice)
def test_higher_dice_never_make_a_wait_shorter(
    retry: Retry, attempt: int, one: float, other: float
) -> None:
    low, high = sorted([one, other])
    assert delay(retry, attempt, low) <= delay(retry, attempt, high)


def bounds(retry: Retry) -> tuple[timedelta, timedelta]:
    if isinstance(retry.backoff, tuple):
        return min(retry.backoff), max(retry.backoff)
    return retry.first, retry.first if retry.backoff == "constant" else retry.cap
