"""Why a due moment was queued, merged or skipped, according to its ledger row."""

from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote
from typing import assert_never

from duly.model.fire import CLOCK, Cause, Outcome, StoredFire
from duly.model.schedule import PROMPT, StoredSchedule
from duly.model.states import State
from duly.policy.why.answer import Explanation, LocalClock, SuggestedCommand, about, plural, run_it
from duly.policy.why.evidence import JobEvidence
from duly.policy.why.jobs import clause_of
from duly.policy.why.overlaps import Overlap, why_overlap

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
        gone = f"its job ({found.fire.job_id}) has ended and been forgotten"
        return Explanation(sentence=f"{_due(found)} and was queued: {gone}.")
    clause = clause_of(job)
    coming = _next(found) if job.job.state is State.SUCCEEDED else ""
    return Explanation(
        sentence=f"{_due(found)} and {clause.text}.{coming}",
        evidence=clause.evidence,
        commands=clause.commands,
        short=clause.text,
    )


def _merged(found: MomentEvidence) -> Explanation:
    if found.into is None:
        said = found.fire.reason.removeprefix("merged")
        return Explanation(sentence=f"{_due(found)} and was merged{said}.")
    into = found.clock.near(found.into.due_at, found.moment)
    said = f"{_due(found)} and was merged into the run of {into}"
    if found.job is None:
        gone = f"whose job ({found.into.job_id}) has ended and been forgotten"
        return Explanation(sentence=f"{said}, {gone}.")
    clause = clause_of(found.job)
    return Explanation(
        sentence=f"{said}, which {clause.text}.",
        evidence=clause.evidence,
        commands=clause.commands,
    )


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
    if found.in_the_way is None:
        return found.fire.reason, (run_it(found.name, what="run it anyway"),)
    return why_overlap(
        Overlap(
            plan=found.schedule.plan,
            moment=found.moment,
            decided_at=found.fire.decided_at,
            other=found.in_the_way,
            zone=found.zone,
        )
    )


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
    many = "too many moments to count" if fire.count is None else plural(fire.count, "moment")
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
    came_to = f"its job ({asked.job_id}) has ended and been forgotten"
    if job is not None:
        came_to = f"job {job.job.id} {clause_of(job).text}"
    return (f"{asked.reason} {found.clock.near(asked.decided_at, found.moment)}: {came_to}",)
