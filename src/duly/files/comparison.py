"""The plan of a file: the three-way comparison of the file, the last applied file and the store.

The last applied file tells who changed a field. If the store still has the applied value, the file
has been edited, and its new value is used. If the store has another value, a person edited it, and
that stays unless it is taken back: it is **drift**, and the plan shows it. The same rule holds for
a field that the file leaves to the task: its applied value is recorded. Without a record it is left
alone. Values are compared by meaning: "90s" equals "1m30s".

    in the file   last applied   stored    result
    yes           -              no        added
    yes           yes            yes       changed field by field, drifted, or unchanged
    yes           yes            no        removed by a person: drift, added only if taken back
    yes           no             yes       changed; of another owner only if taken back
    no            yes            yes       removed with prune, else kept and listed
    no            -              -         ignored: it never was in the file
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args

from duly.files.entry_plans import DECIDED, Decided
from duly.files.field_readers import LIMIT, QUEUE, SCHEDULE, Reader, meaning
from duly.files.schedule_file import (
    LimitEntry,
    QueueEntry,
    ScheduleEntry,
    ScheduleFile,
    key,
    shown_whole,
)
from duly.model.schedule_fields import fields_on
from duly.policy.reaction import FIELD
from duly.policy.redaction import hidden_call, shortened
from duly.policy.retry import Retry
from duly.rules.event_rule import BEGINNING

Thing: TypeAlias = ScheduleEntry | QueueEntry | LimitEntry
Kind: TypeAlias = Literal["schedule", "queue", "limit"]
Action: TypeAlias = Literal[
    "add",
    "change",
    "remove",
    "unchanged",
    "drift",  # a person edited it, and nothing else differs
    "gone",  # a person removed it
    "taken",  # another owner has one of that name
    "left",  # no longer in the file, and prune was not asked for
]

_WORK: Final = ("add", "change", "remove")
_WINDOW = 60  # characters shown around the first difference of long values
_BEFORE = 20


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field in which the store (``old``) and the file (``new``) differ."""

    field: str
    old: object
    new: object
    left: bool = False  # the file does not set the field; its value was decided when applied

    @property
    def shown(self) -> tuple[str, str]:
        """Both values in TOML, without secrets."""
        return _shown(self.field, self.old), _shown(self.field, self.new)

    def __str__(self) -> str:
        """``rule: "0 2 * * *" -> "0 3 * * *"``."""
        old, new = self.shown
        if old == new:
            return f"{self.field}: changed in a hidden part"
        pairs = zip(old, new, strict=False)
        alike = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        begin = max(alike - _BEFORE, 0)
        return f"{self.field}: {_around(old, begin)} -> {_around(new, begin)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A change of one entry; ``entry`` is the result, with the fields that a person set."""

    kind: Kind
    name: str
    action: Action
    entry: Thing | None = None
    differences: tuple[FieldDifference, ...] = ()  # that the plan applies
    drift: tuple[FieldDifference, ...] = ()  # that stay
    owner: str = ""  # the other owner, if it is taken

    @property
    def is_work(self) -> bool:
        return self.action in _WORK

    @property
    def has_drift(self) -> bool:
        """Return whether the result will differ from the file."""
        return bool(self.drift) or self.action in ("gone", "taken")

    def lines(self) -> list[str]:
        who = f"{self.kind} {key(self.name)}"
        drift = [
            f"! {who}  drift: {each.field} is {shortened(old)} (set by a person), "
            f"the file {_word(each, shortened(new))}; put it into the file, or --take-back"
            for each in self.drift
            for old, new in [each.shown]
        ]
        return [*self._line(who), *drift]

    def _line(self, who: str) -> list[str]:  # noqa: PLR0911 - an action a line
        match self.action:
            case "add":
                return [f"+ {who}  {_told(self.entry)}".rstrip()]
            case "change":
                return [f"~ {who}  {', '.join(map(str, self.differences))}"]
            case "remove":
                return [f"- {who}"]
            case "left":
                return [f"? {who}  no longer in the file; --prune removes it"]
            case "gone":
                gone = "removed by a person, the file still has it; take it out there"
                return [f"! {who}  drift: {gone}, or --take-back"]
            case "taken":
                return [f"! {who}  belongs to {self.owner}; --take-back makes it the file's"]
            case "unchanged" | "drift":
                return []


def _told(entry: Thing | None) -> str:
    """Describe an added entry in a few words."""
    if isinstance(entry, ScheduleEntry):
        rule = " ".join(entry.rule.split())
        zone = f" {entry.zone}" if entry.zone and not rule.endswith(entry.zone) else ""
        paused = "  paused" if entry.paused else ""
        return f"{rule}{zone}  {entry.task or entry.kind}{paused}"
    limits = [
        f"{what} {number}"
        for what in ("concurrency", "rate")
        if (number := getattr(entry, what)) is not None
    ]
    flags = [flag for flag in ("fair", "paused") if getattr(entry, flag, False)]
    return ", ".join(limits + flags)


def _word(drift: FieldDifference, new: str) -> str:
    """Say what the file has for a drifted field."""
    if not drift.left:
        return f"says {new}"
    return "leaves it out" if drift.new is None else f"leaves it at {new}"


def _shown(field: str, value: object) -> str:
    if field == "http":
        return shown_whole(hidden_call("duly.http", value))
    if field in ("env", "stdin"):
        return shown_whole(hidden_call("duly.shell", {field: value})[field])
    return shown_whole(value)


def _around(text: str, begin: int) -> str:
    if len(text) <= _WINDOW:
        return text
    end = begin + _WINDOW
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"


T = TypeVar("T", ScheduleEntry, QueueEntry, LimitEntry)
Unit: TypeAlias = tuple[str, ...]

_NOTHING: Final[tuple[object, ...]] = (None, "", (), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryKind:
    """A kind of entry, and which of its fields are compared as one unit.

    Task and arguments are one choice in eight fields: half from the file and half from a person
    would be wrong. The same holds for a rule and its zone, and for a pause and its note.
    """

    kind: Kind
    readers: Mapping[str, Reader]
    units: tuple[Unit, ...]
    defaults: Mapping[str, object]  # the defaults of fields
    decided: Unit = ()  # fields that the task decides if the file does not set them

    def value(self, thing: object, name: str) -> object:
        found = getattr(thing, name)
        # The note of a pause is ignored while there is no pause.
        idle = name == "note" and not getattr(thing, "paused", True)
        if isinstance(thing, ScheduleEntry) and thing.rule.startswith(BEGINNING):
            found = _value_of_reaction(thing, name)
        return self.defaults.get(name) if idle or found in _NOTHING else found

    def normalized(self, thing: object, unit: Unit) -> tuple[object, ...]:
        return tuple(meaning(self.readers, name, self.value(thing, name)) for name in unit)

    def differ(self, unit: Unit, one: object, other: object) -> bool:
        if all(getattr(one, name) == getattr(other, name) for name in unit):
            return False
        return self.normalized(one, unit) != self.normalized(other, unit)

    def is_left_to_task(self, unit: Unit, thing: object) -> bool:
        """Return whether the file leaves the fields to the task."""
        return unit[0] in self.decided and getattr(thing, unit[0]) in _NOTHING


@dataclass(frozen=True, slots=True)
class Comparison(Generic[T]):
    entry_kind: EntryKind
    file: Mapping[str, T]
    last: Mapping[str, T]
    live: Mapping[str, T]
    owners: Mapping[str, str] = field(default_factory=dict)
    decided: Mapping[str, Decided] = field(default_factory=dict)

    def changes(self, *, prune: bool, take_back: bool) -> Iterator[PlannedChange]:
        for name, wanted in self.file.items():
            yield self._wanted(name, wanted, take_back=take_back)
        for name in self.last:
            if name in self.live and name not in self.file and not self._foreign(name):
                yield self._change(name, "remove" if prune else "left")

    def record(self, changes: Iterable[PlannedChange]) -> dict[str, T]:
        """Return the entries to record as applied: those of the file, and those it left behind."""
        return {
            change.name: self.file[change.name]
            if change.name in self.file
            else self.last[change.name]
            for change in changes
            if change.kind == self.entry_kind.kind and change.action not in ("taken", "remove")
        }

    def _wanted(self, name: str, wanted: T, *, take_back: bool) -> PlannedChange:
        if name not in self.live:
            gone = name in self.last and not take_back
            return self._change(name, "gone" if gone else "add", entry=wanted)
        if not self._foreign(name):
            return self._merged(name, wanted, take_back=take_back)
        if not take_back:
            return self._change(name, "taken", owner=self.owners[name])
        taken = FieldDifference("owner", self.owners[name], "file")
        is_left_to_task, units = self.entry_kind.is_left_to_task, self.entry_kind.units
        set_units: list[Unit] = [unit for unit in units if not is_left_to_task(unit, wanted)]
        differences = (taken, *self._differences(set_units, wanted, self.live[name]))
        return self._change(name, "change", entry=wanted, differences=differences)

    def _foreign(self, name: str) -> bool:
        owner = self.owners.get(name, "file")
        return owner != "file" and not (owner == "person" and name in self.last)

    def _merged(self, name: str, wanted: T, *, take_back: bool) -> PlannedChange:
        """Merge the file's new values with the fields that a person set since the last apply."""
        there, aim = self.live[name], self._aim(name, wanted)
        changed: list[Unit] = []
        drifted: list[Unit] = []
        for unit in self.entry_kind.units:
            if self.entry_kind.differ(unit, aim, there) and not self._is_left(unit, name, wanted):
                stays = self._is_edited(unit, name) and not take_back
                (drifted if stays else changed).append(unit)
        values: dict[str, Any] = {each: getattr(aim, each) for unit in changed for each in unit}
        action: Action = "change" if changed else "drift" if drifted else "unchanged"
        return self._change(
            name,
            action,
            entry=replace(there, **values),
            differences=self._differences(changed, aim, there),
            drift=self._differences(drifted, aim, there, said=wanted),
        )

    def _aim(self, name: str, wanted: T) -> T:
        """Return the file's entry, with recorded values for fields that it never set."""
        decided: dict[str, Any] = {
            each: value
            for each, value in self.decided.get(name, {}).items()
            if self.entry_kind.is_left_to_task((each,), wanted) and not self._was_set((each,), name)
        }
        return replace(wanted, **decided)

    def _is_left(self, unit: Unit, name: str, wanted: T) -> bool:
        """Return whether the fields are left to the task and no decision is recorded."""
        known = self._was_set(unit, name) or unit[0] in self.decided.get(name, {})
        return self.entry_kind.is_left_to_task(unit, wanted) and not known

    def _is_edited(self, unit: Unit, name: str) -> bool:
        """Return whether a person set the fields: the store differs from what was applied last."""
        last = self.last.get(name)
        if last is None:
            return False
        if self.entry_kind.is_left_to_task(unit, last):
            decided = self.decided.get(name, {})
            if unit[0] not in decided:
                return False
            known: dict[str, Any] = {unit[0]: decided[unit[0]]}
            last = replace(last, **known)
        return self.entry_kind.differ(unit, last, self.live[name])

    def _was_set(self, unit: Unit, name: str) -> bool:
        return name in self.last and not self.entry_kind.is_left_to_task(unit, self.last[name])

    def _differences(
        self, units: Iterable[Unit], aim: T, there: T, *, said: T | None = None
    ) -> tuple[FieldDifference, ...]:
        """Return the fields that differ; ``said`` is the entry as the file has it."""
        entry_kind = self.entry_kind
        return tuple(
            FieldDifference(
                each,
                entry_kind.value(there, each),
                None if entry_kind.is_left_to_task(unit, aim) else entry_kind.value(aim, each),
                left=said is not None and entry_kind.is_left_to_task(unit, said),
            )
            for unit in units
            for each in unit
            if entry_kind.differ((each,), aim, there)
        )

    def _change(self, name: str, action: Action, **facts: Any) -> PlannedChange:
        return PlannedChange(kind=self.entry_kind.kind, name=name, action=action, **facts)


def _value_of_reaction(entry: ScheduleEntry, name: str) -> object:
    """Return the value of a field of an ``on …`` schedule, with its defaults."""
    if name == "overlap":
        return entry.overlap or "allow"
    if name == "args":
        return {
            parameter: value
            for parameter, value in entry.args.items()
            if not (isinstance(value, Mapping) and value.get(FIELD) == parameter)
        }
    return getattr(entry, name)


def _each(*names: str) -> tuple[Unit, ...]:
    return tuple((name,) for name in names)


# Fields of a schedule that mean something only together.
_TOGETHER: Final = (
    ("rule", "zone"),
    ("task", "args", "command", "shell", "http", "cwd", "env", "stdin"),
    ("paused", "note"),
)
SCHEDULES: Final = EntryKind(
    kind="schedule",
    readers=SCHEDULE,
    units=(*_TOGETHER, *_each(*(name for name in SCHEDULE if name not in chain(*_TOGETHER)))),
    defaults={one.name: one.default for one in fields_on("file") if one.default not in _NOTHING}
    | {"paused": False, "attempts": Retry().attempts},
    decided=DECIDED,
)
QUEUES: Final = EntryKind(
    kind="queue",
    readers=QUEUE,
    units=(("paused", "note"), *_each("concurrency", "rate", "fair")),
    defaults={"paused": False, "fair": False},
)
LIMITS: Final = EntryKind(
    kind="limit", readers=LIMIT, units=(("concurrency", "rate"),), defaults={}
)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The changes in the order of the file, and the record to store once they are applied."""

    changes: tuple[PlannedChange, ...]
    record: ScheduleFile

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to apply; there may still be drift."""
        return not any(change.is_work for change in self.changes)

    @property
    def has_drift(self) -> bool:
        return any(change.has_drift for change in self.changes)

    @property
    def counts(self) -> dict[str, int]:
        """The number of changes of each action, and how many ``drifted`` in whole or in part."""
        counted = Counter(change.action for change in self.changes)
        drifted = sum(change.has_drift for change in self.changes)
        return {action: counted[action] for action in get_args(Action)} | {"drifted": drifted}

    def lines(self) -> list[str]:
        """Return the plan as lines of text; unchanged entries have none."""
        return [line for change in self.changes for line in change.lines()]

    def summary(self) -> str:
        """``2 to add, 1 to change, 1 drifted, 4 unchanged``."""
        counts = self.counts
        words = {word: f"{counts[word]} to {word}" for word in ("add", "change", "remove")}
        words |= {word: f"{counts[word]} {word}" for word in ("drifted", "left", "unchanged")}
        return ", ".join(said for word, said in words.items() if counts[word]) or "nothing to do"


def plan(
    file: ScheduleFile,
    applied: ScheduleFile | None,
    live: ScheduleFile,
    *,
    owners: Mapping[str, str] | None = None,
    decided: Mapping[str, Decided] | None = None,
    prune: bool = False,
    take_back: bool = False,
) -> FilePlan:
    """Compare the file, the last applied file and the store.

    ``owners`` are the owners of stored schedules; the default is ``file``. A schedule owned by a
    person belongs to the file if the file was applied before. ``decided`` holds, for each schedule,
    the values that tasks and defaults gave to fields which the applied file did not set.
    """
    file, last, live = file.resolved(), (applied or ScheduleFile()).resolved(), live.resolved()
    schedules = Comparison(
        SCHEDULES, file.schedules, last.schedules, live.schedules, owners or {}, decided or {}
    )
    queues = Comparison(QUEUES, file.queues, last.queues, live.queues)
    limits = Comparison(LIMITS, file.limits, last.limits, live.limits)
    changes = tuple(
        change
        for comparison in (schedules, queues, limits)
        for change in comparison.changes(prune=prune, take_back=take_back)
    )
    record = ScheduleFile(
        schedules=schedules.record(changes),
        queues=queues.record(changes),
        limits=limits.record(changes),
    )
    return FilePlan(changes, record)
