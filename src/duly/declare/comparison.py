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
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args

from duly.declare.applied_record import DECIDED, Decided
from duly.declare.changes import Action, FieldDifference, Kind, PlannedChange
from duly.declare.field_readers import LIMIT, QUEUE, SCHEDULE, Reader, meaning
from duly.declare.schedule_file import LimitEntry, QueueEntry, ScheduleEntry, ScheduleFile
from duly.policy.reaction import FIELD
from duly.policy.retry import Retry
from duly.rules.event_rule import BEGINNING

T = TypeVar("T", ScheduleEntry, QueueEntry, LimitEntry)
Unit: TypeAlias = tuple[str, ...]

_NOTHING: Final[tuple[object, ...]] = (None, "", (), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A kind of entry, and which of its fields are compared as one unit.

    Task and arguments are one choice in eight fields: half from the file and half from a person
    would be wrong. The same holds for a rule and its zone, and for a pause and its note.
    """

    kind: Kind
    readers: Mapping[str, Reader]
    units: tuple[Unit, ...]
    unsaid: Mapping[str, object]  # the defaults of fields
    decided: Unit = ()  # fields that the task decides if the file does not set them

    def said(self, thing: object, name: str) -> object:
        found = getattr(thing, name)
        # The note of a pause is ignored while there is no pause.
        idle = name == "note" and not getattr(thing, "paused", True)
        if isinstance(thing, ScheduleEntry) and thing.rule.startswith(BEGINNING):
            found = _said_of_reaction(thing, name)
        return self.unsaid.get(name) if idle or found in _NOTHING else found

    def meant(self, thing: object, unit: Unit) -> tuple[object, ...]:
        return tuple(meaning(self.readers, name, self.said(thing, name)) for name in unit)

    def differ(self, unit: Unit, one: object, other: object) -> bool:
        if all(getattr(one, name) == getattr(other, name) for name in unit):
            return False
        return self.meant(one, unit) != self.meant(other, unit)

    def unspoken(self, unit: Unit, thing: object) -> bool:
        """Return whether the file leaves the fields to the task."""
        return unit[0] in self.decided and getattr(thing, unit[0]) in _NOTHING


@dataclass(frozen=True, slots=True)
class Comparison(Generic[T]):
    shape: Shape
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
            if change.kind == self.shape.kind and change.action not in ("taken", "remove")
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
        unspoken, units = self.shape.unspoken, self.shape.units
        spoken: list[Unit] = [unit for unit in units if not unspoken(unit, wanted)]
        differences = (taken, *self._differences(spoken, wanted, self.live[name]))
        return self._change(name, "change", entry=wanted, differences=differences)

    def _foreign(self, name: str) -> bool:
        owner = self.owners.get(name, "file")
        return owner != "file" and not (owner == "person" and name in self.last)

    def _merged(self, name: str, wanted: T, *, take_back: bool) -> PlannedChange:
        """Merge the file's new values with the fields that a person set since the last apply."""
        there, aim = self.live[name], self._aim(name, wanted)
        changed: list[Unit] = []
        drifted: list[Unit] = []
        for unit in self.shape.units:
            if self.shape.differ(unit, aim, there) and not self._is_left(unit, name, wanted):
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
            if self.shape.unspoken((each,), wanted) and not self._was_said((each,), name)
        }
        return replace(wanted, **decided)

    def _is_left(self, unit: Unit, name: str, wanted: T) -> bool:
        """Return whether the fields are left to the task and no decision is recorded."""
        known = self._was_said(unit, name) or unit[0] in self.decided.get(name, {})
        return self.shape.unspoken(unit, wanted) and not known

    def _is_edited(self, unit: Unit, name: str) -> bool:
        """Return whether a person set the fields: the store differs from what was applied last."""
        last = self.last.get(name)
        if last is None:
            return False
        if self.shape.unspoken(unit, last):
            decided = self.decided.get(name, {})
            if unit[0] not in decided:
                return False
            known: dict[str, Any] = {unit[0]: decided[unit[0]]}
            last = replace(last, **known)
        return self.shape.differ(unit, last, self.live[name])

    def _was_said(self, unit: Unit, name: str) -> bool:
        return name in self.last and not self.shape.unspoken(unit, self.last[name])

    def _differences(
        self, units: Iterable[Unit], aim: T, there: T, *, said: T | None = None
    ) -> tuple[FieldDifference, ...]:
        """Return the fields that differ; ``said`` is the entry as the file has it."""
        shape = self.shape
        return tuple(
            FieldDifference(
                each,
                shape.said(there, each),
                None if shape.unspoken(unit, aim) else shape.said(aim, each),
                left=said is not None and shape.unspoken(unit, said),
            )
            for unit in units
            for each in unit
            if shape.differ((each,), aim, there)
        )

    def _change(self, name: str, action: Action, **facts: Any) -> PlannedChange:
        return PlannedChange(kind=self.shape.kind, name=name, action=action, **facts)


def _said_of_reaction(entry: ScheduleEntry, name: str) -> object:
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
SCHEDULES: Final = Shape(
    kind="schedule",
    readers=SCHEDULE,
    units=(*_TOGETHER, *_each(*(name for name in SCHEDULE if name not in chain(*_TOGETHER)))),
    unsaid={"paused": False, "queue": "default", "priority": 0, "attempts": Retry().attempts}
    | {"overlap": "skip", "missed": "latest", "late": "skip", "dst": "cron"},
    decided=DECIDED,
)
QUEUES: Final = Shape(
    kind="queue",
    readers=QUEUE,
    units=(("paused", "note"), *_each("concurrency", "rate", "fair")),
    unsaid={"paused": False, "fair": False},
)
LIMITS: Final = Shape(kind="limit", readers=LIMIT, units=(("concurrency", "rate"),), unsaid={})


@dataclass(frozen=True, slots=True)
class SheetPlan:
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
) -> SheetPlan:
    """Compare the file, the last applied file and the store.

    ``owners`` are the owners of stored schedules; the default is ``file``. A schedule owned by a
    person belongs to the file if the file was applied before. ``decided`` holds, for each schedule,
    the values that tasks and defaults gave to fields which the applied file did not set.
    """
    file, last, live = file.resolved(), (applied or ScheduleFile()).resolved(), live.resolved()
    schedules = Comparison(
        SCHEDULES,
        file.schedules,
        last.schedules,
        live.schedules,
        owners=owners or {},
        decided=decided or {},
    )
    queues = Comparison(QUEUES, file.queues, last.queues, live.queues)
    limits = Comparison(LIMITS, file.limits, last.limits, live.limits)
    changes = [
        change
        for comparison in (schedules, queues, limits)
        for change in comparison.changes(prune=prune, take_back=take_back)
    ]
    record = ScheduleFile(
        schedules=schedules.record(changes),
        queues=queues.record(changes),
        limits=limits.record(changes),
    )
    return SheetPlan(tuple(changes), record)
