"""The fields of a schedule that people set, each declared once.

The options of the command, the keys of a file, the bodies of the HTTP API and the forms of the
dashboard and of the Django admin are made from this table. The signatures that editors show
(``ScheduleOptions`` of ``@duly.schedule`` and ``ScheduleEntry`` of files) are written out; a test
compares them with it.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Final, Literal, TypeAlias, get_args

from duly.durations import show_duration
from duly.model.policies import MOST_AT_ONCE, MOST_RUNS
from duly.model.schedule import Plan

# How a value is written: each place that reads or shows fields has one table by kind.
FieldKind: TypeAlias = Literal[
    "text", "name", "zone", "rule", "choice", "dst", "length", "moment", "number", "priority",
    "tags",
]  # fmt: skip
Surface: TypeAlias = Literal["command", "api", "form", "file"]
DST: Final = ("cron", "systemd", "elapsed", "quartz")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleField:
    name: str
    kind: FieldKind
    about: str  # for people who set it: the command, the API, the Django admin
    path: str = ""  # of the attribute of a plan; empty: the name
    optional: bool = False  # whether None is a value: no zone, no limit
    choices: Mapping[str, str] = field(default_factory=dict)  # what each word means
    most: int = 0  # of a number
    longest: int = 0  # of a text in a file; 0: any length
    label: str = ""  # in a form
    example: str = ""
    beside: bool = False  # in a form: in the row of the field before it
    of_clock: bool = False  # means nothing for reactions to events
    of_jobs: bool = False  # of the jobs it makes; else it is a policy
    surfaces: tuple[Surface, ...] = get_args(Surface)

    def value_in(self, plan: Plan) -> object:
        return attrgetter(self.path or self.name)(plan)

    @property
    def default(self) -> object:
        return self.value_in(_PLAIN)

    @property
    def default_text(self) -> str:
        return self.text_in(_PLAIN)

    def text_in(self, plan: Plan) -> str:
        """Return the value as the text that a person would type."""
        match self.value_in(plan):
            case None:
                return ""
            case timedelta() as length:
                return show_duration(length)
            case tuple() as words:
                return ", ".join(words)
            case value:
                return str(value)

    def typed(self, text: str) -> object:
        """Return the value that a typed text means to ``@duly.schedule``, which checks it."""
        if self.kind == "tags":
            return tuple(tag.strip() for tag in text.split(",") if tag.strip())
        if self.kind in ("number", "priority"):
            with suppress(ValueError):
                return int(text)
        return text


_PLAIN: Final = Plan(name="x", task="x", rule="every 1h")

SCHEDULE_FIELDS: Final = (
    ScheduleField(
        name="rule",
        kind="text",
        about="A cron line, a calendar expression, an interval, a time or a recurrence.",
        label="When",
        example="Mon..Fri 02:00 Europe/Berlin, or: on doc.changed",
        surfaces=("form",),
    ),
    ScheduleField(
        name="zone",
        kind="zone",
        about="Time zone, as Europe/Berlin, of a rule that names none. Default: zone in duly.toml.",
        optional=True,
        label="Zone, if the rule names none",
        example="Europe/Berlin",
        of_clock=True,
    ),
    ScheduleField(
        name="overlap",
        kind="choice",
        about="Policy while the previous run has not ended.",
        path="policies.overlap",
        choices={
            "skip": "skip it",
            "queue_one": "let the newest wait",
            "queue_all": "let all of them wait",
            "replace": "stop the previous run",
            "allow": "run beside it",
        },
        label="If the previous run has not ended",
        of_clock=True,
    ),
    ScheduleField(
        name="missed",
        kind="choice",
        about="Which missed runs are caught up.",
        path="policies.missed.policy",
        choices={"latest": "run once", "all": "run for each", "skip": "skip them"},
        label="Missed runs",
        of_clock=True,
    ),
    ScheduleField(
        name="at_most",
        kind="number",
        about='With missed "all": maximum number of runs, the newest.',
        path="policies.missed.at_most",
        most=MOST_AT_ONCE,
        label="… at most",
        of_clock=True,
        surfaces=("command", "api", "form"),
    ),
    ScheduleField(
        name="spacing",
        kind="length",
        about="Time between the catch-up runs, as 1m.",
        path="policies.missed.spacing",
        optional=True,
        label="… spacing",
        example="1m",
        beside=True,
        of_clock=True,
        surfaces=("command", "api", "form"),
    ),
    ScheduleField(
        name="start_within",
        kind="length",
        about="How late it may start, as 4h.",
        path="policies.start_within",
        optional=True,
        label="Must start within",
        example="4h",
    ),
    ScheduleField(
        name="late",
        kind="choice",
        about="Policy for runs later than start_within.",
        path="policies.late",
        choices={"skip": "skip it", "run": "run it anyway", "hurry": "run it before others"},
        label="… or else",
        beside=True,
    ),
    ScheduleField(
        name="dst",
        kind="dst",
        about="Effect of clock changes: cron, systemd, elapsed, quartz, or as end/first.",
        path="policies.dst",
        label="DST",
        of_clock=True,
    ),
    ScheduleField(
        name="exclude",
        kind="rule",
        about="A rule, or holidays(DE-BE), whose times are excluded.",
        path="policies.exclude",
        optional=True,
        label="Exclude",
        example="holidays(DE-BE)",
        of_clock=True,
    ),
    ScheduleField(
        name="jitter",
        kind="length",
        about="Random delay of the start, up to this, as 5m.",
        path="policies.jitter",
        optional=True,
        label="Random delay of up to, to spread the load",
        example="5m",
        of_clock=True,
    ),
    ScheduleField(
        name="start",
        kind="moment",
        about="Nothing is due before this time, as 2026-12-01.",
        path="policies.start",
        optional=True,
        surfaces=("command", "api", "file"),
    ),
    ScheduleField(
        name="end",
        kind="moment",
        about="Nothing is due after this time.",
        path="policies.end",
        optional=True,
        surfaces=("command", "api", "file"),
    ),
    ScheduleField(
        name="max_runs",
        kind="number",
        about="Maximum number of runs from now on; then the schedule is finished.",
        path="policies.max_runs",
        optional=True,
        most=MOST_RUNS,
        label="Maximum number of runs, from now on",
        example="no limit",
        of_clock=True,
    ),
    ScheduleField(
        name="title",
        kind="text",
        about="Title for people.",
        longest=500,
        label="Title",
        of_jobs=True,
    ),
    ScheduleField(
        name="queue",
        kind="name",
        about="Queue of its jobs.",
        label="Queue",
        example="default",
        of_jobs=True,
    ),
    ScheduleField(
        name="priority",
        kind="priority",
        about="-100 to 100, or high, normal, low, idle; higher runs sooner.",
        label="Priority, from -100 to 100",
        example="0",
        beside=True,
        of_jobs=True,
    ),
    ScheduleField(
        name="tags",
        kind="tags",
        about="Tags of its jobs, for filters.",
        label="Tags, with commas between",
        example="nightly, billing",
        of_jobs=True,
    ),
    ScheduleField(
        name="tenant",
        kind="text",
        about="Tenant of the schedule and its jobs.",
        label="Tenant",
        of_jobs=True,
    ),
    ScheduleField(
        name="submitter",
        kind="text",
        about="Submitter. Default: you.",
        of_jobs=True,
        surfaces=("command", "file"),
    ),
)


def fields_on(surface: Surface) -> tuple[ScheduleField, ...]:
    return tuple(one for one in SCHEDULE_FIELDS if surface in one.surfaces)
