"""Fixed rates, fixed delays, single moments, and the lengths of time they are written with."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from duly import RuleError
from duly.rules import (
    Rule,
    Spaced,
    at,
    dates,
    every,
    lasting,
    parse,
    parse_duration,
    say_duration,
    show_duration,
    spaced,
)

START = datetime(2026, 11, 15, 10, 7, 3, tzinfo=UTC)
LATER = START + timedelta(days=400)


def test_an_interval_is_anchored_at_the_epoch_unless_told_otherwise() -> None:
    assert every("5m").after(START) == datetime(2026, 11, 15, 10, 10, tzinfo=UTC)
    seventh = every("7m").after(START)
    assert seventh is not None
    assert seventh.timestamp() % (7 * 60) == 0
    anchored = every("1h30m", anchor=datetime(2026, 1, 1, 0, 15, tzinfo=UTC))
    assert anchored.after(START) == datetime(2026, 11, 15, 10, 45, tzinfo=UTC)
    assert anchored == parse("every 1h30m from 2026-01-01T00:15Z")


def test_an_interval_begins_at_its_anchor() -> None:
    rule = every("1h from 2027-01-01T00:30Z")
    assert rule.after(START) == datetime(2027, 1, 1, 0, 30, tzinfo=UTC)
    assert rule.at_or_before(START) is None
    assert rule.count(START, datetime(2027, 1, 1, 2, tzinfo=UTC)) == 2


def test_a_year_of_seconds_is_counted_by_division() -> None:
    assert every("1s").count(START, START + timedelta(days=365)) == 31_536_000


def test_days_weeks_and_months_are_counted_on_the_calendar() -> None:
    def local(text: str) -> list[str]:
        found = parse(f"{text} Europe/Berlin").between(START, LATER, limit=3)
        return [f"{moment:%Y-%m-%d %H:%M}" for moment in found]

    assert local("every 2 days at 09:00 from 2027-03-27") == [
        "2027-03-27 08:00",
        "2027-03-29 07:00",
        "2027-03-31 07:00",
    ]
    assert local("every 2 weeks at 09:00 from 2026-01-05") == [
        "2026-11-23 08:00",
        "2026-12-07 08:00",
        "2026-12-21 08:00",
    ]
    assert local("every 5 months at 06:30 from 2026-01-15") == [
        "2027-04-15 04:30",
        "2027-09-15 04:30",
    ]
    assert local("every year at 00:00 from 2026-02-28") == ["2027-02-27 23:00"]


def test_every_day_is_the_calendars_every_day() -> None:
    assert every("day at 09:00", zone="UTC") == parse("*-*-* 09:00 UTC") == parse("0 9 * * * UTC")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "every 1d",
            '"every 1d": say at what time: "every 1 day at 09:00 Europe/Berlin", '
            'or for elapsed time "every 24h"',
        ),
        (
            "every 2 weeks at 09:00 UTC",
            '"every 2 weeks at 09:00": say from which day: '
            '"every 2 weeks at 09:00 from 2026-01-05 UTC", or for elapsed time "every 336h"',
        ),
        (
            "every month",
            '"every month": say at what time and from which day: '
            '"every 1 month at 09:00 from 2026-01-05 Europe/Berlin"',
        ),
        (
            "every monday",
            '"every monday": not an interval; for weekdays write "Mon 09:00 Europe/Berlin", '
            '"Mon..Fri 09:00 Europe/Berlin", or "every 2 weeks at 09:00 from 2026-01-05 '
            'Europe/Berlin"',
        ),
        (
            "every 1h from 2026-01-01T00:15",
            '"every 1h from 2026-01-01T00:15": the anchor needs an offset, '
            'as in "from 2026-01-01T00:15Z"',
        ),
        (
            "every month at 09:00 from 2026-01-31 UTC",
            '"every month at 09:00 from 2026-01-31": not every month has a day 31: '
            'take one up to 28, or "*-*~01 09:00"',
        ),
        (
            "every 5m Europe/Berlin",
            '"every 5m": 5m is elapsed time, the same in every zone',
        ),
        ("every 5 UTC", '"every 5": 5 what? say 5s, 5m, 5h'),
        ("every 5", '"every 5": "5" is not a duration: write "5s" or "5m"'),
        ("every 0s", "every 0ms is too often: the shortest step is 1ms"),
        ("every 10us", "every 0.01ms is too often: the shortest step is 1ms"),
        (
            "every day at 25:00 UTC",
            '"every day at 25:00": "25:00" is not a time of day such as 09:00',
        ),
    ],
)
def test_an_interval_that_is_not_clear_is_refused(text: str, message: str) -> None:
    with pytest.raises(RuleError) as raised:
        parse(text)
    assert str(raised.value) == message


def test_intervals_meet_where_their_steps_do() -> None:
    ten, fifteen = every("10s"), every("15s from 2026-01-01T00:00:05Z")
    until = START + timedelta(hours=1)
    assert (ten | fifteen).count(START, until) == len(list((ten | fifteen).between(START, until)))
    assert (ten - fifteen).count(START, until) == len(list((ten - fifteen).between(START, until)))
    assert (ten - every("10s from 2026-01-01T00:00:05Z")).count(START, until) == 360


# -- once -----------------------------------------------------------------------------------------


def test_a_zone_beside_a_rate_or_an_instant_is_not_needed_and_not_refused() -> None:
    assert every("5m", zone="utc") == every("5m", zone="Asia/Tokyo") == every("5m")
    assert at("2026-12-24T17:00Z", zone="Asia/Tokyo") == at("2026-12-24T17:00Z")


def test_one_moment_happens_once() -> None:
    christmas = datetime(2026, 12, 24, 18, tzinfo=timezone(timedelta(hours=1)))
    rule = at(christmas)
    assert rule.after(START) == christmas
    assert rule.after(christmas) is None
    assert rule.at_or_before(christmas) == christmas
    assert rule.at_or_before(START) is None
    assert rule.count(START, LATER) == 1
    assert rule == parse("2026-12-24T18:00+01:00") == parse("2026-12-24T17:00Z")


def test_a_wall_time_in_a_zone_stays_a_wall_time() -> None:
    rule = parse("2026-12-24T18:00 Europe/Berlin")
    assert str(rule) == "2026-12-24T18:00:00 Europe/Berlin"
    assert isinstance(rule, Rule)
    assert rule.zone == "Europe/Berlin"
    assert rule.after(START) == datetime(2026, 12, 24, 17, tzinfo=UTC)
    lost = at("2027-03-28T02:30", zone="Europe/Berlin")
    assert lost.after(START) == datetime(2027, 3, 28, 1, tzinfo=UTC)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(RuleError, match="needs a time zone"):
        at("2026-12-24T18:00")
    with pytest.raises(RuleError, match="naive"):
        at(datetime(2026, 12, 24, 18))  # noqa: DTZ001 - what is refused
    with pytest.raises(RuleError, match="naive"):
        every("5m").after(datetime(2026, 12, 24))  # noqa: DTZ001


# -- spaced ---------------------------------------------------------------------------------------


def test_a_fixed_delay_counts_from_the_end_of_the_last_run() -> None:
    assert spaced("10m").after_end(START) == START + timedelta(minutes=10)
    assert parse("spaced 10m") == spaced(timedelta(minutes=10))


def test_a_fixed_delay_keeps_bounds_and_exclusions() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    rule = parse("spaced 10m start=2026-11-15T12:00:00+00:00 end=2026-11-15T13:00:00+00:00")
    assert isinstance(rule, Spaced)
    assert rule.after_end(START) == noon
    assert rule.after_end(noon + timedelta(minutes=55)) is None
    working_days = spaced("1h") - dates("2026-11-15", "2026-11-16", zone="UTC")
    assert working_days.after_end(START) == datetime(2026, 11, 17, tzinfo=UTC)
    assert parse(str(working_days)) == working_days
    assert parse(str(rule)) == rule


def test_a_fixed_delay_refuses_what_needs_a_set_of_moments() -> None:
    delay, rate = spaced("10m"), every("5m")
    questions: list[Callable[[], object]] = [
        lambda: delay.count(START, LATER),
        lambda: delay.after(START),
        lambda: delay.at_or_before(START),
        lambda: delay.between(START, LATER),
        lambda: delay | rate,
        lambda: rate | delay,
        lambda: rate - delay,
        lambda: delay - delay,
    ]
    for refused in questions:
        with pytest.raises(RuleError, match="no fixed set of times"):
            refused()
    with pytest.raises(RuleError, match="exclude stretches of time"):
        delay - rate
    assert str(delay - lasting(rate, "1m")) == "spaced 10m - (every 5m lasting=1m)"


# -- lengths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1h 30m", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("1w", timedelta(weeks=1)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5h", timedelta(minutes=90)),
        ("10 minutes", timedelta(minutes=10)),
        ("1 hour 1 second", timedelta(hours=1, seconds=1)),
    ],
)
def test_lengths_are_read_as_people_write_them(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length
    assert parse_duration(show_duration(length)) == length


@pytest.mark.parametrize("text", ["", "5", "m", "5 x", "-5m", "5m!", "1h30", "٣m", "9" * 30 + "s"])
def test_what_is_not_a_length_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        parse_duration(text)


def test_a_number_is_refused_with_what_to_say() -> None:
    with pytest.raises(RuleError, match='30 is not a duration: write "30s" or "30m"'):
        parse_duration(30)  # type: ignore[arg-type]


def test_a_length_is_said_in_words() -> None:
    assert say_duration(timedelta(hours=1, minutes=30)) == "1 hour and 30 minutes"


def test_a_fixed_delay_has_no_number_of_times() -> None:
    with pytest.raises(RuleError, match="takes start= and end="):
        parse("spaced 10m count=3 start=2026-11-15T12:00Z")
