"""An eye on every row: each change of the tables is told, in order, as it happens.

Triggers call back into the simulation, so nothing has to be asked of the system under test, nothing
is compared by reading whole tables, and a change that is undone a statement later is still seen.
"""

import sqlite3
from typing import Any, NamedTuple, TypeAlias


class JobRow(NamedTuple):
    id: int
    state: str
    schedule_id: int | None
    fire_id: int | None
    due_at: int
    ready_at: int
    attempt: int
    crashes: int
    fence: int
    worker: int | None
    task: str
    key: str | None
    args: str
    retry: str | None
    waits: str | None
    waits_for: str | None
    queue: str
    limits: str | None
    terms: str | None
    parent: int | None
    step: int | None
    part: int | None

    @property
    def is_flow(self) -> bool:
        """Whether it runs without a worker, because its steps do."""
        return self.waits == "steps"


class EndRow(NamedTuple):
    id: int
    state: str
    attempt: int
    crashes: int
    fence: int


class ScheduleRow(NamedTuple):
    id: int
    name: str
    rule: str
    zone: str | None
    policies: str
    cursor: int
    next_at: int | None
    pause: str | None
    awaiting: int | None
    fault: str | None
    created_at: int


class FireRow(NamedTuple):
    id: int
    schedule_id: int
    due_at: int
    series: int
    covers_from: int
    count_: int | None
    outcome: str
    cause: str | None
    reason: str
    job_id: int | None


class WorkerRow(NamedTuple):
    id: int
    lease_until: int


class KeyRow(NamedTuple):
    task: str
    key: str
    job_id: int


class SignalRow(NamedTuple):
    job_id: int
    reason: str


class NamedLimitRow(NamedTuple):
    name: str
    template: str
    concurrency: int | None
    rate_count: int | None
    rate_period: int | None
    opens_at: int | None


class HoldingRow(NamedTuple):
    limit_name: str
    job_id: int


class RuleRow(NamedTuple):
    name: str
    concurrency: int | None
    rate_count: int | None
    rate_period: int | None


class QueueRow(NamedTuple):
    name: str
    concurrency: int | None
    rate_count: int | None
    rate_period: int | None


class FlowRow(NamedTuple):
    id: int
    root: int
    remaining: int
    failed: int
    ending: str | None
    ended_at: int | None


class StepRow(NamedTuple):
    flow: int
    number: int
    name: str
    follows: str
    runs_when: str
    rescue: int
    state: str
    waiting: int
    remaining: int


class PartRow(NamedTuple):
    flow: int
    step: int
    part: int
    job_id: int
    state: str


class EventRow(NamedTuple):
    id: int
    name: str
    key: str | None
    at: int
    seen: int


ROWS: dict[str, Any] = {
    "duly_job": JobRow,
    "duly_history": EndRow,
    "duly_failed": EndRow,
    "duly_schedule": ScheduleRow,
    "duly_fire": FireRow,
    "duly_worker": WorkerRow,
    "duly_job_key": KeyRow,
    "duly_signal": SignalRow,
    "duly_named_limit": NamedLimitRow,
    "duly_holding": HoldingRow,
    "duly_limit_rule": RuleRow,
    "duly_queue": QueueRow,
    "duly_flow": FlowRow,
    "duly_step": StepRow,
    "duly_part": PartRow,
    "duly_event": EventRow,
}

Seen: TypeAlias = tuple[str, Any, Any]  # the table, and its row before and after


class Watch:
    """Collects the changes of the transaction that is under way."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._seen: list[Seen] = []
        connection.create_function("duly_seen", -1, self._see)
        for table, row in ROWS.items():
            for event in ("insert", "update", "delete"):
                connection.execute(_trigger(table, row, event))

    def take(self) -> list[Seen]:
        """What has been seen since the last time; after a rollback it is to be thrown away."""
        seen, self._seen = self._seen, []
        return seen

    def _see(self, table: str, event: str, *values: object) -> None:
        make = ROWS[table]._make
        half = len(values) // 2
        before = None if event == "insert" else make(values[:half] if event == "update" else values)
        after = None if event == "delete" else make(values[half:] if event == "update" else values)
        self._seen.append((table, before, after))


def _trigger(table: str, row: Any, event: str) -> str:  # noqa: ANN401 – any of the classes above
    names: tuple[str, ...] = row._fields
    sides = {"insert": ("new",), "update": ("old", "new"), "delete": ("old",)}[event]
    values = ", ".join(f"{side}.{name.removesuffix('_')}" for side in sides for name in names)
    return (
        f"create temp trigger seen_{event}_{table} after {event} on main.{table} begin "
        f"select duly_seen('{table}', '{event}', {values}); end"
    )
