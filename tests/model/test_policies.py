"""Policies are choices: the wrong ones are refused, and the right ones survive being stored."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidValue
from duly.model.payload import Json
from duly.model.policies import MOST_AT_ONCE, Catchup, Late, Missed, Overlap, Policies

MOMENTS = st.integers(0, 10**10).map(lambda second: datetime.fromtimestamp(second / 7, UTC))
LENGTHS = st.timedeltas(timedelta(microseconds=1), timedelta(days=1000))
POLICIES = st.builds(
    Policies,
    overlap=st.sampled_from(get_args(Overlap)),
    missed=st.builds(
        Missed,
        st.sampled_from(get_args(Catchup)),
        at_most=st.integers(1, MOST_AT_ONCE),
        spacing=st.none() | LENGTHS,
        grace=LENGTHS,
    ),
    start_within=st.none() | LENGTHS,
    late=st.sampled_from(get_args(Late)),
    dst=st.sampled_from(["cron", "systemd", "shift/both"]),
    exclude=st.none() | st.text(),
    jitter=st.none() | LENGTHS,
    start=st.none() | MOMENTS,
    end=st.none() | MOMENTS,
    first=st.sampled_from(["now", "wait"]),
    retry=st.none() | st.just(Json('{"attempts":5}')),
)


@given(POLICIES)
def test_what_is_stored_is_what_is_read(policies: Policies) -> None:
    assert Policies.from_json(policies.as_json()) == policies


@given(POLICIES, POLICIES)
def test_equal_choices_are_equal_texts(one: Policies, other: Policies) -> None:
    assert (one.as_json() == other.as_json()) == (one == other)
    assert Policies.from_json(one.as_json()).as_json() == one.as_json()


def test_the_defaults_are_the_safe_ones_and_take_no_room() -> None:
    plain = Policies()
    assert (plain.overlap, plain.missed.policy, plain.late) == ("skip", "latest", "skip")
    assert (plain.start_within, plain.jitter, plain.first) == (None, None, "now")
    assert plain.as_json() == "{}"


def test_only_what_was_chosen_is_stored() -> None:
    chosen = Policies(overlap="allow", start_within=timedelta(minutes=90))
    assert json.loads(chosen.as_json()) == {"overlap": "allow", "start_within": "1h30m"}


def test_a_choice_of_a_newer_version_is_ignored() -> None:
    text = '{"overlap":"allow","mood":"bright"}'
    assert Policies.from_json(text) == Policies(overlap="allow")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"overlap": "never"}, "overlap='never': choose one of skip, queue_one"),
        ({"late": "wait"}, "late='wait': choose one of skip, run, hurry"),
        ({"first": "later"}, "first='later': choose one of now, wait"),
        (
            {"start_within": timedelta(0)},
            r"start_within=datetime.timedelta\(0\): expected a duration above zero",
        ),
        ({"jitter": timedelta(seconds=-1)}, "expected a duration above zero"),
    ],
)
def test_a_wrong_choice_is_refused_by_name(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        Policies(**wrong)


@pytest.mark.parametrize("at_most", [0, -1, MOST_AT_ONCE + 1])
def test_how_many_are_made_up_for_has_bounds(at_most: int) -> None:
    with pytest.raises(InvalidValue, match=f"at_most={at_most}: expected 1 to 10,000"):
        Missed("all", at_most=at_most)


def test_a_wrong_word_for_missed_is_refused() -> None:
    with pytest.raises(InvalidValue, match="missed='none': choose one of latest, all, skip"):
        Missed("none")  # type: ignore[arg-type]
