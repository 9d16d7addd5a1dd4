"""Option values of tasks and calls: ``"high"``, ``"2GB"``, ``"90s"`` or a task, checked."""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

from duly.clock import now
from duly.durations import is_bare_number, parse_duration, show_duration
from duly.errors import InvalidValue, RuleError, ZoneMissing
from duly.model.job import HIGHEST, LOWEST, MOST_NEEDS, PRIORITIES
from duly.model.payload import check_text
from duly.policy.retry import NEVER, Retry
from duly.rules import Budget, On, Rule, Spaced, parse

Duration: TypeAlias = str | timedelta
When: TypeAlias = datetime | Duration
Start: TypeAlias = When | Rule  # a moment, a delay, or the next time of a rule
Priority: TypeAlias = int | Literal["high", "normal", "low", "idle"]

LEAST_MEMORY: Final = 16_000_000  # with less, Python itself does not start

_MEMORY = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]i?)B", re.ASCII)
_UNITS = {
    letter + binary: base**power
    for power, letter in enumerate("KMGT", start=1)
    for binary, base in (("", 1_000), ("i", 1_024))
}


class UnknownOption(InvalidValue, TypeError):
    """An unknown option; also a TypeError, as Python raises for unknown keywords."""


def refuse_unknown(words: Iterable[str], known: Collection[str], *, who: str) -> None:
    """Refuse options that ``who``, as "a task", does not have."""
    for word in words:
        if word not in known:
            near = get_close_matches(word, known, n=1, cutoff=0.5)
            meant = f"did you mean {near[0]}=?" if near else f"there are {', '.join(known)}"
            raise UnknownOption(f"{who} has no option {word}=; {meant}")


def name_of(what: str, asked: object) -> str:
    """Return a name: a text that is not empty."""
    if not isinstance(asked, str):
        raise InvalidValue(f"{what}={asked!r}: a name must be a string")
    if not check_text(asked, what):
        raise InvalidValue(f"{what}: a name must not be empty")
    return asked


def names_of(what: str, asked: object) -> tuple[str, ...]:
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise InvalidValue(f'{what}={asked!r}: expected several names, as {what}=("old",)')
    return tuple(dict.fromkeys(name_of(what, name) for name in asked))


def length_of(what: str, asked: object, *, longest: timedelta, zero: bool = False) -> timedelta:
    """Return a length of time, given as ``"90s"``, ``"5m"`` or a timedelta."""
    length = _parsed(what, asked)
    if not timedelta() <= length <= longest or not (zero or length):
        shown = show_duration(length) if length >= timedelta() else length
        least = "from 0s" if zero else "more than 0s"
        most = f"{longest.days:,} days" if longest.days else show_duration(longest)
        raise InvalidValue(f'{what}="{shown}": expected {least}, up to {most}')
    return length


def when_of(what: str, asked: object) -> datetime | timedelta | None:
    """Return a moment, or a delay from now. ``JobRequest`` checks moments."""
    if asked is None or isinstance(asked, datetime):
        return asked
    return _parsed(what, asked)


def start_of(what: str, asked: object) -> datetime | timedelta | None:
    """Return the earliest start of a job: a moment, a delay, or the next time of a rule."""
    if isinstance(asked, str) and is_rule(asked):
        return _next_moment(what, _rule(what, asked))
    if isinstance(asked, Rule | Spaced):
        return _next_moment(what, asked)
    if isinstance(asked, str):
        with suppress(ValueError):
            return datetime.fromisoformat(asked.strip())
    return when_of(what, asked)


def _rule(what: str, text: str) -> Rule | Spaced:
    try:
        return parse(text)
    except ZoneMissing:
        needs = f'names an hour, so it needs a time zone: write "{text} Europe/Berlin"'
        raise InvalidValue(f'{what}="{text}" {needs}') from None
    except RuleError as error:
        raise InvalidValue(f"{what}: {error}") from None


def _next_moment(what: str, rule: Rule | Spaced) -> datetime:
    if isinstance(rule, On | Spaced):
        raise InvalidValue(f'{what}="{rule}" has no times of its own: say a delay, as "5m"')
    with Budget():
        moment = rule.after(now())
    if moment is None:
        raise InvalidValue(f'{what}="{rule}" has no later time')
    return moment


def is_rule(text: str) -> bool:
    """Return whether a text is meant as a rule, not as a moment in ISO 8601 or a length of time."""
    for read in (parse_duration, datetime.fromisoformat):
        with suppress(RuleError, ValueError):
            read(text.strip())
            return False
    return bool(re.search(r"[\s:*]", text.strip()))


def priority_of(asked: object) -> int:
    if isinstance(asked, str) and asked in PRIORITIES:
        return PRIORITIES[asked]
    if type(asked) is not int or not LOWEST <= asked <= HIGHEST:
        words = ", ".join(f'"{word}"' for word in PRIORITIES)
        raise InvalidValue(
            f"priority={asked!r}: expected {words}, or a whole number from {LOWEST} to {HIGHEST} "
            "(higher runs sooner)"
        )
    return asked


def retry_of(asked: object) -> Retry:
    """Return a retry policy; None means that the task is never retried."""
    if asked is None:
        return NEVER
    if not isinstance(asked, Retry):
        raise InvalidValue(
            f"retry={asked!r}: expected retry=Retry(attempts=5), or None for no retries"
        )
    return asked


def memory_of(asked: object) -> int:
    """Return a number of bytes: ``"2GB"`` is 2,000,000,000, ``"2GiB"`` is 2,147,483,648."""
    found = _MEMORY.fullmatch(asked.strip()) if isinstance(asked, str) else None
    if found is None:
        raise InvalidValue(f'memory={asked!r}: write it as "500MB", "2GB" or "2GiB"')
    size: int = round(float(found[1]) * _UNITS[found[2]])
    if not LEAST_MEMORY <= size < 2**63:
        raise InvalidValue(f'memory="{asked}": the minimum is {LEAST_MEMORY // 1000000}MB')
    return size


def needs_of(asked: object) -> dict[str, int]:
    if not isinstance(asked, Mapping) or len(asked) > MOST_NEEDS:
        raise InvalidValue(
            f"needs={asked!r}: expected at most {MOST_NEEDS} resources with their amounts, as "
            '{"gpu": 1}'
        )
    for name, amount in asked.items():
        name_of("needs", name)
        if type(amount) is not int or not 0 < amount < 2**31:
            raise InvalidValue(f'needs: "{name}" is {amount!r}: an amount is a whole number from 1')
    return dict(asked)


def task_of(what: str, asked: object) -> str | None:
    """Return the name of a task, given as its name or as the task itself."""
    if asked is None:
        return None
    found = asked if isinstance(asked, str) else getattr(asked, "name", None)
    if not isinstance(found, str):
        raise InvalidValue(f"{what}={asked!r}: expected a task, or the name of one")
    return name_of(what, found)


def _parsed(what: str, asked: object) -> timedelta:
    if is_bare_number(asked):
        raise InvalidValue(f'{what}={asked}: a unit is missing: write "{asked}s" or "{asked}m"')
    try:
        return parse_duration(asked)  # type: ignore[arg-type]  # it refuses other types
    except RuleError as error:
        raise InvalidValue(f"{what}: {error}") from None
