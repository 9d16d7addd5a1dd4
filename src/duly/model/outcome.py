"""The outcome of an attempt.

A closed union: the type checker makes sure that every match handles all members. The texts are
always storable, whatever a task raised: a completion that fails because of a NUL in an error
message would leave its job running for ever.

The outcome of a hand-off, whose work is sent to another system, is reported by that system. The id
of a message names its job and the try. A message that is sent again, because the worker died before
it could note that it was sent, has the same id, so that brokers and consumers can drop the second
one; a retry after a failure has another, so that they do not. Two databases have jobs with the same
number, so the moment at which the job was enqueued is a part of the id; and a job that waits may be
given other arguments, so a digest of them is.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from duly.model.flow import FlowPlan
from duly.model.payload import Json, storable
from duly.model.states import State

LONGEST_NAME = 500


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: Json | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The task raised an exception; ``error`` is the name of its type.

    For a built-in task ``error`` is empty: its program failed, as ``message`` says.

    ``permanent`` and ``retry_after`` come from ``Permanent`` and ``RetryAfter``. ``retryable`` is
    False if the error is not in the task's ``Retry(on=…)``; the worker checks that, because only it
    has the exception.
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
    """The attempt ran longer than the timeout and was stopped."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class Stopped:
    """The job was cancelled while it ran."""

    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker died or its lease expired; how far the attempt got is unknown."""

    worker: int | None = None
    reason: str = ""
    alone: bool = False  # it ran in a process of its own, which did not crash
    name: str = ""  # of the worker, if known

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


@dataclass(frozen=True, slots=True)
class Late:
    """The start deadline passed before the attempt began."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The job was claimed and given back: unstarted, or interrupted by a worker that stops."""

    reason: str = "given back unstarted"


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The arguments do not fit the function any more; the job waits, and keeps its tries."""

    reason: str
    signature: str = ""  # the fingerprint of the signature that they do not fit

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


@dataclass(frozen=True, slots=True)
class Opened:
    """The job is a flow: nothing ran, and from now on its steps run."""

    plan: FlowPlan


@dataclass(frozen=True, slots=True)
class HandedOff:
    """The target has confirmed the work and will report its outcome; no worker is needed.

    ``target`` is for people, as ``main (celery)``. Without an outcome ``within`` that time, the
    attempt has failed.
    """

    target: str
    within: timedelta

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", storable(self.target, LONGEST_NAME))


@dataclass(frozen=True, slots=True)
class Postponed:
    """Nothing was done, because something that the task needs is down; it keeps its attempts."""

    reason: str
    wait: timedelta

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


@dataclass(frozen=True, slots=True)
class Completed:
    """The task ended its own job, in one transaction with its own writes."""


Outcome: TypeAlias = (
    Succeeded
    | Raised
    | TimedOut
    | Stopped
    | Lost
    | Late
    | Returned
    | Mismatched
    | Opened
    | HandedOff
    | Postponed
)


SEND: Final = "duly.send"
REVOKE: Final = "duly.revoke"
_ID = re.compile(r"duly-(\d{1,18})-(\d{1,9})-([0-9a-f]{1,15})-([0-9a-f]{8})", re.ASCII)


class MessageId(NamedTuple):
    """The id of a message: its job, the number of the try, from 1, and what the job was then."""

    job: int
    attempt: int
    created_at: int  # when the job was enqueued, in microseconds
    digest: int  # of its arguments

    @classmethod
    def of(cls, job: int, attempt: int, created_at: int, args: str) -> "MessageId":
        return cls(job, attempt, created_at, crc32(args.encode()))

    def __str__(self) -> str:
        return f"duly-{self.job}-{self.attempt}-{self.created_at:x}-{self.digest:08x}"

    @classmethod
    def read(cls, text: object) -> "MessageId | None":
        """Return the parsed id; None if the message was not sent by duly."""
        found = _ID.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            return None
        return cls(int(found[1]), int(found[2]), int(found[3], 16), int(found[4], 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """The state of a job after an outcome was reported, and why the report did not count."""

    id: int
    state: State
    counted: bool
    why: str = ""
