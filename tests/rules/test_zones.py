"""Our reading of zone files, held against the standard library's reading of the same files.

``zoneinfo`` answers "which offset now?"; we keep the list of changes, since counting needs to know
when the next one is. Wherever both can answer, they must agree: at every change, just before it,
and between.
"""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from duly.errors import RuleError
from duly.rules import calendar, cron, parse
from duly.rules.zone import Zone, zone_named, zone_names
from tests.rules.bruteforce import changes_of, clock_of

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The first local day of 1970 and the last of 2199, anywhere on earth.
FIRST, LAST = datetime(1969, 12, 31, tzinfo=UTC), datetime(2200, 1, 2, tzinfo=UTC)

NAMES = sorted(zone_names())

NOT_ZONES = [
    "",
    " ",
    ".",
    "..",
    "/",
    "../etc/passwd",
    "/etc/localtime",
    "/UTC",
    "Europe",
    "Europe/",
    "Europe/Berlin/",
    "Europe//Berlin",
    "Europe/../UTC",
    "Europe/Berlin\0",
    "Europe/Berlin\n",
    "Europe\\Berlin",
    "europe/berlin",
    "posix/UTC",
    "right/UTC",
    "posixrules",
    "localtime",
    "__init__.py",
    "zone.tab",
    "zone1970.tab",
    "tzdata.zi",
    "leapseconds",
    "UTC+1",
    "+01:00",
]


def changes(zone: Zone) -> list[datetime]:
    first, last = (FIRST - EPOCH) // MICROSECOND, (LAST - EPOCH) // MICROSECOND
    return [EPOCH + start * MICROSECOND for start in zone.starts if first <= start <= last]


def our_offset(zone: Zone, moment: datetime) -> timedelta:
    return zone.offsets[zone.segment((moment - EPOCH) // MICROSECOND)] * MICROSECOND


def their_offset(zone: Zone, moment: datetime) -> timedelta | None:
    return moment.astimezone(clock_of(zone.name)).utcoffset()


def disagreements(zone: Zone, moments: list[datetime]) -> list[tuple[str, datetime]]:
    return [
        (zone.name, moment)
        for moment in moments
        if our_offset(zone, moment) != their_offset(zone, moment)
    ]


def test_there_are_as_many_zones_as_the_world_has() -> None:
    assert len(NAMES) > 590


def test_the_offset_is_the_same_at_and_just_before_every_change() -> None:
    wrong = []
    for zone in map(zone_named, NAMES):
        ours = changes(zone)
        wrong += disagreements(zone, [*ours, *(change - MICROSECOND for change in ours)])
    assert wrong == []


@pytest.mark.thorough("every zone, month by month")
def test_the_offset_is_the_same_in_every_month_and_at_any_time() -> None:
    months = [datetime(1970 + n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in range(230 * 12)]
    dice = Random(1970)
    wrong = []
    for zone in map(zone_named, NAMES):
        anytime = [FIRST + dice.random() * (LAST - FIRST) for _ in range(300)]
        wrong += disagreements(zone, [*months, *anytime])
    assert wrong == []


@pytest.mark.parametrize(
    "name", ["Africa/Casablanca", "America/Nuuk", "Asia/Gaza", "Europe/Dublin"]
)
def test_no_change_is_missed_in(name: str) -> None:
    assert changes(zone_named(name)) == changes_of(name, 1970, 2199)


def test_every_change_changes_the_offset() -> None:
    idle = [
        (name, change)
        for name in NAMES
        for change in changes(zone_named(name))
        if their_offset(zone_named(name), change - MICROSECOND)
        == their_offset(zone_named(name), change)
    ]
    assert idle == []


def test_since_1970_no_clock_changed_twice_in_two_days() -> None:
    hasty = [
        (name, change, following)
        for name in NAMES
        for change, following in pairwise(changes(zone_named(name)))
        if following - change < timedelta(days=2)
    ]
    assert hasty == []


def test_no_clock_is_a_day_ahead_or_behind() -> None:
    far = [
        name
        for name in NAMES
        if max(abs(offset) for offset in zone_named(name).offsets) * MICROSECOND
        >= timedelta(days=1)
    ]
    assert far == []


@pytest.mark.parametrize("name", NOT_ZONES)
def test_what_is_not_a_zone_is_refused(name: str) -> None:
    with pytest.raises(RuleError, match="is not a time zone"):
        zone_named(name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("UTC+2", "Europe/Berlin, or Etc/GMT-2, whose clock is 2 h ahead of UTC"),
        ("GMT-05:00", "Europe/Berlin, or Etc/GMT+5, whose clock is 5 h behind UTC"),
        ("+1000", "Europe/Berlin, or Etc/GMT-10, whose clock is 10 h ahead of UTC"),
        ("GMT+5:30", "Europe/Berlin"),
        ("UTC+15", "Europe/Berlin"),
    ],
)
def test_an_offset_is_answered_with_the_zone_that_has_it(name: str, instead: str) -> None:
    with pytest.raises(
        RuleError, match=f"is not a time zone; name a place, as {re.escape(instead)}$"
    ):
        zone_named(name)


@pytest.mark.parametrize(
    ("rule", "zone"),
    [
        ("02:00 CEST", "Europe/Berlin"),
        ("0 2 * * * PDT", "America/Los_Angeles"),
        ("every 1 day at 09:00 bst", "Europe/London"),
        ("hourly IST", "Asia/Kolkata"),
        ("Fri 17:00 CST", "America/Chicago or Asia/Shanghai"),
    ],
)
def test_an_abbreviation_is_answered_with_the_zones_that_show_it(rule: str, zone: str) -> None:
    with pytest.raises(RuleError, match=rf"not a time zone but an abbreviation; .* mean {zone}\?$"):
        parse(rule)


def test_an_offset_behind_a_cron_line_is_taken_for_a_zone() -> None:
    with pytest.raises(RuleError, match=r'"UTC\+2" is not a time zone'):
        cron("0 9 * * * UTC+2")


@pytest.mark.parametrize("name", [name for name in NOT_ZONES if name])
def test_a_rule_in_what_is_not_a_zone_is_refused_when_it_is_read(name: str) -> None:
    with pytest.raises(RuleError, match="is not a time zone"):
        cron("0 9 * * *", zone=name)
    with pytest.raises(RuleError, match="is not a time zone"):
        calendar("09:00", zone=name)


@pytest.mark.parametrize(
    ("meant", "written"),
    [
        ("Europe/Berlin", "Europe/Berln"),
        ("Europe/Berlin", "Berlin"),
        ("Europe/Berlin", "europe/berlin"),
        ("America/New_York", "America/New York"),
        ("America/New_York", "new_york"),
        ("Asia/Kolkata", "Asia/Kolkatta"),
        ("America/Argentina/Buenos_Aires", "Argentina/Buenos_Aires"),
        ("UTC", "utc"),
    ],
)
def test_a_name_that_is_nearly_right_brings_up_the_right_one(meant: str, written: str) -> None:
    with pytest.raises(RuleError) as refused:
        zone_named(written)
    assert refused.value.suggestion == meant
    assert f"did you mean {meant}" in str(refused.value)


def test_a_name_like_no_other_brings_up_nothing() -> None:
    with pytest.raises(RuleError) as refused:
        zone_named("qqqqqqqq")
    assert refused.value.suggestion is None
