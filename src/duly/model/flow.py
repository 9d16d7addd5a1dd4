"""A flow: a job that has steps, which are jobs; and what each step waits for.

A ``FlowPlan`` is the graph as a worker opens it: every step by its number, what it asks for, and
which arguments are known only when the flow runs. It is stored step by step, so that a flow that
has begun goes on as it was begun, whatever is deployed meanwhile.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from duly.errors import InvalidValue
from duly.model.job import Call
from duly.model.payload import EMPTY, Json

When = Literal["all_succeeded", "any_failed", "all_done"]
Rest = Literal["cancel", "go_on"]

MOST_STEPS: Final = 10_000
MOST_PARTS: Final = 100_000
NO_ITEMS: Final = Json("[]")
LONGEST_FILLED: Final = 4 * 1024 * 1024  # characters of arguments with results of others in them
MOST_FILLED: Final = 64 * 1024 * 1024  # … of all parts of a step together


class StepState(StrEnum):
    WAITING = "waiting"  # for the steps before it
    RUNNING = "running"  # its jobs are in their queues, or run
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"  # with its flow, or because something before it did not succeed
    SKIPPED = "skipped"  # what it was there for did not happen


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from: the result of a step, or an argument of the flow itself."""

    step: int | None = None
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Fill:
    """A place in the arguments of a step, and what is put there when it starts."""

    path: tuple[str | int, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class Over:
    """A list known only when the flow runs, or now: one job for each item, as that argument."""

    argument: str
    source: Source | None = None  # None: ``items``
    items: Json = NO_ITEMS


@dataclass(frozen=True, slots=True)
class Awaited:
    """An event that a step waits for, instead of running anything.

    ``key`` is a template over ``{name}``: the arguments of the step.
    """

    event: str
    key: str | None = None
    timeout: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What a step asks for, and what it waits for.

    ``call`` has null where something is filled in; its title and the names of its limits are
    templates still, and ``defaults`` are what they may name beside the arguments.
    """

    name: str  # one of its flow
    call: Call
    fills: tuple[Fill, ...] = ()
    over: Over | None = None
    awaited: Awaited | None = None
    before: tuple[int, ...] = ()  # the steps it waits for, for their results or for the order
    when: When = "all_succeeded"
    if_failed: Rest = "cancel"
    rescue: bool = False  # it, or a step before it, is there for when something fails
    wanted: bool = False  # a step behind it, or the flow, takes its result
    defaults: Json = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    steps: tuple[StepPlan, ...]
    result: int | None = None  # the step whose result is the flow's
    defaults: Json = EMPTY  # what its own arguments are where nothing is said
    behind: tuple[tuple[int, ...], ...] = field(init=False)  # for each step those that wait for it

    def __post_init__(self) -> None:
        if not 0 < len(self.steps) <= MOST_STEPS:
            raise InvalidValue(f"a flow has 1 to {MOST_STEPS:,} steps, and not {len(self.steps):,}")
        behind: list[list[int]] = [[] for _ in self.steps]
        for number, step in enumerate(self.steps):
            for before in step.before:
                if not 0 <= before < number:
                    raise InvalidValue(f"step {step.name}: it waits for step {before}, behind it")
                behind[before].append(number)
        object.__setattr__(self, "behind", tuple(map(tuple, behind)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """A step of a flow as it is now."""

    number: int
    name: str
    task: str
    kind: Literal["step", "map", "wait"]
    before: tuple[int, ...]
    when: When
    if_failed: Rest
    state: StepState
    parts: int  # how many jobs it is made of, once it has started
    remaining: int  # … of which have not ended
    missed: int  # … have ended and not succeeded
    stopped: int  # … were cancelled with the rest of the flow
    reason: str
    started_at: datetime | None
    ended_at: datetime | None
    job_id: int | None  # of its first part


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowInfo:
    """A flow as it is now, and its steps by their numbers."""

    id: int
    root: int  # the outermost flow that it is in, or itself
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
    """How far a flow is."""

    steps: int
    remaining: int
    failed: int
