"""A limit: concurrency, rate, or both, by name and over the whole cluster.

The name is a template over a task's arguments: ``crm:{customer_id}`` is one limit for each
customer. Rendered for one job it is a ``NamedLimit``, which is what the store knows. A queue has
limits of its own.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Final

from duly.durations import MICROSECOND, parse_duration, show_duration
from duly.errors import InvalidValue, RuleError
from duly.model.payload import Json, check_text, decode, encode
from duly.model.template import names_in, render

MOST_LIMITS: Final = 8  # per task: each is a row to be locked when a job starts and ends
MOST_AT_ONCE: Final = 1_000_000
SHORTEST_PERIOD: Final = timedelta(milliseconds=1)
LONGEST_PERIOD: Final = timedelta(days=366)

_RATE = re.compile(r" *(\d{1,9}) */ *(\d*.*)", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Rate:
    """``count`` starts in every ``period``: ``5/s``, ``3/10s``."""

    count: int
    period: timedelta

    def __post_init__(self) -> None:
        _check_number("a rate", self.count)
        period: object = self.period
        if not isinstance(period, timedelta) or not SHORTEST_PERIOD <= period <= LONGEST_PERIOD:
            raise InvalidValue(
                f"a rate per {period}: the period must be between one millisecond and "
                f"{LONGEST_PERIOD.days} days"
            )

    @classmethod
    def parse(cls, text: str) -> "Rate":
        asked: object = text
        found = _RATE.fullmatch(asked) if isinstance(asked, str) else None
        if found is None:
            raise InvalidValue(f'rate={text!r}: write it as "5/s", "100/m", "1000/h" or "3/10s"')
        length = found[2] if found[2][:1].isdigit() else f"1{found[2]}"
        try:
            return cls(int(found[1]), parse_duration(length))
        except (RuleError, InvalidValue) as error:
            raise InvalidValue(f'rate="{text}": {error}') from None

    def __str__(self) -> str:
        for unit, seconds in _UNITS.items():
            if self.period == timedelta(seconds=seconds):
                return f"{self.count}/{unit}"
        return f"{self.count}/{show_duration(self.period)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLimit:
    """The limit of one job: the rendered name and the numbers."""

    name: str
    template: str
    concurrency: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        if not check_text(self.name, "a limit's name"):
            raise InvalidValue(f'limit "{self.template}": its name is empty for these arguments')


@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """``Limit("crm:{customer_id}", concurrency=1, rate="5/s")``."""

    name: str
    concurrency: int | None
    rate: Rate | None

    def __init__(
        self, name: str, *, concurrency: int | None = None, rate: str | Rate | None = None
    ) -> None:
        if not check_text(name, "a limit's name"):
            raise InvalidValue("a limit's name must not be empty")
        names_in(name)
        if concurrency is None and rate is None:
            raise InvalidValue(
                f'Limit("{name}") limits nothing: pass concurrency=1, or rate="5/s", or both'
            )
        if concurrency is not None:
            _check_number(f'Limit("{name}"): concurrency', concurrency)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "concurrency", concurrency)
        object.__setattr__(self, "rate", _rate(name, rate))

    @property
    def unrendered(self) -> NamedLimit:
        """The limit of a job whose arguments are not known yet: its name is still the template."""
        return NamedLimit(
            name=self.name, template=self.name, concurrency=self.concurrency, rate=self.rate
        )

    def rendered(self, arguments: Mapping[str, object]) -> NamedLimit:
        return replace(self.unrendered, name=render(self.name, arguments))

    def __str__(self) -> str:
        numbers = [f"concurrency={self.concurrency}"] if self.concurrency is not None else []
        numbers += [f'rate="{self.rate}"'] if self.rate is not None else []
        return f'Limit("{self.name}", {", ".join(numbers)})'


def rendered_limits(
    limits: Iterable[NamedLimit], arguments: Mapping[str, object]
) -> tuple[NamedLimit, ...]:
    """Name each limit for these arguments; limits that come to one name are one limit."""
    found = [replace(limit, name=render(limit.template, arguments)) for limit in limits]
    return tuple({limit.name: limit for limit in found}.values())


def limits_as_json(limits: tuple[NamedLimit, ...]) -> Json:
    return encode(
        [
            {
                "name": limit.name,
                "template": limit.template,
                "concurrency": limit.concurrency,
                "count": limit.rate.count if limit.rate else None,
                "period": limit.rate.period // MICROSECOND if limit.rate else None,
            }
            for limit in limits
        ],
        what="limits",
    )


@lru_cache(maxsize=1024)
def limits_from_json(text: str) -> tuple[NamedLimit, ...]:
    """Read the stored text; keys written by a newer version are ignored."""
    return tuple(
        NamedLimit(
            name=stored["name"],
            template=stored["template"],
            concurrency=stored["concurrency"],
            rate=Rate(stored["count"], stored["period"] * MICROSECOND)
            if stored["count"] is not None
            else None,
        )
        for stored in decode(Json(text))
    )


def _rate(name: str, asked: str | Rate | None) -> Rate | None:
    if asked is None or isinstance(asked, Rate):
        return asked
    try:
        return Rate.parse(asked)
    except InvalidValue as error:
        raise InvalidValue(f'Limit("{name}"): {error}') from None


def _check_number(what: str, number: object) -> None:
    if type(number) is not int or not 1 <= number <= MOST_AT_ONCE:
        raise InvalidValue(f"{what}={number!r}: expected a whole number from 1 to {MOST_AT_ONCE:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    paused: bool = False
    note: str = ""
    concurrency: int | None = None  # jobs of it that run at once, in the whole cluster
    rate: Rate | None = None
    fair: bool = False  # tenants take turns

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        check_text(self.note, "note")
        concurrency = self.concurrency
        if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
            raise InvalidValue(
                f"concurrency={concurrency!r}: expected a whole number from 1, or None for no "
                "limit; to stop all jobs, pause the queue"
            )

    @property
    def plain(self) -> bool:
        """Return whether jobs are claimed without limits or fairness between tenants."""
        return self.concurrency is None and self.rate is None and not self.fair


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInfo:
    """A limit under one rendered name, with the jobs in it."""

    name: str
    template: str
    concurrency: int | None
    rate: Rate | None
    running: int
    waiting: int
