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

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, cast, get_args

import tzdata

from duly.errors import RuleError
from duly.instants import to_us
from duly.rules.days import LAST_YEAR
from duly.rules.tzif import read_changes
from duly.rules.wall_times import HOUR, SECOND

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
    data = files("tzdata").joinpath("zoneinfo", name).read_bytes()
    first, changes = read_changes(data, LAST_YEAR + 1)
    return Zone(
        name,
        [_BEGINNING, *(second * SECOND for second, _ in changes)],
        [offset * SECOND for offset in (first, *(offset for _, offset in changes))],
    )


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
    close = similar_zones(name)
    hint = "" if close else "; see the IANA time zone names"
    return RuleError(
        f'"{name}" is not a time zone{hint}',
        text=text or name,
        position=position,
        suggestions=close,
    )


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
