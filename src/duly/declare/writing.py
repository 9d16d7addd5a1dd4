"""From what a file says to its text: what ``read`` reads back.

A line for each key that says something, in one order always, so that two versions of a file differ
where they say something different. The note of an entry that is not paused is a remark for people:
it becomes a comment, and is not read back.
"""

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields

from duly.declare.notation import string, table, value
from duly.declare.sheet import Entry, LimitEntry, QueueEntry, Sheet
from duly.errors import InvalidValue
from duly.model.payload import encode

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def write(sheet: Sheet) -> str:
    return "\n\n".join(_blocks(sheet)) + "\n"


def write_entry(kind: str, entry: Entry | QueueEntry | LimitEntry) -> str:
    """One table: ``kind`` is ``schedules``, ``queues`` or ``limits``."""
    said = [f"{field.name} = {text}" for field in fields(entry) if (text := _text(entry, field))]
    return "\n".join([*_comment(entry), table(kind, entry.name), *said])


def _blocks(sheet: Sheet) -> Iterator[str]:
    if sheet.zone is not None:
        yield f"[defaults]\nzone = {string(sheet.zone)}"
    for name, rule in sheet.calendars.items():
        yield f"{table('calendars', name)}\nrule = {string(rule)}"
    yield from (write_entry("queues", entry) for entry in sheet.queues.values())
    yield from (write_entry("limits", entry) for entry in sheet.limits.values())
    yield from (write_entry("schedules", entry) for entry in sheet.schedules.values())


def _text(entry: Entry | QueueEntry | LimitEntry, field: Field[object]) -> str:
    """The value of a key; nothing for what is not said."""
    found = getattr(entry, field.name)
    unsaid = field.default_factory() if field.default_factory is not MISSING else field.default
    if field.name == "name" or found == unsaid or (field.name == "note" and _remark(entry)):
        return ""
    if field.name != "args":
        return value(found)
    try:
        return value(found)
    except InvalidValue:  # there is a None in it, for which TOML has no word and JSON has
        return string(encode(dict(found)))


def _comment(entry: Entry | QueueEntry | LimitEntry) -> list[str]:
    return [f"# {_CONTROL.sub(' ', line)}".rstrip() for line in _remark(entry).splitlines()]


def _remark(entry: Entry | QueueEntry | LimitEntry) -> str:
    return "" if isinstance(entry, LimitEntry) or entry.paused else entry.note
