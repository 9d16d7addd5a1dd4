"""Import from APScheduler 3.

Its job stores hold pickles, and unpickling a row may run any code. So a store is never read:
``PRINT_JOBS``, run inside the program with the scheduler, prints the jobs, and ``from_printed``
reads that.

    misfire_grace_time, coalesce    missed and start_within
    max_instances                   overlap
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from duly.declare.importers.apscheduler_triggers import Trigger, last_moment, read_trigger
from duly.declare.importers.collector import (
    ImportCollector,
    Imported,
    carried,
    known_zone,
    name_of,
    title_of,
    zone_asked_for,
)
from duly.declare.schedule_file import ScheduleEntry
from duly.durations import show_duration
from duly.errors import InvalidValue, ZoneMissing

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
    importer = _JobImporter(known_zone(zone), machine_zone)
    for row in rows:
        if not isinstance(row, Mapping) or "job_state" in row or "trigger" not in row:
            raise _not_printed("this is not a description of a job")
        importer.take(row)
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

    def take(self, row: Mapping[str, Any]) -> None:
        name = _name(row)
        try:
            self.add(name, row)
        except ZoneMissing:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self.basket.leave_out(name, error)

    def add(self, name: str, row: Mapping[str, Any]) -> None:
        trigger = read_trigger(row)
        args, problems = _arguments(row)
        for problem in problems:
            self.basket.note(name, f"{problem}; until then it is paused")
        for lost in trigger.lost:
            self.basket.note(name, f"{lost} cannot be carried")
        paused = "; ".join(problems) or ("it was paused" if row.get("paused") else "")
        zone = self.zone_of(trigger)
        entry = ScheduleEntry(
            name=self.basket.free_name(name),
            rule=trigger.rule,
            zone=zone,
            task=self.task(name, str(row.get("func_ref") or row.get("func") or name)),
            args=args,
            title=_title(row),
            start=None if trigger.anchored else _moment(row.get("start_date")),
            end=last_moment(row.get("end_date"), zone),
            jitter=_jitter(row.get("jitter")),
            **self.policies(name, row),
            paused=bool(paused),
            note=paused,
        )
        self.basket.add(name, entry)

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
                f'max_instances={most} is carried as overlap = "allow", which has no upper end: '
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
                "misfire_grace_time=1, what APScheduler takes unasked, is carried as missed = "
                '"skip", which forgives a minute: write missed = "latest" to make up for an outage',
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


def _arguments(row: Mapping[str, Any]) -> tuple[dict[str, object], list[str]]:
    args, problems = carried(list(row.get("args") or ()), dict(row.get("kwargs") or {}))
    for name, found in list(args.items()):
        if isinstance(found, Mapping) and set(found) == {"python"}:
            problems.append(f"the argument {name} = {found['python']} is not plain JSON")
            del args[name]
    return args, problems


def _jitter(found: object) -> str | None:
    seconds = float(str(found)) if found not in (None, "", "None") else 0
    return show_duration(timedelta(seconds=seconds)) if seconds > 0 else None


def _moment(found: object) -> datetime | None:
    if found in (None, "", "None"):
        return None
    moment = datetime.fromisoformat(str(found))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
