"""From Celery Beat: ``app.conf.beat_schedule``, or the tables of django-celery-beat.

In a crontab of Celery's, day of month *and* weekday must hold; a cron line wants either. Where both
are named, the rule becomes a calendar expression.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from json import JSONDecodeError, loads
from typing import Any, Final

from duly.declare.importers.arguments import carried
from duly.declare.importers.beat_rules import rule_of
from duly.declare.importers.imported import Basket, Imported, known_zone, name_of, title_of
from duly.declare.sheet import Entry
from duly.durations import show_duration
from duly.errors import ZoneMissing

OWN_TASKS: Final = ("celery.backend_cleanup",)
KNOWN: Final = ("task", "schedule", "args", "kwargs", "options", "relative", "enabled")
KNOWN_OPTIONS: Final = ("queue", "expires", "priority")

# What from_django_rows reads, in the words of every database that Django knows.
DJANGO_QUERY: Final = """\
select task.name, task.task, task.args, task.kwargs, task.queue, task.priority, task.expires,
       task.expire_seconds, task.one_off, task.start_time, task.enabled, task.description,
       rate.every, rate.period,
       cron.minute, cron.hour, cron.day_of_month, cron.month_of_year, cron.day_of_week,
       cron.timezone, sun.event, clock.clocked_time
  from django_celery_beat_periodictask task
  left join django_celery_beat_intervalschedule rate on rate.id = task.interval_id
  left join django_celery_beat_crontabschedule cron on cron.id = task.crontab_id
  left join django_celery_beat_solarschedule sun on sun.id = task.solar_id
  left join django_celery_beat_clockedschedule clock on clock.id = task.clocked_id
 order by task.name
"""


def from_schedule(
    schedule: Mapping[str, Mapping[str, Any]], *, zone: str | None = None
) -> Imported:
    """Read a ``beat_schedule``. ``zone`` is ``app.conf.timezone``: its crontabs need one."""
    importer = _Importer(known_zone(zone))
    for name, row in schedule.items():
        importer.take(_described(name, row))
    return importer.finished()


def from_django_rows(rows: Iterable[Mapping[str, Any]], *, zone: str | None = None) -> Imported:
    """Read the rows of ``DJANGO_QUERY``. ``zone`` is for crontabs that name none."""
    importer = _Importer(known_zone(zone))
    for row in rows:
        importer.take(_stored(row))
    return importer.finished()


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A periodic task of Celery's, whichever way it was kept."""

    name: str
    task: str
    schedule: object
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    queue: str | None = None
    priority: object = None
    expires: object = None  # seconds after it was sent, or a moment
    start: object = None
    enabled: bool = True
    once: bool = False
    title: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class _Importer:
    zone: str | None
    basket: Basket = field(default_factory=Basket)

    def take(self, periodic: Periodic) -> None:
        if periodic.task in OWN_TASKS:
            self.basket.note(
                periodic.name, "it tidies up Celery's own results and is left out: duly has none"
            )
            return
        try:
            self.add(periodic)
        except ZoneMissing:
            raise
        except ValueError as error:
            self.basket.note(periodic.name, f"{error}; it is left out")

    def add(self, periodic: Periodic) -> None:
        rule, zone = rule_of(periodic.schedule, self.zone)
        args, problems = carried(periodic.args, periodic.kwargs)
        paused = "; ".join(problems) or ("" if periodic.enabled else "it was not enabled")
        for problem in problems:
            self.basket.note(periodic.name, f"{problem}; until then it is paused")
        entry = Entry(
            name=self.basket.free_name(name_of(periodic.name)),
            rule=rule,
            zone=zone,
            task=periodic.task,
            args=args,
            title=title_of(periodic.title),
            queue=periodic.queue or None,
            start_within=_seconds(periodic.expires),
            start=_moment(periodic.start),
            end=_moment(periodic.expires),
            paused=bool(paused),
            note=paused,
        )
        if self.basket.add(periodic.name, entry):
            self.note_lost(periodic)

    def note_lost(self, periodic: Periodic) -> None:
        if periodic.priority is not None:
            self.basket.note(
                periodic.name,
                f"priority={periodic.priority} is not carried, because brokers disagree which end "
                'is first: write priority = "high" or "low"',
            )
        if periodic.once:
            self.basket.note(
                periodic.name, "one_off is not carried: pause it once it has run, or write a moment"
            )
        if periodic.unknown:
            self.basket.note(periodic.name, f"{', '.join(periodic.unknown)} cannot be carried")

    def finished(self) -> Imported:
        tasks = dict.fromkeys(entry.task for entry in self.basket.entries.values())
        if tasks:
            self.basket.note(
                "every task",
                "it is called as in Celery: give yours the same name, as "
                f'@duly.task(name="{next(iter(tasks))}")',
            )
            self.basket.note(
                "every schedule",
                "Beat sends a task even while its last run goes on; duly skips that moment: write "
                'overlap = "allow" where Beat\'s way is wanted',
            )
        return self.basket.imported()


def _described(name: str, row: Mapping[str, Any]) -> Periodic:
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


def _stored(row: Mapping[str, Any]) -> Periodic:
    args, kwargs = _json(row.get("args"), []), _json(row.get("kwargs"), {})
    expires = row.get("expire_seconds")
    return Periodic(
        name=str(row["name"]),
        task=str(row["task"]),
        schedule=_stored_schedule(row),
        args=args if isinstance(args, list) else (row.get("args"),),
        kwargs=kwargs if isinstance(kwargs, dict) else {"kwargs": None},
        queue=row.get("queue"),
        priority=row.get("priority"),
        expires=row.get("expires") if expires is None else expires,
        start=row.get("start_time"),
        enabled=bool(row.get("enabled", True)),
        once=bool(row.get("one_off")) and row.get("clocked_time") is None,
        title=str(row.get("description") or ""),
    )


def _stored_schedule(row: Mapping[str, Any]) -> object:
    if row.get("every") is not None:
        return timedelta(**{str(row["period"]): int(row["every"])})
    return row if row.get("clocked_time") is None else _moment(row["clocked_time"])


def _json(text: Any, default: object) -> object:  # noqa: ANN401 - whatever the driver gave
    if not isinstance(text, str):
        return default if text is None else text
    try:
        return loads(text) if text.strip() else default
    except JSONDecodeError:
        return None


def _queue(queue: object) -> str | None:
    """A name, or an object of kombu's that has one."""
    found = getattr(queue, "name", queue)
    return None if found is None else str(found)


def _seconds(expires: object) -> str | None:
    if isinstance(expires, timedelta):
        expires = expires.total_seconds()
    if isinstance(expires, int | float) and not isinstance(expires, bool) and expires > 0:
        return show_duration(timedelta(seconds=expires))
    return None


def _moment(found: object) -> datetime | None:
    """A moment; one without an offset is in UTC, as Django stores them."""
    if isinstance(found, str):
        found = datetime.fromisoformat(found)
    if not isinstance(found, datetime):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
