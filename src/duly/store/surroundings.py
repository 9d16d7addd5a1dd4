"""Reading what a store stands on: its clock, its settings, its days, who is expected to work."""

import json
from collections.abc import Sequence
from datetime import datetime

from duly.instants import from_us
from duly.model.worker import WorkerInfo
from duly.store import rows
from duly.store.database import Ask, Operation, Value
from duly.store.protocol import BadDay, Orphans, WantedTask


def now() -> Operation[datetime]:
    [(instant,)] = yield Ask("now")
    return from_us(instant)


def newest() -> Operation[datetime | None]:
    [(instant,)] = yield Ask("newest_writing")
    return rows.moment(instant)


def settings() -> Operation[dict[str, str]]:
    return {name: value for name, value in (yield Ask("database_settings")) if value is not None}


def bad_days(ahead: int) -> Operation[list[BadDay]]:
    found = yield Ask("bad_days", {"days": ahead})
    return [BadDay(table=table, day=from_us(day), state=state) for table, day, state in found]


def zone_data() -> Operation[dict[str, int]]:
    return {release: int(count) for release, count in (yield Ask("zone_data_in_use"))}


def wanted(limit: int) -> Operation[list[WantedTask]]:
    return [
        WantedTask(
            task=task,
            queue=queue,
            needs=json.loads(needs) if needs else {},
            jobs=int(jobs),
            schedules=int(schedules),
        )
        for task, queue, needs, jobs, schedules in (yield Ask("wanted_tasks", {"limit": limit}))
    ]


def living() -> Operation[list[WorkerInfo]]:
    return [rows.worker(row) for row in (yield Ask("living_workers"))]


def orphans(dead: Sequence[int], limit: int) -> Operation[list[Orphans]]:
    values: dict[str, Value] = {"dead": list(dead), "limit": limit}
    return [
        Orphans(worker=worker, name=name, jobs=int(jobs), ended_at=rows.moment(ended or None))
        for worker, name, ended, jobs in (yield Ask("orphaned_jobs", values))
    ]
