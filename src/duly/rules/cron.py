"""Cron lines, as Debian's cron reads them, with common extensions.

Five fields, or six with seconds first: minute, hour, day of month, month, day of week. Beyond
Vixie's grammar: ``L``, ``L-3``, ``LW``, ``15W``, ``5L``, ``FRI#2``, ``?``, ``a/n``, ranges that
wrap round (``22-2``, ``fri-mon``) and ``H``, a value picked by the hash of a name.

Two details of Vixie cron are kept, because existing crontabs depend on them. If the text of either
day field begins with ``*`` (also ``*/2``) both must match, otherwise one is enough. And a rule is a
**wildcard** if the text of its minute or hour begins with ``*``, otherwise it is **fixed**:
``dst="cron"`` depends on that at clock changes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from duly.errors import RuleError
from duly.rules.days import LAST, FieldDays, full, members, pack, shared
from duly.rules.explain import ordinal
from duly.rules.rule_text import RuleText, close_to, never_occurs, read, written, zone_missing
from duly.rules.wall_times import ON_THE_MINUTE, SECOND, WallTimes, minutes_of_day
from duly.rules.zone import dst_policy, unknown_zone
from duly.rules.zoned import Zoned

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True)
class CronField:
    """A field of a cron line: its name, range and names of values."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    last_hashed: int = 0  # the largest value that H picks: one that every month and week has


SECOND_FIELD = CronField("second", 0, 59, last_hashed=59)
FIELDS = (
    CronField("minute", 0, 59, last_hashed=59),
    CronField("hour", 0, 23, last_hashed=23),
    CronField("day of month", 1, 31, last_hashed=28),
    CronField("month", 1, 12, tuple(MONTHS), last_hashed=12),
    CronField("day of week", 0, 7, tuple(WEEKDAYS), last_hashed=6),
)
DAY_OF_MONTH: Final = FIELDS[2]
DAY_OF_WEEK: Final = FIELDS[4]

_ITEM = re.compile(
    r"(?:(?P<star>[*?])|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\w+))?", re.ASCII
)
_HASHED = re.compile(r"H(?:\((?P<low>\d+)-(?P<high>\d+)\))?(?:/(?P<step>\d+))?", re.ASCII)
_LAST = re.compile(r"L(?:-(?P<before>\d+))?", re.ASCII | re.IGNORECASE)
_NEAREST = re.compile(r"(?P<day>\d+|L)W", re.ASCII | re.IGNORECASE)
_ZONE_LIKE = re.compile(r"[A-Za-z]{2,}\w*|[+-]\d{2}:?\d{2}|Z", re.ASCII)
_NTH = re.compile(r"(?P<weekday>\w+)(?:#(?P<n>\d+)|L)", re.ASCII | re.IGNORECASE)


def cron(
    text: str, *, zone: str | None = None, dst: str = "cron", name: str | None = None
) -> Zoned:
    """Read a cron line.

    ``H`` is a hash of ``name``: pass the schedule's name, so that its value stays the same.
    """
    source = read(text, zone=zone, dst=dst)
    columns = _columns(source, name)
    *seconds, minute, hour, _, _, _ = columns
    days = _days(columns)
    if not days.ever():
        raise never_occurs(source.body)
    if source.zone is None and (named := _named(hour, days)):
        raise zone_missing(source, named)
    wall = WallTimes(
        days,
        minutes_of_day(hour.bits, minute.bits),
        tuple(second * SECOND for second in members(seconds[0].bits)) if seconds else ON_THE_MINUTE,
    )
    policy = dst_policy(source.dst, fixed=not (minute.starred or hour.starred))
    plain = " ".join(column.text for column in columns)
    text = written(plain, source.zone, policy)
    return Zoned(wall, source.zone or "UTC", policy, text, stated=source.zone is not None)


@dataclass
class ParsedField:
    """A parsed field. Weekdays are still counted as in cron, from Sunday (0 or 7)."""

    field: CronField
    text: str
    where: str
    source: RuleText
    start: int
    bits: int = 0
    last: int = 0
    nearest: int = 0
    nth: frozenset[tuple[int, int]] = frozenset()

    @property
    def starred(self) -> bool:
        return self.text[0] == "*"

    def number(self, word: str) -> int:
        field = self.field
        if word.isdigit():
            number = int(word)
        elif word.lower() in field.names:
            number = field.names.index(word.lower()) + field.low
        else:
            raise self.error(f'"{word}" is not a {field.name}', word, close_to(word, field.names))
        if not field.low <= number <= field.high:
            message = f"{field.name} {word} is out of range {field.low}–{field.high}"
            raise self.error(message, word)
        return number

    def error(self, message: str, word: str = "", suggestions: Sequence[str] = ()) -> RuleError:
        return RuleError(
            f"{message} ({self.where})",
            text=self.source.text,
            position=self.start + max(self.text.find(word), 0),
            suggestions=suggestions,
        )


def _columns(source: RuleText, name: str | None) -> list[ParsedField]:
    body = ALIASES.get(source.body.lower(), source.body)
    words = list(re.finditer(r"\S+", body))
    if len(words) > 5 and _ZONE_LIKE.fullmatch(words[-1][0]) and not _weekday(words[-1][0]):
        raise unknown_zone(
            words[-1][0], text=source.text, position=source.start + words[-1].start()
        )
    if len(words) not in (5, 6) or body.startswith("@"):
        raise _wrong_shape(source, len(words))
    columns = []
    for number, word in enumerate(words, 1):
        field = ((SECOND_FIELD, *FIELDS) if len(words) == 6 else FIELDS)[number - 1]
        where = f'field {number} of "{source.body}"'
        column = ParsedField(field, word[0], where, source, source.start + word.start())
        if column.text == "?" and field in (DAY_OF_MONTH, DAY_OF_WEEK):
            column.text = "*"
        items = [_plain(item, column, name) for item in column.text.split(",")]
        for item in items:
            _read_item(item, column)
        column.text = ",".join(items)
        columns.append(column)
    return columns


def _weekday(word: str) -> bool:
    return word.lower().removesuffix("l") in WEEKDAYS


def _wrong_shape(source: RuleText, words: int) -> RuleError:
    if source.body.lower() == "@reboot":
        message = "@reboot is not a rule about time: run the task when your program starts"
        return RuleError(message, text=source.text, position=source.start)
    if source.body.startswith("@"):
        close = close_to(source.body, tuple(ALIASES))
        message = f'"{source.body}" is not one of {", ".join(ALIASES)}'
        return RuleError(message, text=source.text, position=source.start, suggestions=close)
    command = "; leave out the command" if words > 6 else ""
    return RuleError(
        f"a cron line has 5 fields (minute hour day month weekday), or 6 with seconds first; "
        f'"{source.body}" has {words}{command}',
        text=source.text,
        position=source.start,
    )


def _plain(item: str, column: ParsedField, name: str | None) -> str:
    """Replace ``H`` in an item with the value or range that the hash of the name picks."""
    found = _HASHED.fullmatch(item)
    if not found:
        return item
    if not name:
        raise column.error("H is picked by the schedule's name: give one (name=, --name)", item)
    field = column.field
    low = column.number(found["low"]) if found["low"] else field.low
    high = column.number(found["high"]) if found["high"] else field.last_hashed
    if low > high:
        raise column.error(f"the range {low}-{high} of {item} is backwards", item)
    digest = blake2b(f"{field.name}:{name}".encode(), digest_size=8).digest()
    picked = int.from_bytes(digest, "big")
    if not found["step"]:
        return str(low + picked % (high - low + 1))
    step = int(found["step"])
    if not step:
        raise column.error(f"{item} has a step of 0; the smallest is 1", item)
    return f"{min(low + picked % step, high)}-{high}/{step}"


def _read_item(item: str, column: ParsedField) -> None:
    """Add one item of a list to its field."""
    if column.field is DAY_OF_MONTH and (found := _LAST.fullmatch(item)):
        before = int(found["before"] or 0)
        if before > 30:
            raise column.error(f"{item} is before the month begins; the furthest is L-30", item)
        column.last |= 2 << before
    elif column.field is DAY_OF_MONTH and (found := _NEAREST.fullmatch(item)):
        day = 0 if found["day"] in "lL" else column.number(found["day"])
        column.nearest |= 1 << day
    elif column.field is DAY_OF_WEEK and (found := _NTH.fullmatch(item)):
        n = int(found["n"] or 0)
        if found["n"] and not 1 <= n <= 5:
            raise column.error(
                f"{item} asks for the {ordinal(n)} such day of a month; it has 1 to 5", item
            )
        weekday = (column.number(found["weekday"]) - 1) % 7
        column.nth |= {(weekday, n or LAST)}
    else:
        column.bits |= pack(_values(item, column))


def _values(item: str, column: ParsedField) -> list[int]:
    field = column.field
    found = _ITEM.fullmatch(item)
    if not found or (found["star"] == "?"):
        raise column.error(f'"{item}" is not a {field.name}, a range or a step', item)
    step = found["step"] or "1"
    if not step.isdigit() or not int(step):
        raise column.error(f'"{step}" in {item} is not a step; write a number from 1', item)
    if found["star"]:
        low, high = field.low, field.high
    else:
        low = column.number(found["low"])
        last = min(field.high, field.low + _cycle(field) - 1) if found["step"] else low
        high = column.number(found["high"]) if found["high"] else max(last, low)
    if low <= high:
        return [_value(field, value) for value in range(low, high + 1, int(step))]
    span = (high - low) % _cycle(field)
    return [_value(field, low + value) for value in range(0, span + 1, int(step))]


def _cycle(field: CronField) -> int:
    return 7 if field is DAY_OF_WEEK else field.high - field.low + 1


def _value(field: CronField, value: int) -> int:
    return (value - field.low) % _cycle(field) + field.low


def _days(columns: list[ParsedField]) -> FieldDays:
    *_, day, month, weekday = columns
    either = not (day.starred or weekday.starred)
    if either and (day.bits == full(1, 31) or weekday.bits & full(0, 6) == full(0, 6)):
        return shared(FieldDays(months=month.bits))  # one of the two fields matches every day
    days = FieldDays(
        months=month.bits,
        dates=day.bits,
        last=day.last,
        nearest=day.nearest,
        weekdays=weekday.bits >> 1 | (weekday.bits & 1) << 6,
        nth=weekday.nth,
        either=either,
    )
    return shared(days)


def _named(hour: ParsedField, days: FieldDays) -> str | None:
    if hour.bits != full(0, 23):
        return "an hour"
    return None if days.all else "a day"
