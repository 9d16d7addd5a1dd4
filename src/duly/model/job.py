"""A job: one unit of work in a queue.

``JobRequest`` is the request to enqueue a job, ``StoredJob`` the job as it is stored, unfinished or
ended, and ``Claimed`` the job as the worker that runs it has it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Literal

import msgspec

from duly.errors import InvalidValue
from duly.instants import from_us
from duly.model.columns import reader
from duly.model.fire import DueMoment
from duly.model.limit import NamedLimit
from duly.model.payload import EMPTY, Json, check_json, check_text
from duly.model.policies import Late, check_length, check_moment, check_options, choose
from duly.model.states import State
from duly.model.terms import NO_TERMS, Terms

IfExists = Literal["replace", "keep", "error"]
Waits = Literal["limit", "worker", "signature", "steps", "event", "outcome"]

HIGHEST, LOWEST = 100, -100
PRIORITIES = {"high": 50, "normal": 0, "low": -50, "idle": -100}
MOST_TAGS = 32
MOST_JOB_LIMITS = 8
MOST_NEEDS = 16


def is_built_in(task: str) -> bool:
    """Return whether the task is built in, such as ``duly.shell``, so that its name says little."""
    return task.startswith("duly.")


class Owner(StrEnum):
    """The source that a schedule or job comes from."""

    CODE = "code"
    FILE = "file"
    API = "api"
    PERSON = "person"


@dataclass(frozen=True, kw_only=True)
class Label:
    """The fields that schedules and jobs share."""

    task: str
    args: Json = EMPTY
    queue: str = "default"
    priority: int = 0
    tenant: str = ""
    submitter: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    owner: Owner = Owner.API
    version: int = 1  # of the task's signature that the arguments were written for
    limits: tuple[NamedLimit, ...] = ()  # in the whole cluster
    needs: Mapping[str, int] = field(default_factory=dict, hash=False)  # as {"gpu": 1}
    terms: Terms = NO_TERMS

    def __post_init__(self) -> None:
        for what in ("task", "queue", "tenant", "submitter", "title"):
            check_text(getattr(self, what), what)
        check_json(self.args, "args")
        if not isinstance(self.owner, Owner):
            raise InvalidValue(f"owner={self.owner!r}: expected an Owner: {', '.join(Owner)}")
        if type(self.version) is not int or not 0 < self.version < 2**31:
            raise InvalidValue(f"version={self.version!r}: expected a whole number from 1")
        if not self.task or not self.queue:
            raise InvalidValue("the names of a task and a queue must not be empty")
        tags: object = self.tags
        if isinstance(tags, str):
            raise InvalidValue(f"tags={tags!r}: expected several texts, as ('nightly', 'billing')")
        if len(self.tags) > MOST_TAGS:
            raise InvalidValue(f"tags: {len(self.tags)} tags: a job can have at most {MOST_TAGS}")
        for tag in self.tags:
            check_text(tag, "a tag", longest=100)
        if type(self.priority) is not int or not LOWEST <= self.priority <= HIGHEST:
            raise InvalidValue(
                f"priority={self.priority!r}: expected a whole number from {LOWEST} to {HIGHEST} "
                "(higher runs sooner)"
            )
        self._check_what_it_takes()

    @property
    def shared_fields(self) -> dict[str, Any]:
        """The fields that schedules and jobs share, by name."""
        return {one.name: getattr(self, one.name) for one in fields(Label)}

    def _check_what_it_takes(self) -> None:
        if len(self.limits) > MOST_JOB_LIMITS or len(self.needs) > MOST_NEEDS:
            raise InvalidValue(
                f"at most {MOST_JOB_LIMITS} limits and {MOST_NEEDS} kinds of resources"
            )
        if len({limit.name for limit in self.limits}) < len(self.limits):
            raise InvalidValue(
                f"limits: {', '.join(limit.name for limit in self.limits)}: one is given twice"
            )
        for name, amount in self.needs.items():
            check_text(name, "the name of a resource", longest=100)
            if not name or type(amount) is not int or not 0 < amount < 2**31:
                raise InvalidValue(
                    f"needs={dict(self.needs)!r}: expected names and whole numbers from 1"
                )


@dataclass(frozen=True, kw_only=True)
class JobRequest(Label):
    """A request to run a task now, at a moment or after a delay.

    A ``key`` is unique for the task among unfinished jobs. A second call with the same key moves
    the waiting job and replaces its arguments, keeps the job as it is, or is refused (see
    ``if_exists``).
    """

    run_after: datetime | timedelta | None = None
    key: str | None = None
    if_exists: IfExists = "replace"
    start_within: timedelta | None = None
    late: Late = "skip"
    retry: Json | None = None
    parent: int | None = None  # the job that it follows (a callback) or repeats

    # The request that this one differs from in its arguments only; None if it stands for itself.
    like: ClassVar["JobRequest | None"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("if_exists", self.if_exists, IfExists)
        choose("late", self.late, Late)
        if self.key is not None and not check_text(self.key, "key"):
            raise InvalidValue("a key must not be empty: leave it out instead")
        if self.retry is not None:
            check_options("retry", self.retry)
        if self.start_within is not None:
            check_length("start_within", self.start_within)
        match self.run_after:
            case None:
                pass
            case datetime():
                check_moment("run_after", self.run_after)
            case timedelta():
                if self.run_after:
                    check_length("run_after", self.run_after)
            case _:
                raise InvalidValue(
                    f"run_after={self.run_after!r}: expected a datetime with a zone, or a "
                    "timedelta from now"
                )

    def saying(self, args: Json) -> "JobRequest":
        """Return a copy with other arguments, which the caller has checked already.

        Skips all checks, because it is used for thousands of calls at a time; and says what it is
        ``like``, so that the rest is written once for all of them.
        """
        other = object.__new__(JobRequest)
        fields = self.__dict__.copy()  # copied whole: a third of the time of update()
        fields["args"] = args
        fields["like"] = self.like or self
        object.__setattr__(other, "__dict__", fields)
        return other


@dataclass(frozen=True, kw_only=True)
class StoredJob(Label):
    """A job as it is stored. Its fields were checked when they were written."""

    id: int
    state: State
    created_at: datetime
    due_at: datetime  # the nominal moment, as the schedule says
    ready_at: datetime  # the earliest start: later because of jitter, spacing or backoff
    key: str | None = None
    deadline: datetime | None = None  # the latest start; after it, ``late`` decides
    late: Late = "skip"
    retry: Json | None = None
    attempt: int = 0
    crashes: int = 0
    worker: int | None = None
    fence: int = 0
    claimed_at: datetime | None = None
    schedule_id: int | None = None
    fire_id: int | None = None
    parent: int | None = None  # the flow that it is a step of, or the job that it follows
    step: int | None = None  # its position in the flow: the step, and the part of that step
    part: int | None = None
    reason: str = ""  # why it waits, or how it ended
    waits: Waits | None = None  # what blocks it; None: an earlier job of its schedule
    waits_for: str | None = None  # the limit, event, signature or target that it waits for
    ended_at: datetime | None = None
    result: Json | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        """Skip the checks: stored fields were checked when they were written."""

    @property
    def fire(self) -> DueMoment | None:
        """The due moment that the job runs for, if a schedule made it."""
        return None if self.fire_id is None else DueMoment(self.fire_id, None, self.due_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One failed execution of a job by one worker."""

    job_id: int
    number: int
    worker: int | None
    fence: int
    started_at: datetime
    ended_at: datetime
    outcome: str  # raised, timed out, lost, …
    reason: str
    error: str | None = None


class Claimed(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A job as a worker claims it: its columns in the order of the SQL; instants are microseconds.

    Workers claim jobs by the hundred, so a row is decoded as fast as possible. Values that most
    jobs never use (datetimes, tags as a tuple) are made on demand.
    """

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
