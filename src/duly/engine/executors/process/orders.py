"""What the pool is asked to run, and what it hears while it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

import msgspec
from msgspec.structs import replace as change

from duly.model.claimed import Claimed
from duly.model.job import Job
from duly.model.payload import EMPTY, Json


@dataclass(frozen=True, slots=True)
class CapturedLine:
    """A line that a job wrote: ``level`` is that of its log record, or stdout or stderr."""

    at_us: int
    level: str
    text: str


OnLog: TypeAlias = Callable[[Sequence[CapturedLine]], None]
OnProgress: TypeAlias = Callable[[float, str, Json | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One attempt of a job. ``facts`` is the job itself, as ``facts_of`` writes it."""

    task: str
    args: str
    facts: str
    timeout: timedelta | None = None
    grace: timedelta = timedelta(seconds=10)
    memory: int | None = None  # bytes
    url: str | None = None  # of the store
    lease: timedelta = timedelta(seconds=15)  # how long a transaction of the task's may stand still

    @property
    def job_id(self) -> int:
        return job_of(self).id


def facts_of(job: Job | Claimed) -> Json:
    """The job without its arguments, which travel beside it and need not do so twice."""
    bare = replace(job, args=EMPTY) if isinstance(job, Job) else change(job, args=EMPTY)
    return Json(msgspec.json.encode(bare).decode())


def job_of(order: RunRequest) -> Job | Claimed:
    if order.facts.startswith("["):
        return change(_CLAIMED.decode(order.facts), args=order.args)
    return replace(_JOB.decode(order.facts), args=Json(order.args))


_CLAIMED = msgspec.json.Decoder(Claimed)
_JOB = msgspec.json.Decoder(Job)
