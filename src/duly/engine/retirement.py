"""When a worker has done enough: after so many jobs, or when there is nothing left to do."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from duly.engine.claim_planner import Desk

EVERY = timedelta(milliseconds=50)
NEVER = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    burst: bool = False  # until nothing is ready
    max_jobs: int | None = None
    max_idle: timedelta | None = None

    @property
    def are_none(self) -> bool:
        return not self.burst and self.max_jobs is None and self.max_idle is None


class Retirement:
    name = "retirement"
    topics: frozenset[str] = frozenset()

    def __init__(self, desk: Desk, plans: Plans, *, stop: Callable[[], None]) -> None:
        self._desk = desk
        self._plans = plans
        self._stop = stop
        self._began = desk.crew.time()
        self._busy_at = desk.crew.time()
        self._ended = 0

    async def tick(self) -> timedelta:
        if self._plans.are_none:
            return NEVER
        if self._is_time():
            self._stop()
            return NEVER
        return EVERY

    def _is_time(self) -> bool:
        crew, plans, now = self._desk.crew, self._plans, self._desk.crew.time()
        if plans.max_jobs is not None and crew.ends.attempts >= plans.max_jobs:
            return True
        if not crew.is_idle or crew.ends.attempts != self._ended or self._desk.worker is None:
            self._ended = crew.ends.attempts
            self._busy_at = now
            return False
        if plans.max_idle is not None and now - self._busy_at >= plans.max_idle.total_seconds():
            return True
        return plans.burst and self._has_looked()

    def _has_looked(self) -> bool:
        """Whether somebody has looked since, nobody does so now, and nothing was there."""
        desk = self._desk
        looked = desk.peeked_at > max(self._began, self._busy_at)
        return looked and not desk.busy and not desk.nudged and desk.rota.knows_nothing
