"""Import from django-celery-beat: the rows of its tables, or the output of ``manage.py dumpdata``.

Newer versions of the package have more columns and tables. A missing one means an older version.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from json import JSONDecodeError, loads
from typing import Any, Final, TypeAlias

from duly.declare.importers.celery_beat import ROUTING, Periodic, from_periodic, moment
from duly.declare.importers.collector import ImportCollector, Imported
from duly.errors import InvalidValue

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
    for model, pk, fields in _dumped(text):
        app, _, table = model.lower().partition(".")
        if app == APP:
            tables.setdefault(table, []).append({"id": pk, **fields})
    if not tables:
        raise _no_dump(f"nothing of {APP} is in it")
    return from_tables(tables, now=now, zone=zone)


def _dumped(text: str) -> Iterator[tuple[str, object, Row]]:
    try:
        found = loads(text)
        for one in found:
            yield str(one["model"]), one["pk"], dict(one["fields"])
    except JSONDecodeError as error:
        raise _no_dump(f"this is not JSON: {error}") from None
    except (KeyError, TypeError, ValueError):
        raise _no_dump("this is not what Django dumps") from None


def _no_dump(found: str) -> InvalidValue:
    return InvalidValue(
        f"{found}. Send what this prints: python manage.py dumpdata {APP}; or name the database, "
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
        said = f"its moment, {clocked:%Y-%m-%d %H:%M %Z}, has passed"
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
            "every schedule: last_run_at is not carried: a schedule begins when it is applied, and "
            "nothing before that is made up for"
        )
    if any(_is_bare(row.get(name)) for row in rows for name in _MOMENTS):
        yield (
            "every moment: it is read in UTC, as Django stores it in SQLite unless USE_TZ = False: "
            "mend start, end and moments if your settings say that"
        )


def _is_bare(found: object) -> bool:
    """Return whether a moment has no offset, as in SQLite."""
    if isinstance(found, datetime):
        return found.tzinfo is None
    return isinstance(found, str) and not _OFFSET.search(found)
