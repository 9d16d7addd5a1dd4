"""What happens to a rule when the clock changes: the choices, day by day.

Berlin loses 02:00–03:00 on 2027-03-28 and repeats 02:00–03:00 on 2027-10-31.
"""

from datetime import UTC, datetime, timedelta

import pytest

from duly import RuleError
from duly.rules import Rule, clock_change_notes, local_time, parse

SPRING = datetime(2027, 3, 27, 22, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
AUTUMN = datetime(2027, 10, 30, 22, tzinfo=UTC)


def on_the_day(text: str, start: datetime, zone: str = "Europe/Berlin") -> list[str]:
    """The local times of a rule in the 24 hours from ``start``, with their offsets."""
    rule = parse(text, zone=zone)
    found = rule.between(start - MICROSECOND, start + timedelta(hours=24) - MICROSECOND)
    return [f"{local_time(moment, zone):%H:%M%z}"[:-2] for moment in found]


@pytest.mark.parametrize(
    ("dst", "spring", "autumn"),
    [
        ("cron", ["03:00+02"], ["02:30+02"]),
        ("systemd", [], ["02:30+02"]),
        ("elapsed", [], ["02:30+02", "02:30+01"]),
        ("quartz", [], ["02:30+01"]),
        ("end/last", ["03:00+02"], ["02:30+01"]),
        ("shift/first", ["03:30+02"], ["02:30+02"]),
        ("shift/both", ["03:30+02"], ["02:30+02", "02:30+01"]),
    ],
)
def test_a_fixed_time_runs_as_chosen(dst: str, spring: list[str], autumn: list[str]) -> None:
    for text in ("30 2 * * *", "02:30", "every day at 02:30"):
        assert on_the_day(f"{text} Europe/Berlin dst={dst}", SPRING) == spring
        assert on_the_day(f"{text} Europe/Berlin dst={dst}", AUTUMN) == autumn


def test_the_default_is_debian_crons_for_cron_lines_and_calendars_alike() -> None:
    for text in ("30 2 * * *", "02:30"):
        assert on_the_day(text, SPRING) == ["03:00+02"]
        assert on_the_day(text, AUTUMN) == ["02:30+02"]
    for text in ("*/30 2 * * *", "02:0/30"):
        assert on_the_day(text, SPRING) == []
        assert on_the_day(text, AUTUMN) == ["02:00+02", "02:30+02", "02:00+01", "02:30+01"]


def test_an_hourly_rule_runs_every_hour_through_both_changes() -> None:
    for text in ("0 * * * *", "hourly"):
        assert len(on_the_day(text, SPRING)) == len(on_the_day(text, AUTUMN)) == 24


def test_a_gap_makes_up_for_many_lost_times_with_one_run() -> None:
    assert on_the_day("0,15,30,45 2 * * *", SPRING) == ["03:00+02"]


def test_what_is_made_up_for_merges_with_what_is_due_anyway() -> None:
    assert on_the_day("0 2,3 * * *", SPRING) == ["03:00+02"]
    assert on_the_day("30 2,3 * * * Europe/Berlin dst=shift/first", SPRING) == ["03:30+02"]


def test_a_day_that_never_was_is_not_made_up_for() -> None:
    in_samoa = datetime(2011, 12, 29, 11, tzinfo=UTC)  # 01:00 on the 29th; there is no 30th
    rule = parse("0 12 * * * Pacific/Apia")
    found = rule.between(in_samoa, in_samoa + timedelta(hours=40))
    assert [f"{local_time(moment, 'Pacific/Apia'):%d %H:%M}" for moment in found] == [
        "29 12:00",
        "31 12:00",
    ]


def test_half_hour_and_midnight_changes_are_exact() -> None:
    lord_howe = datetime(2026, 10, 3, 14, tzinfo=UTC)
    assert on_the_day("15 2 * * *", lord_howe, "Australia/Lord_Howe") == ["02:30+11"]
    cairo = datetime(2026, 4, 23, 21, tzinfo=UTC)
    assert on_the_day("0 0 * * *", cairo, "Africa/Cairo") == ["01:00+03"]


def test_elapsed_time_does_not_know_the_wall_clock() -> None:
    daily, elapsed = "every 1 day at 09:00", "every 24h from 2027-03-01T08:00Z"
    assert on_the_day(daily, SPRING) == ["09:00+02"]
    assert on_the_day(elapsed, SPRING) == ["10:00+02"]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (
            "30 2 * * * Europe/Berlin",
            [
                "2027-03-28 02:30 does not exist in Europe/Berlin: will run at 03:00.",
                "2027-10-31 02:30 happens twice in Europe/Berlin: will run once, the first time.",
            ],
        ),
        (
            "02:30 Europe/Berlin dst=quartz",
            [
                "2027-03-28 02:30 does not exist in Europe/Berlin: will not run.",
                "2027-10-31 02:30 happens twice in Europe/Berlin: will run once, the second time.",
            ],
        ),
        (
            "*/30 2 * * * Europe/Berlin",
            [
                "2027-03-28 02:00 and 02:30 do not exist in Europe/Berlin: will not run.",
                "2027-10-31 02:00 and 02:30 happen twice in Europe/Berlin: will run both times.",
            ],
        ),
        (
            "hourly Europe/Berlin dst=systemd",
            ["2027-10-31 02:00 happens twice in Europe/Berlin: will run once, the first time."],
        ),
        (
            "0-9 2 * * * Europe/Berlin dst=shift/first",
            [
                "2027-03-28 02:00, 02:01, 02:02 and 7 more times do not exist in Europe/Berlin: "
                "will run 60 minutes later.",
                "2027-10-31 02:00, 02:01, 02:02 and 7 more times happen twice in Europe/Berlin: "
                "will run once, the first time.",
            ],
        ),
        ("0 9 * * * Europe/Berlin", []),
        ("0 * * * * Europe/Berlin", []),
        ("30 2 * * * UTC", []),
        ("every 5m", []),
    ],
)
def test_a_preview_names_the_changes_that_make_a_difference(text: str, notes: list[str]) -> None:
    rule = parse(text)
    assert isinstance(rule, Rule)
    assert clock_change_notes(rule, datetime(2026, 11, 15, tzinfo=UTC)) == notes


def test_a_preview_looks_into_combinations() -> None:
    rule = parse("(30 2 * * * Europe/Berlin | every 5m) - dates(2027-01-01) UTC")
    assert isinstance(rule, Rule)
    assert len(clock_change_notes(rule, SPRING)) == 2


def test_an_unknown_choice_lists_the_known_ones() -> None:
    with pytest.raises(RuleError, match="take cron, systemd, elapsed, quartz, or gap/fold"):
        parse("30 2 * * * UTC dst=never")
