"""Limits: how rates are written, which numbers can be kept, and what the store is given."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidValue
from duly.model.limit import (
    LONGEST_PERIOD,
    MOST_AT_ONCE,
    SHORTEST_PERIOD,
    Limit,
    NamedLimit,
    Rate,
    limits_as_json,
    limits_from_json,
)
from duly.model.payload import decode, encode

rates = st.builds(
    Rate, st.integers(1, MOST_AT_ONCE), st.timedeltas(SHORTEST_PERIOD, LONGEST_PERIOD)
)
lanes = st.builds(
    NamedLimit,
    name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
    template=st.just("crm:{customer}"),
    concurrency=st.none() | st.integers(1, MOST_AT_ONCE),
    rate=st.none() | rates,
)


@pytest.mark.parametrize(
    ("text", "count", "period"),
    [
        ("5/s", 5, timedelta(seconds=1)),
        ("100/m", 100, timedelta(minutes=1)),
        ("1000/h", 1_000, timedelta(hours=1)),
        ("2/d", 2, timedelta(days=1)),
        ("3/10s", 3, timedelta(seconds=10)),
        ("1/1h30m", 1, timedelta(minutes=90)),
        (" 5 / s", 5, timedelta(seconds=1)),
    ],
)
def test_a_rate_is_a_number_in_a_length_of_time(text: str, count: int, period: timedelta) -> None:
    assert Rate.parse(text) == Rate(count, period)
    assert str(Rate.parse(text)) == text.replace(" ", "")


@given(rates)
def test_a_rate_is_written_as_it_is_read(rate: Rate) -> None:
    assert Rate.parse(str(rate)) == rate


@pytest.mark.parametrize(
    "text", ["", "5", "/s", "s/5", "5/", "5/x", "0/s", "5/0s", "-1/s", "1.5/s", "5/367d"]
)
def test_what_is_no_rate_is_refused_with_what_was_asked(text: str) -> None:
    with pytest.raises(InvalidValue, match=f"rate=.{text}"):
        Limit("crm", rate=text)


def test_a_bare_number_is_no_rate() -> None:
    with pytest.raises(InvalidValue, match='rate=5: write it as "5/s", "100/m"'):
        Limit("crm", rate=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"name": "crm"}, r'Limit\("crm"\) limits nothing: pass concurrency=1, or rate="5/s"'),
        ({"name": "", "concurrency": 1}, "name must not be empty"),
        ({"name": "a\0", "concurrency": 1}, "NUL"),
        ({"name": "crm:{", "concurrency": 1}, "is not the name of an argument"),
        (
            {"name": "crm", "concurrency": 0},
            'Limit."crm".: concurrency=0: expected a whole number from 1',
        ),
        ({"name": "crm", "concurrency": True}, "concurrency=True"),
        ({"name": "crm", "concurrency": 1.5}, "concurrency=1.5"),
        ({"name": "crm", "rate": "fast"}, "rate='fast': write it as \"5/s\""),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(asked: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidValue, match=refusal):
        Limit(**asked)


def test_a_limit_rendered_for_a_job_keeps_its_numbers() -> None:
    limit = Limit("crm:{customer}", concurrency=2, rate="5/s")
    assert limit.rendered({"customer": 7}) == NamedLimit(
        name="crm:7", template="crm:{customer}", concurrency=2, rate=Rate(5, timedelta(seconds=1))
    )


@pytest.mark.parametrize(
    ("value", "refusal"), [("", "is empty for these"), ("x" * 501, "501 characters"), ("\0", "NUL")]
)
def test_a_name_that_cannot_be_stored_is_refused_rather_than_cut(value: str, refusal: str) -> None:
    with pytest.raises(InvalidValue, match=refusal):
        Limit("{customer}", concurrency=1).rendered({"customer": value})


def test_lanes_are_stored_with_their_numbers_and_a_period_in_microseconds() -> None:
    limits = Limit("crm", rate="5/s"), Limit("crm:{customer}", concurrency=1)
    assert decode(limits_as_json(tuple(limit.rendered({"customer": 7}) for limit in limits))) == [
        {
            "name": "crm",
            "template": "crm",
            "concurrency": None,
            "count": 5,
            "period": 1_000_000,
        },
        {
            "name": "crm:7",
            "template": "crm:{customer}",
            "concurrency": 1,
            "count": None,
            "period": None,
        },
    ]


@given(st.lists(lanes, max_size=3).map(tuple))
def test_lanes_are_read_as_they_were_stored(stored: tuple[NamedLimit, ...]) -> None:
    assert limits_from_json(limits_as_json(stored)) == stored


def test_what_a_newer_version_stored_about_a_lane_is_passed_over() -> None:
    [plain] = decode(limits_as_json((NamedLimit(name="crm", template="crm", concurrency=1),)))
    assert limits_from_json(encode([plain | {"burst": 7}])) == (
        NamedLimit(name="crm", template="crm", concurrency=1),
    )
