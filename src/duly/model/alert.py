"""Alerts: problems that somebody should hear of, and the messages about them.

A problem is found, told, and resolved. A message waits in the outbox until its receiver has it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

# The kinds of problems that alerts are about, and their meanings.
KINDS: Final = {
    "failed": "a job failed for good",
    "missed": "a scheduled run was skipped because it was late or overlapped, or it expired",
    "late": "a scheduled run is due and has not started",
    "no-worker": "jobs wait for a worker that is not there",
    "queue": "a queue is too deep, or its oldest job waits too long",
    "fault": "a schedule cannot be fired",
    "clock": "the database's clock jumped",
    "node": "a worker is gone and did not come back",
}
# Kinds that are events: they are told again only when something new has happened.
EVENTS: Final = frozenset({"failed", "missed", "clock", "node"})
PING: Final = "ping"  # the kind of a row that remembers the last run a receiver was told of


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    kind: str  # one of KINDS
    subject: str  # together with the kind, it identifies the problem: "schedule:nightly"
    name: str  # for people
    sentence: str
    since: datetime
    last: datetime  # when the newest event of it happened; for a condition the same as ``since``
    count: int = 1
    job_id: int | None = None
    command: str = ""  # that shows more

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlert:
    """A problem as it was last told, or as it was found if nobody was told yet."""

    problem: Problem
    found_at: datetime
    told_at: datetime | None = None
    resolved_at: datetime | None = None  # it is over, and that is still to be told


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertContent:
    """The content of a message, without the form that a receiver gets."""

    title: str
    firing: tuple[Problem, ...] = ()
    resolved: tuple[Problem, ...] = ()
    more: int = 0  # problems that are left out
    outcome: str = ""  # of a run, in a ping: "succeeded" or "failed"
    text: str = ""  # of a ping or a test


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """A message in the outbox."""

    id: int
    destination: str
    made_at: datetime
    content: AlertContent
    attempts: int = 0
    next_at: datetime | None = None  # when it is sent; None: it was sent, or was given up
    sent_at: datetime | None = None
    error: str = ""  # of the last attempt

    @property
    def key(self) -> str:
        """The same for every attempt: a receiver that sees it again has the message already."""
        return f"duly-{int(self.made_at.timestamp() * 1_000_000)}-{self.id}"

    @property
    def state(self) -> str:
        if self.sent_at is not None:
            return "sent"
        return "given up" if self.next_at is None else "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTurn:
    """The right of one node to examine the store and to deliver, until its end."""

    now: datetime
    until: datetime
    told_at: datetime | None  # when the last message was made


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChanges:
    """The changes of one examination, written in one transaction."""

    alerts: tuple[OpenAlert, ...] = ()  # new ones, and others as they are now
    closed: tuple[OpenAlert, ...] = ()
    messages: tuple[tuple[str, AlertContent], ...] = ()  # destination and content
    tells: bool = False  # the messages are about alerts: the next ones wait for their turn

    def __bool__(self) -> bool:
        return bool(self.alerts or self.closed or self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The run of a schedule that ended last."""

    schedule: str
    job_id: int
    state: str
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """Runs of a schedule that are due and have not started."""

    schedule: str
    runs: int
    due_at: datetime  # of the oldest
    job_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneWorker:
    """A worker that ended without saying so."""

    id: int
    name: str
    pid: int
    beat_at: datetime
