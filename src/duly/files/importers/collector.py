"""The result of an import: a file of schedules, and notes about what is not in it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from duly.errors import DulyError, InvalidValue, RuleError, ZoneMissing
from duly.files.file_text import LONGEST, MOST_ENTRIES, read, write
from duly.files.schedule_file import LONGEST_NAME, ScheduleEntry, ScheduleFile, toml_value
from duly.model.payload import encode
from duly.policy.redaction import shortened
from duly.rules import parse

MOST_NOTES: Final = 20_000
LEFT_OUT: Final = "; it is left out"
# What a wrong value makes the code raise that reads it.
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    SyntaxError,
    AttributeError,
)
LONGEST_TITLE: Final = 200  # a title is one line in a list


@dataclass(frozen=True, slots=True)
class Imported:
    """The file to write, and one sentence for each thing that could not be imported."""

    sheet: ScheduleFile
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()  # the notes about entries that could not be read


@dataclass(slots=True)
class ImportCollector:
    """Collects the entries and notes of an import."""

    entries: dict[str, ScheduleEntry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    _taken: Counter[str] = field(default_factory=Counter)  # how often a name was used
    _length: int = 0  # characters of the file

    def note(self, where: str, sentence: str) -> None:
        if len(self.notes) >= MOST_NOTES:
            raise InvalidValue(
                f"there are more than {MOST_NOTES:,} things in it that cannot be carried, the last "
                f"at {where}: is it what it was taken for?"
            )
        self.notes.append(f"{where}: {sentence}")

    def leave_out(self, where: str, problem: object) -> None:
        """Note that an entry cannot be read and is missing in the file."""
        self.note(where, f"{problem}{LEFT_OUT}")
        self.unread.append(self.notes[-1])

    def free_name(self, wanted: str) -> str:
        """Return ``backup``, or ``backup-2`` if that is taken."""
        wanted = wanted[: LONGEST_NAME - 6]
        taken = self._taken[wanted]
        name = f"{wanted}-{taken + 1}" if taken else wanted
        while name in self.entries:
            taken += 1
            name = f"{wanted}-{taken + 1}"
        self._taken[wanted] = taken
        return name

    def add(self, where: str, entry: ScheduleEntry) -> bool:
        """Add the entry, or note why it cannot be read; return whether it was added."""
        try:
            parse(entry.rule, zone=entry.zone, dst=entry.dst or "cron", name=entry.name)
            text = write(ScheduleFile(schedules={entry.name: entry}))
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

    @contextmanager
    def reading(self, where: str) -> Iterator[None]:
        """Leave out the entry if what is read in the block is wrong."""
        try:
            yield
        except ZoneMissing:
            raise
        except _UNREADABLE as error:
            self.leave_out(where, error)

    def add_call(
        self,
        where: str,
        *,
        task: str,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        name: str = "",
        problems: Sequence[str] = (),
        lost: Sequence[str] = (),
        paused: str = "",
        **fields: Any,
    ) -> None:
        """Add a call of a task; it is paused if there are problems with its arguments.

        ``lost`` are sentences about options that cannot be carried.
        """
        written, unnamed = carried(args, kwargs)
        problems = [*problems, *unnamed]
        note = "; ".join(problems) or paused
        entry = ScheduleEntry(
            name=self.free_name(name_of(name or where)),
            task=task,
            args=written,
            paused=bool(note),
            note=note,
            **fields,
        )
        if self.add(where, entry):
            for problem in problems:
                self.note(where, f"{problem}; until then it is paused")
            for sentence in lost:
                self.note(where, sentence)

    def imported_tasks(
        self,
        *,
        named: str = "it has the path of its function as name: give yours the same",
        overlap: str,
    ) -> Imported:
        """Return the import, with notes about the names of tasks and about runs that overlap."""
        task = next((entry.task for entry in self.entries.values()), None)
        if task is not None:
            self.note("every task", f'{named}, as @duly.task(name="{task}")')
            self.note("every schedule", overlap)
        return self.imported()

    def imported(self) -> Imported:
        return Imported(ScheduleFile(schedules=self.entries), tuple(self.notes), tuple(self.unread))


def allows_overlap(said: str, whose: str) -> str:
    """Return the note about a program that starts a run while the last one goes on."""
    return (
        f"{said} even while its last run is running; duly skips such a run: write "
        f'overlap = "allow" for {whose} behaviour'
    )


def moment(found: object) -> datetime | None:
    """Return a moment, given as one or as text; without an offset it is in UTC."""
    if found in (None, "", "None"):
        return None
    read = found if isinstance(found, datetime) else datetime.fromisoformat(str(found))
    return read if read.tzinfo else read.replace(tzinfo=UTC)


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
    """Return a name of one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()) or "schedule"


def title_of(text: str) -> str:
    """Return a title of one line, shortened."""
    return shortened(" ".join(text.split()), LONGEST_TITLE)


def carried(
    args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[dict[str, object], list[str]]:
    """Return the arguments that TOML can hold, and a sentence for each that it cannot."""
    written: dict[str, object] = {}
    problems = []
    if args:
        problems.append(
            f"its arguments {shortened(repr(args))} have no names: write args = {{ name = … }} "
            "with those of the task's parameters"
        )
    for name, found in kwargs.items():
        try:
            encode({str(name): found})
            toml_value(found)
        except DulyError:
            problems.append(
                f"the argument {name} = {shortened(repr(found))} cannot be written in TOML"
            )
        else:
            written[str(name)] = found
    return written, problems
