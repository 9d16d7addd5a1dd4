"""The fields that requests of all nouns share, and the bases of bodies and answers.

A body refuses fields that it does not know; a field that is left out is not the same as one that is
null. Moments are RFC 3339, durations texts such as ``5m``.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Self, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta

from duly.durations import is_bare_number, parse_duration
from duly.errors import InvalidValue, RuleError, ZoneMissing
from duly.model.policies import check_moment
from duly.registry.option_values import is_rule
from duly.rules import at

T = TypeVar("T")

MOST: Final = 1_000  # of a list, at once
LARGEST: Final = 2**63 - 1
_BEGINNING = datetime.min.replace(tzinfo=UTC)

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MOST, description="Maximum number of items.")]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)]
JobId: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST, description="The id of a job.")]
Duration: TypeAlias = Annotated[str, Meta(description="A duration.", examples=["5m"])]
When: TypeAlias = Annotated[
    str,
    Meta(
        description="A time, as 2026-03-05T02:00:00Z, or a duration from now, as 2h.",
        examples=["2h"],
    ),
]
Since: TypeAlias = Annotated[
    str,
    Meta(
        description="A time, as 2026-03-05T02:00:00Z, or a duration ago, as 7d.",
        examples=["7d"],
    ),
]
Words: TypeAlias = Annotated[
    str,
    Meta(
        description="Which are meant, in the words of `duly jobs`: "
        "state:failed task:send* queue:mail error~timeout since:2h. Empty: all.",
        examples=["state:failed"],
    ),
]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of request bodies."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The base of responses."""

    @classmethod
    def of(cls, value: object, **fields: Any) -> Self:
        """Return the response with the attributes of a value, and other ``fields``."""
        names = (name for name in cls.__struct_fields__ if name not in fields)
        return msgspec.convert({name: getattr(value, name) for name in names} | fields, cls)


def said_in(body: msgspec.Struct, *names: str) -> dict[str, Any]:
    """Return the fields that are present in the body."""
    found = {name: getattr(body, name) for name in names}
    return {name: value for name, value in found.items() if value is not UNSET}


def when_in(what: str, text: str | None, *, zone: str | None = None) -> datetime | timedelta | None:
    """Parse a time, or a duration from now; a time without an offset is in ``zone``."""
    if text is None or not text.strip():
        return None
    if is_bare_number(text) or text.strip().isdecimal():
        raise InvalidValue(
            f'{what}={text}: say "{text.strip()}s" or "{text.strip()}m", or a moment'
        )
    try:
        return parse_duration(text)
    except RuleError:
        return moment_in(what, text, zone=zone)


def start_in(what: str, text: str | None) -> datetime | timedelta | str | None:
    """Return the earliest start of a job; a rule, which stands for its next moment, as text."""
    return text if text and is_rule(text) else when_in(what, text)


def moment_in(what: str, text: str, *, zone: str | None = None) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidValue(
            f"{what}={text[:100]!r}: a moment is written as 2026-03-05T02:00:00Z, "
            "a length of time as 2h"
        ) from None
    if found.tzinfo is None:
        found = _on_the_clock(what, found, zone)
    check_moment(what, found)
    return found


def _on_the_clock(what: str, naive: datetime, zone: str | None) -> datetime:
    try:
        found = at(naive.isoformat(), zone=zone).after(_BEGINNING)
    except ZoneMissing:
        raise InvalidValue(f"{what}={naive.isoformat()}: in which zone? Say …Z for UTC") from None
    except RuleError as error:
        raise InvalidValue(f"{what}: {error}") from None
    if found is None:
        raise InvalidValue(f"{what}={naive.isoformat()} does not exist in {zone}")
    return found


def since_in(
    what: str, text: str | None, now: datetime, *, zone: str | None = None
) -> datetime | None:
    """Parse a time, or a duration before ``now``."""
    found = when_in(what, text, zone=zone)
    if not isinstance(found, timedelta):
        return found
    try:
        moment = now - found
    except OverflowError:
        raise InvalidValue(f"{what}={text}: that is longer ago than anything") from None
    check_moment(what, moment)
    return moment
