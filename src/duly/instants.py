"""Conversion between datetimes and instants: microseconds since 1970-01-01T00:00Z."""

from datetime import UTC, datetime, timedelta

from duly.errors import RuleError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# All moments lie between these: the local days of 1970 to 2199 in every zone.
BEGINNING = datetime(1969, 12, 30, tzinfo=UTC)
HORIZON = datetime(2200, 1, 2, tzinfo=UTC)


def to_us(moment: datetime) -> int:
    try:
        since = moment - EPOCH
    except TypeError:
        wrong = "naive" if type(moment) is datetime else "not a datetime"
        raise RuleError(
            f"{moment!r} is {wrong}: a time needs a zone, as in datetime(…, tzinfo=UTC)"
        ) from None
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_us(instant: int) -> datetime:
    return EPOCH + timedelta(microseconds=instant)


def floored(moment: datetime, step: timedelta) -> datetime:
    """Round a moment down to a multiple of ``step`` in UTC, such as the whole hour."""
    return moment - (moment - EPOCH) % step


FIRST_US = to_us(BEGINNING)
LAST_US = to_us(HORIZON)
