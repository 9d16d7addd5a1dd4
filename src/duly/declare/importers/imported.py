"""What an importer brings home: a sheet, and notes about what is not in it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from duly.declare.reading import LONGEST, MOST_ENTRIES, read
from duly.declare.sheet import LONGEST_NAME, Entry, Sheet
from duly.declare.writing import write
from duly.errors import InvalidValue, RuleError, ZoneMissing
from duly.rules import parse
from duly.rules.fields import checked_zone

MOST_NOTES: Final = 20_000
LONGEST_TITLE: Final = 200  # a job's title is a line in a list


@dataclass(frozen=True, slots=True)
class Imported:
    """The sheet to write, and one sentence for each thing that it does not say."""

    sheet: Sheet
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()  # those of them about what could not be read


@dataclass(slots=True)
class Basket:
    """What an importer has gathered so far: entries that can be written and read again."""

    entries: dict[str, Entry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    _taken: Counter[str] = field(default_factory=Counter)  # how many have a name and its numbers
    _length: int = 0  # of the file

    def note(self, where: str, sentence: str) -> None:
        if len(self.notes) >= MOST_NOTES:
            raise InvalidValue(
                f"there are more than {MOST_NOTES:,} things in it that cannot be carried, the last "
                f"at {where}: is it what it was taken for?"
            )
        self.notes.append(f"{where}: {sentence}")

    def leave_out(self, where: str, problem: object) -> None:
        """What cannot be read is not in the file, and somebody may count on it."""
        self.note(where, f"{problem}; it is left out")
        self.unread.append(self.notes[-1])

    def free_name(self, wanted: str) -> str:
        """``backup``, and if that is taken ``backup-2``."""
        wanted = wanted[: LONGEST_NAME - 6]
        taken = self._taken[wanted]
        name = f"{wanted}-{taken + 1}" if taken else wanted
        while name in self.entries:
            taken += 1
            name = f"{wanted}-{taken + 1}"
        self._taken[wanted] = taken
        return name

    def add(self, where: str, entry: Entry) -> bool:
        """Keep the entry, or note why it cannot be kept."""
        try:
            parse(entry.rule, zone=entry.zone, dst=entry.dst or "cron", name=entry.name)
            text = write(Sheet(schedules={entry.name: entry}))
            read(text)
        except (RuleError, InvalidValue) as error:
            self.leave_out(where, error)
            return False
        self.entries[entry.name] = entry
        self._length += len(text) + 1
        if len(self.entries) > MOST_ENTRIES or self._length > LONGEST:
            raise InvalidValue(
                f"this makes a file of more than {MOST_ENTRIES:,} entries or {LONGEST:,} "
                "characters, and no such file is read: take it in parts"
            )
        return True

    def imported(self) -> Imported:
        return Imported(Sheet(schedules=self.entries), tuple(self.notes), tuple(self.unread))


def known_zone(zone: str | None) -> str | None:
    """The zone that was asked for, refused now if there is no such place."""
    return checked_zone(zone)


def zone_asked_for(what: str, machine_zone: str | None) -> ZoneMissing:
    """``a crontab has no zone; this machine is Europe/Berlin: pass --zone Europe/Berlin``."""
    if machine_zone is None:
        return ZoneMissing(f"{what} has no zone: pass the one it ran in, as --zone Europe/Berlin")
    return ZoneMissing(
        f"{what} has no zone; this machine is {machine_zone}: pass --zone {machine_zone}"
    )


def lines(numbers: Sequence[int]) -> str:
    """``line 3``, ``lines 3 and 4``, ``lines 3, 4 and 9``."""
    shown = [str(number) for number in numbers]
    if len(shown) == 1:
        return f"line {shown[0]}"
    return f"lines {', '.join(shown[:-1])} and {shown[-1]}"


def name_of(text: str) -> str:
    """What something was called, as a name: one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()) or "schedule"


def title_of(text: str) -> str:
    """One line, and not too long a one."""
    title = " ".join(text.split())
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"
