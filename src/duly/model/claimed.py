"""A claimed job: a row as a worker gets it, decoded as fast as possible.

Workers claim jobs by the hundred. Values that most jobs never use (datetimes, tags as a tuple) are
made on demand.
"""

import json
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from duly.instants import from_us
from duly.model.columns import reader
from duly.model.fire import DueMoment
from duly.model.job import StoredJob, is_built_in
from duly.model.terms import Terms


class Claimed(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The columns of a job in the order of the SQL statements; instants are microseconds."""

    id: int
    task: str
    args: str
    queue: str
    priority: int
    tenant: str
    submitter: str
    title: str
    tags: str
    owner: str
    version: int
    key: str | None
    state: str
    created_at: int
    due_at: int
    ready_at: int
    deadline: int | None
    late: str
    retry: str | None
    attempt: int
    crashes: int
    worker: int
    fence: int
    claimed_at: int
    schedule_id: int | None
    fire_id: int | None
    reason: str
    limits: str | None
    needs: str | None
    terms_text: str | None
    parent: int | None
    step: int | None
    part: int | None
    rank: int
    schedule: str | None = None  # its name; None also if the schedule was removed
    unawaited: int = 0  # 1: no other job of its schedule waits for its end

    @property
    def called(self) -> str:
        """The name of the job in logs: its task, or its title if the task is built in."""
        return self.title if self.title and is_built_in(self.task) else self.task

    @property
    def is_late(self) -> bool:
        """Return whether the job was claimed after its start deadline."""
        return self.deadline is not None and self.late == "skip" and self.claimed_at > self.deadline

    @property
    def is_plain(self) -> bool:
        """Return whether nothing depends on the job's end, so that the fast path can finish it."""
        return (
            (self.schedule_id is None or self.unawaited == 1)
            and self.key is None
            and self.limits is None
            and self.step is None
            and (self.terms_text is None or not self.terms.calls_back)
        )

    @property
    def fire(self) -> DueMoment | None:
        """The due moment of the schedule, if a schedule made the job."""
        if self.fire_id is None:
            return None
        return DueMoment(self.fire_id, self.schedule, from_us(self.due_at))

    @cached_property
    def terms(self) -> Terms:
        return Terms.from_json(self.terms_text)

    @cached_property
    def needed(self) -> dict[str, int]:
        return json.loads(self.needs) if self.needs else {}

    def moment(self, elapsed: float) -> datetime:
        """Return the store's time ``elapsed`` seconds after the claim."""
        return from_us(self.claimed_at) + timedelta(seconds=elapsed)

    @cached_property
    def job(self) -> StoredJob:
        values = (getattr(self, name) for name in _COLUMNS.split())
        return reader(StoredJob, _COLUMNS.replace("terms_text", "terms"))(values)


_COLUMNS = " ".join(
    name
    for name in Claimed.__struct_fields__
    if name not in ("reason", "rank", "schedule", "unawaited")
)
