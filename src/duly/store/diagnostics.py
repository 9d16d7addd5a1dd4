"""Diagnostics of the store itself: its clock, settings, partitions, workers and zone data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from duly.model.columns import read_rows
from duly.model.worker import WorkerInfo
from duly.store import rows
from duly.store.database import Ask, Operation, Value, current_time
from duly.store.verbs import Noun, reading, reads


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTask:
    """A task of waiting jobs or active schedules, and what a worker needs for it."""

    task: str
    queue: str
    jobs: int = 0
    schedules: int = 0
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Jobs recorded as running whose worker has no lease or is known to be dead."""

    worker: int
    name: str  # empty: nothing else is known of the worker
    jobs: int
    ended_at: datetime | None  # when its lease ran out; None: it was ended, or is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class BadDay:
    """A day of a partitioned table that cannot take rows."""

    table: str
    day: datetime
    state: Literal["missing", "detached"]


class DiagnosticsStore(Noun):
    now: Final = reading("viewer", current_time)

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
        return read_rows(BadDay, found)

    @reads("viewer")
    def zone_data(self) -> Operation[Mapping[str, int]]:
        """Count the next moments by the release of the zone data that they were computed with."""
        return {release: int(count) for release, count in (yield Ask("zone_data_in_use"))}

    @reads("viewer")
    def dead_rows(self) -> Operation[Mapping[str, int]]:
        """Count the dead tuples of each table that changes often; nothing on SQLite."""
        return {table: int(count) for table, count in (yield Ask("dead_rows"))}

    @reads("viewer")
    def wanted(self, *, limit: int = 1_000) -> Operation[list[WantedTask]]:
        """Return the tasks of jobs that have not started and of schedules that are active."""
        found = yield Ask("wanted_tasks", {"limit": limit})
        return read_rows(WantedTask, found, "task queue needs jobs schedules")

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
