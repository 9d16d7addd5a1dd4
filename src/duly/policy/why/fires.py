"""Explain why a due moment was queued, merged or skipped, according to its ledger row.

For a moment that was skipped because an earlier run had not ended, the advice depends on the state
of that run at the time. If the run waited, the advice is to remove the obstacle; if it ran too
long, to set a timeout; if it always runs longer than the interval of its schedule, to use a longer
interval.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from shlex import quote
from typing import assert_never

from duly.durations import about, show_duration
from duly.model.fire import CLOCK, Cause, Outcome, StoredFire
from duly.model.schedule import PROMPT, StoredSchedule
from duly.model.states import ENDED, State
from duly.policy.why.answer import (
    Explanation,
    JobEvidence,
    LocalClock,
    SuggestedCommand,
    cancel_job,
    first_line,
    follow_job,
    plural,
    run_it,
    show_job,
)
from duly.policy.why.jobs import clause_of
from duly.rules import Spaced

# Skipped on purpose, whether or not a scheduler was running.
_CHOSEN = (Cause.PAUSED, Cause.EXCLUDED, Cause.ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentEvidence:
    """A moment and the ledger row that covers it."""

    schedule: StoredSchedule
    fire: StoredFire
    moment: datetime  # one of the moments that the row covers
    now: datetime
    job: JobEvidence | None = None  # of the row, or of the row that it was merged into
    into: StoredFire | None = None
    in_the_way: JobEvidence | None = None  # the earlier run that had not ended
    last_decision: datetime | None = None  # by any scheduler, before this one
    notes: tuple[str, ...] = ()  # clock changes near that time
    backfill: StoredFire | None = None  # somebody asked for the moment later
    backfill_job: JobEvidence | None = None
    zone: str | None = None  # in which moments are shown; None: the schedule's zone

    @property
    def name(self) -> str:
        return self.schedule.plan.name

    @property
    def clock(self) -> LocalClock:
        return LocalClock(self.zone or self.schedule.plan.shown_zone, self.now)

    @property
    def interval(self) -> timedelta | None:
        """The time from this moment to the next one."""
        kept = self.schedule.plan.kept
        after = None if isinstance(kept, Spaced) else kept.after(self.moment)
        return None if after is None else after - self.moment


def explain_moment(found: MomentEvidence) -> Explanation:
    match found.fire.outcome:
        case Outcome.QUEUED:
            answer = _queued(found)
        case Outcome.MERGED:
            answer = _merged(found)
        case Outcome.SKIPPED:
            answer = _skipped(found)
        case _:
            assert_never(found.fire.outcome)
    return replace(
        answer,
        evidence=(*answer.evidence, *_stretch(found), *_gap(found), *found.notes, *_later(found)),
    )


def _queued(found: MomentEvidence) -> Explanation:
    job = found.job
    if job is None:
        gone = f"its job ({found.fire.job_id}) has ended and been deleted"
        return Explanation(sentence=f"{_due(found)} and was queued: {gone}.")
    clause = clause_of(job)
    coming = _next(found) if job.job.state is State.SUCCEEDED else ""
    return clause.explained(f"{_due(found)} and {clause.text}.{coming}", short=clause.text)


def _merged(found: MomentEvidence) -> Explanation:
    if found.into is None:
        said = found.fire.reason.removeprefix("merged")
        return Explanation(sentence=f"{_due(found)} and was merged{said}.")
    into = found.clock.near(found.into.due_at, found.moment)
    said = f"{_due(found)} and was merged into the run of {into}"
    if found.job is None:
        gone = f"whose job ({found.into.job_id}) has ended and been deleted"
        return Explanation(sentence=f"{said}, {gone}.")
    clause = clause_of(found.job)
    return clause.explained(f"{said}, which {clause.text}.")


def _skipped(found: MomentEvidence) -> Explanation:
    reason = found.fire.reason
    if found.moment > found.now:
        why = reason.removeprefix("skipped ")
        due = found.clock.whole(found.moment)
        return Explanation(sentence=f"{found.name} is due {due} and will be skipped {why}.")
    why = f": {reason}"
    commands: tuple[SuggestedCommand, ...] = ()
    if found.schedule.plan.reaction is None:  # a reaction cannot be run without an event
        why, commands = _why_skipped(found)
    return Explanation(
        sentence=f"{_due(found)} and was skipped{why}.",
        commands=commands,
        short=f"skipped{why}",
    )


def _why_skipped(found: MomentEvidence) -> tuple[str, tuple[SuggestedCommand, ...]]:
    """Return the words after "was skipped", and the commands that help."""
    reason, run = found.fire.reason, run_it(found.name)
    at = f" at {found.clock.near(found.fire.decided_at, found.moment)}"
    match found.fire.cause:
        case Cause.OVERLAP:
            why, commands = _overlap(found)
            return f"{at}: {why}", commands
        case Cause.LATE:
            return f"{at}: it {reason}", (run,)
        case Cause.PAUSED:
            return f": {reason}", _resume(found)
        case Cause.ASKED:
            return f" {reason.removeprefix('skipped ')}", (run,)
        case Cause.EXCLUDED:
            return f": {reason}", (run_it(found.name, what="run it anyway"),)
        case Cause.EXHAUSTED | Cause.MISSED | Cause.WITHDRAWN | Cause.REFUSED | None:
            return f"{at}: {reason}", (run,)
        case _:
            assert_never(found.fire.cause)


def _overlap(found: MomentEvidence) -> tuple[str, tuple[SuggestedCommand, ...]]:
    """Describe the earlier run as it is now, and the commands that help."""
    other, clock = found.in_the_way, found.clock
    run = run_it(found.name, what="run it anyway")
    if other is None:
        return found.fire.reason, (run,)
    job = other.job
    lead = f'overlap="skip", and the run of {clock.near(job.due_at, found.moment)} (job {job.id})'
    if job.state in ENDED:
        said, prevention = _ended(found, other)
        return f"{lead} had not ended: {said}", (show_job(job.id), run, prevention)
    if job.state is State.RUNNING and not other.is_lost and not _began_later(found, other):
        commands = (*_stop(other), run, _prevention(found, other))
        return f"{lead} is still running: {_age(found, other)}", commands
    clause = clause_of(other)
    commands = (show_job(job.id), *_without_show(clause.commands), run, QUEUE_ONE)
    return f"{lead} had not ended: it {clause.text}", commands


def _resume(found: MomentEvidence) -> tuple[SuggestedCommand, ...]:
    if found.schedule.pause is None:
        return (run_it(found.name),)
    return (
        SuggestedCommand("resume it", f"duly schedules resume {quote(found.name)}"),
        run_it(found.name),
    )


def _due(found: MomentEvidence) -> str:
    if found.fire.is_backfill:
        asked = f"{found.fire.reason} {found.clock.near(found.fire.decided_at, found.moment)}"
        return f"{found.name}, due {found.clock.due(found.moment)}, was {asked}"
    if found.schedule.plan.reaction is not None:
        when = found.clock.due(found.moment)
        return f"{found.name} was to react to event {found.fire.series} of {when}"
    if found.fire.series != CLOCK:
        return f"{found.name} was run by hand {found.clock.due(found.moment)}"
    return f"{found.name} was due {found.clock.due(found.moment)}"


def _next(found: MomentEvidence) -> str:
    schedule = found.schedule
    if schedule.pause is not None:
        return " It is paused now."
    left, most = schedule.runs_left, schedule.plan.policies.max_runs
    if left == 0:
        return f" It has made all its runs (max_runs={most}) and is finished."
    if schedule.next_at is None or schedule.next_at <= found.now:
        return ""
    counted = "" if left is None else f"; {left:,} of {most:,} runs left"
    return f" Next: {found.clock.near(schedule.next_at, found.moment)}{counted}."


def _stretch(found: MomentEvidence) -> tuple[str, ...]:
    """Say how many moments the row covers, if it covers several."""
    fire, clock = found.fire, found.clock
    if fire.count == 1:
        return ()
    many = "too many runs to count" if fire.count is None else plural(fire.count, "run")
    first, last = clock.near(fire.covers_from), clock.near(fire.due_at)
    return (f"the same is true of {many}, from {first} to {last}",)


def _gap(found: MomentEvidence) -> tuple[str, ...]:
    """Say whether a scheduler was running, if the decision came late."""
    fire, clock = found.fire, found.clock
    waited = fire.decided_at - found.moment
    if waited < PROMPT or fire.series != CLOCK or fire.cause in _CHOSEN:
        return ()
    decided, before = clock.near(fire.decided_at), found.last_decision
    if before is None:
        return (f"no scheduler was running: nothing was decided before {decided}",)
    if before > found.moment:
        return (f"it was decided {decided}, {about(waited)} after it was due",)
    since = clock.near(before)
    return (f"no scheduler was running: nothing was decided from {since} to {decided}",)


def _later(found: MomentEvidence) -> tuple[str, ...]:
    """Say what became of the moment's backfill, if there was one."""
    asked, job = found.backfill, found.backfill_job
    if asked is None:
        return ()
    came_to = f"its job ({asked.job_id}) has ended and been deleted"
    if job is not None:
        came_to = f"job {job.job.id} {clause_of(job).text}"
    return (f"{asked.reason} {found.clock.near(asked.decided_at, found.moment)}: {came_to}",)


QUEUE_ONE = SuggestedCommand("prevent it", 'overlap="queue_one" on the schedule: the newest waits')
# The suggested timeout is this many times the usual runtime, rounded up.
ROOM = 3
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_ROUND = (
    *(timedelta(seconds=count) for count in (10, 20, 30)),
    *(count * _MINUTE for count in (1, 2, 3, 5, 10, 15, 20, 30)),
    *(count * _HOUR for count in (1, 2, 3, 4, 6, 12, 24, 48)),
)


def _began_later(found: MomentEvidence, other: JobEvidence) -> bool:
    """Return whether the run started after the decision: it waited for a worker or a retry."""
    claimed = other.job.claimed_at
    return claimed is not None and claimed > found.fire.decided_at


def _age(found: MomentEvidence, other: JobEvidence) -> str:
    job = other.job
    timeout = job.terms.timeout
    limit = "no timeout set" if timeout is None else f"timeout {show_duration(timeout)}"
    age = found.clock.ago(job.claimed_at or other.now)
    stopping = "; it was asked to stop" if other.stopping is not None else ""
    return f"{age}{_usually(other)}, {limit}{stopping}"


def _stop(other: JobEvidence) -> tuple[SuggestedCommand, ...]:
    number = other.job.id
    asked = other.stopping is not None
    return (follow_job(number),) if asked else (follow_job(number), cancel_job(number))


def _ended(found: MomentEvidence, other: JobEvidence) -> tuple[str, SuggestedCommand]:
    """Describe a run that has ended by now, and how to prevent the overlap."""
    clock = found.clock
    job, began = other.job, other.started_at
    if job.ended_at is None or began is None or job.claimed_at is None:
        return f"it {clause_of(other).text}", QUEUE_ONE
    until = clock.near(job.ended_at, found.moment)
    if began > found.fire.decided_at:
        waited, started = about(began - job.due_at), clock.near(began, found.moment)
        return f"it waited {waited} to start, until {started}, and ended {until}", QUEUE_ONE
    before = [one for one in other.attempts if one.ended_at <= found.fire.decided_at]
    if before and job.claimed_at > found.fire.decided_at:
        why = first_line(before[-1].error) or before[-1].reason
        again = f"waited to be tried again after attempt {before[-1].number} ({why})"
        return f"it {again.rstrip('.')}, and ended {until}", QUEUE_ONE
    took = about(job.ended_at - job.claimed_at)
    return f"it ran {took}, until {until}{_usually(other)}", _prevention(found, other)


def _usually(other: JobEvidence) -> str:
    return "" if other.usual is None else f", usually {about(other.usual)}"


def _prevention(found: MomentEvidence, other: JobEvidence) -> SuggestedCommand:
    """Return advice about a run that took too long."""
    usual, interval = other.usual or _took(other), found.interval
    too_often = interval is not None and (
        interval < _ROUND[0] if usual is None else usual >= interval
    )
    if interval is not None and too_often:
        runs = "it" if usual is None else f"it runs {about(usual)}, and"
        said = f"a longer interval ({runs} is due every {about(interval)})"
        return SuggestedCommand("prevent it", f'{said}, or overlap="queue_one": the newest waits')
    if other.job.terms.timeout is not None:
        return QUEUE_ONE
    enough = _HOUR if usual is None else usual * ROOM
    chosen = next((length for length in _ROUND if length >= enough), None)
    if chosen is None:
        return QUEUE_ONE
    keeps = '(async, or with executor="process")'
    return SuggestedCommand("prevent it", f'timeout="{show_duration(chosen)}" on the task {keeps}')


def _took(other: JobEvidence) -> timedelta | None:
    """Return the runtime of this run if it succeeded; used while the usual one is not known."""
    job = other.job
    if job.state is not State.SUCCEEDED or job.ended_at is None or job.claimed_at is None:
        return None
    return job.ended_at - job.claimed_at


def _without_show(commands: tuple[SuggestedCommand, ...]) -> tuple[SuggestedCommand, ...]:
    return tuple(one for one in commands if one.what != "see it")
