"""Rules for one moment, or a few.

A moment with an offset is a fixed instant. A local time with a zone stays a local time: if the
zone's rules change before it comes, the instant moves with them.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from duly.errors import RuleError
from duly.instants import FIRST_US, LAST_US, from_us, to_us
from duly.rules.budget import spend
from duly.rules.days import FIRST_YEAR, LAST_YEAR, ListedDays
from duly.rules.explain import listed
from duly.rules.rule import Rule
from duly.rules.rule_text import read, written, zone_missing
from duly.rules.wall_times import SECOND, WallTimes
from duly.rules.zone import dst_policy
from duly.rules.zoned import Zoned

MOST_TEXT = 4096  # a list of moments may be long

MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\S+", re.ASCII)


@dataclass(frozen=True, repr=False)
class Moments(Rule):
    """A list of instants, in order."""

    instants: tuple[int, ...]
    zone: str | None = field(default=None, init=False)
    expands = True

    @property
    def size(self) -> int | None:
        return len(self.instants)

    def after_us(self, instant: int) -> int | None:
        at = bisect_right(self.instants, instant)
        return self.instants[at] if at < len(self.instants) else None

    def at_or_before_us(self, instant: int) -> int | None:
        at = bisect_right(self.instants, instant)
        return self.instants[at - 1] if at else None

    def count_us(self, after: int, until: int) -> int:
        return bisect_right(self.instants, until) - bisect_right(self.instants, after)

    def shared_count_us(self, others: Sequence[Rule], after: int, until: int) -> int:
        """Count shared moments by looking up each instant in the other rules."""
        first, end = bisect_right(self.instants, after), bisect_right(self.instants, until)
        spend(max(0, end - first) * len(others))
        return sum(
            all(other.at_or_before_us(instant) == instant for other in others)
            for instant in self.instants[first:end]
        )

    def explain(self) -> str:
        shown = [f"{from_us(instant):%Y-%m-%d %H:%M:%S}" for instant in self.instants[:3]]
        if len(self.instants) > len(shown):
            shown.append(f"{len(self.instants) - len(shown)} more times")
        return f"Once, at {shown[0]} UTC." if len(shown) == 1 else f"At {listed(shown)} UTC."

    def __str__(self) -> str:
        return ",".join(show_moment(from_us(instant)) for instant in self.instants)


def at(moment: datetime | str, *, zone: str | None = None, dst: str = "cron") -> Rule:
    """Return a rule for one moment: an aware datetime, or ISO text with an offset or a zone."""
    if isinstance(moment, datetime):
        return Moments((_checked(to_us(moment), str(moment)),))
    source = read(moment, zone=zone, dst=dst, longest=MOST_TEXT)
    if "," in source.body:
        parts = [read_moment(part) for part in source.body.split(",")]
        return Moments(tuple(sorted({_checked(to_us(part), moment) for part in parts})))
    asked = read_moment(source.body)
    if asked.tzinfo is not None:
        if source.names_zone:
            message = f'"{moment}" has an offset and a zone: leave one of them away'
            raise RuleError(message, text=moment, position=len(source.body))
        return Moments((_checked(to_us(asked), moment),))
    if source.zone is None:
        raise zone_missing(source, "an hour" if "T" in source.body else "a day")
    _checked(to_us(asked.replace(tzinfo=from_us(0).tzinfo)), moment)
    second = asked.second * SECOND + asked.microsecond
    wall = WallTimes(
        ListedDays(frozenset({asked.date()})), 1 << asked.hour * 60 + asked.minute, (second,)
    )
    policy = dst_policy(source.dst, fixed=True)
    return Zoned(wall, source.zone, policy, written(asked.isoformat(), source.zone, policy))


def read_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
        _ = moment.tzinfo and moment.astimezone(UTC)  # year 1 or 9999 may not exist there
    except (ValueError, OverflowError):
        raise RuleError(
            f'"{text}" is not a time; write it as 2026-12-24T18:00+01:00, 2026-12-24T17:00Z, or '
            "2026-12-24T18:00 with a zone",
            text=text,
            position=0,
        ) from None
    return moment


def show_moment(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _checked(instant: int, shown: str) -> int:
    if not FIRST_US < instant < LAST_US or not FIRST_YEAR <= from_us(instant).year <= LAST_YEAR:
        raise RuleError(f'"{shown}" is outside the years {FIRST_YEAR} to {LAST_YEAR}')
    return instant
