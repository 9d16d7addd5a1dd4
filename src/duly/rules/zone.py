"""Time zones, and what a clock change does to a rule.

A zone is a list of segments, each with one offset from UTC. Between two segments the clock jumps:

* forward, and some wall times do not exist that day (a **gap**);
* back, and some wall times happen twice (a **fold**).

What a rule does then is a policy of two options. ``gap``: ``skip`` the lost times, run once at the
``end`` of the gap, or ``shift`` each lost time by the length of the gap. ``fold``: run in the
``first`` pass, the ``last``, or ``both``. With the policy, a rule is a fixed set of instants. Its
results never depend on when they are computed, so a restart in the repeated hour can neither run a
job twice nor lose it.

The policy is turned into **windows**: for each segment the wall times that count in it. In the
repeated hour ``first`` raises the lower edge of the later window, ``last`` lowers the upper edge of
the earlier one, ``both`` leaves the overlap. No other code knows about folds.

A gap of more than three hours is a lost date (Samoa had no 30 December 2011), not a lost hour, and
is not made up for. Debian's cron does the same.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, cast, get_args

import tzdata

from duly.errors import RuleError
from duly.instants import to_us
from duly.rules.days import LAST_YEAR
from duly.rules.wall_times import HOUR, SECOND

Change = tuple[int, int]  # (the second at which it happens, the offset from then on in seconds)

_HEADER = struct.Struct(">4sc15x6l")
_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_TIME = r"[+-]?\d+(?::\d+){0,2}"
_FOOTER = re.compile(
    rf"{_NAME}(?P<standard>{_TIME})(?:{_NAME}(?P<summer>{_TIME})?,(?P<start>[^,]+),(?P<end>[^,]+))?"
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])0?([1-9]\d?)(?::?([0-5]\d))?")
# Places to suggest for an abbreviation, such as CEST, which is shared by many zones.
_KNOWN_PLACES = (
    "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Athens", "Europe/Moscow",
    "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles",
    "America/Halifax", "America/Anchorage", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo",
    "Asia/Seoul", "Asia/Karachi", "Asia/Jakarta", "Africa/Lagos",
    "Africa/Johannesburg", "Africa/Nairobi", "Australia/Sydney", "Australia/Adelaide",
    "Australia/Perth", "Pacific/Auckland",
)  # fmt: skip
_HOUR = 3600
_EPOCH = date(1970, 1, 1)


def read_changes(data: bytes, last_year: int) -> tuple[int, list[Change]]:
    """Return the zone's first offset, and every change of offset up to ``last_year``."""
    block = _end_of_block(data, 0, time_size=4)  # the 32-bit block is only there for old readers
    _, _, _, time_count, type_count, _ = _counts(data, block)
    times_at = block + _HEADER.size
    indexes_at = times_at + 8 * time_count
    types_at = indexes_at + time_count
    offsets = [
        struct.unpack_from(">l", data, types_at + 6 * index)[0] for index in range(type_count)
    ]
    times = struct.unpack_from(f">{time_count}q", data, times_at)
    changes = [(second, offsets[data[indexes_at + k]]) for k, second in enumerate(times)]
    footer = data[_end_of_block(data, block, time_size=8) :].strip(b"\n").decode("ascii")
    horizon = times[-1] if times else -1
    first_year = (_EPOCH + timedelta(seconds=horizon)).year
    changes += [
        change for change in _rule_changes(footer, first_year, last_year) if change[0] > horizon
    ]
    return offsets[0], list(_real_changes(offsets[0], changes))


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    magic, _, *counts = _HEADER.unpack_from(data, at)
    if magic != b"TZif":
        raise ValueError("not a TZif file")
    return tuple(counts)


def _end_of_block(data: bytes, at: int, *, time_size: int) -> int:
    ut_count, wall_count, leaps, times, types, names = _counts(data, at)
    size = times * (time_size + 1) + types * 6 + names + leaps * (time_size + 4)
    return at + _HEADER.size + size + ut_count + wall_count


def _real_changes(offset: int, changes: list[Change]) -> Iterator[Change]:
    """Drop changes of only the name or the summer-time flag."""
    for second, new in changes:
        if new != offset:
            yield second, new
        offset = new


def _rule_changes(footer: str, first_year: int, last_year: int) -> Iterator[Change]:
    found = _FOOTER.fullmatch(footer)
    if found is None or found["start"] is None:
        return
    standard = -_seconds(found["standard"])
    summer = -_seconds(found["summer"]) if found["summer"] else standard + _HOUR
    for year in range(first_year, last_year + 1):
        yield from sorted(
            [
                (_moment(found["start"], year) - standard, summer),
                (_moment(found["end"], year) - summer, standard),
            ]
        )


def _moment(rule: str, year: int) -> int:
    """Return the local second at which a POSIX rule such as ``M3.5.0/3`` applies in a year."""
    day_rule, _, time = rule.partition("/")
    at = _seconds(time) if time else 2 * _HOUR
    return (_day(day_rule, year) - _EPOCH).days * 24 * _HOUR + at


def _day(rule: str, year: int) -> date:
    if rule[0] == "M":
        month, week, weekday = map(int, rule[1:].split("."))
        first = date(year, month, 1)
        day = first + timedelta((weekday - first.isoweekday()) % 7 + 7 * (week - 1))
        return day if day.month == month else day - timedelta(7)
    if rule[0] == "J":  # 29 February is never counted
        day = date(year, 1, 1) + timedelta(int(rule[1:]) - 1)
        leap = date(year, 12, 31).timetuple().tm_yday == 366
        return day + timedelta(1) if leap and int(rule[1:]) > 59 else day
    return date(year, 1, 1) + timedelta(int(rule))


def _seconds(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    hours, minutes, seconds = [*map(int, text.lstrip("+-").split(":")), 0, 0][:3]
    return sign * (hours * _HOUR + minutes * 60 + seconds)


Gap = Literal["skip", "end", "shift"]
Fold = Literal["first", "last", "both"]

LONGEST_MADE_UP = 3 * HOUR
_BEGINNING = -(1 << 62)
_END = 1 << 62


@dataclass(frozen=True)
class Dst:
    """The policy for clock changes: its two options, and its name."""

    name: str = field(compare=False)
    gap: Gap
    fold: Fold


class Windows(NamedTuple):
    """For each segment of a zone, the wall times that count in it: ``low <= wall < high``."""

    lows: list[int]
    highs: list[int]


@dataclass(frozen=True, eq=False)
class Zone:
    """A zone as segments: ``offsets[k]`` applies from instant ``starts[k]`` on."""

    name: str
    starts: list[int]
    offsets: list[int]

    def segment(self, instant: int) -> int:
        return bisect_right(self.starts, instant) - 1

    def reaches(self, wall: int, since: int) -> int:
        """Return the first instant from ``since`` on at which the clock shows ``wall`` or later."""
        k = self.segment(since)
        while k + 1 < len(self.starts) and wall - self.offsets[k] >= self.starts[k + 1]:
            k += 1
        return max(wall - self.offsets[k], self.starts[k], since)

    def gap_before(self, k: int) -> tuple[int, int] | None:
        """Return the range of wall times that is lost when segment ``k`` begins, or None."""
        if k and self.offsets[k] > self.offsets[k - 1]:
            return self.starts[k] + self.offsets[k - 1], self.starts[k] + self.offsets[k]
        return None

    def fold_before(self, k: int) -> tuple[int, int] | None:
        """Return the range of wall times that happens again when segment ``k`` begins, or None."""
        if k and self.offsets[k] < self.offsets[k - 1]:
            return self.starts[k] + self.offsets[k], self.starts[k] + self.offsets[k - 1]
        return None


@cache
def zone_named(name: str) -> Zone:
    if name not in zone_names():
        raise unknown_zone(name)
    first, changes = read_changes(_data_of(name), LAST_YEAR + 1)
    return Zone(
        name,
        [_BEGINNING, *(second * SECOND for second, _ in changes)],
        [offset * SECOND for offset in (first, *(offset for _, offset in changes))],
    )


def _data_of(name: str) -> bytes:
    return files("tzdata").joinpath("zoneinfo", name).read_bytes()


@cache
def windows(zone: Zone, fold: Fold) -> Windows:
    lows = [_BEGINNING]
    highs = []
    for k in range(1, len(zone.starts)):
        before, after = zone.starts[k] + zone.offsets[k - 1], zone.starts[k] + zone.offsets[k]
        folded = after < before
        highs.append(after if folded and fold == "last" else before)
        lows.append(before if folded and fold == "first" else after)
    return Windows(lows, [*highs, _END])


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all time zones."""
    return frozenset(files("tzdata").joinpath("zones").read_text("ascii").split())


def local_time(moment: datetime, zone: str) -> datetime:
    """Return the moment in the zone's local time, with its offset."""
    found = zone_named(zone)
    offset = timedelta(microseconds=found.offsets[found.segment(to_us(moment))])
    return moment.astimezone(timezone(offset))


def zone_data_version() -> str:
    """Return the release of the zone data. Stored moments are computed again when it changes."""
    return tzdata.IANA_VERSION


def unknown_zone(name: str, *, text: str = "", position: int | None = None) -> RuleError:
    offset = _OFFSET.fullmatch(name)
    places = places_of(name)
    close = places or ([] if offset else similar_zones(name))
    hint = _instead_of(offset) if offset else "" if close else "; see the IANA time zone names"
    kind = " but an abbreviation" if places else ""
    return RuleError(
        f'"{name}" is not a time zone{kind}{hint}',
        text=text or name,
        position=position,
        suggestions=close,
    )


def _instead_of(offset: re.Match[str]) -> str:
    """Suggest zones for an offset. Those with a fixed one are named with the opposite sign."""
    sign, hours, minutes = offset.groups()
    fixed = f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
    place = "; name a place, as Europe/Berlin"
    if int(minutes or 0) or fixed not in zone_names():
        return place
    way = "ahead of" if sign == "+" else "behind"
    return f"{place}, or {fixed}, whose clock is {hours} h {way} UTC"


def places_of(abbreviation: str) -> list[str]:
    """Return the best-known zones whose clocks show an abbreviation, as CEST, today."""
    return _by_abbreviation().get(abbreviation.upper(), [])


@cache
def _by_abbreviation() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for place in _KNOWN_PLACES:
        footer = _data_of(place).rstrip().rpartition(b"\n")[2].partition(b",")[0]
        for name in re.findall("[A-Z]{3,}", footer.decode("ascii")):  # CET-1CEST
            found.setdefault(name, []).append(place)
    return found


def similar_zones(name: str) -> list[str]:
    by_key = {_key(zone): zone for zone in sorted(zone_names())}
    cities = {_key(zone.rpartition("/")[2]): zone for zone in sorted(zone_names())}
    known = cities | by_key
    return [known[close] for close in get_close_matches(_key(name), known, n=2, cutoff=0.75)]


def _key(name: str) -> str:
    return name.lower().replace(" ", "_")


PRESETS = {
    "systemd": Dst("systemd", "skip", "first"),
    "elapsed": Dst("elapsed", "skip", "both"),
    "quartz": Dst("quartz", "skip", "last"),
}


def dst_policy(name: str, *, fixed: bool) -> Dst:
    """Return a preset by name, or the two options written as ``gap/fold``.

    The default, ``cron``, is two presets in one, as in Debian's cron: a ``fixed`` time of day runs
    once on the day of either change, and a wildcard follows the wall clock.
    """
    if not isinstance(name, str):
        raise RuleError(f'dst={name!r} is not a name such as "cron" or "end/first"')
    if name == "cron":
        return Dst(name, "end", "first") if fixed else Dst(name, "skip", "both")
    if name in PRESETS:
        return PRESETS[name]
    gap, _, fold = name.partition("/")
    if gap in get_args(Gap) and fold in get_args(Fold):
        return Dst(name, cast(Gap, gap), cast(Fold, fold))
    raise RuleError(
        f'dst="{name}" is not a choice for clock changes; take cron, {", ".join(PRESETS)}, or '
        "gap/fold with gap skip, end, shift and fold first, last, both (as in end/first)",
        text=name,
        position=0,
    )
