"""Lanes as they are found once they are locked: who is there, and the numbers that count now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from duly.model.limit import Lane
from duly.policy.limits import PATIENCE, LaneUsage, believable, opens_at
from duly.store import worker_rows
from duly.store.database import Ask, Operation
from duly.store.protocol import Wish

_PATIENCE = PATIENCE // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Held:
    """Lanes that are locked, by name, and the instant of the decision."""

    flows: Mapping[str, LaneUsage]
    stored: Mapping[str, LaneUsage]  # the same, with the numbers that are written there
    crowded: frozenset[str]  # some wait there
    idle: frozenset[str]  # nobody has entered for a while
    now: int


def look(
    names: Sequence[str], declared: Mapping[str, Lane] | None = None, wish: Wish | None = None
) -> Operation[Held]:
    """Lanes that are locked: this is asked afterwards, and sees whoever came or went before."""
    queue, tasks = (wish.queue, list(wish.tasks)) if wish else ("", [])
    asked = {"names": list(names), "queue": queue, "tasks": tasks}
    found = [_Row(*row) for row in (yield Ask("look_into_lanes", asked))]
    stored = {row.name: row.flow for row in found}
    flows = {}
    for row in found:
        flow = row.flow
        if row.ruled:
            rate = worker_rows.rate(row.rule_rate_count, row.rule_rate_period)
            flow = replace(flow, concurrency=row.rule_concurrency, rate=rate)
        elif declared:
            lane = declared[row.name]
            flow = replace(flow, concurrency=lane.concurrency, rate=lane.rate)
        flows[row.name] = believable(flow, row.now)
    return Held(
        flows,
        stored,
        crowded=frozenset(row.name for row in found if row.crowded),
        idle=frozenset(row.name for row in found if row.is_idle(flows[row.name])),
        now=found[0].now if found else 0,
    )


class _Row(NamedTuple):
    name: str
    concurrency: int | None
    rate_count: int | None
    rate_period: int | None
    arrival: int
    used_at: int
    ruled: int
    rule_concurrency: int | None
    rule_rate_count: int | None
    rule_rate_period: int | None
    held: int
    crowded: int
    first_rank: int | None
    first_id: int | None
    now: int

    @property
    def flow(self) -> LaneUsage:
        line = None
        if self.first_rank is not None and self.first_id is not None:
            line = (self.first_rank, self.first_id)
        rate = worker_rows.rate(self.rate_count, self.rate_period)
        return LaneUsage(self.concurrency, rate, held=self.held, arrival=self.arrival, line=line)

    def is_idle(self, flow: LaneUsage) -> bool:
        """Whether nobody has entered for a while, though the rate would have let somebody in."""
        return max(self.used_at, opens_at(flow) or 0) <= self.now - _PATIENCE
