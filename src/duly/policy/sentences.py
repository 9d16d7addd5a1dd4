"""The reasons in the ledger, as sentences.

A reason is written when the moment is decided, so it says what was true then. Moments are shown in
the zone of the schedule.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from duly.durations import SECOND, say_duration
from duly.errors import DulyError
from duly.model.policies import Missed
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.decision import LiveJob
from duly.rules import local_time


def queued(moment: datetime, now: datetime, blocked: str) -> str:
    late = now - moment
    on_time = "on time" if late < SECOND else f"{_about(late)} late"
    return f"queued {on_time}; {blocked}" if blocked else f"queued {on_time}"


def by_hand(who: str, queued: str) -> str:
    """Return the reason of a run that a person asked for."""
    blocked = queued.partition("; ")[2] if queued.startswith("queued ") else queued
    said = f"run by hand by {who}" if who else "run by hand"
    return f"{said}; {blocked}" if blocked else said


def merged(plan: Plan, into: datetime) -> str:
    return f"merged into the run of {shown(into, plan)}"


def took_over(waiting: LiveJob, plan: Plan) -> str:
    older = shown(waiting.due_at, plan)
    return (
        f'overlap="{plan.policies.overlap}": takes the place of the run of {older}, not yet begun'
    )


def waits(behind: LiveJob, plan: Plan, *, stopping: bool) -> str:
    asked = ", which was asked to stop" if stopping else ""
    return f"waits for the run of {shown(behind.due_at, plan)}{asked}"


def overlap(job: LiveJob, plan: Plan) -> str:
    which = f" (job {job.id})" if job.id is not None else ""
    return (
        f'overlap="skip", and the run of {shown(job.due_at, plan)}{which} has not ended: '
        f"it is {job.state}"
    )


def full(waiting: int) -> str:
    return f"{waiting:,} jobs of this schedule wait already"


def missed(policy: Missed) -> str:
    if policy.policy == "skip":
        return f'no scheduler was running; missed="skip" after {say_duration(policy.grace)}'
    return f'no scheduler was running; missed="all" catches up the newest {policy.at_most:,} runs'


def late(within: timedelta) -> str:
    return f"could not start within {say_duration(within)} of its due time"


def excluded(plan: Plan) -> str:
    return (
        f'left out by exclude="{plan.policies.exclude}"'
        if plan.policies.exclude
        else (f'left out by its own rule, "{plan.rule}"')
    )


def paused(schedule: StoredSchedule) -> str:
    pause = schedule.pause
    if pause is None:
        return "the schedule was paused"
    by = f" by {pause.by}" if pause.by else ""
    note = f": {pause.note}" if pause.note else ""
    return f"the schedule was paused{by} since {shown(pause.since, schedule.plan)}{note}"


def clock_changes(notes: Sequence[str]) -> str:
    """Put notes about coming clock changes into the past tense."""
    return " ".join(
        note.replace(": will not run", ": not due").replace(": will run", ": due") for note in notes
    )


def asked(by: str) -> str:
    return f"skipped because {by or 'somebody'} asked for it in advance"


def skipped_moments(moments: Sequence[datetime], plan: Plan) -> str:
    if len(moments) == 1:
        return f"skipped {shown(moments[0], plan)}"
    first, last = (shown(moment, plan) for moment in (moments[0], moments[-1]))
    return f"skipped {len(moments):,} runs, {first} to {last}"


def backfilled(by: str) -> str:
    return f"backfilled by {by or 'somebody'}"


def backfill(since: datetime, until: datetime, moments: int, *, plan: Plan) -> str:
    first, end = (shown_whole(moment, plan) for moment in (since, until))
    return f"backfilled {first} to {end}, {moments:,} run{'s' * (moments != 1)}"


def shown_whole(moment: datetime, plan: Plan) -> str:
    """Return the moment in the schedule's zone, without microseconds."""
    try:
        zone = plan.shown_zone
    except DulyError:  # a schedule that cannot be read can still be paused
        zone = "UTC"
    return _on_the_clock_of(zone, moment.replace(microsecond=0))


def shown(moment: datetime, plan: Plan) -> str:
    return _on_the_clock_of(plan.shown_zone, moment)


def _on_the_clock_of(zone: str, moment: datetime) -> str:
    local = local_time(moment, zone).replace(tzinfo=None)
    whole = local.isoformat(" ", "minutes" if not (local.second or local.microsecond) else "auto")
    return f"{local:%a} {whole} {zone}"


def _about(length: timedelta) -> str:
    return _seconds(round(length.total_seconds()))


@lru_cache(maxsize=1024)
def _seconds(count: int) -> str:
    return say_duration(timedelta(seconds=count))
