"""Calendar expressions: what the oracles do not ask, and what is said when one is wrong."""

from datetime import UTC, datetime

import pytest

from duly import RuleError
from duly.rules import calendar, cron

START = datetime(2026, 11, 15, 10, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Mon..Fri 09:00", "Mon..Fri *-*-* 09:00:00 UTC"),
        ("Sat,Sun 12:30", "Sat,Sun *-*-* 12:30:00 UTC"),
        ("mon,wed..FRIDAY *-*-* 00:00", "Mon,Wed..Fri *-*-* 00:00:00 UTC"),
        ("*-*~1", "*-*~01 00:00:00 UTC"),
        ("Mon *-05~07/1", "Mon *-05~07/1 00:00:00 UTC"),
        ("quarterly", "*-01,04,07,10-01 00:00:00 UTC"),
        ("Semi-Annually", "*-01,07-01 00:00:00 UTC"),
        ("10-15", "*-10-15 00:00:00 UTC"),
        ("*-1", "*-*-01 00:00:00 UTC"),
        ("26-12-24 18:00", "2026-12-24 18:00:00 UTC"),
        ("@1700000000", "2023-11-14 22:13:20 UTC"),
        ("*:*:0/0.5", "*-*-* *:*:00/0.500000 UTC"),
        ("09:00 utc", "*-*-* 09:00:00 UTC"),
    ],
)
def test_an_expression_is_printed_in_its_normal_form(text: str, normal: str) -> None:
    assert str(calendar(text, zone="UTC")) == normal


def test_a_weekday_and_a_date_must_both_hold() -> None:
    assert calendar("Fri *-*-13", zone="UTC").after(START) == datetime(2027, 8, 13, tzinfo=UTC)


def test_the_last_monday_in_may() -> None:
    rule = calendar("Mon *-05~07/1", zone="UTC")
    assert list(rule.between(START, datetime(2030, 1, 1, tzinfo=UTC))) == [
        datetime(2027, 5, 31, tzinfo=UTC),
        datetime(2028, 5, 29, tzinfo=UTC),
        datetime(2029, 5, 28, tzinfo=UTC),
    ]


def test_a_repetition_that_does_not_divide_the_hour_begins_anew_each_hour() -> None:
    rule = calendar("*:0/7", zone="UTC")
    assert rule.after(datetime(2026, 6, 1, 23, 56, tzinfo=UTC)) == datetime(2026, 6, 2, tzinfo=UTC)


def test_the_horizon_is_the_end_of_2199() -> None:
    rule = calendar("2199-12-31", zone="UTC")
    assert rule.after(START) == datetime(2199, 12, 31, tzinfo=UTC)
    assert rule.after(datetime(2199, 12, 31, tzinfo=UTC)) is None
    assert rule.at_or_before(datetime(2300, 1, 1, tzinfo=UTC)) == datetime(2199, 12, 31, tzinfo=UTC)
    assert rule.count(START, datetime(2300, 1, 1, tzinfo=UTC)) == 1


def test_a_microsecond_step_costs_nothing_to_count() -> None:
    rule = calendar("*:*:0/0.000001", zone="UTC")
    assert rule.count(START, datetime(2026, 11, 15, 11, 7, tzinfo=UTC)) == 3_600_000_000


@pytest.mark.parametrize(
    ("line", "expression"),
    [
        ("30 2 * * *", "02:30"),
        ("*/30 2 * * *", "02:0/30"),
        ("0 * * * *", "hourly"),
        ("0 */2 * * *", "0/2:00"),
        ("15 0-23 * * *", "00..23:15"),
        ("0,30 2 * * 0", "Sun 02:00,30"),
        ("0 9 * * 1-5", "Mon..Fri 09:00"),
    ],
)
def test_a_cron_line_rewritten_as_a_calendar_is_the_same_rule(line: str, expression: str) -> None:
    assert cron(line, zone="Europe/Berlin") == calendar(expression, zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("Mon..Foo", '"Foo" is not a weekday (character 6 of "Mon..Foo"); did you mean Fri?', 5),
        ("dayly", '"dayly" is not a weekday (character 1 of "dayly"); did you mean daily?', 0),
        ("25:00", 'hour 25 is out of range 0–23 (character 1 of "25:00")', 0),
        ("*-13-01", 'month 13 is out of range 1–12 (character 3 of "*-13-01")', 2),
        ("09:00:60", 'second 60 is out of range 0–59.999999 (character 7 of "09:00:60")', 6),
        (
            "Fri..Mon 09:00",
            'the range runs backwards: Fri to Mon (character 6 of "Fri..Mon 09:00")',
            5,
        ),
        ("*:30/30", 'a step of 30 from minute 30 leads nowhere (character 6 of "*:30/30")', 5),
        ("7", 'expected a time such as 09:00 or a date such as *-*-01 (character 2 of "7")', 1),
        ("", 'an empty text is not a calendar expression (character 1 of "")', 0),
        ("*-02-30", '"*-02-30" never occurs: no day between 1970 and 2199 is like that', 0),
        ("09:00 Berlin", '"Berlin" is not a time zone; did you mean Europe/Berlin?', 6),
        (
            "2300-01-01",
            'year 2300 is out of range 1970–2199 (character 1 of "2300-01-01")',
            0,
        ),
    ],
)
def test_a_wrong_expression_is_told_what_and_where(text: str, message: str, position: int) -> None:
    with pytest.raises(RuleError) as raised:
        calendar(text, zone="UTC")
    assert (str(raised.value), raised.value.position) == (message, position)


def test_an_expression_that_names_a_day_or_an_hour_needs_a_zone() -> None:
    assert calendar("minutely").zone == "UTC"
    assert calendar("*:0/15").zone == "UTC"
    for text in ("daily", "Mon", "*-*-01 *:00", "0/2:00"):
        with pytest.raises(RuleError, match="needs a time zone"):
            calendar(text)
