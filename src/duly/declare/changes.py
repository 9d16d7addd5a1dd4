"""The changes of a plan, as values and as lines of text.

+ schedule backup  30 2 * * * Europe/Berlin  shell
~ schedule report  rule: "0 2 * * *" -> "0 3 * * *"
! schedule digest  drift: queue is "mail" (set by a person), the file says "default"; put it …
- schedule old
? schedule older  no longer in the file; --prune removes it
"""

from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal, TypeAlias

from duly.declare.schedule_file import LimitEntry, QueueEntry, ScheduleEntry
from duly.declare.toml_notation import key, shortened, shown_whole
from duly.policy.redaction import hidden_call

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
