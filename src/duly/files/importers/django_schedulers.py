"""Import from django-tasks-scheduler 4 and django-q2: the rows of their tables.

django-tasks-scheduler also prints its tasks (``manage.py export``). A row of its table is brought
into that form, so that there is one reader. Crontabs are in UTC, intervals count from
``scheduled_time``, and ``repeat`` counts the runs after the next one.

django-q2 counts from ``next_run``. Days, weeks and months keep the time of day in the zone of the
Django project, and its crontabs are in that zone.
"""

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final, TypeAlias

from duly.durations import show_duration
from duly.errors import InvalidValue, RuleError, ZoneMissing
from duly.files.importers.celery_beat import dumped
from duly.files.importers.collector import ImportCollector, Imported, allows_overlap, moment
from duly.rules.rule_text import checked_zone
from duly.rules.zone import local_time

Row: TypeAlias = Mapping[str, Any]

TASK, TASK_ARG, TASK_KWARG = "scheduler_task", "scheduler_taskarg", "scheduler_taskkwarg"
CONTENT_TYPE: Final = "django_content_type"
TASKS_SCHEDULER_TABLES: Final = (TASK, TASK_ARG, TASK_KWARG, CONTENT_TYPE)
DJANGO_Q_TABLE: Final = "django_q_schedule"
_CRON_WITH_SECONDS: Final = 6  # fields; croniter reads the seconds last
_EVERY_MONTH_HAS: Final = 28
# By django-q2's letters: how many of which unit.
_CALENDAR: Final = {
    "D": (1, "days"),
    "W": (1, "weeks"),
    "BW": (2, "weeks"),
    "M": (1, "months"),
    "BM": (2, "months"),
    "Q": (3, "months"),
    "Y": (1, "years"),
}


def from_tasks_scheduler(tables: Mapping[str, Sequence[Row]], *, now: datetime) -> Imported:
    """Read the rows of ``TASKS_SCHEDULER_TABLES``, by table."""
    kinds = {
        row["id"]
        for row in tables.get(CONTENT_TYPE, ())
        if (row["app_label"], row["model"]) == ("scheduler", "task")
    }
    rows = []
    for row in sorted(tables[TASK], key=lambda row: str(row["name"])):
        mine = {
            key: [
                one
                for one in sorted(tables.get(table, ()), key=lambda one: one["id"])
                if one["object_id"] == row["id"] and one["content_type_id"] in kinds
            ]
            for key, table in (("callable_args", TASK_ARG), ("callable_kwargs", TASK_KWARG))
        }
        rows.append({**row, **mine, "model": row["task_type"]})
    return _tasks(rows, now)


def from_tasks_export(text: str, *, now: datetime) -> Imported:
    """Read what ``manage.py export`` of django-tasks-scheduler prints."""
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise _no_export(f"this is not JSON: {error}") from None
    wanted = {"model", "name", "callable"}
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and wanted <= row.keys() for row in rows
    ):
        raise _no_export("this is not a list of tasks")
    return _tasks(rows, now)


def _no_export(found: str) -> InvalidValue:
    return InvalidValue(
        f"{found}. Send what django-tasks-scheduler's own command prints: python manage.py export; "
        "or name the database, as sqlite:///db.sqlite3 or postgresql://…"
    )


def _tasks(rows: Iterable[Row], now: datetime) -> Imported:
    basket = ImportCollector()
    for row in rows:
        with basket.reading(str(row["name"])):
            _add_task(basket, row, now)
    return basket.imported_tasks(
        overlap="django-tasks-scheduler starts the next run when the last one has ended; duly "
        "skips a run while the last one is running"
    )


def _add_task(basket: ImportCollector, row: Row, now: datetime) -> None:
    name, scheduled = str(row["name"]), moment(row.get("scheduled_time"))
    rule, zone, runs = _timing(row, scheduled, now)
    if runs is not None and runs <= 0:
        basket.note(
            name, f"its last time, {scheduled:%Y-%m-%d %H:%M} UTC, has passed; it is left out"
        )
        return
    args, no_args = _values(row.get("callable_args") or ())
    kwargs, no_kwargs = _values(row.get("callable_kwargs") or ())
    lost = [
        f"{key}={row[key]}" for key in ("timeout", "result_ttl") if row.get(key) not in (None, "")
    ]
    hint = "write timeout= and keep_result= at its @duly.task"
    basket.add_call(
        name,
        rule=rule,
        zone=zone,
        task=str(row["callable"]),
        args=list(args.values()),
        kwargs=kwargs,
        problems=(*no_args, *no_kwargs),
        lost=[f"{' and '.join(lost)} cannot be carried: {hint}"] if lost else [],
        paused="" if row.get("enabled", True) else "it was not enabled",
        queue=str(row.get("queue") or "") or None,
        priority="high" if row.get("at_front") else None,
        max_runs=runs,
    )


def _timing(
    row: Row, scheduled: datetime | None, now: datetime
) -> tuple[str, str | None, int | None]:
    """Return the rule of a task, its zone, and how many runs are left; None: without end."""
    match str(row["model"]).removesuffix("Type").removesuffix("Task").removesuffix("Job"):
        case "Cron":
            return _cron(row.get("cron_string")), "UTC", None
        case "Repeatable":
            length = timedelta(**{str(row["interval_unit"]): row["interval"]})
            start = _set(scheduled, "scheduled_time")
            passed, repeat = max(ceil((now - start) / length), 0), row.get("repeat")
            rule = f"every {show_duration(length)} from {start.isoformat()}"
            return rule, None, None if repeat is None else repeat - passed + 1
        case "Once" | "Scheduled":
            start = _set(scheduled, "scheduled_time")
            return start.isoformat(), None, None if start >= now else 0
        case other:
            raise ValueError(f'"{other}" is no type of a task that is known here')


def _cron(text: str | None) -> str:
    fields = _set(text, "cron_string").split()
    if len(fields) == _CRON_WITH_SECONDS:
        fields = [fields[-1], *fields[:-1]]
    return " ".join(fields)


def _set(value: Any, what: str) -> Any:  # noqa: ANN401 - the same, there
    if value in (None, ""):
        raise ValueError(f"its {what} is not set")
    return value


def _values(rows: Iterable[Row]) -> tuple[dict[str, object], list[str]]:
    """Return the arguments by name or position, and a sentence for each that is made by a call."""
    values: dict[str, object] = {}
    problems = []
    for place, row in enumerate(rows):
        name, kind, text = str(row.get("key", place)), row["arg_type"], str(row["val"])
        if kind == "callable":
            problems.append(f"its argument {name} is what {text}() returns: call it in the task")
        else:
            values[name] = _value(kind, text)
    return values, problems


def _value(kind: str, text: str) -> object:
    match kind:
        case "str":
            return text
        case "datetime":
            return datetime.fromisoformat(text).isoformat()
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "json":
            return json.loads(text)
        case _:
            raise ValueError(f'its argument "{text}" is no {kind}')


def from_django_q(rows: Iterable[Row], *, now: datetime, zone: str | None = None) -> Imported:
    """Read the rows of ``DJANGO_Q_TABLE``; ``zone`` is the ``TIME_ZONE`` of the project."""
    basket, known = ImportCollector(), checked_zone(zone)
    for row in sorted(rows, key=lambda row: row["id"]):
        with basket.reading(f"schedule {row['id']}"):
            _add_schedule(basket, row, now, known)
    return basket.imported_tasks(overlap=allows_overlap("django-q2 sends a task", "its"))


def from_django_q_dump(text: str, *, now: datetime, zone: str | None = None) -> Imported:
    """Read what ``manage.py dumpdata django_q.schedule`` prints."""
    rows = [
        {"id": pk, **fields}
        for model, pk, fields in dumped(text, "django_q.schedule")
        if model.lower() == "django_q.schedule"
    ]
    return from_django_q(rows, now=now, zone=zone)


def _add_schedule(basket: ImportCollector, row: Row, now: datetime, zone: str | None) -> None:
    where = f"schedule {row['id']}"
    repeats, following = int(row.get("repeats") or 0), moment(row.get("next_run"))
    once = row["schedule_type"] == "O"
    if repeats == 0 or (once and following is not None and following < now):
        basket.note(where, "it has no run left; it is left out")
        return
    rule, needed = _q_rule(row, following, zone)
    args, kwargs = _q_arguments(row)
    problems = []
    if row.get("intended_date_kwarg"):
        problems.append(
            f"its argument {row['intended_date_kwarg']} is the due time: use current().due_at"
        )
    options = {"q_options": kwargs.pop("q_options", None), "hook": row.get("hook")}
    lost = " and ".join(f"{name}={value}" for name, value in options.items() if value)
    basket.add_call(
        where,
        name=str(row.get("name") or row["func"]),
        rule=rule,
        zone=needed,
        task=str(row["func"]),
        args=args,
        kwargs=kwargs,
        problems=problems,
        lost=[f"{lost} cannot be carried: write on_success= at its @duly.task"] if lost else [],
        queue=str(row.get("cluster") or "") or None,
        max_runs=None if once or repeats < 0 else repeats,
    )


def _q_rule(row: Row, following: datetime | None, zone: str | None) -> tuple[str, str | None]:
    kind = row["schedule_type"]
    if kind == "C":
        return _cron(row.get("cron")), _needed(zone)
    start = _set(following, "next_run")
    if kind == "O":
        return start.isoformat(), None
    if kind in ("I", "H"):
        minutes = 60 if kind == "H" else row.get("minutes") or 1
        return f"every {show_duration(timedelta(minutes=minutes))} from {start.isoformat()}", None
    if kind not in _CALENDAR:
        raise ValueError(f'"{kind}" is no type of a schedule that is known here')
    step, unit = _CALENDAR[kind]
    local = local_time(start, _needed(zone))
    if unit in ("months", "years") and local.day > _EVERY_MONTH_HAS:
        raise RuleError(
            f"it runs every {step} {unit} from the {local.day}th, and not every month has one: "
            "choose a rule"
        )
    return f"every {step} {unit} at {local:%H:%M:%S} from {local:%Y-%m-%d}", zone


def _needed(zone: str | None) -> str:
    if zone is None:
        raise ZoneMissing(
            "schedules of django-q2 are in TIME_ZONE of the project: pass it, as --zone "
            "Europe/Berlin, or use manage.py duly import"
        )
    return zone


def _q_arguments(row: Row) -> tuple[list[object], dict[str, object]]:
    """Read ``1, 2, 'John'`` and ``x=1, name='John'``, or a dict, without running them."""
    args, kwargs = str(row.get("args") or ""), str(row.get("kwargs") or "")
    try:
        found = ast.literal_eval(args) if args else ()
        return (list(found) if isinstance(found, tuple) else [found]), _q_kwargs(kwargs)
    except (SyntaxError, ValueError):
        raise ValueError(f"its arguments {args} {kwargs} are not plain values of Python") from None


def _q_kwargs(text: str) -> dict[str, object]:
    if not text:
        return {}
    if text.lstrip().startswith("{"):
        return dict(ast.literal_eval(text))
    call = ast.parse(f"f({text})", mode="eval").body
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError("there is one without a name")
    return {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
