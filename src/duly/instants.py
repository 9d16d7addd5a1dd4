"""Moments outside, integers inside: microseconds since 1970-01-01T00:00Z."""

from datetime import UTC, datetime, timedelta

from duly.errors import RuleError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Moments lie between these: the local days of 1970 to 2199, anywhere on earth.
BEGINNING = datetime(1969, 12, 30, tzinfo=UTC)
HORIZON = datetime(2200, 1, 2, tzinfo=UTC)


def to_us(moment: datetime) -> int:
    try:
        since = moment - EPOCH
    except TypeError:
        wrong = "naive" if type(moment) is datetime else "not a datetime"
        raise RuleError(
            f"{moment!r} is {wrong}: a moment needs a zone, as in datetime(…, tzinfo=UTC)"
        ) from None
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_us(instant: int) -> datetime:
    return EPOCH + timedelta(microseconds=instant)


def floored(moment: datetime, step: timedelta) -> datetime:
    """The last whole hour, minute or whatever the step is, counted by UTC."""
    return moment - (moment - EPOCH) % step


FIRST_US = to_us(BEGINNING)
LAST_US = to_us(HORIZON)
