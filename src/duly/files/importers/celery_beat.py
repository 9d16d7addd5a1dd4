"""Import from Celery Beat: ``app.conf.beat_schedule`` and other sources of periodic tasks.

Celery is not imported; schedules are recognised by their attributes: seconds, a ``timedelta``, an
object with ``run_every``, a crontab by its ``_orig_minute`` and so on, a row with ``minute`` and so
on, a datetime. Solar schedules are refused.

In a crontab of Celery's, day of month *and* weekday must match; a cron line needs only one of them.
If both are set, the rule becomes a calendar expression.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from json import JSONDecodeError, loads
from typing import Any, Final, TypeAlias

from duly.durations import show_duration
from duly.errors import InvalidValue, RuleError, ZoneMissing
from duly.files.importers.collector import (
    ImportCollector,
    Imported,
    allows_overlap,
    moment,
    title_of,
)
from duly.files.importers.cron_to_calendar import (
    CRON_WEEKDAY,
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    items,
    weekdays,
)
from duly.rules.rule_text import checked_zone

FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")

_LONG_NAME: Final = re.compile(r"([A-Za-z]{3})[A-Za-z]+")  # Celery reads three letters

OWN_TASKS: Final = ("celery.backend_cleanup",)
KNOWN: Final = ("task", "schedule", "args", "kwargs", "options", "relative", "enabled")
KNOWN_OPTIONS: Final = ("queue", "expires", "priority")
ROUTING: Final = ("exchange", "routing_key", "headers")  # options for a broker


def rule_of(schedule: object, zone: str | None) -> tuple[str, str | None]:
    """Return the rule of a schedule, and its zone; None for a rule that needs no zone."""
    if schedule is None:
        raise RuleError("it has no schedule: choose a rule")
    if isinstance(schedule, datetime):
        return schedule.isoformat(), None
    length = _length(schedule)
    if length is not None:
        return f"every {show_duration(length)}", None
    if _get(schedule, "event"):
        raise RuleError(
            f"the sun decides when it runs ({_get(schedule, 'event')}), and no rule here knows the "
            "sun: choose a time of day"
        )
    fields = _fields(schedule)
    if fields is None:
        raise RuleError(f"{schedule!r} is no schedule that is known here: choose a rule")
    found = _zone(schedule) or zone
    if found is None:
        kept = "a crontab in these tables" if isinstance(schedule, Mapping) else "a beat_schedule"
        raise ZoneMissing(
            f"{kept} has no zone: pass what app.conf.timezone says, as --zone "
            "Europe/Berlin, or --zone UTC if it was never set"
        )
    return _cron(fields), found


def _length(schedule: object) -> timedelta | None:
    found = getattr(schedule, "run_every", schedule)
    if isinstance(found, int | float) and not isinstance(found, bool):
        return timedelta(seconds=found)
    return found if isinstance(found, timedelta) else None


def _fields(schedule: object) -> list[str] | None:
    if isinstance(schedule, Mapping):
        found = [schedule.get(name) for name in FIELDS]
    else:
        found = [getattr(schedule, f"_orig_{name}", None) for name in FIELDS]
    if all(value is None for value in found):
        return None
    return ["*" if value is None else _field(value) for value in found]


def _field(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(sorted(map(str, value), key=lambda item: (len(item), item)))
    return str(value).replace(" ", "")


def _cron(fields: Sequence[str]) -> str:
    minute, hour, day, month, weekday = fields
    if day.startswith("*") or weekday.startswith("*"):
        return " ".join((minute, hour, day, month, _LONG_NAME.sub(r"\1", weekday)))
    date = f"{weekdays(weekday, CRON_WEEKDAY)}*-{items(month, MONTH)}-{items(day, DAY)}"
    return f"{date} {items(hour, HOUR)}:{items(minute, MINUTE)}"


def _zone(schedule: object) -> str | None:
    """Return the zone of the schedule itself, without the default of the Celery app."""
    if isinstance(schedule, Mapping):
        return str(schedule["timezone"]) if schedule.get("timezone") else None
    found = getattr(schedule, "__dict__", {}).get("tz")
    return None if found is None else str(found)


def _get(schedule: object, name: str) -> object:
    return schedule.get(name) if isinstance(schedule, Mapping) else getattr(schedule, name, None)


def from_schedule(
    schedule: Mapping[str, Mapping[str, Any]], *, zone: str | None = None
) -> Imported:
    """Read a ``beat_schedule``. ``zone`` is ``app.conf.timezone``: its crontabs need one."""
    return from_periodic((described(name, row) for name, row in schedule.items()), zone=zone)


def from_periodic(
    tasks: "Iterable[Periodic]", *, zone: str | None = None, basket: ImportCollector | None = None
) -> Imported:
    """Read periodic tasks; ``zone`` is for crontabs without a zone."""
    basket, known = basket or ImportCollector(), checked_zone(zone)
    for periodic in tasks:
        if periodic.task in OWN_TASKS:
            told = "it tidies up Celery's own results and is left out: duly has none"
            basket.note(periodic.name, told)
            continue
        with basket.reading(periodic.name):
            _add(basket, periodic, known)
    return basket.imported_tasks(
        named="it is called as in Celery: give yours the same name",
        overlap=allows_overlap("Beat sends a task", "Beat's"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A periodic task of Celery, from any source."""

    name: str
    task: str
    schedule: object
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    queue: str | None = None
    priority: object = None
    expires: object = None  # seconds after it was sent, or a moment
    start: datetime | None = None
    enabled: bool = True
    once_from: datetime | None = None  # for a task that runs once: from when on
    title: str = ""
    problems: tuple[str, ...] = ()  # with its arguments
    unknown: tuple[str, ...] = ()


def _add(basket: ImportCollector, periodic: Periodic, known: str | None) -> None:
    rule, zone = rule_of(periodic.schedule, known)
    basket.add_call(
        periodic.name,
        rule=_once(rule, periodic.once_from),
        zone=zone,
        task=periodic.task,
        args=periodic.args,
        kwargs=periodic.kwargs,
        problems=periodic.problems,
        lost=list(_lost(periodic)),
        paused="" if periodic.enabled else "it was not enabled",
        title=title_of(periodic.title),
        queue=periodic.queue or None,
        start_within=_seconds(periodic.expires),
        start=None if periodic.once_from else periodic.start,
        end=_end(periodic.expires),
    )


def _lost(periodic: Periodic) -> Iterator[str]:
    if periodic.priority is not None:
        yield (
            f"priority={periodic.priority} is not converted, because brokers disagree which end is "
            'first: write priority = "high" or "low"'
        )
    if periodic.once_from:
        yield (
            "one_off becomes count=1: it is due once, at the first time from "
            f"{periodic.once_from:%Y-%m-%d %H:%M} UTC on; apply the file before that, or write a "
            "later start="
        )
    if periodic.unknown:
        routed = any(name.endswith(ROUTING) for name in periodic.unknown)
        hint = ": there is no broker here; write queue = …, or pass an argument" * routed
        yield f"{', '.join(periodic.unknown)} cannot be carried{hint}"


def _end(expires: object) -> datetime | None:
    return moment(expires) if isinstance(expires, str | datetime) else None


def described(name: str, row: Mapping[str, Any]) -> Periodic:
    options = row.get("options") or {}
    unknown = [key for key in row if key not in KNOWN]
    unknown += ["relative"] if row.get("relative") else []
    return Periodic(
        name=name,
        task=str(row.get("task") or name),
        schedule=row.get("schedule"),
        args=tuple(row.get("args") or ()),
        kwargs=row.get("kwargs") or {},
        queue=_queue(options.get("queue")),
        priority=options.get("priority"),
        expires=options.get("expires"),
        enabled=row.get("enabled", True),
        unknown=(*unknown, *(f"options.{key}" for key in options if key not in KNOWN_OPTIONS)),
    )


def _queue(queue: object) -> str | None:
    """Return the name of a queue, given as text or as a kombu object."""
    found = getattr(queue, "name", queue)
    return None if found is None else str(found)


def _seconds(expires: object) -> str | None:
    if isinstance(expires, timedelta):
        expires = expires.total_seconds()
    if isinstance(expires, int | float) and not isinstance(expires, bool) and expires > 0:
        return show_duration(timedelta(seconds=expires))
    return None


def _once(rule: str, start: datetime | None) -> str:
    return rule if start is None else f"{rule} start={start.isoformat()} count=1"


Row: TypeAlias = Mapping[str, Any]

APP: Final = "django_celery_beat"
TASKS: Final = "periodictask"
# By the prefix of the task's column, in the order in which Beat looks at them.
SCHEDULES: Final = {
    "interval": "intervalschedule",
    "crontab": "crontabschedule",
    "solar": "solarschedule",
    "clocked": "clockedschedule",
}
TABLES: Final = (TASKS, *SCHEDULES.values())

_MOMENTS: Final = ("expires", "start_time", "clocked_time")
_OFFSET: Final = re.compile(r"(?:Z|[+-]\d\d:?\d\d)\Z")
_NOTHING: Final = (None, "", "{}")


def from_tables(
    tables: Mapping[str, Sequence[Row]], *, now: datetime, zone: str | None = None
) -> Imported:
    """Read the rows of ``TABLES``, by table; ``zone`` is for crontabs without a zone."""
    basket = ImportCollector()
    rows = list(_joined(tables))
    imported = from_periodic(_left(rows, now, basket), zone=zone, basket=basket)
    return Imported(imported.sheet, (*imported.notes, *_about_all(rows)))


def from_dump(text: str, *, now: datetime, zone: str | None = None) -> Imported:
    """Read what ``manage.py dumpdata django_celery_beat`` prints."""
    tables: dict[str, list[Row]] = {}
    for model, pk, fields in dumped(text, APP):
        app, _, table = model.lower().partition(".")
        if app == APP:
            tables.setdefault(table, []).append({"id": pk, **fields})
    if not tables:
        raise _no_dump(f"nothing of {APP} is in it", APP)
    return from_tables(tables, now=now, zone=zone)


def dumped(text: str, what: str) -> Iterator[tuple[str, object, Row]]:
    """Yield model, primary key and fields of each object that Django dumped."""
    try:
        found = loads(text)
        for one in found:
            yield str(one["model"]), one["pk"], dict(one["fields"])
    except JSONDecodeError as error:
        raise _no_dump(f"this is not JSON: {error}", what) from None
    except (KeyError, TypeError, ValueError):
        raise _no_dump("this is not what Django dumps", what) from None


def _no_dump(found: str, what: str) -> InvalidValue:
    return InvalidValue(
        f"{found}. Send what this prints: python manage.py dumpdata {what}; or name the database, "
        "as sqlite:///db.sqlite3 or postgresql://…"
    )


def _joined(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Yield each task with the columns of its schedule, in name order."""
    schedules = {
        word: {row["id"]: row for row in tables.get(table, ())} for word, table in SCHEDULES.items()
    }
    for task in sorted(tables.get(TASKS, ()), key=lambda row: str(row["name"])):
        pointers = ((word, task.get(f"{word}_id", task.get(word))) for word in SCHEDULES)
        word, pointer = next(((w, p) for w, p in pointers if p is not None), ("", None))
        schedule = schedules[word].get(pointer) if word else None
        yield {**(schedule or {}), **task, "has": word if schedule else ""}


def _left(rows: Iterable[Row], now: datetime, basket: ImportCollector) -> Iterator[Periodic]:
    """Yield the tasks that can be read and have not ended."""
    for row in rows:
        try:
            if not _is_over(row, now, basket):
                yield _periodic(row, now)
        except (ValueError, TypeError, ArithmeticError) as error:
            basket.leave_out(str(row["name"]), error)


def _is_over(row: Row, now: datetime, basket: ImportCollector) -> bool:
    """Return whether the task has ended; note it if so."""
    clocked = moment(row.get("clocked_time"))
    if clocked is not None and clocked < now:
        said = f"its time, {clocked:%Y-%m-%d %H:%M %Z}, has passed"
    elif row.get("one_off") and row.get("total_run_count"):
        said = "it is one_off, and has run"
    else:
        return False
    basket.note(str(row["name"]), f"{said}; it is left out")
    return True


def _periodic(row: Row, now: datetime) -> Periodic:
    args, no_args = _json(row, "args", list)
    kwargs, no_kwargs = _json(row, "kwargs", dict)
    seconds = row.get("expire_seconds")
    once = row.get("one_off") and row["has"] != "clocked"
    start = moment(row.get("start_time"))
    return Periodic(
        name=str(row["name"]),
        task=str(row["task"]),
        schedule=_schedule(row),
        args=args,
        kwargs=kwargs,
        queue=row.get("queue"),
        priority=row.get("priority"),
        expires=moment(row.get("expires")) if seconds is None else seconds,
        start=start,
        enabled=bool(row.get("enabled", True)),
        once_from=max(start or now, now).astimezone(UTC) if once else None,
        title=str(row.get("description") or ""),
        problems=(*no_args, *no_kwargs),
        unknown=tuple(name for name in ROUTING if row.get(name) not in _NOTHING),
    )


def _schedule(row: Row) -> object:
    match row["has"]:
        case "interval":
            return timedelta(**{str(row["period"]): int(row["every"])})
        case "clocked":
            return moment(row["clocked_time"])
        case "":
            return None
        case _:
            return row


def _json(row: Row, name: str, wanted: type) -> tuple[Any, Sequence[str]]:
    text = row.get(name)
    try:
        found = loads(text) if isinstance(text, str) and text.strip() else wanted()
    except JSONDecodeError:
        found = None
    if isinstance(found, wanted):
        return found, ()
    kind = "a JSON list" if wanted is list else "a JSON object"
    return wanted(), (f"its {name} {str(text)[:60]} are not {kind}: write args = {{ name = … }}",)


def _about_all(rows: Sequence[Row]) -> Iterator[str]:
    if any(row.get("last_run_at") for row in rows):
        yield (
            "every schedule: last_run_at is not converted: a schedule begins when it is applied, "
            "and nothing before that is caught up"
        )
    if any(_is_bare(row.get(name)) for row in rows for name in _MOMENTS):
        yield (
            "every time: it is read in UTC, as Django stores it in SQLite unless USE_TZ = False: "
            "correct start, end and times if your settings say that"
        )


def _is_bare(found: object) -> bool:
    """Return whether a moment has no offset, as in SQLite."""
    if isinstance(found, datetime):
        return found.tzinfo is None
    return isinstance(found, str) and not _OFFSET.search(found)
