"""What an attempt came to.

A closed union: whoever looks at an outcome matches all of them, and the type checker sees to it.
Their texts can always be stored, whatever a task raised: a completion that fails because of a NUL
in an error message leaves its job running for ever.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from duly.model.flow import FlowPlan
from duly.model.payload import Json, storable

LONGEST_NAME = 500


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: Json | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The task raised an exception: ``error`` is the name of its type.

    Of a built-in task it is empty: the program that it ran has failed, as ``message`` says.

    ``permanent`` and ``retry_after`` are what the task asked for, by ``Permanent`` and
    ``RetryAfter``. ``retryable`` is False if the error is outside the task's ``Retry(on=…)``, which
    the worker judges, because only it holds the exception itself.
    """

    error: str
    message: str = ""
    traceback: str = ""
    permanent: bool = False
    retry_after: timedelta | None = None
    retryable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", storable(self.error, LONGEST_NAME))
        object.__setattr__(self, "message", storable(self.message))
        object.__setattr__(self, "traceback", storable(self.traceback))


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It ran longer than its task allows, and was stopped."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was cancelled while it ran."""

    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


@dataclass(frozen=True, slots=True)
class Lost:
    """Its worker died, or its lease expired: nobody knows how far it came."""

    worker: int | None = None
    reason: str = ""
    alone: bool = False  # it ran in a process of its own, and that did not end by itself
    name: str = ""  # of the worker, if it is known

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


@dataclass(frozen=True, slots=True)
class Late:
    """The moment by which it had to start had passed before it did."""


@dataclass(frozen=True, slots=True)
class Returned:
    """It was claimed and given back: unstarted, or interrupted because its worker stops."""

    reason: str = "given back unstarted"


@dataclass(frozen=True, slots=True)
class Mismatched:
    """Its arguments do not fit the function any more: it waits until they do, and loses no try."""

    reason: str
    signature: str = ""  # the mark of the signature that they do not fit

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


@dataclass(frozen=True, slots=True)
class Opened:
    """It is a flow: nothing was run, and from now on its steps do the work."""

    plan: FlowPlan


@dataclass(frozen=True, slots=True)
class Completed:
    """The task ended its own job, in one transaction with what it wrote."""


Outcome: TypeAlias = (
    Succeeded | Raised | TimedOut | Stopped | Lost | Late | Returned | Mismatched | Opened
)
