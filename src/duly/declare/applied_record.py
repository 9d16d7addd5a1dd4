"""The record of an applied file: its content, and the values that tasks decided.

A file may leave a queue or a title to its task. To notice that a person changed it later, the value
that the task decided is recorded too, in a last line that is a TOML comment.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from duly.declare.file_text import read, write
from duly.declare.schedule_file import ScheduleEntry, ScheduleFile

# Fields that the task decides if the file does not set them.
DECIDED: Final = ("title", "queue", "priority", "timeout", "attempts")
Decided: TypeAlias = Mapping[str, object]  # by field

_MARK: Final = "# decided: "


@dataclass(frozen=True, slots=True)
class Record:
    sheet: ScheduleFile
    decided: Mapping[str, Decided] = field(default_factory=dict)  # by schedule

    def applied_as(self, name: str) -> dict[str, Any]:
        """Return the applied values of these fields, set by the file or decided by the task."""
        entry = self.sheet.schedules.get(name)
        return {**self.decided.get(name, {}), **({} if entry is None else spoken(entry))}


def spoken(entry: ScheduleEntry) -> dict[str, Any]:
    """Return the fields among ``DECIDED`` that the file sets itself."""
    return {name: found for name in DECIDED if (found := getattr(entry, name)) not in (None, "")}


def write_record(record: Record) -> str:
    decided = json.dumps(record.decided, sort_keys=True) if record.decided else ""
    return f"{write(record.sheet)}{_MARK}{decided}\n" if decided else write(record.sheet)


def read_record(text: str, *, place: str) -> Record:
    said = said_in(text)
    line = text.removeprefix(said).removeprefix(_MARK)
    return Record(read(said, place=place), json.loads(line) if line else {})


def said_in(record: str) -> str:
    """Return the part of a record that is the file's content."""
    before, _, line = record.removesuffix("\n").rpartition("\n")
    return f"{before}\n" if line.startswith(_MARK) else record
