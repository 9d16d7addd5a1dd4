"""Import from APScheduler 3.

Its job stores hold pickles, and unpickling a row may run any code. So a store is never read:
``PRINT_JOBS``, run inside the program with the scheduler, prints the jobs, and ``from_printed``
reads that.

    misfire_grace_time, coalesce    missed and start_within
    max_instances                   overlap
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from duly.durations import show_duration
from duly.errors import InvalidValue, RuleError
from duly.files.importers.collector import (
    ImportCollector,
    Imported,
    moment,
    name_of,
    title_of,
    zone_asked_for,
)
from duly.files.importers.cron_to_calendar import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    WEEKDAYS,
    YEAR,
    items,
    weekdays,
)
from duly.rules import at
from duly.rules.rule_text import checked_zone
from duly.rules.zone import zone_names

LEAST: Final = {
    "year": "*",
    "month": "1",
    "day": "1",
    "week": "*",
    "day_of_week": "*",
    "hour": "0",
    "minute": "0",
    "second": "0",
}

_KIND: Final = re.compile(r"(?P<kind>\w+)[\[(](?P<inside>.*)[\])]")
_OPTION: Final = re.compile(r"(\w+)='?([^',]+)'?")
_CRON_OPTION: Final = re.compile(r"(\w+)='([^']*)'")
_LENGTH: Final = re.compile(
    r"(?:(?P<days>\d+) days?, )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)"
)
_MOMENT: Final = re.compile(r"(?P<day>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d) ?(?P<zone>\S*)")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_EVERY_MONTH_HAS: Final = 28  # days; a later day is skipped in some months, as in a recurrence
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POSITION: Final = re.compile(
    r"(?P<place>1st|2nd|3rd|4th|5th|last) +(?P<weekday>\w+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A rule, whether it needs a zone, and whether it has its own start."""

    rule: str
    needs_zone: bool = False
    anchored: bool = False
    zone: str | None = None  # of the trigger itself
    lost: tuple[str, ...] = ()


def read_trigger(row: Mapping[str, Any]) -> Trigger:
    return _read(str(row["trigger"]), row)


def last_moment(found: object, zone: str | None) -> datetime | None:
    """Return the end of a trigger; a date means the end of that day."""
    if found in (None, "", "None"):
        return None
    text = str(found)
    if _DAY.fullmatch(text):
        return at(f"{text}T23:59:59", zone=zone or "UTC").after(_LONG_AGO)
    return moment(text)


def _read(text: str, row: Mapping[str, Any]) -> Trigger:
    found = _KIND.fullmatch(text.strip())
    kind, inside = (found["kind"], found["inside"]) if found else ("", "")
    match kind:
        case "cron":
            rule = _cron(dict(_CRON_OPTION.findall(inside)))
            return Trigger(rule, needs_zone=True, zone=_zone(row))
        case "interval":
            return _interval(text, inside, row)
        case "date":
            return _date(text, inside, row)
        case "CalendarIntervalTrigger":
            return replace(_calendar_interval(dict(_OPTION.findall(inside))), zone=_zone(row))
        case "or":
            return _either(row.get("triggers") or [{"trigger": part} for part in _divided(inside)])
        case _:
            raise RuleError(f'"{text}" is no trigger that can be carried: choose a rule')


def _cron(named: Mapping[str, str]) -> str:
    values = _filled(named)
    if values["week"] != "*":
        raise RuleError(f"week='{values['week']}' counts weeks of the year, and no rule here does")
    time = ":".join(
        items(values[name], column)
        for name, column in (("hour", HOUR), ("minute", MINUTE), ("second", SECOND))
    )
    month = f"{items(values['year'], YEAR)}-{items(values['month'], MONTH)}"
    dates = _dates(values["day"], values["day_of_week"])
    return " | ".join(f"{weekday}{month}{day} {time}" for weekday, day in dates)


def _filled(named: Mapping[str, str]) -> dict[str, str]:
    """Fill in unset fields: ``*`` before the last one that is set, the minimum after it."""
    names = list(LEAST)
    last = max((names.index(name) for name in named if name in LEAST), default=-1)
    return {
        name: named.get(name, "*" if place < last else LEAST[name])
        for place, name in enumerate(names)
    }


def _dates(day: str, weekday: str) -> Iterator[tuple[str, str]]:
    """Yield weekdays and day of month for each part of the day field."""
    parts = [part.strip() for part in day.split(",")]
    special = [part for part in parts if part.lower() == "last" or _POSITION.fullmatch(part)]
    plain = ",".join(part for part in parts if part not in special)
    if plain:
        yield weekdays(weekday, WEEKDAY), f"-{items(plain, DAY)}"
    for part in special:
        found = _POSITION.fullmatch(part)
        if not found:
            yield weekdays(weekday, WEEKDAY), "~01"
        elif weekday != "*":
            raise RuleError(f"day='{part}' and day_of_week='{weekday}' are two weekdays at once")
        else:
            yield f"{WEEKDAYS[WEEKDAY.number(found['weekday'])]} ", _week(found["place"].lower())


def _week(place: str) -> str:
    """``3rd`` is from the 15th to the 21st."""
    if place == "last":
        return "~07/1"
    first = 7 * (int(place[0]) - 1) + 1
    return f"-{first:02d}..{min(first + 6, 31):02d}"


def _interval(text: str, inside: str, row: Mapping[str, Any]) -> Trigger:
    found = _LENGTH.fullmatch(inside)
    if not found:
        raise RuleError(f'"{text}" names no length of time')
    parts = {name: float(value or 0) for name, value in found.groupdict().items()}
    rule = f"every {show_duration(timedelta(**parts))}"
    start = str(row.get("start_date") or "")
    if not start:
        return Trigger(rule)
    return Trigger(f"{rule} from {datetime.fromisoformat(start).isoformat()}", anchored=True)


def _date(text: str, inside: str, row: Mapping[str, Any]) -> Trigger:
    if row.get("run_date"):
        return Trigger(datetime.fromisoformat(str(row["run_date"])).isoformat(), anchored=True)
    found = _MOMENT.fullmatch(inside)
    if not found:
        raise RuleError(f'"{text}" names no time')
    in_utc = found["zone"] in ("UTC", "GMT", "Z")
    rule = f"{found['day']}T{found['time']}{'Z' if in_utc else ''}"
    return Trigger(rule, needs_zone=not in_utc, anchored=True, zone=_zone(row))


def _calendar_interval(options: Mapping[str, str]) -> Trigger:
    """Convert an interval of days, weeks, months or years; a mix of them is refused."""
    units = [name for name in ("days", "weeks", "months", "years") if name in options]
    if len(units) != 1:
        raise RuleError(f"{' and '.join(units)} at once is no step that can be carried")
    unit, start, time = units[0], options["start_date"], options["time"][:8]
    if unit in ("months", "years") and int(start[8:]) > _EVERY_MONTH_HAS:
        compact = f"{start}T{time}".replace("-", "").replace(":", "")
        rule = f"DTSTART:{compact} RRULE:FREQ={unit[:-1].upper()}LY;INTERVAL={options[unit]}"
    else:
        rule = f"every {options[unit]} {unit} at {time} from {start}"
    return Trigger(rule, needs_zone=True, anchored=True)


def _either(rows: Sequence[Mapping[str, Any]]) -> Trigger:
    """Join several triggers, each with its own zone and bounds."""
    parts = [(row, read_trigger(row)) for row in rows]
    zones = {part.zone for _, part in parts if part.needs_zone}
    one_zone = len(zones) < 2  # otherwise every rule must name its own zone
    if not one_zone and None in zones:
        raise RuleError("some of its triggers name a zone and some do not: choose a rule for each")
    rules = []
    for row, part in parts:
        own = f" {part.zone}" if part.needs_zone and not one_zone else ""
        rules.append(f"{part.rule}{own}{_bounds(row, part)}")
    lost = ("the jitter of its triggers",) if any(row.get("jitter") for row in rows) else ()
    return Trigger(
        " | ".join(rules),
        needs_zone=one_zone and bool(zones),
        anchored=True,
        zone=zones.pop() if one_zone and zones else None,
        lost=lost,
    )


def _bounds(row: Mapping[str, Any], trigger: Trigger) -> str:
    start = None if trigger.anchored else row.get("start_date")
    end = last_moment(row.get("end_date"), trigger.zone)
    said = "" if start is None else f" start={datetime.fromisoformat(str(start)).isoformat()}"
    return said if end is None else f"{said} end={end.isoformat()}"


def _zone(row: Mapping[str, Any]) -> str | None:
    named = str(row.get("timezone") or "")
    return named if named in zone_names() else None


def _divided(inside: str) -> Iterator[str]:
    """Split a list of triggers at commas outside of brackets."""
    depth, start = 0, 0
    for place, char in enumerate(inside):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield inside[start:place]
            start = place + 1
    yield inside[start:]


# Before a scheduler is started, its jobs do not know all of their options.
PRINT_JOBS: Final = """\
import json  # and before it, scheduler.start(paused=True), if it does not run yet
def told(trigger):
    keys = ("timezone", "start_date", "end_date", "run_date", "jitter")
    return {
        "trigger": str(trigger), "triggers": list(map(told, getattr(trigger, "triggers", ()))),
        **{key: str(getattr(trigger, key)) for key in keys if getattr(trigger, key, None)},
    }
for job in scheduler.get_jobs():
    print(json.dumps({
        "id": job.id, "name": job.name, "func_ref": job.func_ref, **told(job.trigger),
        **{key: getattr(job, key) for key in ("coalesce", "max_instances", "misfire_grace_time")
           if hasattr(job, key)},
        "args": list(job.args), "kwargs": dict(job.kwargs),
        "paused": getattr(job, "next_run_time", job) is None,
    }, default=lambda found: {"python": repr(found)}))
"""
# APScheduler deletes jobs that it cannot unpickle: in another program that is all of them.
OPEN_STORE: Final = """\
from apscheduler.schedulers.background import BackgroundScheduler
scheduler = BackgroundScheduler()
scheduler.add_jobstore("sqlalchemy", url="sqlite:///copy-of-jobs.sqlite")
scheduler.start(paused=True)
"""

USUAL_GRACE: Final = 1  # seconds: the default of APScheduler
_MACHINE_IDS: Final = 32  # characters of a generated id


def from_printed(
    text: str, *, zone: str | None = None, machine_zone: str | None = None
) -> Imported:
    """Read the output of ``PRINT_JOBS``: one JSON object per line."""
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise _not_printed(f"this is not JSON: {error}") from None
    return from_rows(rows, zone=zone, machine_zone=machine_zone)


def from_rows(
    rows: Iterable[object], *, zone: str | None = None, machine_zone: str | None = None
) -> Imported:
    """Read descriptions of jobs; ``zone`` is for triggers without a zone."""
    importer = _JobImporter(checked_zone(zone), machine_zone)
    for row in rows:
        if not isinstance(row, Mapping) or "job_state" in row or "trigger" not in row:
            raise _not_printed("this is not a description of a job")
        name = _name(row)
        with importer.basket.reading(name):
            importer.add(name, row)
    return importer.finished()


def job_store_refused(place: str) -> InvalidValue:
    """Return the error that explains why a job store is not read, and what to do instead."""
    return InvalidValue(
        f"{place} is a job store: its jobs are pickles, and to unpickle one is to run whatever is "
        "in it. duly never does. Run this in the program that has the scheduler, and pass on what "
        f"it prints:\n\n{PRINT_JOBS}\n"
        "If there is no such program, put this before it, where the functions of the jobs can be "
        "imported, and on a copy of the store: APScheduler deletes each job that it cannot load."
        f"\n\n{OPEN_STORE}"
    )


def _not_printed(found: str) -> InvalidValue:
    return InvalidValue(
        f"{found}. A job store of APScheduler's holds pickles, which duly never opens: run this in "
        f"the program that has the scheduler, and pass on what it prints\n\n{PRINT_JOBS}"
    )


@dataclass(slots=True)
class _JobImporter:
    zone: str | None
    machine_zone: str | None
    basket: ImportCollector = field(default_factory=ImportCollector)
    tasks: dict[str, str] = field(default_factory=dict)  # by name, the func_ref it came from
    graceless: list[str] = field(default_factory=list)

    def add(self, name: str, row: Mapping[str, Any]) -> None:
        trigger = read_trigger(row)
        zone = self.zone_of(trigger)
        named, problems = _plain(dict(row.get("kwargs") or {}))
        self.basket.add_call(
            name,
            rule=trigger.rule,
            zone=zone,
            task=self.task(name, str(row.get("func_ref") or row.get("func") or name)),
            args=list(row.get("args") or ()),
            kwargs=named,
            problems=problems,
            lost=[f"{lost} cannot be carried" for lost in trigger.lost],
            paused="it was paused" if row.get("paused") else "",
            title=_title(row),
            start=None if trigger.anchored else moment(row.get("start_date")),
            end=last_moment(row.get("end_date"), zone),
            jitter=_jitter(row.get("jitter")),
            **self.policies(name, row),
        )

    def zone_of(self, trigger: Trigger) -> str | None:
        if not trigger.needs_zone:
            return None
        zone = trigger.zone or self.zone
        if zone is None:
            raise zone_asked_for("a job of APScheduler's", self.machine_zone)
        return zone

    def task(self, name: str, reference: str) -> str:
        """Return the name of the function, which is the name that ``@duly.task`` gives it."""
        task = reference.rpartition(":")[2].rpartition(".")[2]
        if self.tasks.setdefault(task, reference) != reference:
            self.basket.note(
                name,
                f"{reference} and {self.tasks[task]} are both called {task}: give one of the two "
                "@duly.task(name=…), and write it here",
            )
        return task

    def policies(self, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
        most = int(row.get("max_instances") or 1)
        if most > 1:
            self.basket.note(
                name,
                f'max_instances={most} becomes overlap = "allow", which has no upper end: '
                f"put Limit(…, concurrency={most}) on the task",
            )
        overlap = "allow" if most > 1 else "skip"
        grace = row.get("misfire_grace_time", USUAL_GRACE)
        if grace is not None and float(grace) <= USUAL_GRACE:
            self.graceless.append(name)
            return {"overlap": overlap, "missed": "skip"}
        missed = "latest" if row.get("coalesce", True) else "all"
        within = None if grace is None else show_duration(timedelta(seconds=float(grace)))
        return {"overlap": overlap, "missed": missed, "start_within": within}

    def finished(self) -> Imported:
        if self.graceless:
            self.basket.note(
                ", ".join(self.graceless),
                "misfire_grace_time=1, APScheduler's default, becomes missed = "
                '"skip", which forgives a minute: write missed = "latest" to catch up after '
                "an outage",
            )
        if self.tasks:
            task, reference = next(iter(self.tasks.items()))
            self.basket.note(
                "every task",
                f"it is called as its function: put @duly.task over it, as over {task} in "
                f"{reference.partition(':')[0]}",
            )
        return self.basket.imported()


def _name(row: Mapping[str, Any]) -> str:
    """Return the id of a job, or its name if the id was generated."""
    found = str(row.get("id") or "")
    made_up = len(found) == _MACHINE_IDS and all(c in "0123456789abcdef" for c in found)
    return name_of(str(row.get("name") or found) if made_up or not found else found)


def _title(row: Mapping[str, Any]) -> str:
    """Return the name of a job as title, if it differs from its id and its function."""
    name = str(row.get("name") or "")
    function = str(row.get("func_ref") or "").rpartition(":")[2]
    return "" if name in (function, str(row.get("id"))) else title_of(name)


def _plain(kwargs: Mapping[str, Any]) -> tuple[dict[str, object], list[str]]:
    """Return the arguments that are plain JSON, and a sentence for each other one."""
    others = {
        name: found["python"]
        for name, found in kwargs.items()
        if isinstance(found, Mapping) and set(found) == {"python"}
    }
    problems = [f"the argument {name} = {said} is not plain JSON" for name, said in others.items()]
    return {name: kwargs[name] for name in kwargs if name not in others}, problems


def _jitter(found: object) -> str | None:
    seconds = float(str(found)) if found not in (None, "", "None") else 0
    return show_duration(timedelta(seconds=seconds)) if seconds > 0 else None
