"""Recurrences: against the RFC's own examples, against dateutil, and across clock changes."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, takewhile

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import RuleError, ZoneMissing
from duly.rules.cron import cron
from duly.rules.recurrence import rrule
from duly.rules.rule import Rule
from duly.rules.zone import local_time

NEW_YORK = "DTSTART;TZID=America/New_York:19970902T090000 RRULE:"
BERLIN = "DTSTART;TZID=Europe/Berlin:20260105T090000 RRULE:"
PLAIN = "DTSTART:20260105T090000Z RRULE:"
BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(days=1)
AFTER_ALL = datetime(2200, 1, 3, tzinfo=UTC)


def moments(rule: Rule, limit: int = 1000) -> list[datetime]:
    return list(rule.between(BEFORE_ALL, AFTER_ALL, limit))


def local(rule: Rule, limit: int = 1000) -> list[str]:
    return [f"{local_time(at, rule.zone or 'UTC'):%Y-%m-%d %H:%M}" for at in moments(rule, limit)]


def days(rule: Rule, limit: int) -> str:
    """``1997: 9/2 9/3; 1998: 1/1``, the way the RFC lists its examples."""
    years: dict[int, list[str]] = {}
    for at in moments(rule, limit):
        day = local_time(at, rule.zone or "UTC")
        years.setdefault(day.year, []).append(f"{day.month}/{day.day}")
    return "; ".join(f"{year}: {' '.join(found)}" for year, found in years.items())


# -- what RFC 5545 says, section 3.8.5.3 -----------------------------------------------------------

RFC_EXAMPLES = [
    ("19970902", "FREQ=DAILY;COUNT=10", "1997: 9/2 9/3 9/4 9/5 9/6 9/7 9/8 9/9 9/10 9/11"),
    ("19970902", "FREQ=DAILY;INTERVAL=2", "1997: 9/2 9/4 9/6 9/8 9/10 9/12"),
    ("19970902", "FREQ=DAILY;INTERVAL=10;COUNT=5", "1997: 9/2 9/12 9/22 10/2 10/12"),
    ("19970902", "FREQ=WEEKLY;COUNT=7", "1997: 9/2 9/9 9/16 9/23 9/30 10/7 10/14"),
    ("19970902", "FREQ=WEEKLY;INTERVAL=2;WKST=SU", "1997: 9/2 9/16 9/30 10/14 10/28 11/11"),
    (
        "19970902",
        "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH",
        "1997: 9/2 9/4 9/9 9/11 9/16 9/18 9/23 9/25 9/30 10/2",
    ),
    (
        "19970902",
        "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH",
        "1997: 9/2 9/4 9/16 9/18 9/30 10/2 10/14 10/16",
    ),
    (
        "19970905",
        "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
        "1997: 9/5 10/3 11/7 12/5; 1998: 1/2 2/6 3/6 4/3 5/1 6/5",
    ),
    (
        "19970907",
        "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
        "1997: 9/7 9/28 11/2 11/30; 1998: 1/4 1/25 3/1 3/29 5/3 5/31",
    ),
    (
        "19970922",
        "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO",
        "1997: 9/22 10/20 11/17 12/22; 1998: 1/19 2/16",
    ),
    (
        "19970928",
        "FREQ=MONTHLY;BYMONTHDAY=-3",
        "1997: 9/28 10/29 11/28 12/29; 1998: 1/29 2/26",
    ),
    (
        "19970902",
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
        "1997: 9/2 9/15 10/2 10/15 11/2 11/15 12/2 12/15; 1998: 1/2 1/15",
    ),
    (
        "19970930",
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
        "1997: 9/30 10/1 10/31 11/1 11/30 12/1 12/31; 1998: 1/1 1/31 2/1",
    ),
    (
        "19970910",
        "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
        "1997: 9/10 9/11 9/12 9/13 9/14 9/15; 1999: 3/10 3/11 3/12 3/13",
    ),
    ("19970902", "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", "1997: 9/2 9/9 9/16 9/23 9/30 11/4 11/11"),
    ("19970610", "FREQ=YEARLY;COUNT=4;BYMONTH=6,7", "1997: 6/10 7/10; 1998: 6/10 7/10"),
    (
        "19970310",
        "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
        "1997: 3/10; 1999: 1/10 2/10 3/10; 2001: 1/10 2/10 3/10; 2003: 1/10 2/10 3/10",
    ),
    (
        "19970101",
        "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
        "1997: 1/1 4/10 7/19; 2000: 1/1 4/9 7/18; 2003: 1/1 4/10 7/19; 2006: 1/1",
    ),
    ("19970519", "FREQ=YEARLY;BYDAY=20MO", "1997: 5/19; 1998: 5/18; 1999: 5/17"),
    ("19970512", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997: 5/12; 1998: 5/11; 1999: 5/17"),
    (
        "19970313",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
        "1997: 3/13 3/20 3/27; 1998: 3/5 3/12 3/19 3/26; 1999: 3/4 3/11 3/18 3/25",
    ),
    (
        "19970902",
        "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
        "1998: 2/13 3/13 11/13; 1999: 8/13; 2000: 10/13",
    ),
    (
        "19970913",
        "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
        "1997: 9/13 10/11 11/8 12/13; 1998: 1/10 2/7 3/7 4/11 5/9 6/13",
    ),
    (
        "19961105",
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
        "1996: 11/5; 2000: 11/7; 2004: 11/2",
    ),
    ("19970904", "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997: 9/4 10/7 11/6"),
    (
        "19970929",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
        "1997: 9/29 10/30 11/27 12/30; 1998: 1/29 2/26 3/30",
    ),
    ("20070115", "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "2007: 1/15 1/30 2/15 3/15 3/30"),
]


@pytest.mark.parametrize(("start", "rule", "expected"), RFC_EXAMPLES)
def test_the_examples_of_the_rfc_fall_on_the_days_it_lists(
    start: str, rule: str, expected: str
) -> None:
    found = rrule(f"DTSTART;TZID=America/New_York:{start}T090000 RRULE:{rule}")
    assert days(found, expected.count("/")) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T190000Z", "09:00 12:00 15:00"),
        ("FREQ=MINUTELY;INTERVAL=15;COUNT=6", "09:00 09:15 09:30 09:45 10:00 10:15"),
        ("FREQ=MINUTELY;INTERVAL=90;COUNT=4", "09:00 10:30 12:00 13:30"),
        ("FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,20,40;COUNT=5", "09:00 09:20 09:40 10:00 10:20"),
        ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10;COUNT=6", "09:00 09:20 09:40 10:00 10:20 10:40"),
    ],
)
def test_the_examples_of_the_rfc_happen_at_the_times_it_lists(rule: str, expected: str) -> None:
    assert " ".join(at.split()[1] for at in local(rrule(NEW_YORK + rule))) == expected


def test_a_week_begins_where_the_rule_says() -> None:
    weekly = "DTSTART;TZID=America/New_York:19970805T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=4;"
    assert days(rrule(weekly + "BYDAY=TU,SU;WKST=MO"), 5) == "1997: 8/5 8/10 8/19 8/24"
    assert days(rrule(weekly + "BYDAY=TU,SU;WKST=SU"), 5) == "1997: 8/5 8/17 8/19 8/31"


def test_a_day_that_a_month_lacks_is_skipped() -> None:
    rule = rrule("DTSTART:20260131T120000Z RRULE:FREQ=MONTHLY")
    assert days(rule, 4) == "2026: 1/31 3/31 5/31 7/31"


def test_leap_day_comes_every_four_years() -> None:
    rule = rrule("DTSTART:20240229T120000Z RRULE:FREQ=YEARLY")
    assert [at.year for at in moments(rule, 20)] == [*range(2024, 2097, 4), 2104]


# -- compared with dateutil ------------------------------------------------------------------------

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
COARSE = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
INTERVALS = {
    "YEARLY": range(1, 5),
    "MONTHLY": range(1, 19),
    "WEEKLY": range(1, 7),
    "DAILY": range(1, 40),
    "HOURLY": [1, 2, 5, 6, 7, 11, 25, 36, 100],
    "MINUTELY": [1, 5, 7, 15, 45, 50, 97, 1440, 2000],
    "SECONDLY": [1, 2, 10, 30, 60, 420, 3600, 5400],
}
SPANS = {
    "YEARLY": timedelta(days=9000),
    "MONTHLY": timedelta(days=3000),
    "WEEKLY": timedelta(days=1500),
    "DAILY": timedelta(days=900),
    "HOURLY": timedelta(days=40),
    "MINUTELY": timedelta(days=2),
    "SECONDLY": timedelta(hours=3),
}

# For each part of numbers: how likely it is, its limits, the most numbers, and whether signed.
NUMBERS = {
    "BYMONTH": (0.3, 1, 12, 4, False),
    "BYYEARDAY": (0.1, 1, 366, 9, True),
    "BYMONTHDAY": (0.25, 1, 31, 6, True),
    "BYHOUR": (0.3, 0, 23, 4, False),
    "BYMINUTE": (0.3, 0, 59, 4, False),
    "BYSECOND": (0.2, 0, 59, 3, False),
    "BYSETPOS": (0.3, 1, 6, 3, True),
}


def recurrence(dice: random.Random, frequency: str) -> tuple[datetime, str]:
    """A rule and its start.

    Left out is what dateutil gets wrong: weeks by number have a test of their own below, a BYDAY
    has numbers everywhere or nowhere, and a week with BYSETPOS begins on its first day.
    """
    start = datetime(dice.randint(1970, 2030), 1, 1) + timedelta(  # noqa: DTZ001 - a wall time
        days=dice.randrange(365), hours=dice.randrange(24), minutes=dice.choice([0, 0, 17, 30])
    )
    week_start = dice.choice([0, 0, 6, 3])
    interval = dice.choice(INTERVALS[frequency])
    parts = [f"FREQ={frequency};INTERVAL={interval};WKST={WEEKDAYS[week_start]}"]
    for name, (chance, low, high, most, signed) in NUMBERS.items():
        if dice.random() < chance and (name != "BYSETPOS" or frequency in COARSE):
            numbers = [dice.randint(low, high) for _ in range(dice.randint(1, most))]
            signs = [-1, 1] if signed else [1]
            parts.append(f"{name}={','.join(str(n * dice.choice(signs)) for n in numbers)}")
    if dice.random() < 0.4:
        numbered = frequency in ("YEARLY", "MONTHLY") and dice.random() < 0.5
        chosen = dice.sample(WEEKDAYS, dice.randint(1, 5))
        parts.append(
            "BYDAY="
            + ",".join(f"{dice.choice([1, 4, -2]) if numbered else ''}{day}" for day in chosen)
        )
    if frequency == "WEEKLY" and "BYSETPOS" in ";".join(parts):
        start += timedelta(days=(week_start - start.weekday()) % 7)
    until = start + SPANS[frequency] * dice.random() + timedelta(hours=1)
    ends = ["", "", f";COUNT={dice.randint(1, 40)}", f";UNTIL={until:%Y%m%dT%H%M%S}"]
    return start, ";".join(parts) + dice.choice(ends)


def oracle(start: datetime, rule: str, end: datetime) -> list[datetime]:
    """What dateutil finds up to ``end``; it is stopped there, or it would walk to the year 9999."""
    if "COUNT" not in rule and "UNTIL" not in rule:
        rule += f";UNTIL={end:%Y%m%dT%H%M%S}"
    walk: Iterator[datetime] = iter(rrulestr(f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{rule}"))
    return [at.replace(tzinfo=UTC) for at in takewhile(lambda at: at <= end, walk)]


@pytest.mark.parametrize("frequency", SPANS)
def test_it_agrees_with_dateutil(frequency: str) -> None:
    dice = random.Random(f"{frequency}:1")
    compared = 0
    while compared < 50:
        start, text = recurrence(dice, frequency)
        try:
            rule = rrule(f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{text}", zone="UTC")
        except RuleError:
            continue
        end = start + SPANS[frequency]
        first = rule.after(BEFORE_ALL)
        if first is None or first > end.replace(tzinfo=UTC):
            continue
        expected = oracle(start, text, end)
        check_answers(rule, expected, end.replace(tzinfo=UTC), dice)
        assert rrule(str(rule)) == rule
        compared += 1


def check_answers(rule: Rule, expected: list[datetime], end: datetime, dice: random.Random) -> None:
    assert list(rule.between(BEFORE_ALL, end, 100_000)) == expected, str(rule)
    assert rule.count(BEFORE_ALL, end) == len(expected), str(rule)
    for _ in range(10):
        moment = min(dice.choice(expected) + timedelta(seconds=dice.choice([-1, 0, 1, 1800])), end)
        passed = bisect_right(expected, moment)
        assert rule.at_or_before(moment) == (expected[passed - 1] if passed else None), str(rule)
        assert rule.count(BEFORE_ALL, moment) == passed, str(rule)


def test_a_rule_that_never_occurs_for_dateutil_is_refused() -> None:
    dice = random.Random("never")
    refused = 0
    while refused < 5:
        start, text = recurrence(dice, "MONTHLY")
        try:
            rrule(f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{text}", zone="UTC")
        except RuleError as error:
            assert "never occurs" in error.message
            assert oracle(start, text, datetime(2199, 12, 31)) == []  # noqa: DTZ001 - a wall time
            refused += 1


# -- where dateutil is wrong, or other than the RFC -----------------------------------------------


@pytest.mark.parametrize("numbers", [[1], [52], [53], [-1], [-52], [-53], [20, -30]])
def test_weeks_by_number_are_iso_weeks_on_both_sides_of_new_year(numbers: list[int]) -> None:
    text = f"DTSTART:19990101T000000Z RRULE:FREQ=YEARLY;BYWEEKNO={','.join(map(str, numbers))}"
    every_day = [date(1999, 1, 1) + timedelta(days=day) for day in range(40 * 365)]

    def wanted(day: date) -> bool:
        year, week, _ = day.isocalendar()
        weeks = date(year, 12, 28).isocalendar().week
        return week in numbers or week - weeks - 1 in numbers

    end = datetime.combine(every_day[-1], datetime.max.time(), UTC)
    found = [at.date() for at in rrule(text).between(BEFORE_ALL, end, 10_000)]
    assert found == [day for day in every_day if wanted(day)]


def test_weekdays_with_and_without_a_number_are_joined() -> None:
    assert days(rrule(f"{PLAIN}FREQ=MONTHLY;BYDAY=MO,2TU;COUNT=6"), 9) == (
        "2026: 1/5 1/12 1/13 1/19 1/26 2/2"
    )


def test_positions_in_a_week_count_from_its_beginning_even_before_the_start() -> None:
    wednesday = "DTSTART:20260107T090000Z RRULE:"
    rule = rrule(f"{wednesday}FREQ=WEEKLY;BYDAY=MO,TH,FR;BYSETPOS=1;COUNT=2")
    assert days(rule, 9) == "2026: 1/12 1/19"


def test_positions_in_a_week_reach_over_new_year() -> None:
    rule = rrule("DTSTART:20261228T090000Z RRULE:FREQ=WEEKLY;BYDAY=MO,FR,SU;BYSETPOS=2,3;COUNT=3")
    assert days(rule, 9) == "2027: 1/1 1/3 1/8"


def test_positions_pick_days_together_with_their_times() -> None:
    rule = rrule(f"{PLAIN}FREQ=MONTHLY;BYDAY=MO;BYHOUR=9,17;BYSETPOS=2,3,-1;COUNT=4")
    assert local(rule) == [
        "2026-01-05 17:00",
        "2026-01-12 09:00",
        "2026-01-26 17:00",
        "2026-02-02 17:00",
    ]


# -- beginnings and ends ---------------------------------------------------------------------------


def test_the_start_is_a_moment_only_if_the_rule_has_it() -> None:
    assert days(rrule(f"{PLAIN}FREQ=DAILY;BYDAY=TU;COUNT=2"), 9) == "2026: 1/6 1/13"


def test_nothing_happens_before_the_start_on_its_day() -> None:
    rule = rrule(f"{PLAIN}FREQ=DAILY;BYHOUR=8,10;COUNT=3")
    assert local(rule) == ["2026-01-05 10:00", "2026-01-06 08:00", "2026-01-06 10:00"]


def test_the_last_moment_may_be_the_one_at_until() -> None:
    for until in ("20260107T090000Z", "20260107T090000"):
        assert days(rrule(f"{PLAIN}FREQ=DAILY;UNTIL={until}"), 9) == "2026: 1/5 1/6 1/7"
    assert days(rrule(f"{PLAIN}FREQ=DAILY;UNTIL=20260107"), 9) == "2026: 1/5 1/6"


def test_until_in_the_year_9999_means_no_end() -> None:
    rule = rrule(f"{PLAIN}FREQ=YEARLY;UNTIL=99991231T235959Z")
    assert moments(rule)[-1].year == 2199
    assert rrule(str(rule)) == rule
    assert "until 9999-12-31 23:59:59" in rule.explain()


def test_a_local_until_is_on_the_clock_of_the_start() -> None:
    assert days(rrule(f"{BERLIN}FREQ=DAILY;UNTIL=20260106T090000"), 9) == "2026: 1/5 1/6"
    assert days(rrule(f"{BERLIN}FREQ=DAILY;UNTIL=20260106T080000Z"), 9) == "2026: 1/5 1/6"
    assert days(rrule(f"{BERLIN}FREQ=DAILY;UNTIL=20260106T075959Z"), 9) == "2026: 1/5"


def test_a_count_that_the_calendar_does_not_reach_is_no_end() -> None:
    assert moments(rrule(f"{PLAIN}FREQ=YEARLY;COUNT=999999999"))[-1].year == 2199


def test_added_and_removed_dates_do_not_change_what_is_counted() -> None:
    rule = rrule(
        f"{PLAIN}FREQ=DAILY;COUNT=4 RDATE:20260105T090000Z,20260120T100000Z,20251224T180000Z "
        "EXDATE:20260106T090000Z,20260107T000000Z,20260120T100000Z"
    )
    assert days(rule, 9) == "2025: 12/24; 2026: 1/5 1/7 1/8"
    assert rule.count(BEFORE_ALL, AFTER_ALL) == 4
    assert rule.at_or_before(datetime(2026, 1, 7, tzinfo=UTC)) == datetime(
        2026, 1, 5, 9, tzinfo=UTC
    )


def test_a_removed_day_removes_midnight_from_a_rule_of_days() -> None:
    text = "DTSTART;VALUE=DATE:20260105 RRULE:FREQ=DAILY;COUNT=3 EXDATE;VALUE=DATE:20260106"
    assert local(rrule(text, zone="Europe/Berlin")) == ["2026-01-05 00:00", "2026-01-07 00:00"]


# -- zones and clock changes -----------------------------------------------------------------------


def test_a_daily_rule_keeps_its_wall_time_when_the_clock_changes() -> None:
    rule = rrule("DTSTART;TZID=Europe/Berlin:20260328T090000 RRULE:FREQ=DAILY;COUNT=3")
    assert [f"{at:%d %H:%M}" for at in moments(rule)] == ["28 08:00", "29 07:00", "30 07:00"]


def test_a_daily_rule_in_the_lost_hour_runs_when_the_hour_ends() -> None:
    daily = "DTSTART;TZID=Europe/Berlin:20260328T023000 RRULE:FREQ=DAILY;COUNT=3"
    assert local(rrule(daily)) == ["2026-03-28 02:30", "2026-03-29 03:00", "2026-03-30 02:30"]
    assert local(rrule(f"{daily} dst=systemd"))[1] == "2026-03-30 02:30"
    assert local(rrule(daily, dst="shift/first"))[1] == "2026-03-29 03:30"


def test_a_daily_rule_in_the_repeated_hour_runs_once() -> None:
    daily = "DTSTART;TZID=Europe/Berlin:20261025T023000 RRULE:FREQ=DAILY;COUNT=2"
    assert [f"{at:%d %H:%M}" for at in moments(rrule(daily))] == ["25 00:30", "26 01:30"]
    last = rrule(daily, dst="quartz")
    assert [f"{at:%d %H:%M}" for at in moments(last)] == ["25 01:30", "26 01:30"]


def test_an_hourly_rule_runs_through_a_clock_change_hour_by_hour() -> None:
    for day in ("20260329", "20261025"):
        rule = rrule(f"DTSTART;TZID=Europe/Berlin:{day}T000000 RRULE:FREQ=HOURLY;COUNT=6")
        found = moments(rule)
        assert {later - at for at, later in pairwise(found)} == {timedelta(hours=1)}


def test_a_start_in_the_lost_hour_is_when_the_hour_ends() -> None:
    rule = rrule("DTSTART;TZID=Europe/Berlin:20260329T023000 RRULE:FREQ=DAILY;COUNT=2")
    assert local(rule) == ["2026-03-29 03:00", "2026-03-30 02:30"]
    shifted = rrule(str(rule), dst="shift/first")
    assert local(shifted) == ["2026-03-29 03:30", "2026-03-30 02:30"]


def test_an_exception_in_the_repeated_hour_removes_both_of_its_passes() -> None:
    hourly = "DTSTART;TZID=Europe/Berlin:20261025T010000 RRULE:FREQ=HOURLY;COUNT=4"
    assert len(moments(rrule(hourly))) == 4
    without = rrule(f"{hourly} EXDATE;TZID=Europe/Berlin:20261025T020000")
    assert [f"{at:%d %H:%M}" for at in moments(without)] == ["24 23:00", "25 02:00"]


def test_dates_may_be_in_another_zone_than_the_start() -> None:
    rule = rrule(f"{BERLIN}FREQ=DAILY;COUNT=2 EXDATE;TZID=America/New_York:20260105T030000")
    assert local(rule) == ["2026-01-06 09:00"]


def test_the_zone_comes_from_the_text_before_the_argument() -> None:
    floating = "DTSTART:20260105T090000 RRULE:FREQ=DAILY"
    assert rrule(floating, zone="Asia/Tokyo").zone == "Asia/Tokyo"
    assert rrule(f"{floating} Asia/Tokyo", zone="UTC").zone == "Asia/Tokyo"
    assert rrule(f"{BERLIN}FREQ=DAILY", zone="Asia/Tokyo").zone == "Europe/Berlin"
    assert rrule(f"{PLAIN}FREQ=DAILY", zone="Asia/Tokyo").zone == "UTC"


# -- cost ------------------------------------------------------------------------------------------


def test_a_rule_from_1970_answers_without_walking_from_there() -> None:
    rule = rrule("DTSTART:19700101T000000Z RRULE:FREQ=MINUTELY;INTERVAL=5")
    now = datetime(2026, 11, 15, 12, 1, tzinfo=UTC)
    for step in range(10_000):
        moment = now + timedelta(minutes=5 * step)
        assert rule.after(moment) == moment + timedelta(minutes=4)


def test_fifty_million_moments_are_counted_without_walking() -> None:
    rule = rrule("DTSTART:19700101T000000Z RRULE:FREQ=SECONDLY;INTERVAL=30;COUNT=50000000")
    last = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=30 * 49_999_999)
    assert rule.at_or_before(AFTER_ALL) == last
    assert rule.count(BEFORE_ALL, AFTER_ALL) == 50_000_000


def test_a_step_that_drifts_through_the_day_is_exact_after_a_century() -> None:
    rule = rrule("DTSTART:19700101T000000Z RRULE:FREQ=MINUTELY;INTERVAL=7")
    step = timedelta(minutes=7)
    end = datetime(2170, 6, 1, tzinfo=UTC)
    steps = (end - datetime(1970, 1, 1, tzinfo=UTC)) // step
    assert rule.at_or_before(end) == datetime(1970, 1, 1, tzinfo=UTC) + steps * step
    assert rule.count(BEFORE_ALL, end) == steps + 1


# -- beside other rules ----------------------------------------------------------------------------


def test_it_combines_with_other_rules() -> None:
    end = datetime(2026, 2, 1, tzinfo=UTC)
    workdays = rrule(f"{BERLIN}FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR")
    mondays = cron("0 9 * * mon", zone="Europe/Berlin")
    assert (workdays - mondays).count(BEFORE_ALL, end) == 16
    assert (workdays | mondays).count(datetime(2026, 1, 1, tzinfo=UTC), end) == 20


def test_drifting_rules_share_the_moments_that_both_have() -> None:
    fives = rrule(f"{PLAIN}FREQ=HOURLY;INTERVAL=5")
    sevens = rrule(f"{PLAIN}FREQ=HOURLY;INTERVAL=7")
    end = datetime(2026, 1, 12, 9, tzinfo=UTC)
    assert (fives | sevens).count(BEFORE_ALL, end) == 34 + 25 - 5


# -- text and sentences ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (f"{BERLIN}FREQ=DAILY", f"{BERLIN}FREQ=DAILY"),
        (
            "rrule:freq=weekly;interval=1;wkst=mo;byday=we,mo,we;\r\n"
            "dtstart;value=date-time;tzid=Europe/Berlin:20260105t090000",
            f"{BERLIN}FREQ=WEEKLY;BYDAY=MO,WE",
        ),
        (
            "DTSTART;VALUE=DATE:20260105 RRULE:FREQ=DAILY Europe/Berlin dst=systemd",
            "DTSTART;TZID=Europe/Berlin:20260105T000000 RRULE:FREQ=DAILY dst=systemd",
        ),
        (
            "EXDATE:20260108T090000 RDATE:20260109T090000,20260107T090000Z RRULE:FREQ=DAILY "
            'DTSTART;TZID="Europe/Berlin":20260105T090000 EXDATE:20260107T090000',
            f"{BERLIN}FREQ=DAILY RDATE;TZID=Europe/Berlin:20260109T090000 "
            "RDATE:20260107T090000Z EXDATE;TZID=Europe/Berlin:20260107T090000,20260108T090000",
        ),
        (
            f"{PLAIN}BYSETPOS=-1;BYSECOND=0;BYMINUTE=0;BYHOUR=9;BYDAY=-1SU,+1FR;BYMONTHDAY=31,-1,1;"
            "BYYEARDAY=1,31;BYMONTH=1;WKST=SU;UNTIL=20300101;INTERVAL=2;FREQ=YEARLY RDATE:20270101",
            f"{PLAIN}FREQ=YEARLY;INTERVAL=2;UNTIL=20300101T000000Z;WKST=SU;BYDAY=1FR,-1SU;"
            "BYMONTH=1;BYYEARDAY=1,31;BYMONTHDAY=-1,1,31;BYHOUR=9;BYMINUTE=0;BYSECOND=0;BYSETPOS=-1"
            " RDATE:20270101T000000Z",
        ),
    ],
)
def test_the_text_has_one_order_and_reads_back(text: str, canonical: str) -> None:
    rule = rrule(text)
    assert str(rule) == canonical
    assert rrule(canonical) == rule
    assert hash(rrule(canonical)) == hash(rule)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"{BERLIN}FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=10",
            "Every 2 weeks on Monday and Wednesday at 09:00 Europe/Berlin, from 2026-01-05, "
            "10 times.",
        ),
        (f"{PLAIN}FREQ=YEARLY", "Every year on the 5th of January at 09:00 UTC, from 2026-01-05."),
        (
            f"{PLAIN}FREQ=MONTHLY;BYDAY=2TU,-1FR;COUNT=1",
            "Every month on the 2nd Tuesday and the last Friday at 09:00 UTC, from 2026-01-05, "
            "once.",
        ),
        (
            f"{PLAIN}FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;UNTIL=20270101",
            "Every month on every Monday to Friday at 09:00 UTC, only the last of them, "
            "from 2026-01-05, until 2027-01-01 00:00.",
        ),
        (
            f"{PLAIN}FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13,-2",
            "Every month on every Friday if it is the 13th and the 2nd last day at 09:00 UTC, "
            "from 2026-01-05.",
        ),
        (
            f"{PLAIN}FREQ=YEARLY;BYDAY=20MO;BYHOUR=8,9,10,11,12",
            "Every year on the 20th Monday of the year every hour from 08:00 to 12:00 UTC, "
            "from 2026-01-05.",
        ),
        (
            f"{PLAIN}FREQ=YEARLY;BYWEEKNO=20,-1;BYDAY=MO",
            "Every year on every Monday in week 20 and the last week of the year at 09:00 UTC, "
            "from 2026-01-05.",
        ),
        (
            f"{PLAIN}FREQ=YEARLY;BYYEARDAY=100,-1",
            "Every year on the 100th and last day of the year at 09:00 UTC, from 2026-01-05.",
        ),
        (
            f"{BERLIN}FREQ=HOURLY;INTERVAL=2;BYDAY=MO,TU;BYHOUR=9,11,13;BYMINUTE=0,30",
            "Every 2 hours on Monday and Tuesday in hours 9, 11 and 13 at minutes 0 and 30, "
            "from 2026-01-05 09:00 Europe/Berlin.",
        ),
        (
            f"{BERLIN}FREQ=DAILY RDATE:20260107T100030Z "
            "EXDATE:20260106T090000,20260107T090000,20260108T090000,20260109T090000",
            "Every day at 09:00 Europe/Berlin, from 2026-01-05; also 2026-01-07 10:00:30 UTC; "
            "except 2026-01-06 09:00, 2026-01-07 09:00, 2026-01-08 09:00 and 1 more times.",
        ),
    ],
)
def test_it_explains_itself(text: str, sentence: str) -> None:
    assert rrule(text).explain() == sentence


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("", "has no RRULE", ""),
        (
            "RRULE:FREQ=DAILY",
            'does not say when it starts; write "DTSTART;TZID=Europe/Berlin:20260105T090000 '
            'RRULE:FREQ=DAILY"',
            "RRULE",
        ),
        ("DTSTART:20260105T090000Z", "has no RRULE", ""),
        (f"{PLAIN}FREQ=DAILY RRULE:FREQ=DAILY", "has one RRULE; join two rules with |", "RRULE:"),
        (f"{PLAIN}FREQ=DAYLY", "did you mean DAILY?", "FREQ="),
        (f"{PLAIN}BYDAY=MO", "has no FREQ", "RRULE:"),
        (f"{PLAIN}FREQ=DAILY;COUNT=2;COUNT=3", "COUNT is there twice", "COUNT=3"),
        (f"{PLAIN}FREQ=DAILY;BYEASTER=1", '"BYEASTER=1" is not one of FREQ', "BYEASTER"),
        (f"{PLAIN}FREQ=DAILY;BYMONTH=13", "BYMONTH 13 is out of range 1–12", "BYMONTH"),
        (f"{PLAIN}FREQ=DAILY;BYMONTHDAY=0", "out of range 1–31 or -31–-1", "BYMONTHDAY"),
        (f"{PLAIN}FREQ=DAILY;BYHOUR=x", '"X" (BYHOUR) is not a number', "BYHOUR"),
        (f"{PLAIN}FREQ=DAILY;INTERVAL=0", "INTERVAL 0 is out of range", "INTERVAL"),
        (f"{PLAIN}FREQ=DAILY;COUNT=2;UNTIL=20270101", "keep one of them", "UNTIL"),
        (f"{PLAIN}FREQ=WEEKLY;BYDAY=2MO", "for MONTHLY and YEARLY, not for WEEKLY", "BYDAY"),
        (f"{PLAIN}FREQ=YEARLY;BYWEEKNO=3;BYDAY=2MO", "cannot be beside BYWEEKNO", "BYDAY"),
        (f"{PLAIN}FREQ=MONTHLY;BYDAY=XX", '"XX" (BYDAY) is not one of MO, TU', "BYDAY"),
        (f"{PLAIN}FREQ=HOURLY;BYSETPOS=1", "BYSETPOS is for DAILY and longer", "BYSETPOS"),
        (f"{PLAIN}FREQ=SECONDLY;INTERVAL=45", 'write "every 45s"', "INTERVAL"),
        (f"{PLAIN}FREQ=MINUTELY;INTERVAL=1001", 'write "every 1001m"', "INTERVAL"),
        (f"{PLAIN}FREQ=DAILY;UNTIL=2027", '"2027" (UNTIL) is not a time such as', "2027"),
        ("DTSTART:20260230T090000Z RRULE:FREQ=DAILY", "not on the calendar", "20260230"),
        ("DTSTART:19691231T090000Z RRULE:FREQ=DAILY", "outside the years 1970 to 2199", "1969"),
        ("DTSTART;TZID=Europe/Berlim:20260105T090000 RRULE:FREQ=DAILY", "Berlin", "Europe/Berlim"),
        ("DTSTART;TZID=Europe/Berlin:20260105T090000Z RRULE:FREQ=DAILY", "is in UTC", "20260105"),
        (f"{BERLIN}FREQ=DAILY Asia/Tokyo", "DTSTART is in Europe/Berlin already", "Asia"),
        (f"{BERLIN}FREQ=DAILY EXDATE:20260106", "is a day, but the rule has times", "20260106"),
        (f"{BERLIN}FREQ=DAILY RDATE;VALUE=PERIOD:1/2", "cannot follow RDATE", "VALUE"),
        (f"{PLAIN}FREQ=DAILY FREQ=DAILY", "write RRULE:FREQ=DAILY", "FREQ=DAILY "),
        (f"{PLAIN}FREQ=DAILY EXRULE:FREQ=DAILY", "is not DTSTART, RRULE, RDATE or EX", "EXRULE"),
        (f"{PLAIN}FREQ=DAILY dst=never", "is not a choice for clock changes", ""),
        (f"{PLAIN}FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never occurs", "DTSTART"),
        (f"{PLAIN}FREQ=HOURLY;INTERVAL=2;BYHOUR=10", "never occurs", "DTSTART"),
        (f"{PLAIN}FREQ=DAILY;UNTIL=20250101", "UNTIL and EXDATE leave nothing", "DTSTART"),
        (f"{PLAIN}FREQ=DAILY;COUNT=1 EXDATE:20260105T090000Z", "leave nothing", "DTSTART"),
        (f"{PLAIN}FREQ=DAILY;" + "BYMONTH=1;" * 99, "at most 1024 characters", ""),
    ],
)
def test_what_is_wrong_is_said_and_pointed_at(text: str, message: str, at: str) -> None:
    with pytest.raises(RuleError) as caught:
        rrule(text)
    assert message in str(caught.value)
    if at:
        assert caught.value.text == text
        assert f"{text} "[caught.value.position or 0 :].startswith(at)


def test_a_wall_time_needs_a_zone() -> None:
    with pytest.raises(ZoneMissing, match="DTSTART;TZID=Europe/Berlin:20260105T090000"):
        rrule("DTSTART:20260105T090000 RRULE:FREQ=DAILY")


def test_a_zone_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(RuleError, match="did you mean Europe/Berlin"):
        rrule("DTSTART:20260105T090000 RRULE:FREQ=DAILY", zone="Europe/Berlim")


def test_a_text_that_would_be_too_long_written_in_full_is_refused() -> None:
    listed = ",".join(f"2026{month:02}{day:02}" for month in range(1, 5) for day in range(1, 27))
    text = f"DTSTART:20260105 RRULE:FREQ=DAILY RDATE:{listed}"
    assert len(text) < 1024
    with pytest.raises(RuleError, match="at most 1024 characters"):
        rrule(text, zone="UTC")


WORDS = st.sampled_from(
    [
        *("DTSTART", ":20260105T090000", "Z", ";TZID=", "Europe/Berlin", " ", "\n", "RRULE:FREQ="),
        *("DAILY", "YEARLY", "SECONDLY", ";", "=", ",", "-", "BYDAY=", "2MO", "WE", "COUNT=", "0"),
        *(
            "INTERVAL=",
            "99999999999",
            "BYSETPOS=",
            "1",
            "366",
            "BYWEEKNO=",
            "53",
            "UNTIL=",
            "EXDATE",
        ),
        *(":", "20261332", "VALUE=DATE", "dst=", "cron", "BYSECOND=60", "\x00", "é", "+", "WKST="),
    ]
)


@given(st.lists(WORDS, max_size=24).map("".join) | st.text(max_size=60))
def test_any_text_is_a_rule_or_an_error_with_a_reason(text: str) -> None:
    try:
        rule = rrule(text)
    except RuleError as error:
        assert error.message
    else:
        assert rrule(str(rule)) == rule


@given(st.lists(WORDS, max_size=12).map("".join))
def test_any_ending_of_a_rule_is_read_or_refused(ending: str) -> None:
    try:
        rule = rrule(f"{BERLIN}FREQ=MONTHLY;{ending}")
    except RuleError as error:
        assert error.message
    else:
        assert rrule(str(rule)) == rule
        assert rule.explain()
