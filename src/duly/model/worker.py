"""A worker as the store knows it: one row, one lease for everything it runs.

Its number comes from the database and is never used twice. The name is for people: two processes
with one name are still two workers.
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    id: int
    name: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    started_at: datetime
    lease_until: datetime
