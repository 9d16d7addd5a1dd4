"""Why a moment was skipped because an earlier run had not ended, and how to prevent it.

The advice depends on what the earlier run did when the moment was decided: if it waited, remove
what it waited for; if it ran too long, set a timeout; if it always runs longer than the interval of
its schedule, use a longer interval.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from duly.durations import show_duration
from duly.model.schedule import Plan
from duly.model.states import ENDED, State
from duly.policy.why.answer import (
    LocalClock,
    SuggestedCommand,
    about,
    cancel_job,
    first_line,
    follow_job,
    run_it,
    show_job,
)
from duly.policy.why.evidence import JobEvidence
from duly.policy.why.jobs import clause_of
from duly.rules import Spaced

QUEUE_ONE = SuggestedCommand("prevent it", 'overlap="queue_one" on the schedule: the newest waits')
# The suggested timeout is this many times the usual runtime, rounded up.
ROOM = 3
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_ROUND = (
    *(timedelta(seconds=count) for count in (10, 20, 30)),
    *(count * _MINUTE for count in (1, 2, 3, 5, 10, 15, 20, 30)),
    *(count * _HOUR for count in (1, 2, 3, 4, 6, 12, 24, 48)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """A skipped moment, and the run of its schedule that had not ended."""

    plan: Plan
    moment: datetime
    decided_at: datetime
    other: JobEvidence
    zone: str | None = None  # in which moments are shown; None: the schedule's zone

    @property
    def clock(self) -> LocalClock:
        return LocalClock(self.zone or self.plan.shown_zone, self.other.now)

    @property
    def interval(self) -> timedelta | None:
        """The time from this moment to the next one."""
        kept = self.plan.kept
        after = None if isinstance(kept, Spaced) else kept.after(self.moment)
        return None if after is None else after - self.moment


def why_overlap(found: Overlap) -> tuple[str, tuple[SuggestedCommand, ...]]:
    """Describe the earlier run as it is now, and the commands that help."""
    job, clock = found.other.job, found.clock
    lead = f'overlap="skip", and the run of {clock.near(job.due_at, found.moment)} (job {job.id})'
    run = run_it(found.plan.name, what="run it anyway")
    if job.state in ENDED:
        said, prevention = _ended(found)
        return f"{lead} had not ended: {said}", (show_job(job.id), run, prevention)
    if job.state is State.RUNNING and not found.other.is_lost and not _began_later(found):
        commands = (*_stop(found), run, _prevention(found))
        return f"{lead} is still running: {_age(found)}", commands
    clause = clause_of(found.other)
    commands = (show_job(job.id), *_without_show(clause.commands), run, QUEUE_ONE)
    return f"{lead} had not ended: it {clause.text}", commands


def _began_later(found: Overlap) -> bool:
    """Return whether the run started after the decision: it waited for a worker or a retry."""
    claimed = found.other.job.claimed_at
    return claimed is not None and claimed > found.decided_at


def _age(found: Overlap) -> str:
    job = found.other.job
    timeout = job.terms.timeout
    limit = "no timeout set" if timeout is None else f"timeout {show_duration(timeout)}"
    age = found.clock.ago(job.claimed_at or found.other.now)
    stopping = "; it was asked to stop" if found.other.stopping is not None else ""
    return f"{age}{_usually(found)}, {limit}{stopping}"


def _stop(found: Overlap) -> tuple[SuggestedCommand, ...]:
    number = found.other.job.id
    asked = found.other.stopping is not None
    return (follow_job(number),) if asked else (follow_job(number), cancel_job(number))


def _ended(found: Overlap) -> tuple[str, SuggestedCommand]:
    """Describe a run that has ended by now, and how to prevent the overlap."""
    other, clock = found.other, found.clock
    job, began = other.job, other.started_at
    if job.ended_at is None or began is None or job.claimed_at is None:
        return f"it {clause_of(other).text}", QUEUE_ONE
    until = clock.near(job.ended_at, found.moment)
    if began > found.decided_at:
        waited, started = about(began - job.due_at), clock.near(began, found.moment)
        return f"it waited {waited} to start, until {started}, and ended {until}", QUEUE_ONE
    before = [one for one in other.attempts if one.ended_at <= found.decided_at]
    if before and job.claimed_at > found.decided_at:
        why = first_line(before[-1].error) or before[-1].reason
        again = f"waited to be tried again after attempt {before[-1].number} ({why})"
        return f"it {again.rstrip('.')}, and ended {until}", QUEUE_ONE
    took = about(job.ended_at - job.claimed_at)
    return f"it ran {took}, until {until}{_usually(found)}", _prevention(found)


def _usually(found: Overlap) -> str:
    return "" if found.other.usual is None else f", usually {about(found.other.usual)}"


def _prevention(found: Overlap) -> SuggestedCommand:
    """Return advice about a run that took too long."""
    usual, interval = found.other.usual or _took(found), found.interval
    too_often = interval is not None and (
        interval < _ROUND[0] if usual is None else usual >= interval
    )
    if interval is not None and too_often:
        runs = "it" if usual is None else f"it runs {about(usual)}, and"
        said = f"a longer interval ({runs} is due every {about(interval)})"
        return SuggestedCommand("prevent it", f'{said}, or overlap="queue_one": the newest waits')
    if found.other.job.terms.timeout is not None:
        return QUEUE_ONE
    enough = _HOUR if usual is None else usual * ROOM
    chosen = next((length for length in _ROUND if length >= enough), None)
    if chosen is None:
        return QUEUE_ONE
    keeps = '(async, or with executor="process")'
    return SuggestedCommand("prevent it", f'timeout="{show_duration(chosen)}" on the task {keeps}')


def _took(found: Overlap) -> timedelta | None:
    """Return the runtime of this run if it succeeded; used while the usual one is not known."""
    job = found.other.job
    if job.state is not State.SUCCEEDED or job.ended_at is None or job.claimed_at is None:
        return None
    return job.ended_at - job.claimed_at


def _without_show(commands: tuple[SuggestedCommand, ...]) -> tuple[SuggestedCommand, ...]:
    return tuple(one for one in commands if one.what != "see it")
