"""Reads for diagnosis: the store's clock, its settings, its partitions, its workers."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from duly.instants import from_us
from duly.model.worker import WorkerInfo
from duly.store import rows
from duly.store.database import Ask, Operation, Value
from duly.store.values import BadDay, Orphans, WantedTask
from duly.store.verbs import Noun, reads


class SurroundingsStore(Noun):
    @reads("viewer")
    def now(self) -> Operation[datetime]:
        """Return the time of the store's clock."""
        [(instant,)] = yield Ask("now")
        return from_us(instant)

    @reads("viewer")
    def newest(self) -> Operation[datetime | None]:
        """Return when a scheduler or a worker last wrote something, by the clock of that time."""
        [(instant,)] = yield Ask("newest_writing")
        return rows.moment(instant)

    @reads("admin")
    def settings(self) -> Operation[Mapping[str, str]]:
        """Return the settings of the database, under the database's own names."""
        return {
            name: value for name, value in (yield Ask("database_settings")) if value is not None
        }

    @reads("viewer")
    def bad_days(self, *, ahead: int) -> Operation[list[BadDay]]:
        """Return partitions of today and the days ahead that cannot take rows."""
        found = yield Ask("bad_days", {"days": ahead})
        return [BadDay(table=table, day=from_us(day), state=state) for table, day, state in found]

    @reads("viewer")
    def zone_data(self) -> Operation[Mapping[str, int]]:
        """Count the next moments by the release of the zone data that they were computed with."""
        return {release: int(count) for release, count in (yield Ask("zone_data_in_use"))}

    @reads("viewer")
    def wanted(self, *, limit: int = 1_000) -> Operation[list[WantedTask]]:
        """Return the tasks of jobs that have not started and of schedules that are active."""
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

    @reads("viewer")
    def living(self) -> Operation[list[WorkerInfo]]:
        """Return the workers with a valid lease."""
        return [rows.worker(row) for row in (yield Ask("living_workers"))]

    @reads("viewer")
    def orphans(self, *, dead: Sequence[int] = (), limit: int = 100) -> Operation[list[Orphans]]:
        """Return running jobs of workers without a lease, and of workers known to be ``dead``."""
        values: dict[str, Value] = {"dead": list(dead), "limit": limit}
        return [
            Orphans(worker=worker, name=name, jobs=int(jobs), ended_at=rows.moment(ended or None))
            for worker, name, ended, jobs in (yield Ask("orphaned_jobs", values))
        ]
