"""Surroundings, for whoever wants to know whether a store stands on firm ground."""

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
        """What time it is on the store's clock."""
        [(instant,)] = yield Ask("now")
        return from_us(instant)

    @reads("viewer")
    def newest(self) -> Operation[datetime | None]:
        """When something was last written by a scheduler or a worker, on the clock of then."""
        [(instant,)] = yield Ask("newest_writing")
        return rows.moment(instant)

    @reads("admin")
    def settings(self) -> Operation[Mapping[str, str]]:
        """How the database is set up, in its own words."""
        return {
            name: value for name, value in (yield Ask("database_settings")) if value is not None
        }

    @reads("viewer")
    def bad_days(self, *, ahead: int) -> Operation[list[BadDay]]:
        """Of today and the days that follow. None, where rows are not kept by the day."""
        found = yield Ask("bad_days", {"days": ahead})
        return [BadDay(table=table, day=from_us(day), state=state) for table, day, state in found]

    @reads("viewer")
    def zone_data(self) -> Operation[Mapping[str, int]]:
        """How many next moments were worked out with each release of the zone data."""
        return {release: int(count) for release, count in (yield Ask("zone_data_in_use"))}

    @reads("viewer")
    def wanted(self, *, limit: int = 1_000) -> Operation[list[WantedTask]]:
        """What jobs that have not begun, and schedules that are neither paused nor over, call."""
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
        """The workers whose lease has not ended; unlike ``work.living``, asked without writing."""
        return [rows.worker(row) for row in (yield Ask("living_workers"))]

    @reads("viewer")
    def orphans(self, *, dead: Sequence[int] = (), limit: int = 100) -> Operation[list[Orphans]]:
        """Jobs of workers that have no lease, and of those that are known to be ``dead``."""
        values: dict[str, Value] = {"dead": list(dead), "limit": limit}
        return [
            Orphans(worker=worker, name=name, jobs=int(jobs), ended_at=rows.moment(ended or None))
            for worker, name, ended, jobs in (yield Ask("orphaned_jobs", values))
        ]
