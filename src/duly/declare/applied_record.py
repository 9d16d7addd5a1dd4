"""What is remembered of a file that was applied: what it said, and what was decided beside it.

A file may leave a queue or a title to its task. Whether a person has changed that since can only be
told by what the task decided then, so it is remembered too: in a last line that is a comment to
whoever reads the rest as a file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from duly.declare.file_text import read, write
from duly.declare.schedule_file import ScheduleEntry, ScheduleFile

# What a task decides if the file does not.
DECIDED: Final = ("title", "queue", "priority", "timeout", "attempts")
Decided: TypeAlias = Mapping[str, object]  # by field

_MARK: Final = "# decided: "


@dataclass(frozen=True, slots=True)
class Record:
    sheet: ScheduleFile
    decided: Mapping[str, Decided] = field(default_factory=dict)  # by schedule

    def applied_as(self, name: str) -> dict[str, Any]:
        """What of that was applied last, by whoever's word; what nobody knows is not in it."""
        entry = self.sheet.schedules.get(name)
        return {**self.decided.get(name, {}), **({} if entry is None else spoken(entry))}


def spoken(entry: ScheduleEntry) -> dict[str, Any]:
    """What of that the file says itself."""
    return {name: found for name in DECIDED if (found := getattr(entry, name)) not in (None, "")}


def write_record(record: Record) -> str:
    decided = json.dumps(record.decided, sort_keys=True) if record.decided else ""
    return f"{write(record.sheet)}{_MARK}{decided}\n" if decided else write(record.sheet)


def read_record(text: str, *, place: str) -> Record:
    said = said_in(text)
    line = text.removeprefix(said).removeprefix(_MARK)
    return Record(read(said, place=place), json.loads(line) if line else {})


def said_in(record: str) -> str:
    """The part of it that the file said."""
    before, _, line = record.removesuffix("\n").rpartition("\n")
    return f"{before}\n" if line.startswith(_MARK) else record
