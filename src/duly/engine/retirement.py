"""When a worker has done enough: after so many jobs, or when there is nothing left to do."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from duly.engine.claim_planner import ClaimPlanner

EVERY = timedelta(milliseconds=50)
NEVER = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopConditions:
    burst: bool = False  # until nothing is ready
    max_jobs: int | None = None
    max_idle: timedelta | None = None

    @property
    def are_none(self) -> bool:
        return not self.burst and self.max_jobs is None and self.max_idle is None


class Retirement:
    name = "retirement"
    topics: frozenset[str] = frozenset()

    def __init__(
        self, planner: ClaimPlanner, plans: StopConditions, *, stop: Callable[[], None]
    ) -> None:
        self._planner = planner
        self._plans = plans
        self._stop = stop
        self._began = planner.runner.time()
        self._busy_at = planner.runner.time()
        self._ended = 0

    async def tick(self) -> timedelta:
        if self._plans.are_none:
            return NEVER
        if self._is_time():
            self._stop()
            return NEVER
        return EVERY

    def _is_time(self) -> bool:
        runner, plans, now = self._planner.runner, self._plans, self._planner.runner.time()
        if plans.max_jobs is not None and runner.outbox.attempts >= plans.max_jobs:
            return True
        if (
            not runner.is_idle
            or runner.outbox.attempts != self._ended
            or self._planner.worker is None
        ):
            self._ended = runner.outbox.attempts
            self._busy_at = now
            return False
        if plans.max_idle is not None and now - self._busy_at >= plans.max_idle.total_seconds():
            return True
        return plans.burst and self._has_looked()

    def _has_looked(self) -> bool:
        """Whether somebody has looked since, nobody does so now, and nothing was there."""
        planner = self._planner
        looked = planner.peeked_at > max(self._began, self._busy_at)
        return looked and not planner.busy and not planner.nudged and planner.rotation.knows_nothing
