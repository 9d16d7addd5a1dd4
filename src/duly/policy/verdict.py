"""What follows an attempt: whether a job has ended, or when it is tried again.

Three numbers are kept apart. ``Retry.attempts`` is spent by attempts that raised or ran too long.
``crashes`` is spent by attempts that ended with their worker: such a job may be a victim of its
neighbours or of a deploy, so it costs no try and is run again at once; but the job that has gone
down with its worker ``POISON`` times is probably what brings workers down, and is run no more.
After ``SUSPECT`` times it is run in a process of its own: if its worker dies then and not that
process, it is probably innocent, and is given up only after ``HAUNTED`` times. The attempt's own
number rises with either, so what has been tried is ``attempt - crashes``.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, assert_never

from duly.durations import show_duration
from duly.errors import DulyError
from duly.model.job import Waits
from duly.model.outcome import (
    Late,
    Lost,
    Mismatched,
    Opened,
    Outcome,
    Raised,
    Returned,
    Stopped,
    Succeeded,
    TimedOut,
)
from duly.model.payload import Json
from duly.model.states import Move, State, after
from duly.policy.retry import LONGEST_WAIT, Retry, delay

POISON: Final = 3
SUSPECT: Final = 2  # crashes after which a job is run in a process of its own
HAUNTED: Final = 10
UNFIT: Final = "its arguments do not fit the function any more"
_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class Tried:
    """A job as it is judged."""

    attempt: int
    crashes: int
    retry: Retry

    @classmethod
    def of(cls, job: "Stored", default: Retry | None = None) -> "Tried":
        """The job, with its own way of being retried, or else the default of its task."""
        retry = default or Retry()
        if job.retry:
            with suppress(DulyError):  # a newer version's, which must not keep it from being judged
                retry = Retry.from_json(Json(job.retry))
        return cls(job.attempt, job.crashes, retry)


class Stored(Protocol):
    """A job as it is stored."""

    @property
    def attempt(self) -> int: ...
    @property
    def crashes(self) -> int: ...
    @property
    def retry(self) -> str | None: ...


class Attempted(Protocol):
    """What is known of a job whose attempt has ended."""

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        ...

    @property
    def crashes(self) -> int:
        """How many attempts before this one ended with their worker."""
        ...

    @property
    def retry(self) -> Retry: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The move a running job takes, and why.

    ``ready_at`` is when it may run again, or None if it has ended. ``error`` is what went wrong
    in this attempt, if anything did.
    """

    move: Move
    reason: str
    crashes: int
    ready_at: datetime | None = None
    error: str | None = None
    waits: Waits | None = None  # what blocks it from now on, and which one of these
    waits_for: str | None = None

    @property
    def state(self) -> State:
        return after(State.RUNNING, self.move)

    @property
    def counts(self) -> bool:
        """Whether there was an attempt at all: a job given back unstarted keeps its number."""
        return self.move not in (Move.GIVE_BACK, Move.PARK)


def judge(  # noqa: PLR0911 - an answer for each member of the union
    job: Attempted, outcome: Outcome, now: datetime, *, dice: float
) -> Verdict:
    """What follows; ``dice`` in [0, 1) spreads the retries of jobs that failed together."""
    match outcome:
        case Succeeded():
            reason = f"succeeded at attempt {job.attempt}"
            return Verdict(move=Move.SUCCEED, reason=reason, crashes=0)
        case Raised():
            return _raised(job, outcome, now, dice=dice)
        case TimedOut():
            happened = f"ran longer than {_shown(outcome.after)}"
            error = f"TimedOut: {happened}"
            return _tried(job, now, happened=happened, error=error, wait=_backoff(job, dice))
        case Stopped():
            reason = f"cancelled while it ran{_because(outcome.reason)}"
            return Verdict(move=Move.CANCEL, reason=reason, crashes=job.crashes)
        case Lost():
            return _lost(job, outcome, now)
        case Late():
            reason = "not started: the moment by which it had to start had passed"
            return Verdict(move=Move.EXPIRE, reason=reason, crashes=job.crashes)
        case Returned():
            reason = f"{outcome.reason}; ready at once"
            return Verdict(move=Move.GIVE_BACK, reason=reason, crashes=job.crashes, ready_at=now)
        case Opened():
            return Verdict(move=Move.OPEN, reason="opened", crashes=0)
        case Mismatched():
            return Verdict(
                move=Move.PARK,
                reason=" ".join(outcome.reason.split()) or UNFIT,
                crashes=job.crashes,
                ready_at=now,
                waits="signature",
                waits_for=outcome.signature,
            )
        case _:
            assert_never(outcome)


def _raised(job: Attempted, raised: Raised, now: datetime, *, dice: float) -> Verdict:
    error = ": ".join(filter(None, (raised.error, raised.message)))
    shown = f"{error}\n\n{raised.traceback}" if raised.traceback else error
    if raised.permanent:
        return _failed(job, reason=f"failed for good: {_line(error)}", error=shown)
    if not raised.retryable:
        return _failed(job, reason=f"not retried: {_line(raised.error)} is not in on=", error=shown)
    wait, verb = _backoff(job, dice), "raised" if raised.error else "failed:"
    if raised.retry_after is not None:
        wait = min(max(raised.retry_after, timedelta()), LONGEST_WAIT)
    return _tried(job, now, happened=f"{verb} {_line(error)}", error=shown, wait=wait)


def _tried(job: Attempted, now: datetime, *, happened: str, error: str, wait: timedelta) -> Verdict:
    what = f"{_numbered(job)} {happened}"
    if _tries(job) >= job.retry.attempts:
        return _failed(job, reason=f"{what}; no attempt is left", error=error)
    return Verdict(
        move=Move.AGAIN,
        reason=f"{what}; next try {f'in {_about(wait)}' if wait else 'at once'}",
        crashes=job.crashes,
        ready_at=now + wait,
        error=error,
    )


def _lost(job: Attempted, lost: Lost, now: datetime) -> Verdict:
    crashes = job.crashes + 1
    worker = lost.name or ("its worker" if lost.worker is None else f"worker {lost.worker}")
    most = HAUNTED if lost.alone else POISON
    happened = f"with {worker}{_because(lost.reason)}"
    if crashes >= most:
        return Verdict(
            move=Move.FAIL,
            reason=f"crashed with its worker {crashes} times: not tried again",
            crashes=crashes,
            error=f"Poison: the last time {happened}",
        )
    return Verdict(
        move=Move.LOSE,
        reason=f"lost {happened}; ready at once, crash {crashes} of {most}",
        crashes=crashes,
        ready_at=now,
        error=f"Lost: {happened}",
    )


def _failed(job: Attempted, *, reason: str, error: str) -> Verdict:
    return Verdict(move=Move.FAIL, reason=reason, crashes=job.crashes, error=error)


def _backoff(job: Attempted, dice: float) -> timedelta:
    return delay(job.retry, _tries(job), dice)


def _numbered(job: Attempted) -> str:
    """Which it is of how many; what crashed with a worker has a number, and counts for nothing."""
    of = f"{_tries(job)} of {job.retry.attempts}"
    return f"attempt {job.attempt} (try {of})" if job.crashes else f"attempt {of}"


def _tries(job: Attempted) -> int:
    return max(1, job.attempt - job.crashes)


def _because(reason: str) -> str:
    return f": {_line(reason)}" if reason else ""


def _line(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def _about(length: timedelta) -> str:
    """Nobody counts the milliseconds of a wait that has seconds."""
    unit = timedelta(seconds=1 if length >= timedelta(seconds=1) else 0.001)
    return show_duration(round(length / unit) * unit)


def _shown(length: timedelta) -> str:
    """About: nobody plans by the milliseconds of a minute."""
    unit = timedelta(seconds=1) if length >= timedelta(seconds=10) else timedelta(milliseconds=1)
    return show_duration(round(length / unit) * unit)
