"""The time that somebody asks about, and how times and lengths are said."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.durations import about
from duly.errors import InvalidValue
from duly.policy.why import LocalClock, first_line, read_time

BERLIN = "Europe/Berlin"
FRIDAY = datetime(2026, 11, 13, 5, tzinfo=UTC)  # 06:00 in Berlin


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("asked", "start", "length"),
    [
        ("02:00", "2026-11-13 01:00", timedelta(minutes=1)),
        ("2:00", "2026-11-13 01:00", timedelta(minutes=1)),
        ("06:00", "2026-11-13 05:00", timedelta(minutes=1)),
        ("06:01", "2026-11-12 05:01", timedelta(minutes=1)),
        ("23:00:07", "2026-11-12 22:00:07", timedelta(seconds=1)),
        ("23:00:07.250", "2026-11-12 22:00:07.250", timedelta(microseconds=1)),
        ("Thu 02:00", "2026-11-12 01:00", timedelta(minutes=1)),
        ("thursday 02:00", "2026-11-12 01:00", timedelta(minutes=1)),
        ("Fri 07:00", "2026-11-06 06:00", timedelta(minutes=1)),
        ("yesterday 02:00", "2026-11-12 01:00", timedelta(minutes=1)),
        ("today 02:00", "2026-11-13 01:00", timedelta(minutes=1)),
        ("2026-11-10 02:00", "2026-11-10 01:00", timedelta(minutes=1)),
        ("2026-11-20T02:00:30", "2026-11-20 01:00:30", timedelta(seconds=1)),
        ("Tue 2026-11-10 02:00 Europe/Berlin", "2026-11-10 01:00", timedelta(minutes=1)),
        ("2026-11-10 02:00 UTC", "2026-11-10 02:00", timedelta(minutes=1)),
        ("2026-11-10T02:00+05:00", "2026-11-09 21:00", timedelta(minutes=1)),
        ("2026-11-10T02:00Z", "2026-11-10 02:00", timedelta(minutes=1)),
        ("2026-11-10", "2026-11-09 23:00", timedelta(days=1)),
        ("Thu", "2026-11-11 23:00", timedelta(days=1)),
    ],
)
def test_a_time_is_read_on_the_clock_of_the_schedule(
    asked: str, start: str, length: timedelta
) -> None:
    read = read_time(asked, zone=BERLIN, now=FRIDAY)
    assert (read.start, read.until - read.start) == (utc(start), length)
    assert (read.again, read.lost) == (None, False)


def test_a_moment_is_meant_exactly() -> None:
    read = read_time(FRIDAY, zone=BERLIN, now=FRIDAY)
    assert (read.start, read.until) == (FRIDAY, FRIDAY + timedelta(microseconds=1))


@pytest.mark.parametrize(
    "asked",
    ["", "  ", "at two", "25:00", "02:61", "2026-13-01 02:00", "today 23:00", "2 am", "-1:00"],
)
def test_what_is_no_time_is_refused_with_examples(asked: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_time(asked, zone=BERLIN, now=FRIDAY)
    assert str(refused.value) == (
        f'at={asked!r}: a time that has been, as "02:00", "Thu 02:00" or "2026-11-13 02:00"'
    )


def test_a_naive_moment_and_an_unknown_zone_are_refused() -> None:
    with pytest.raises(InvalidValue, match="is naive and needs a zone"):
        read_time(datetime(2026, 11, 13, 2), zone=BERLIN, now=FRIDAY)  # noqa: DTZ001
    with pytest.raises(InvalidValue, match='"Berlin" is not a time zone; without one, Europe/'):
        read_time("02:00 Berlin", zone=BERLIN, now=FRIDAY)


def test_a_time_that_the_clock_jumped_over_is_known_as_lost() -> None:
    read = read_time("2027-03-28 02:30", zone=BERLIN, now=FRIDAY)
    assert (read.lost, read.start) == (True, utc("2027-03-28 01:00"))


def test_a_time_that_came_twice_is_known_at_both_places() -> None:
    read = read_time("2026-10-25 02:30", zone=BERLIN, now=FRIDAY)
    assert (read.start, read.again) == (utc("2026-10-25 00:30"), utc("2026-10-25 01:30"))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (0.012, "12 ms"),
        (3, "3 s"),
        (3.21, "3.2 s"),
        (59, "59 s"),
        (60, "1 min"),
        (75, "1 min 15 s"),
        (2_400, "40 min"),
        (3_600, "1 h"),
        (100_680, "27 h 58 min"),
        (172_800, "2 d"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_length_is_said_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert about(timedelta(seconds=seconds)) == said


def test_a_moment_is_said_no_longer_than_needed() -> None:
    clock = LocalClock(BERLIN, FRIDAY)
    assert clock.whole(utc("2026-11-13 01:00")) == "Fri 2026-11-13 02:00 Europe/Berlin"
    assert clock.near(utc("2026-11-13 01:00")) == "02:00"
    assert clock.near(utc("2026-11-13 01:00:07.5")) == "02:00:07"
    assert clock.near(utc("2026-11-12 01:00")) == "Thu 02:00"
    assert clock.near(utc("2026-11-06 01:00")) == "Fri 2026-11-06 02:00"
    assert clock.near(utc("2026-11-06 01:00"), utc("2026-11-06 02:00")) == "02:00"
    assert clock.due(utc("2026-11-13 01:00")) == "Fri 2026-11-13 02:00 Europe/Berlin"
    assert LocalClock("UTC", FRIDAY).due(utc("2026-11-13 01:00:10")) == "01:00:10 UTC"
    assert LocalClock("UTC", FRIDAY).due(utc("2026-11-12 01:00")) == "Thu 2026-11-12 01:00 UTC"


def test_of_an_error_the_first_line_is_said() -> None:
    assert first_line("\n  ValueError: no\n\nTraceback") == "ValueError: no"
    assert first_line(None) == ""
    assert first_line("x" * 300) == "x" * 200 + "…"
