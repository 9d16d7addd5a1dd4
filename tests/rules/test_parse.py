"""Reading a rule of any kind: which kind it is, and what is said when it is none."""

import pytest

from duly import RuleError
from duly.rules import at, calendar, cron, every, parse, rrule, spaced


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("@daily UTC", cron("@daily", zone="UTC")),
        ("30 2 * * 1-5 Europe/Berlin", cron("30 2 * * 1-5", zone="Europe/Berlin")),
        ("0 30 2 * * 1-5 Europe/Berlin", cron("0 30 2 * * 1-5", zone="Europe/Berlin")),
        ("Mon..Fri 09:00 Europe/Berlin", calendar("Mon..Fri 09:00", zone="Europe/Berlin")),
        ("@1700000000", calendar("@1700000000")),
        ("minutely", calendar("minutely")),
        ("every 5m", every("5m")),
        ("spaced 10m", spaced("10m")),
        ("2026-12-24T17:00Z", at("2026-12-24T17:00Z")),
        (
            "DTSTART:20260105T090000Z RRULE:FREQ=DAILY",
            rrule("DTSTART:20260105T090000Z RRULE:FREQ=DAILY"),
        ),
        ("((every 5m))", every("5m")),
    ],
)
def test_the_kind_is_recognised(text: str, rule: object) -> None:
    assert parse(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        "every 5m | every 7m | 0 9 * * 1 UTC",
        "every 5m - every 10m - every 15m",
        "every 5m - (every 10m | every 15m)",
        "(every 5m | 0 9 * * 1 UTC) - dates(2026-12-24) UTC",
        "0 9 * * 1 UTC dst=quartz start=2026-12-01T00:00:00Z end=2027-12-01T00:00:00Z",
        "((0 9 * * * UTC | every 1h) start=2026-12-01T00:00:00Z count=7) jitter=1m seed=ff",
        "every 5m delay=1m30s",
        "every 5m - (0 22 * * * UTC lasting=8h)",
        "spaced 10m - holidays(DE-BE) Europe/Berlin",
    ],
)
def test_what_is_printed_is_read_back(text: str) -> None:
    rule = parse(text)
    assert str(rule) == text
    assert parse(str(rule)) == rule


def test_what_people_paste_from_elsewhere_is_understood() -> None:
    assert parse("OnCalendar=Mon..Fri 09:00 UTC") == parse("Mon..Fri 09:00 UTC")
    assert parse("CRON_TZ=Asia/Tokyo 0 9 * * *") == parse("0 9 * * * Asia/Tokyo")
    assert parse("TZ=Asia/Tokyo 0 9 * * *") == parse("0 9 * * * Asia/Tokyo")
    assert parse("@every 5m") == parse("every 5m") == parse("Every 5m")
    assert parse("every hour") == parse("every 1h")
    assert parse("every day at 9 UTC") == parse("every 1 day at 09:00 UTC")


def test_rules_are_joined_from_left_to_right() -> None:
    assert parse("every 5m - every 10m | every 20m") == (every("5m") - every("10m")) | every("20m")


def test_what_is_done_to_a_rule_binds_closer_than_what_joins_rules() -> None:
    assert str(parse("every 5m | every 7m delay=1m")) == "every 5m | (every 7m delay=1m)"


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "an empty text is not a rule", 0),
        ("every 5m | ", "an empty text is not a rule", 11),
        ("(every 5m", 'a "(" without its ")"', 0),
        ("every 5m)", 'a ")" without its "("', 8),
        ("every 5m | 61 * * * *", "minute 61 is out of range", 11),
        ("(every 5m | Mon..Foo 09:00 UTC)", '"Foo" is not a weekday', 17),
        ("foo bar", "a rule is a cron line of 5 or 6 fields, a calendar expression", 0),
        ("* * * *", "a cron line has 5 fields (minute hour day month weekday)", 0),
        ("0 9 * * * Berlin", "did you mean Europe/Berlin?", 10),
        ("09:00 UTC Asia/Tokyo", "has two time zones, UTC and Asia/Tokyo", 6),
        ("*/5 * * * * /bin/backup --all", "leave out the command", 0),
        ("every -5s", ': "-5s" is not a duration', 0),
        ("every 5m -holidays(DE)", 'put a space behind the "-"', 9),
        ("every 5m foo=bar", "foo= is not known", 9),
        ("every 5m | spaced 5m", "no fixed set of times", 11),
        ("(every 5m) every 7m", '"every" cannot follow a rule', 11),
        ("every 5m start=yesterday", '"yesterday" is not a time', 9),
        ("every 5m start=2026-12-01T00:00", "needs an offset", 9),
        ("every 5m count=x start=2026-12-01T00:00Z", 'count="x" is not a number', 9),
        ("every 5m delay=1m delay=2m", "delay= is there twice", 9),
        ("every 5m jitter=1m", "jitter= is picked by a name", 9),
        ("dates(2026-13-01) UTC", '"2026-13-01" is not a date', 0),
        ("(" * 20 + "every 5m" + ")" * 20, "parentheses are at most 16 deep", 17),
        ("x" * 257, "at most 256 characters", 256),
    ],
)
def test_what_cannot_be_read_is_told_what_and_where(text: str, message: str, position: int) -> None:
    with pytest.raises(RuleError) as raised:
        parse(text)
    assert message in str(raised.value)
    assert raised.value.position == position
    assert raised.value.text == text or len(text) > 256
