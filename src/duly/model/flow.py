"""A flow: a job whose steps are jobs, with the dependencies between the steps.

A ``FlowPlan`` is the graph as a worker opens it: each step by its number, its task, and the
arguments that are known only while the flow runs. It is stored step by step, so a running flow
keeps its graph whatever is deployed meanwhile.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from duly.errors import InvalidValue
from duly.model.job import JobRequest
from duly.model.payload import EMPTY, Json

When = Literal["all_succeeded", "any_failed", "all_done"]
Rest = Literal["cancel", "go_on"]

MOST_STEPS: Final = 10_000
MOST_PARTS: Final = 100_000
NO_ITEMS: Final = Json("[]")
LONGEST_FILLED: Final = 4 * 1024 * 1024  # characters of arguments that include results
MOST_FILLED: Final = 64 * 1024 * 1024  # … of all parts of a step together


class StepState(StrEnum):
    WAITING = "waiting"  # for the steps before it
    RUNNING = "running"  # its jobs are in their queues, or run
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"  # with its flow, or because an earlier step did not succeed
    SKIPPED = "skipped"  # its condition (``when``) was not met


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source of a value: the result of a step, or an argument of the flow.

    ``is_list`` and ``default`` are filled in when the flow is opened.
    """

    step: int | None = None
    argument: str = ""
    is_list: bool = False  # the results of all parts of a mapped step
    default: Any = None  # of the argument


class Fill(msgspec.Struct, frozen=True, array_like=True):
    """A place in the arguments of a step, and the source of the value that goes there."""

    path: tuple[str | int, ...]
    source: Source


class Over(msgspec.Struct, frozen=True, omit_defaults=True):
    """The list of a mapped step: each item becomes one job, as the argument of that name."""

    argument: str
    source: Source | None = None  # None: ``items``
    items: Json = NO_ITEMS


class Awaited(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event that a waiting step waits for; ``key`` is a template over the step's arguments."""

    event: str
    key: str | None = None
    timeout: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """A step: its call and its dependencies.

    ``call`` has null where a value is filled in later. Its title and the names of its limits are
    still templates; ``defaults`` are parameter defaults that they may name.
    """

    name: str  # one of its flow
    call: JobRequest
    fills: tuple[Fill, ...] = ()
    over: Over | None = None
    awaited: Awaited | None = None
    before: tuple[int, ...] = ()  # the steps that it waits for
    when: When = "all_succeeded"
    if_failed: Rest = "cancel"
    rescue: bool = False  # the step, or a step before it, handles failures
    wanted: bool = False  # a later step, or the flow, uses its result
    defaults: Json = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    steps: tuple[StepPlan, ...]
    result: int | None = None  # the step whose result is the flow's
    defaults: Json = EMPTY  # the defaults of the flow's own parameters
    behind: tuple[tuple[int, ...], ...] = field(init=False)  # for each step the steps after it

    def __post_init__(self) -> None:
        if not 0 < len(self.steps) <= MOST_STEPS:
            raise InvalidValue(f"a flow has 1 to {MOST_STEPS:,} steps, not {len(self.steps):,}")
        behind: list[list[int]] = [[] for _ in self.steps]
        for number, step in enumerate(self.steps):
            for before in step.before:
                if not 0 <= before < number:
                    raise InvalidValue(
                        f"step {step.name}: it depends on step {before}, which comes after it"
                    )
                behind[before].append(number)
        object.__setattr__(self, "behind", tuple(map(tuple, behind)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """The current state of a step."""

    number: int
    name: str
    task: str
    kind: Literal["step", "map", "wait"]
    before: tuple[int, ...]
    when: When
    if_failed: Rest
    state: StepState
    parts: int  # number of its jobs, once it has started
    remaining: int  # … of which have not ended
    missed: int  # … have ended and not succeeded
    stopped: int  # … were cancelled with the rest of the flow
    reason: str
    started_at: datetime | None
    ended_at: datetime | None
    job_id: int | None  # of its first part


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowInfo:
    """The current state of a flow, with its steps by number."""

    id: int
    root: int  # the outermost flow around it, or itself
    result: int | None
    remaining: int
    failed: int
    opened_at: datetime
    ended_at: datetime | None
    steps: tuple[StepInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class PartInfo:
    """One of the jobs of a step."""

    part: int
    job_id: int
    state: str  # running, until it has ended


@dataclass(frozen=True, slots=True)
class FlowProgress:
    """The progress of a flow, as counts of steps."""

    steps: int
    remaining: int
    failed: int
