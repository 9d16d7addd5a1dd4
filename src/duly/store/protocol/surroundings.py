"""What is asked of a store by somebody who wants to know whether it stands on firm ground."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from duly.model.worker import WorkerInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTask:
    """A task that jobs wait for, or schedules will want, and what a worker must have for it."""

    task: str
    queue: str
    jobs: int = 0
    schedules: int = 0
    needs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Jobs that run, as the store has it, and whose worker has no lease or is known to be dead."""

    worker: int
    name: str  # empty: nothing else is known of the worker
    jobs: int
    ended_at: datetime | None  # when its lease ran out; None: it was ended, or is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class BadDay:
    """A day of a table that is kept by the day, and that cannot take rows."""

    table: str
    day: datetime
    state: Literal["missing", "detached"]


class Surroundings(Protocol):
    async def now(self) -> datetime:
        """What time it is on the store's clock."""
        ...

    async def newest(self) -> datetime | None:
        """When something was last written by a scheduler or a worker, on the clock of then."""
        ...

    async def settings(self) -> Mapping[str, str]:
        """How the database is set up, in its own words."""
        ...

    async def bad_days(self, *, ahead: int) -> list[BadDay]:
        """Of today and the days that follow. None, where rows are not kept by the day."""
        ...

    async def zone_data(self) -> Mapping[str, int]:
        """How many next moments were worked out with each release of the zone data."""
        ...

    async def wanted(self, *, limit: int = 1_000) -> list[WantedTask]:
        """What jobs that have not begun, and schedules that are neither paused nor over, call."""
        ...

    async def living(self) -> list[WorkerInfo]:
        """The workers whose lease has not ended; unlike ``work.living``, asked without writing."""
        ...

    async def orphans(self, *, dead: Sequence[int] = (), limit: int = 100) -> list[Orphans]:
        """Jobs of workers that have no lease, and of those that are known to be ``dead``."""
        ...
