"""Reading and writing the text of a file of schedules.

Reading refuses everything that is wrong without asking a store, by table and key, so that a file
that was read can be applied: ``schedules.toml: [schedules.backup] overlap = "skipp": …``.

Writing has one line for each key that is set, always in the same order, so that diffs are small.
The note of an entry that is not paused becomes a comment, which is not read back.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final, TypeVar

from duly.errors import InvalidValue, RuleError, ZoneMissing
from duly.files.field_readers import (
    CALENDAR,
    DEFAULTS,
    LIMIT,
    QUEUE,
    SCHEDULE,
    Reader,
    arguments,
    near,
    policies,
)
from duly.files.schedule_file import (
    LimitEntry,
    QueueEntry,
    ScheduleEntry,
    ScheduleFile,
    check_name,
    shown,
    string,
    table,
    toml_value,
)
from duly.files.schedule_file import key as quoted
from duly.model.payload import encode
from duly.model.schedule import Plan
from duly.model.template import names_in
from duly.rules import Spaced, parse

LONGEST: Final = 1_000_000
MOST_ENTRIES: Final = 10_000

T = TypeVar("T")

_TABLES = ("defaults", "schedules", "queues", "limits", "calendars")
_PLACED = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def read(text: str, *, place: str = "schedules.toml", zone: str | None = None) -> ScheduleFile:
    """Read a file; ``place`` is its name in error messages.

    ``zone`` is for rules without a zone, if the file has no default zone.
    """
    try:
        return _sheet(_toml(text), zone)
    except (InvalidValue, RuleError) as error:
        raise InvalidValue(f"{place}: {error}") from None


def _toml(text: str) -> dict[str, Any]:
    if len(text) > LONGEST:
        raise InvalidValue(
            f"{len(text):,} characters, and at most {LONGEST:,} are read: make two files of it"
        )
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # the byte order mark of some editors
    except RecursionError:
        raise InvalidValue("it is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(_syntax(str(error), text)) from None
    except ValueError:
        raise InvalidValue("a number in it has too many digits to be read") from None


def _syntax(message: str, text: str) -> str:
    if found := _PLACED.fullmatch(message):
        return f"line {found[2]}, column {found[3]}: {found[1]}"
    end = len(text.splitlines())
    return f"line {end}, at the end: {message.removesuffix(' (at end of document)')}"


def _sheet(found: Mapping[str, object], unsaid: str | None) -> ScheduleFile:
    for name, value in found.items():
        if name not in _TABLES:
            raise InvalidValue(_unknown_table(name, value))
    _count(found)
    zone = _defaults(found.get("defaults", {})) or unsaid
    sheet = ScheduleFile(
        schedules=_entries(found, "schedules", _schedule),
        queues=_entries(found, "queues", _queue),
        limits=_entries(found, "limits", _limit),
        calendars=_entries(found, "calendars", lambda name, said: _calendar(name, said, zone)),
        zone=zone,
    )
    for entry in sheet.schedules.values():
        _check_timing(entry, sheet)
    return sheet


def _unknown_table(name: str, value: object) -> str:
    if not isinstance(value, Mapping):
        return (
            f"{quoted(name)} = {shown(value)} stands outside any table: "
            "put it below a line such as [schedules.backup]"
        )
    meant = near(name, _TABLES) or f"; there are {', '.join(f'[{known}]' for known in _TABLES)}"
    return f"{table(name)} is not known{meant}"


def _count(found: Mapping[str, object]) -> None:
    tables = [found[name] for name in _TABLES[1:] if name in found]
    count = sum(len(entries) for entries in tables if isinstance(entries, Mapping))
    if count > MOST_ENTRIES:
        raise InvalidValue(
            f"{count:,} entries, and at most {MOST_ENTRIES:,} are read: make two files of it"
        )


def _defaults(found: object) -> str | None:
    if not isinstance(found, Mapping):
        raise InvalidValue(f"defaults = {shown(found)}: it is a table, [defaults]")
    zone: str | None = _checked("[defaults]", found, DEFAULTS).get("zone")
    return zone


def _entries(
    found: Mapping[str, object], kind: str, entry: Callable[[str, Mapping[str, object]], T]
) -> dict[str, T]:
    entries = found.get(kind, {})
    if not isinstance(entries, Mapping):
        raise InvalidValue(f"{kind} is a table for each, as [{kind}.NAME]")
    made = {}
    for name, said in entries.items():
        check_name(kind, name)
        if not isinstance(said, Mapping):
            raise InvalidValue(
                f"[{kind}] {quoted(name)} = {shown(said)}: a table for each, as [{kind}.NAME]"
            )
        made[name] = entry(name, said)
    return made


def _schedule(name: str, said: Mapping[str, object]) -> ScheduleEntry:
    place = table("schedules", name)
    found = _checked(place, said, SCHEDULE)
    if "rule" not in found:
        raise InvalidValue(f'{place} needs a rule, as rule = "30 2 * * *"')
    if "args" in found:
        found["args"] = arguments(found["args"])
    for listed in ("command", "tags"):
        if listed in found:
            found[listed] = tuple(found[listed])
    return ScheduleEntry(name=name, **found)


def _queue(name: str, said: Mapping[str, object]) -> QueueEntry:
    return QueueEntry(name=name, **_checked(table("queues", name), said, QUEUE))


def _limit(name: str, said: Mapping[str, object]) -> LimitEntry:
    place = table("limits", name)
    entry = LimitEntry(name=name, **_checked(place, said, LIMIT))
    try:
        names_in(name)
    except InvalidValue as error:
        raise InvalidValue(f"{place} {error}") from None
    return entry


def _calendar(name: str, said: Mapping[str, object], zone: str | None) -> str:
    place = table("calendars", name)
    found = _checked(place, said, CALENDAR)
    if "rule" not in found:
        raise InvalidValue(f'{place} needs a rule, as rule = "Sat,Sun" or "holidays(DE-BE)"')
    rule: str = found["rule"]
    try:
        days = parse(rule, zone=zone, name=name)
    except ZoneMissing:  # the schedule that uses the calendar may have a zone
        return rule
    except RuleError as error:
        raise _wrong(place, "rule", rule, str(error)) from None
    if isinstance(days, Spaced):
        raise _wrong(place, "rule", rule, "a fixed delay has no scheduled times to exclude")
    return rule


def _checked(
    place: str, said: Mapping[str, object], readers: Mapping[str, Reader]
) -> dict[str, Any]:
    """Return the table as it was written, after checking every key."""
    for key, value in said.items():
        if key not in readers:
            raise InvalidValue(f"{place} {_unknown_key(place, key, value, readers)}")
        try:
            readers[key](value)
        except (InvalidValue, RuleError) as error:
            raise _wrong(place, key, value, str(error)) from None
    return dict(said)


def _unknown_key(place: str, key: str, value: object, readers: Mapping[str, Reader]) -> str:
    known = tuple(readers)
    meant = near(key, known) or f"; there are {', '.join(known)}"
    if isinstance(value, Mapping) and not near(key, known):
        room, name = place.strip("[]").split(".", 1) if "." in place else (place, key)
        meant = f"; a name with a dot is quoted: [{room}.{string(f'{name}.{key}')}]"
    return f"{quoted(key)} is not known{meant}"


def _wrong(place: str, key: str, value: object, problem: str) -> InvalidValue:
    # An error inside a table names its own key.
    said = f"{key}:" if isinstance(value, Mapping) else f"{key} = {shown(value)}:"
    return InvalidValue(f"{place} {said} {problem}")


def _check_timing(entry: ScheduleEntry, sheet: ScheduleFile) -> None:
    """Check that the rule can be evaluated, with its zone, name and exclusion."""
    alone = sheet.resolved_entry(entry)
    try:
        Plan(
            name=alone.name,
            rule=alone.rule,
            zone=alone.zone,
            task=alone.kind,
            policies=policies(alone),
        )
    except (InvalidValue, RuleError) as error:
        # The error of a plan does not say whether the rule or the exclusion is wrong.
        _check_rule(alone, "rule", alone.rule)
        if alone.exclude is not None:
            _check_exclude(entry, alone, tuple(sheet.calendars))
        raise InvalidValue(f"{table('schedules', entry.name)}: {error}") from None


def _check_exclude(entry: ScheduleEntry, alone: ScheduleEntry, calendars: tuple[str, ...]) -> None:
    said = str(entry.exclude)
    meant = near(said, calendars)
    try:
        _check_rule(alone, "exclude", said, rule=alone.exclude)
    except InvalidValue:
        if said in calendars or not meant:
            raise
        problem = f"neither a rule nor a calendar of this file{meant}"
        raise _wrong(table("schedules", entry.name), "exclude", said, problem) from None


def _check_rule(alone: ScheduleEntry, key: str, said: str, *, rule: str | None = None) -> None:
    place = table("schedules", alone.name)
    try:
        parse(rule or said, zone=alone.zone, dst=alone.dst or "cron", name=alone.name)
    except ZoneMissing:
        problem = (
            "it names an hour or a day, so it needs a time zone: add zone = "
            '"Europe/Berlin" here, or once under [defaults]'
        )
        raise _wrong(place, key, said, problem) from None
    except RuleError as error:
        raise _wrong(place, key, said, str(error)) from None


def write(sheet: ScheduleFile) -> str:
    return "\n\n".join(_blocks(sheet)) + "\n"


def write_entry(kind: str, entry: ScheduleEntry | QueueEntry | LimitEntry) -> str:
    """Return the text of one table; ``kind`` is ``schedules``, ``queues`` or ``limits``."""
    said = [f"{field.name} = {text}" for field in fields(entry) if (text := _text(entry, field))]
    return "\n".join([*_comment(entry), table(kind, entry.name), *said])


def _blocks(sheet: ScheduleFile) -> Iterator[str]:
    if sheet.zone is not None:
        yield f"[defaults]\nzone = {string(sheet.zone)}"
    for name, rule in sheet.calendars.items():
        yield f"{table('calendars', name)}\nrule = {string(rule)}"
    yield from (write_entry("queues", entry) for entry in sheet.queues.values())
    yield from (write_entry("limits", entry) for entry in sheet.limits.values())
    yield from (write_entry("schedules", entry) for entry in sheet.schedules.values())


def _text(entry: ScheduleEntry | QueueEntry | LimitEntry, field: Field[object]) -> str:
    """Return the text of a key's value; an empty text for a default."""
    found = getattr(entry, field.name)
    unsaid = field.default_factory() if field.default_factory is not MISSING else field.default
    if field.name == "name" or found == unsaid or (field.name == "note" and _remark(entry)):
        return ""
    if field.name != "args":
        return toml_value(found)
    try:
        return toml_value(found)
    except InvalidValue:  # it contains None: TOML has no null, JSON text has
        return string(encode(dict(found)))


def _comment(entry: ScheduleEntry | QueueEntry | LimitEntry) -> list[str]:
    return [f"# {_CONTROL.sub(' ', line)}".rstrip() for line in _remark(entry).splitlines()]


def _remark(entry: ScheduleEntry | QueueEntry | LimitEntry) -> str:
    return "" if isinstance(entry, LimitEntry) or entry.paused else entry.note
