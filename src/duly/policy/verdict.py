"""The verdict on an attempt: whether the job has ended, or when it is tried again.

Three numbers are kept apart. An attempt that raised or timed out uses up one of
``Retry.attempts``. An attempt that ended with its worker counts as a crash: the job may be a victim
of another job or of a deploy, so it keeps its tries and runs again at once. A job that has crashed
``POISON`` times probably causes the crashes and is not run again. After ``SUSPECT`` crashes the job
runs in a process of its own; if its worker dies and that process does not, the job is probably not
the cause and fails only after ``HAUNTED`` crashes. While it waits for that process it has not
begun, and the death of its worker does not count. The attempt number rises in both cases, so the
number of tries is ``attempt - crashes``.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, assert_never

from duly.durations import show_duration
from duly.errors import DulyError
from duly.model.job import Waits
from duly.model.outcome import (
    HandedOff,
    Late,
    Lost,
    Mismatched,
    Opened,
    Outcome,
    Postponed,
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
    """The facts about a job whose attempt has ended that a verdict needs."""

    attempt: int  # the number of this attempt; the first is 1
    crashes: int  # earlier attempts that ended with their worker
    retry: Retry

    @classmethod
    def of(cls, job: "Stored", default: Retry | None = None) -> "Tried":
        """Return the facts of a job, with its own retry policy or else the default of its task."""
        retry = default or Retry()
        if job.retry:
            with suppress(DulyError):  # a policy of a newer version must not block the verdict
                retry = Retry.from_json(Json(job.retry))
        return cls(job.attempt, job.crashes, retry)


class Stored(Protocol):
    """A stored job, as far as its retries go."""

    @property
    def attempt(self) -> int: ...
    @property
    def crashes(self) -> int: ...
    @property
    def retry(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The move that a running job takes, and the reason.

    ``ready_at`` is when the job may run again, or None if it has ended. ``error`` is the error of
    this attempt, if there was one.
    """

    move: Move
    reason: str
    crashes: int
    ready_at: datetime | None = None
    error: str | None = None
    waits: Waits | None = None  # what the job waits for from now on
    waits_for: str | None = None
    within: timedelta | None = None  # how long it may wait

    @property
    def state(self) -> State:
        return after(State.RUNNING, self.move)

    @property
    def counts(self) -> bool:
        """Return whether this counts as an attempt; a job given back unstarted does not."""
        return self.move not in (Move.GIVE_BACK, Move.POSTPONE, Move.PARK)


def judge(  # noqa: C901, PLR0911 - an answer for each member of the union
    job: Tried, outcome: Outcome, now: datetime, *, dice: float
) -> Verdict:
    """Return the verdict; ``dice`` in [0, 1) spreads the retries of jobs that failed together."""
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
            reason = "not started: its start deadline had passed"
            return Verdict(move=Move.EXPIRE, reason=reason, crashes=job.crashes)
        case Returned():
            reason = f"{outcome.reason}; ready at once"
            return Verdict(move=Move.GIVE_BACK, reason=reason, crashes=job.crashes, ready_at=now)
        case Opened():
            return Verdict(move=Move.OPEN, reason="opened", crashes=0)
        case HandedOff():
            return Verdict(
                move=Move.HAND_OFF,
                reason=f"handed to {outcome.target}, no outcome yet",
                crashes=job.crashes,
                waits="outcome",
                waits_for=outcome.target,
                within=outcome.within,
            )
        case Postponed():
            wait = min(max(outcome.wait, timedelta()), LONGEST_WAIT)
            return Verdict(
                move=Move.POSTPONE,
                reason=f"{_line(outcome.reason)}; next try in {_about(wait)}",
                crashes=job.crashes,
                ready_at=now + wait,
            )
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


def _raised(job: Tried, raised: Raised, now: datetime, *, dice: float) -> Verdict:
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


def _tried(job: Tried, now: datetime, *, happened: str, error: str, wait: timedelta) -> Verdict:
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


def _lost(job: Tried, lost: Lost, now: datetime) -> Verdict:
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


def _failed(job: Tried, *, reason: str, error: str) -> Verdict:
    return Verdict(move=Move.FAIL, reason=reason, crashes=job.crashes, error=error)


def _backoff(job: Tried, dice: float) -> timedelta:
    return delay(job.retry, _tries(job), dice)


def _numbered(job: Tried) -> str:
    """Return ``attempt 2 of 3``; crashed attempts have a number but do not count as tries."""
    of = f"{_tries(job)} of {job.retry.attempts}"
    return f"attempt {job.attempt} (try {of})" if job.crashes else f"attempt {of}"


def _tries(job: Tried) -> int:
    return max(1, job.attempt - job.crashes)


def _because(reason: str) -> str:
    return f": {_line(reason)}" if reason else ""


def _line(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def _about(length: timedelta) -> str:
    """Round to seconds, or to milliseconds below one second."""
    unit = timedelta(seconds=1 if length >= timedelta(seconds=1) else 0.001)
    return show_duration(round(length / unit) * unit)


def _shown(length: timedelta) -> str:
    """Round to seconds, or to milliseconds below ten seconds."""
    unit = timedelta(seconds=1) if length >= timedelta(seconds=10) else timedelta(milliseconds=1)
    return show_duration(round(length / unit) * unit)
