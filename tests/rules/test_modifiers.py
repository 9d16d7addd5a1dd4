"""Rules made of rules: joined, taken away, bounded, delayed, jittered.

Each is compared with what the same words mean for plain lists of moments.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from duly import RuleError
from duly.rules import (
    Rule,
    bounded,
    calendar,
    cron,
    dates,
    delayed,
    every,
    holidays,
    jitter,
    lasting,
    parse,
    spread,
)

START = datetime(2026, 11, 15, 10, 7, 3, tzinfo=UTC)
END = START + timedelta(days=40)
MICROSECOND = timedelta(microseconds=1)


def listed(rule: Rule, start: datetime = START, end: datetime = END) -> list[datetime]:
    return list(rule.between(start, end, limit=1_000_000))


def check_as_a_set(rule: Rule, expected: list[datetime]) -> None:
    """Forwards, backwards, counted and printed, the rule is this list."""
    assert listed(rule) == expected
    assert rule.count(START, END) == len(expected)
    backwards, moment = [], rule.at_or_before(END)
    while moment is not None and moment > START:
        backwards.append(moment)
        moment = rule.at_or_before(moment - MICROSECOND)
    assert backwards[::-1] == expected
    assert parse(str(rule)) == rule
    assert hash(parse(str(rule))) == hash(rule)


PAIRS = [
    ("0 9 * * 1-5 Europe/Berlin", "Sat 11:00 Europe/Berlin"),
    ("0 9 * * * Europe/Berlin", "0 9 * * 1 Europe/Berlin"),
    ("0 9 * * * Europe/Berlin", "0 8 * * * UTC"),
    ("*/10 * * * *", "every 15m"),
    ("every 10m", "every 25m from 2026-01-01T00:05Z"),
    ("hourly America/New_York", "0/2:00 Asia/Kathmandu"),
    ("*-*~01 12:00 UTC", "2026-11-30T12:00Z"),
]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_a_union_has_the_moments_of_both_once(left: str, right: str) -> None:
    a, b = parse(left), parse(right)
    assert isinstance(a, Rule)
    assert isinstance(b, Rule)
    check_as_a_set(a | b, sorted({*listed(a), *listed(b)}))
    check_as_a_set(b | a, sorted({*listed(a), *listed(b)}))


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_a_difference_has_the_moments_that_the_other_lacks(left: str, right: str) -> None:
    a, b = parse(left), parse(right)
    assert isinstance(a, Rule)
    assert isinstance(b, Rule)
    check_as_a_set(a - b, sorted({*listed(a)} - {*listed(b)}))


def test_three_rules_that_meet_are_counted_once() -> None:
    lines = ("0 9 * * *", "0 9 * * 1", "0 9,10 1 * *")
    parts = [cron(line, zone="Europe/Berlin") for line in lines]
    union = parts[0] | parts[1] | parts[2]
    check_as_a_set(union, sorted({moment for part in parts for moment in listed(part)}))


def test_a_rule_joined_with_itself_is_itself() -> None:
    rule = every("5m")
    assert rule | rule == rule
    assert (rule | every("7m") | rule).count(START, END) == (rule | every("7m")).count(START, END)


def test_rules_that_meet_only_where_a_gap_is_made_up_for_are_counted_once() -> None:
    union = cron("15 2 * * *", zone="Europe/Berlin") | cron("45 2 * * *", zone="Europe/Berlin")
    spring = datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 3, 28, 12, tzinfo=UTC)
    assert listed(union, *spring) == [datetime(2027, 3, 28, 1, tzinfo=UTC)]
    assert union.count(*spring) == 1


def test_years_of_a_dense_difference_are_counted_not_walked() -> None:
    seconds = cron("* * * * * *", zone="UTC")
    nights = cron("* * 0-6 * * *", zone="UTC")
    century = START + timedelta(days=36_525)
    assert (seconds - nights).count(START, century) == seconds.count(START, century) * 17 // 24


def test_rules_on_different_clocks_are_counted_where_they_meet() -> None:
    """Random pairs of lines, zones and choices, over windows with and without clock changes."""
    dice = Random(1)
    zones = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]
    zones += ["UTC", "Pacific/Apia", "Africa/Cairo", "Pacific/Chatham"]
    lines = ["*/5 * * * *", "0 */2 * * *", "30 2 * * *", "0,15 1-5 * * 1-5", "*/30 2 * * *"]
    choices = ["cron", "systemd", "elapsed", "quartz", "shift/both", "end/last"]
    met = 0
    for _ in range(120):
        left, right = (
            cron(dice.choice(lines), zone=dice.choice(zones), dst=dice.choice(choices))
            for _ in range(2)
        )
        start = START + timedelta(hours=dice.randrange(9000))
        end = start + timedelta(hours=dice.randrange(1, 1500))
        a, b = {*listed(left, start, end)}, {*listed(right, start, end)}
        assert (left | right).count(start, end) == len(a | b)
        assert (left - right).count(start, end) == len(a - b)
        met += len(a & b)
    assert met > 1000


def test_decades_on_different_clocks_are_counted_not_walked() -> None:
    minutes = cron("* * * * *", zone="Europe/Berlin")
    fives = cron("*/5 * * * *", zone="America/New_York")
    decades = START + timedelta(days=36_500)
    assert (minutes | fives).count(START, decades) == 36_500 * 24 * 60
    assert (minutes - fives).count(START, decades) == 36_500 * 24 * 48


def test_a_long_row_of_excluded_moments_is_jumped() -> None:
    rule = cron("* * * * * *", zone="UTC") - cron("* * 0-9,11-23 * * *", zone="UTC")
    midnight = datetime(2026, 11, 16, tzinfo=UTC)
    assert rule.after(midnight) == datetime(2026, 11, 16, 10, tzinfo=UTC)
    assert rule.at_or_before(midnight) == datetime(2026, 11, 15, 10, 59, 59, tzinfo=UTC)


def test_nothing_is_left_of_a_rule_without_itself() -> None:
    for rule in (cron("* * * * * *", zone="UTC"), every("1s")):
        nothing = rule - rule
        assert nothing.after(START) is None
        assert nothing.at_or_before(START) is None
        assert nothing.count(START, END) == 0


def test_what_is_too_dense_to_be_walked_is_refused_not_waited_for() -> None:
    seconds = cron("* * * * * *", zone="UTC")
    with pytest.raises(RuleError, match="too dense to be counted together"):
        (every("7s") - seconds).after(START)
    with pytest.raises(RuleError, match="too dense to be counted together"):
        (every("7s") | seconds).count(START, START + timedelta(days=3650))
    with pytest.raises(RuleError, match="leaves nothing"):
        (seconds - lasting(cron("0 0 * * *", zone="UTC"), "24h")).after(START)


def test_a_rate_that_divides_the_day_is_counted_on_the_clock() -> None:
    seconds, hours = cron("* * * * * *", zone="Europe/Berlin"), cron("30 * * * *")
    decade = START + timedelta(days=3650)
    assert (every("1s") | seconds).count(START, decade) == 3650 * 86_400
    assert (every("10s") - seconds).count(START, decade) == 0
    halves = every("30m from 2027-01-01T00:00Z")
    assert (halves - hours).count(START, decade) == len(listed(halves - hours, START, decade))
    check_as_a_set(
        every("15m") - hours, [moment for moment in listed(every("15m")) if moment.minute != 30]
    )


def test_differences_of_differences_are_counted() -> None:
    rule = cron("* * * * *") - cron("0 * * * *") - cron("30 * * * *")
    assert rule.count(START, START + timedelta(days=36_500)) == 36_500 * 24 * 58
    nested = (cron("* * * * *") | cron("30 * * * * *")) - cron("*/2 * * * *")
    day = START, START + timedelta(days=1)
    halves = listed(cron("0,30 * * * * *"), *day)
    expected = [moment for moment in halves if moment.second or moment.minute % 2]
    assert listed(nested, *day) == expected
    assert nested.count(*day) == len(expected)


def test_at_most_eight_rules_are_joined() -> None:
    union = every("1h")
    for minute in range(1, 8):
        union |= cron(f"{minute} * * * *")
    assert union.count(START, END) == 40 * 24 * 8
    with pytest.raises(RuleError, match="at most 8 rules"):
        union | cron("30 * * * *")


# -- days and stretches ---------------------------------------------------------------------------


def test_dates_are_left_out_by_the_clock_on_the_wall() -> None:
    rule = calendar("00/12:00", zone="Asia/Tokyo")
    without = rule - dates("2026-11-20")
    day = [datetime(2026, 11, 19, 15, tzinfo=UTC), datetime(2026, 11, 20, 3, tzinfo=UTC)]
    check_as_a_set(without, [moment for moment in listed(rule) if moment not in day])


def test_holidays_are_left_out() -> None:
    rule = calendar("09:00", zone="Europe/Berlin") - holidays("DE-BE")
    christmas = [datetime(2026, 12, day, 8, tzinfo=UTC) for day in range(23, 29)]
    expected = [moment for moment in christmas if moment.day not in (25, 26)]
    assert listed(rule, christmas[0] - MICROSECOND, christmas[-1]) == expected
    assert str(rule) == "*-*-* 09:00:00 Europe/Berlin - holidays(DE-BE) Europe/Berlin"
    womens_day = datetime(2027, 3, 8, 8, tzinfo=UTC)  # a holiday in Berlin, not in all of Germany
    assert rule.count(womens_day - MICROSECOND, womens_day) == 0
    everywhere = calendar("09:00", zone="Europe/Berlin") - holidays("DE")
    assert everywhere.count(womens_day - MICROSECOND, womens_day) == 1


def test_days_need_a_zone_from_somewhere() -> None:
    for rule in (every("1h"), cron("*/5 * * * *")):
        with pytest.raises(RuleError, match="needs a time zone to know when its days begin"):
            rule - dates("2026-11-20")
    placed = parse("every 1h - dates(2026-11-20)", zone="Asia/Tokyo")
    assert str(placed) == "every 1h - dates(2026-11-20) Asia/Tokyo"
    assert (every("1h") - dates("2026-11-20", zone="UTC")).count(START, END) == 40 * 24 - 24


def test_an_unknown_region_is_told_what_is_known() -> None:
    with pytest.raises(RuleError, match='"XX" is not a region with known holidays'):
        holidays("XX")
    with pytest.raises(RuleError, match='"QQ" is not a part of DE'):
        holidays("DE-QQ")


def test_a_rule_with_a_length_leaves_out_stretches() -> None:
    minutes = cron("*/30 * * * *")
    maintenance = lasting(cron("0 22 * * *", zone="UTC"), "8h")
    expected = [moment for moment in listed(minutes) if 6 <= moment.hour < 22]
    check_as_a_set(minutes - maintenance, expected)


def test_stretches_that_overlap_are_left_out_once() -> None:
    rule = every("10m") - lasting(every("1h"), "90m")
    assert rule.count(START, END) == 0


def test_what_is_taken_away_is_whole() -> None:
    closed = dates("2026-11-20", zone="UTC")
    questions: list[Callable[[], object]] = [
        lambda: closed - every("1h"),
        lambda: bounded(closed, start=START),
        lambda: delayed(lasting(every("1h"), "5m"), "1m"),
    ]
    for refused in questions:
        with pytest.raises(RuleError, match="something to take away"):
            refused()


def test_days_are_whole_where_the_clock_goes_back_over_midnight() -> None:
    rule = cron("*/10 * * * *", zone="America/St_Johns") - dates("2007-11-03")
    night = datetime(2007, 11, 3, tzinfo=UTC), datetime(2007, 11, 5, tzinfo=UTC)
    assert rule.count(*night) == len(listed(rule, *night))


# -- bounds ---------------------------------------------------------------------------------------


def test_bounds_are_included() -> None:
    first, last = datetime(2026, 11, 20, 9, tzinfo=UTC), datetime(2026, 11, 22, 9, tzinfo=UTC)
    rule = bounded(calendar("09:00", zone="UTC"), start=first, end=last)
    check_as_a_set(rule, [first, first + timedelta(days=1), last])


def test_a_number_of_times_counts_from_the_start() -> None:
    first = datetime(2026, 11, 20, 9, tzinfo=UTC)
    rule = bounded(calendar("09:00", zone="UTC"), start=first, count=2)
    check_as_a_set(rule, [first, first + timedelta(days=1)])
    with pytest.raises(RuleError, match="pass start= too"):
        bounded(rule, count=3)


def test_an_end_alone_keeps_the_first_day_there_is() -> None:
    rule = bounded(cron("0 0 * * *", zone="Asia/Tokyo"), end=datetime(1970, 1, 2, tzinfo=UTC))
    assert rule.count(datetime(1960, 1, 1, tzinfo=UTC), START) == 2


def test_bounds_inside_bounds_keep_both() -> None:
    first = datetime(2026, 11, 20, 9, tzinfo=UTC)
    inner = bounded(calendar("09:00", zone="UTC"), start=first, count=5)
    check_as_a_set(bounded(inner, start=first + timedelta(days=4)), [first + timedelta(days=4)])


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(RuleError, match="before the start"):
        bounded(every("1h"), start=END, end=START)


# -- delays ---------------------------------------------------------------------------------------


def test_a_delay_moves_every_moment() -> None:
    rule = calendar("09:00", zone="UTC")
    later = [moment + timedelta(minutes=5) for moment in listed(rule)]
    check_as_a_set(delayed(rule, "5m"), later)


def test_a_spread_is_always_the_same_for_a_name() -> None:
    rule = calendar("00:00", zone="UTC")
    delays = {
        name: listed(spread(rule, "1h", name=name))[0] - listed(rule)[0]
        for name in map(str, range(200))
    }
    assert all(timedelta() <= delay < timedelta(hours=1) for delay in delays.values())
    assert len(set(delays.values())) > 150
    assert spread(rule, "1h", name="7") == spread(rule, "1h", name="7")


def test_jitter_moves_each_moment_and_keeps_their_order_and_number() -> None:
    rule = every("1h")
    jittered = jitter(rule, "10m", name="report")
    found = listed(jittered)
    nominal = [moment.replace(minute=0, second=0, microsecond=0) for moment in found]
    delays = [moment - due for moment, due in zip(found, nominal, strict=True)]
    assert all(timedelta() <= delay < timedelta(minutes=10) for delay in delays)
    assert len(set(delays)) > len(delays) * 0.9
    check_as_a_set(jittered, found)


def test_jitter_wider_than_the_interval_still_keeps_the_order() -> None:
    found = listed(jitter(every("1m"), "1h", name="x"), START, START + timedelta(hours=3))
    assert all(earlier < later for earlier, later in pairwise(found))
    assert len(found) in (179, 180, 181)


def test_jitter_is_picked_by_name() -> None:
    assert jitter(every("1h"), "10m", name="a") != jitter(every("1h"), "10m", name="b")
    assert parse("every 1h jitter=10m", name="a") == jitter(every("1h"), "10m", name="a")
