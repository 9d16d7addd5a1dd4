"""Cron lines: the grammar, Vixie's two subtleties, the extensions, and what is said when wrong."""

from datetime import UTC, datetime

import pytest

from duly import RuleError
from duly.rules import cron

START = datetime(2026, 11, 15, 10, 7, tzinfo=UTC)  # a Sunday


def days(line: str, count: int = 4, *, start: datetime = START) -> list[str]:
    rule = cron(line, zone="UTC")
    found = []
    for _ in range(count):
        moment = rule.after(start)
        assert moment is not None
        start = moment
        found.append(f"{start:%a %Y-%m-%d %H:%M:%S}".removesuffix(":00").removesuffix(" 00:00"))
    return found


def test_either_day_field_is_enough_when_both_are_restricted() -> None:
    assert days("0 0 20 * 1") == [
        "Mon 2026-11-16",
        "Fri 2026-11-20",
        "Mon 2026-11-23",
        "Mon 2026-11-30",
    ]


def test_both_day_fields_must_match_when_one_begins_with_a_star() -> None:
    assert days("0 0 */2 * 1", 3) == ["Mon 2026-11-23", "Mon 2026-12-07", "Mon 2026-12-21"]
    assert days("0 0 1-31/2 * 1", 3) == ["Mon 2026-11-16", "Tue 2026-11-17", "Thu 2026-11-19"]


def test_a_question_mark_stands_for_any_day() -> None:
    assert cron("0 0 ? * 1", zone="UTC") == cron("0 0 * * 1", zone="UTC")
    with pytest.raises(RuleError, match='"\\?" is not a minute'):
        cron("? 0 * * *", zone="UTC")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0 L * *", ["Mon 2026-11-30", "Thu 2026-12-31", "Sun 2027-01-31", "Sun 2027-02-28"]),
        ("0 0 L-2 * *", ["Sat 2026-11-28", "Tue 2026-12-29", "Fri 2027-01-29", "Fri 2027-02-26"]),
        ("0 0 LW * *", ["Mon 2026-11-30", "Thu 2026-12-31", "Fri 2027-01-29", "Fri 2027-02-26"]),
        ("0 0 15W * *", ["Mon 2026-11-16", "Tue 2026-12-15", "Fri 2027-01-15", "Mon 2027-02-15"]),
        ("0 0 1W * *", ["Tue 2026-12-01", "Fri 2027-01-01", "Mon 2027-02-01", "Mon 2027-03-01"]),
        ("0 0 * * 5L", ["Fri 2026-11-27", "Fri 2026-12-25", "Fri 2027-01-29", "Fri 2027-02-26"]),
        ("0 0 * * FRI#2", ["Fri 2026-12-11", "Fri 2027-01-08", "Fri 2027-02-12", "Fri 2027-03-12"]),
        ("0 0 * * 1#5", ["Mon 2026-11-30", "Mon 2027-03-29", "Mon 2027-05-31", "Mon 2027-08-30"]),
        ("0 0 1,L * *", ["Mon 2026-11-30", "Tue 2026-12-01", "Thu 2026-12-31", "Fri 2027-01-01"]),
    ],
)
def test_days_that_are_counted_from_an_end(line: str, expected: list[str]) -> None:
    assert days(line) == expected


def test_the_nearest_weekday_stays_in_its_month() -> None:
    on_saturday_the_first = datetime(2027, 4, 30, 12, tzinfo=UTC)
    assert days("0 0 1W * *", 1, start=on_saturday_the_first) == ["Mon 2027-05-03"]
    before_sunday_the_31st = datetime(2027, 1, 30, tzinfo=UTC)
    assert days("0 0 31W * *", 1, start=datetime(2027, 1, 1, tzinfo=UTC)) == ["Fri 2027-01-29"]
    assert days("0 0 31W * *", 1, start=before_sunday_the_31st) == ["Wed 2027-03-31"]


def test_ranges_wrap_round() -> None:
    assert cron("0 22-2 * * *", zone="UTC") == cron("0 22,23,0,1,2 * * *", zone="UTC")
    assert cron("0 0 * nov-feb *", zone="UTC") == cron("0 0 * 11,12,1,2 *", zone="UTC")
    assert cron("0 0 * * fri-mon", zone="UTC") == cron("0 0 * * 5,6,0,1", zone="UTC")
    assert cron("0 0 * * sat-sun", zone="UTC") == cron("0 0 * * 0,6", zone="UTC")
    assert cron("0 0 * * 5-7", zone="UTC") == cron("0 0 * * 5,6,7", zone="UTC")
    assert cron("0 22-4/2 * * *", zone="UTC") == cron("0 22,0,2,4 * * *", zone="UTC")


def test_six_fields_begin_with_seconds() -> None:
    assert days("*/20 59 23 * * *", 3) == [
        "Sun 2026-11-15 23:59",
        "Sun 2026-11-15 23:59:20",
        "Sun 2026-11-15 23:59:40",
    ]


@pytest.mark.parametrize(
    ("alias", "line"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@ANNUALLY", "0 0 1 1 *"),
    ],
)
def test_aliases_are_short_for_lines(alias: str, line: str) -> None:
    assert cron(alias, zone="UTC") == cron(line, zone="UTC")


def test_h_is_picked_by_the_name_and_stays() -> None:
    assert str(cron("H H * * *", zone="UTC", name="backup")) == "27 5 * * * UTC"
    assert str(cron("H H * * *", zone="UTC", name="report")) == "4 3 * * * UTC"


def test_h_spreads_names_over_the_whole_field() -> None:
    minutes = {str(cron("H * * * *", name=f"job {n}")).split()[0] for n in range(1000)}
    assert len(minutes) == 60


def test_h_keeps_to_its_range_and_step() -> None:
    for n in range(200):
        first, last = str(cron("H(0-29)/10 * * * *", name=f"job {n}")).split()[0].split("-")
        assert int(first) < 10
        assert last == "29/10"
        assert 9 <= int(str(cron("0 H(9-16) * * *", zone="UTC", name=f"{n}")).split()[1]) <= 16
        assert int(str(cron("0 0 H * *", zone="UTC", name=f"{n}")).split()[2]) <= 28


def test_two_lines_that_mean_the_same_are_equal() -> None:
    assert cron("0 9 * * MON-FRI", zone="UTC") == cron("0 9 * * 1-5", zone="UTC")
    assert cron("0 0 * * 7", zone="UTC") == cron("0 0 * * 0", zone="UTC")
    assert hash(cron("0 0 * * 7", zone="UTC")) == hash(cron("0 0 * * 0", zone="UTC"))
    assert cron("0 9 * * *", zone="UTC") != cron("0 9 * * *", zone="Europe/Berlin")
    assert cron("30 2 * * *", zone="UTC") != cron("30 2 * * *", zone="UTC", dst="systemd")


def test_a_zone_in_the_text_goes_before_the_default() -> None:
    assert cron("0 9 * * * Asia/Tokyo", zone="UTC").zone == "Asia/Tokyo"


@pytest.mark.parametrize("line", ["*/5 * * * *", "0 * * * *", "* * * * * *", "@hourly"])
def test_a_line_that_names_no_hour_and_no_day_needs_no_zone(line: str) -> None:
    assert cron(line).zone == "UTC"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("61 * * * *", 'minute 61 is out of range 0–59 (field 1 of "61 * * * *")'),
        ("0 24 * * *", 'hour 24 is out of range 0–23 (field 2 of "0 24 * * *")'),
        ("0 0 0 * *", 'day of month 0 is out of range 1–31 (field 3 of "0 0 0 * *")'),
        ("* * * foo *", '"foo" is not a month (field 4 of "* * * foo *"); did you mean feb?'),
        ("* * * * 8", 'day of week 8 is out of range 0–7 (field 5 of "* * * * 8")'),
        ("60 * * * * *", 'second 60 is out of range 0–59 (field 1 of "60 * * * * *")'),
        (
            "*/0 * * * *",
            '"0" in */0 is not a step; write a number from 1 (field 1 of "*/0 * * * *")',
        ),
        (
            "0 0 * * 1#6",
            '1#6 asks for the 6th such day of a month; it has 1 to 5 (field 5 of "0 0 * * 1#6")',
        ),
        (
            "0 0 31 2 *",
            '"0 0 31 2 *" never occurs: no day between 1970 and 2199 is like that',
        ),
        (
            "* * * *",
            "a cron line has 5 fields (minute hour day month weekday), or 6 with seconds first; "
            '"* * * *" has 4',
        ),
        (
            "@dayly",
            '"@dayly" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, '
            "@hourly; did you mean @daily?",
        ),
        ("@reboot", "@reboot is not a rule about time: run the task when your program starts"),
        (
            "H * * * *",
            "H is picked by the schedule's name: give one (name=, --name) "
            '(field 1 of "H * * * *")',
        ),
        (
            "0 9 * * *",
            '"0 9 * * *" names an hour, so it needs a time zone: write "0 9 * * * Europe/Berlin", '
            "or give the zone beside the rule (zone=, --zone)",
        ),
        (
            "* * 1 * *",
            '"* * 1 * *" names a day, so it needs a time zone: write "* * 1 * * Europe/Berlin", '
            "or give the zone beside the rule (zone=, --zone)",
        ),
        (
            "0 9 * * * Europe/Berln",
            '"Europe/Berln" is not a time zone; did you mean Europe/Berlin or Europe/Dublin?',
        ),
        ("٣ * * * *", '"٣" (character 1 of "٣ * * * *") is not an ASCII character'),
    ],
)
def test_a_wrong_line_is_told_what_is_wrong(line: str, message: str) -> None:
    with pytest.raises(RuleError) as raised:
        cron(line)
    assert str(raised.value) == message


def test_the_error_knows_the_place() -> None:
    with pytest.raises(RuleError) as raised:
        cron("0 0 1,99 * *", zone="UTC")
    assert (raised.value.position, raised.value.text) == (6, "0 0 1,99 * *")


def test_a_rule_has_at_most_256_characters() -> None:
    assert cron("0,1," * 61 + "0 * * * *").zone == "UTC"
    with pytest.raises(RuleError, match="at most 256 characters; this one has 257"):
        cron("0" * 249 + " * * * *")


def test_hostile_lines_are_answered_as_fast_as_any() -> None:
    leap_monday = cron("0 0 29 2 */7", zone="UTC")
    assert leap_monday.after(START) == datetime(2032, 2, 29, tzinfo=UTC)
    assert cron("0 0 29 2 1", zone="UTC").after(START) == datetime(2027, 2, 1, tzinfo=UTC)
