"""Whole days to exclude: a list of dates, or the public holidays of a region.

The moments of these rules are the starts of the days. Subtracted from another rule, they exclude
every moment on those days, in the zone's local time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from importlib import import_module
from itertools import groupby
from types import ModuleType
from warnings import catch_warnings, simplefilter

from duly.errors import RuleError
from duly.rules.budget import spend
from duly.rules.days import FIRST_YEAR, LAST_YEAR, Days, ListedDays, bits_of
from duly.rules.explain import dates_phrase
from duly.rules.rule import Rule, SameMoments
from duly.rules.rule_text import checked_zone, close_to
from duly.rules.wall_times import DAY, WallTimes
from duly.rules.zone import Dst, zone_named
from duly.rules.zoned import Zoned

MOST_DATES = 300
YEAR_STEPS = 200  # the cost of computing the holidays of one year

_REGION = re.compile(r"(?P<country>[A-Z]{2})(?:-(?P<part>[A-Za-z0-9]{1,8}))?")
_DAY_BEGINS = Dst("end/first", "end", "first")


@dataclass(frozen=True, repr=False)
class WholeDays(SameMoments):
    """Days from midnight to midnight, in their own zone or that of the rule that excludes them."""

    days: Days
    zone: str | None
    text: str = field(compare=False)
    phrase: str = field(compare=False)

    @property
    def has_stretches(self) -> bool:
        return True

    def blocked_until_us(self, instant: int) -> int | None:
        began = self.at_or_before_us(instant)
        if began is None:
            return None
        zone = zone_named(self._placed)
        day = (began + zone.offsets[zone.segment(began)]) // DAY
        end = zone.reaches((day + 1) * DAY, began)
        return end if instant < end else None

    def placed_in(self, zone: str | None) -> Rule:
        return replace(self, zone=zone) if self.zone is None and zone else self

    def explain(self) -> str:
        zone = f" {self.zone}" if self.zone else ""
        return f"{self.phrase[0].upper()}{self.phrase[1:]}{zone}."

    def __str__(self) -> str:
        return f"{self.text} {self.zone}" if self.zone else self.text

    @cached_property
    def inner(self) -> Zoned:
        """The beginnings of the days."""
        return Zoned(WallTimes(self.days, 1), self._placed, _DAY_BEGINS, self.text)

    @property
    def _placed(self) -> str:
        if self.zone is None:
            raise RuleError(
                f'"{self.text}" needs a time zone to know when its days begin: write '
                f'"{self.text} Europe/Berlin", or take it away from a rule that has a zone',
                text=self.text,
                position=len(self.text),
            )
        return self.zone


@dataclass(frozen=True)
class HolidayDays(Days):
    """The public holidays of a country or a part of it, from the ``holidays`` package."""

    country: str
    part: str | None

    def year(self, index: int) -> int:
        if index not in self._years:
            spend(YEAR_STEPS)
            with catch_warnings():
                simplefilter("ignore")  # warnings about years with incomplete data
                found = _package().country_holidays(
                    self.country, subdiv=self.part, years=FIRST_YEAR + index
                )
            self._years[index] = bits_of(found.keys()).get(index, 0)
        return self._years[index]

    @cached_property
    def _years(self) -> dict[int, int]:
        return {}


def dates(*days: date | str, zone: str | None = None) -> WholeDays:
    """Return whole days to exclude: dates, ``"2026-12-24"``, or ``"2026-12-24..2027-01-01"``."""
    listed = frozenset(found for day in days for found in _dates(day))
    if not 1 <= len(listed) <= MOST_DATES:
        raise RuleError(f"dates(…) takes 1 to {MOST_DATES} days, not {len(listed)}")
    text = f"dates({','.join(_ranges(sorted(listed)))})"
    return WholeDays(ListedDays(listed), checked_zone(zone), text, dates_phrase(sorted(listed)))


def holidays(region: str, *, zone: str | None = None) -> WholeDays:
    """Return the public holidays of a country (``DE``) or a part of it (``DE-BE``)."""
    if not isinstance(region, str):
        raise RuleError(f"{region!r} is not a region such as DE or DE-BE")
    known = _package().list_supported_countries()
    region = region.upper().replace("_", "-") if len(region) < 7 else region
    found = _REGION.fullmatch(region)
    if not found or found["country"] not in known:
        close = close_to(region, tuple(known)) if len(region) < 4 else ()
        raise RuleError(
            f'"{region}" is not a region with known holidays: write a country such as DE, or a '
            "part of one such as DE-BE",
            text=region,
            position=0,
            suggestions=close,
        )
    part = found["part"]
    if part and part not in known[found["country"]]:
        parts = ", ".join(known[found["country"]]) or "none"
        raise RuleError(
            f'"{part}" is not a part of {found["country"]} with its own holidays; known: {parts}',
            text=region,
            position=3,
        )
    days = HolidayDays(found["country"], part)
    phrase = f"on public holidays in {region}"
    return WholeDays(days, checked_zone(zone), f"holidays({region})", phrase)


def holiday_data_version() -> str:
    """Return the version of the ``holidays`` package, which is that of its data."""
    return str(_package().__version__)


def _dates(day: date | str) -> list[date]:
    text = day if isinstance(day, str) else str(day)[:10]
    first, _, last = text.partition("..")
    start, end = _date(first), _date(last or first)
    if not 0 <= (end - start).days < MOST_DATES:
        raise RuleError(f'"{day}" is not a range of 1 to {MOST_DATES} days', text=str(day))
    return [start + timedelta(days=number) for number in range((end - start).days + 1)]


def _ranges(days: list[date]) -> Iterator[str]:
    """Yield the days in order; three or more in a row become a range."""
    for _, group in groupby(enumerate(days), lambda pair: pair[1].toordinal() - pair[0]):
        run = [str(day) for _, day in group]
        yield from [f"{run[0]}..{run[-1]}"] if len(run) > 2 else run


def _date(day: str) -> date:
    try:
        found = date.fromisoformat(day)
    except ValueError:
        raise RuleError(f'"{day}" is not a date such as 2026-12-24', text=day, position=0) from None
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise RuleError(f"{found} is outside the years {FIRST_YEAR} to {LAST_YEAR}")
    return found


def _package() -> ModuleType:
    try:
        return import_module("holidays")
    except ImportError:
        raise RuleError(
            'public holidays come with an extra: pip install "duly[holidays]", or in a checkout '
            'pip install ".[holidays]"'
        ) from None
