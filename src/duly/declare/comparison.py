"""Two files and the store, compared thing by thing and field by field, by what the words mean.

What was applied last against what is there: where the two differ, a person has been at it, and
that stays. It is the same rule for what the file said and for what it left to its task, which
decided when it was applied; only where nobody remembers what it decided is it left alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    """A kind of thing, and which of its fields are judged together.

    What runs is one choice in eight fields: half of it from the file and half from a person would
    be neither's. The same goes for a rule and its zone, and for a pause and its note.
    """

    kind: Kind
    readers: Mapping[str, Reader]
    units: tuple[Unit, ...]
    unsaid: Mapping[str, object]  # what it means to leave a field out
    decided: Unit = ()  # what the task decides if the file does not

    def said(self, thing: object, name: str) -> object:
        found = getattr(thing, name)
        # Why it is paused is nothing to compare while it is not.
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
        """Whether the file leaves it to the task."""
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
        """What the file answers for from now on: what it has, and what it had and left behind."""
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
        """The file's new words, and the fields that a person set since the last ones."""
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
        """What the file wants, with what was decided where it says nothing and never did."""
        decided: dict[str, Any] = {
            each: value
            for each, value in self.decided.get(name, {}).items()
            if self.shape.unspoken((each,), wanted) and not self._was_said((each,), name)
        }
        return replace(wanted, **decided)

    def _is_left(self, unit: Unit, name: str, wanted: T) -> bool:
        """Whether it is the task's, and nobody remembers what that decided."""
        known = self._was_said(unit, name) or unit[0] in self.decided.get(name, {})
        return self.shape.unspoken(unit, wanted) and not known

    def _is_edited(self, unit: Unit, name: str) -> bool:
        """Whether what is there is not what was applied last: a person set it."""
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
        """In which fields the two differ; ``said`` is the file's own word on them."""
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
    """What is meant where an entry for events says nothing: see ``Plan``, ``reaction_call``."""
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


SCHEDULES: Final = Shape(
    kind="schedule",
    readers=SCHEDULE,
    units=(
        ("rule", "zone"),
        ("task", "args", "command", "shell", "http", "cwd", "env", "stdin"),
        ("paused", "note"),
        *_each("title", "queue", "priority", "tags", "overlap", "missed", "start_within"),
        *_each("late", "dst", "exclude", "jitter", "start", "end", "timeout", "attempts"),
    ),
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
    """The changes in the order of the file, and what to remember as applied once they are made."""

    changes: tuple[PlannedChange, ...]
    record: ScheduleFile

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do; there may be drift all the same."""
        return not any(change.is_work for change in self.changes)

    @property
    def has_drift(self) -> bool:
        return any(change.has_drift for change in self.changes)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each action, and how many ``drifted`` in whole or in part."""
        counted = Counter(change.action for change in self.changes)
        drifted = sum(change.has_drift for change in self.changes)
        return {action: counted[action] for action in get_args(Action)} | {"drifted": drifted}

    def lines(self) -> list[str]:
        """The plan for people to read; what is unchanged has no line."""
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
    """Compare the three.

    ``owners`` are those of the live schedules, ``file`` where nothing is said. One that a person
    owns is the file's all the same if it was applied before. ``decided`` is what tasks and defaults
    did, of each schedule, where the file that was applied said nothing.
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
