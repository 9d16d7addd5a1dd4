"""Conversion between an entry of a file and the plan in the store, both ways.

Commands, shell lines and HTTP requests are run by built-in tasks; a file has its own keys for them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Final, TypeAlias

from duly.durations import show_duration
from duly.files.field_readers import SCHEDULE, length, policies, priority
from duly.files.file_text import read, write
from duly.files.schedule_file import ScheduleEntry, ScheduleFile
from duly.model.job import PRIORITIES, Owner
from duly.model.payload import Json, decode, encode
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan, StoredSchedule
from duly.model.terms import Terms
from duly.policy.redaction import hidden_json
from duly.policy.retry import NEVER, Retry

# By the key in a file: the built-in task, and the argument that takes the value.
_BUILTIN: Final = {"shell": ("duly.shell", "line"), "command": ("duly.command", "argv")}
_HTTP: Final = "duly.http"
_PROGRAMS: Final = tuple(task for task, _ in _BUILTIN.values())
_AROUND: Final = ("cwd", "env", "stdin")


def call_of(entry: ScheduleEntry) -> tuple[str, dict[str, object]]:
    """Return the task of an entry, and the arguments that the entry sets."""
    match entry.kind:
        case "task":
            return str(entry.task), dict(entry.args)
        case "http":
            return _HTTP, dict(entry.http or {})
        case kind:
            task, argument = _BUILTIN[kind]
            what = list(entry.command) if kind == "command" else entry.shell
            around = {name: found for name in _AROUND if (found := getattr(entry, name))}
            return task, {argument: what} | around


def plan_of(entry: ScheduleEntry) -> Plan:
    """Return the plan of a resolved entry (see ``ScheduleFile.resolved``).

    Fields that the entry does not set have the defaults of any schedule. The app then fills in what
    the declaration of the task says.
    """
    task, args = call_of(entry)
    return Plan(
        name=entry.name,
        rule=entry.rule,
        zone=entry.zone,
        task=task,
        args=encode(args),
        queue=entry.queue or "default",
        priority=priority(entry.priority or 0),
        title=entry.title,
        tags=entry.tags,
        tenant=entry.tenant,
        submitter=entry.submitter,
        owner=Owner.FILE,
        terms=Terms(timeout=length(entry.timeout) if entry.timeout else None),
        policies=policies(entry),
    )


def entry_of(schedule: StoredSchedule) -> ScheduleEntry:
    """Return the entry for a stored schedule, with only the fields that are not defaults."""
    plan, pause = schedule.plan, schedule.pause
    return ScheduleEntry(
        name=plan.name,
        rule=plan.rule,
        zone=plan.zone,
        title=plan.title,
        queue=None if plan.queue == "default" else plan.queue,
        priority=_priority(plan.priority),
        tags=plan.tags,
        tenant=plan.tenant,
        submitter=plan.submitter,
        timeout=show_duration(plan.terms.timeout) if plan.terms.timeout else None,
        attempts=_attempts(plan),
        paused=pause is not None,
        note=pause.note if pause else "",
        **_what_runs(plan.task, decode(plan.args)),
        **_choices(plan.policies),
    )


def has_secrets(entry: ScheduleEntry) -> bool:
    """Return whether the entry holds secrets, which are hidden from viewers."""
    task, args = call_of(entry)
    kept = encode(args)
    return bool(decode(Json(hidden_json(task, kept))) != decode(kept))


def decided_of(plan: Plan) -> dict[str, object]:
    """Return the fields that the task or a default decides if the file does not."""
    return {
        "title": plan.title,
        "queue": plan.queue,
        "priority": plan.priority,
        "timeout": show_duration(plan.terms.timeout) if plan.terms.timeout else None,
        "attempts": attempts_of(plan),
    }


def attempts_of(plan: Plan) -> int | None:
    """Return the attempts; None for the default. A program runs once: it may not be idempotent."""
    if plan.policies.retry is None and plan.task in _PROGRAMS:
        return NEVER.attempts
    return _attempts(plan)


def _what_runs(task: str, args: dict[str, Any]) -> dict[str, Any]:
    for kind, (name, argument) in _BUILTIN.items():
        if task == name and argument in args:
            what = args[argument]
            around = {key: args[key] for key in _AROUND if args.get(key)}
            return {kind: tuple(what) if kind == "command" else what} | around
    if task == _HTTP:
        return {"http": {key: found for key, found in args.items() if found is not None}}
    return {"task": task, "args": args}


def _choices(policies: Policies) -> dict[str, Any]:
    default = Policies()
    return {
        field.name: _written(found)
        for field in fields(Policies)
        if field.name in SCHEDULE
        and (found := getattr(policies, field.name)) != getattr(default, field.name)
    }


def _written(found: object) -> object:
    """Return the value of a policy as a file has it."""
    match found:
        case timedelta():
            return show_duration(found)
        case Missed():
            return _missed(found)
        case _:
            return found


def _missed(missed: Missed) -> str | Mapping[str, object]:
    default = Missed(missed.policy)
    said: dict[str, object] = {"choice": missed.policy}
    if missed.at_most != default.at_most:
        said["at_most"] = missed.at_most
    if missed.spacing is not None:
        said["spacing"] = show_duration(missed.spacing)
    if missed.grace != default.grace:
        said["grace"] = show_duration(missed.grace)
    return said if len(said) > 1 else missed.policy


def _attempts(plan: Plan) -> int | None:
    """Return the attempts as an entry has them; None for the default of a task."""
    retry = plan.policies.retry
    attempts = Retry.from_json(retry).attempts if retry else None
    is_default = attempts == Retry().attempts and plan.task not in _PROGRAMS
    return None if is_default else attempts


def _priority(number: int) -> int | str | None:
    words = {found: word for word, found in PRIORITIES.items()}
    return words.get(number, number) if number else None


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
        return {**self.decided.get(name, {}), **({} if entry is None else set_by_file(entry))}


def set_by_file(entry: ScheduleEntry) -> dict[str, Any]:
    """Return the fields among ``DECIDED`` that the file sets itself."""
    return {name: found for name in DECIDED if (found := getattr(entry, name)) not in (None, "")}


def write_record(record: Record) -> str:
    decided = json.dumps(record.decided, sort_keys=True) if record.decided else ""
    return f"{write(record.sheet)}{_MARK}{decided}\n" if decided else write(record.sheet)


def read_record(text: str, *, place: str) -> Record:
    said = file_part(text)
    line = text.removeprefix(said).removeprefix(_MARK)
    return Record(read(said, place=place), json.loads(line) if line else {})


def file_part(record: str) -> str:
    """Return the part of a record that is the file's content."""
    before, _, line = record.removesuffix("\n").rpartition("\n")
    return f"{before}\n" if line.startswith(_MARK) else record
