"""What the engine says while it works: facts, not sentences.

The engine emits these and goes on; whoever listens (``duly.observe``, the dashboard's stream, a
test) decides what they mean, and owns the words. An event never carries a right or a duty: losing
one loses a line in a log, and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TickFailed:
    """A service's tick ended with an error; the service rests, and tries again."""

    service: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class TickStalled:
    """A tick took longer than any tick may, and was cancelled."""

    service: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class ServiceRestarted:
    """A stalled tick did not even end when cancelled: it is left behind, a fresh one starts."""

    service: str


@dataclass(frozen=True, slots=True)
class ClockDistrusted:
    """The database's clock moved by ``jump`` more than ours did: nothing is fired here."""

    jump: timedelta


@dataclass(frozen=True, slots=True)
class ClockTrusted:
    """The database's clock and ours agree again."""


@dataclass(frozen=True, slots=True)
class Fired:
    """Due moments were written into the ledger, with their jobs. The oldest was this late."""

    fires: int
    jobs: int
    lateness: timedelta


@dataclass(frozen=True, slots=True)
class ScheduleFaulted:
    """A schedule could not be decided. It stands still until somebody mends it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobsReadied:
    """Jobs whose time has come may now be claimed."""

    count: int


@dataclass(frozen=True, slots=True)
class JobsExpired:
    """Jobs were not started before their deadline, and ended without running."""

    count: int


@dataclass(frozen=True, slots=True)
class JobsTakenBack:
    """Jobs of workers whose lease ended went back to their queues.

    The ``poisoned`` among them had taken too many workers with them, and ended as failed instead.
    """

    count: int
    poisoned: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """History older than its retention was removed."""

    rows: int


Event: TypeAlias = (
    TickFailed
    | TickStalled
    | ServiceRestarted
    | ClockDistrusted
    | ClockTrusted
    | Fired
    | ScheduleFaulted
    | JobsReadied
    | JobsExpired
    | JobsTakenBack
    | Pruned
)

Emit: TypeAlias = Callable[[Event], None]


def nobody(event: Event) -> None:
    """The listener where there is none."""
