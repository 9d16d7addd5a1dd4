"""Gather the evidence with which ``policy.why`` explains a schedule, a moment or a job."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta

from duly.durations import MICROSECOND, about, show_duration
from duly.engine.death_watch import is_gone, present
from duly.errors import DulyError, NotFound
from duly.model.fire import CLOCK, Cause, Outcome, StoredFire
from duly.model.job import StoredJob
from duly.model.schedule import PROMPT, StoredSchedule
from duly.model.states import ENDED, State
from duly.policy.redaction import redacted
from duly.policy.sentences import clock_changes
from duly.policy.why import (
    AbsenceEvidence,
    AskedTime,
    Explanation,
    JobEvidence,
    Lineage,
    LocalClock,
    MomentEvidence,
    SuggestedCommand,
    explain_absence,
    explain_job,
    explain_moment,
    read_time,
    what_is_missing,
)
from duly.policy.why.answer import plural
from duly.rules import Spaced, clock_change_notes
from duly.store.maintenance import AHEAD
from duly.store.records import JobRecord
from duly.store.store import Store
from duly.views import FilledView, Made, Text, Texts, filled
from duly.views.access import own_record
from duly.views.flow import lineage_of
from duly.views.overdue import find_overdue, runs_due
from duly.views.schedules import schedule_named, upcoming_one

ENOUGH_RUNS = 3  # needed to know the usual run time
# A clock change this near to a moment is mentioned in its explanation.
SAME_NIGHT = timedelta(hours=3)


def redacted_commands(found: Iterable[SuggestedCommand]) -> tuple[SuggestedCommand, ...]:
    return tuple(replace(one, line=redacted(one.line)) for one in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView(FilledView):
    """The outcome of a job or of a scheduled run, and its reason."""

    sentence: Text
    lineage: Annotated[Lineage | None, Meta(description="The flow that the job is a step of.")]
    evidence: Texts
    attempts: Annotated[Texts, Meta(description="A line for each of the last failed attempts.")]
    commands: Annotated[tuple[SuggestedCommand, ...], Made(redacted_commands)]

    def __str__(self) -> str:
        """The sentence, and below it the evidence and the commands."""
        return str(filled(Explanation, self, short=""))


async def why_schedule(store: Store, name: str, at: datetime | str | None = None) -> str:
    """Explain what a schedule did, or did not do, at a time; by default, when it was last due."""
    return str(await answer_schedule(store, name, at))


async def why_job(store: Store, number: int, *, tenant: str | None = None) -> str:
    """Explain where a job is, or how it ended."""
    return str(await answer_job(store, number, tenant=tenant))


async def answer_schedule(store: Store, name: str, at: datetime | str | None = None) -> WhyView:
    """Return the explanation of ``why_schedule`` as a view."""
    return WhyView.of(await _answer_schedule(store, name, at))


async def answer_job(store: Store, number: int, *, tenant: str | None = None) -> WhyView:
    """Return the explanation of ``why_job`` as a view."""
    return WhyView.of(explain_job(evidence_of(await own_record(store, number, tenant))))


async def unfinished(store: Store, job: StoredJob, *, waited: timedelta | None) -> str:
    """Word the state of a job for a caller that stops waiting for it."""
    after = f" after {show_duration(waited)}" if waited else ""
    said = f"job {job.id} ({job.title or job.task}) is {job.state}{after}"
    hindered = await hindrance(store, job)
    if hindered is not None:
        return f"{said}: {hindered}"
    because = f": {job.reason}" if job.reason else ""
    return f"{said}{because}; it goes on without you"


async def hindrance(store: Store, job: StoredJob) -> str | None:
    """Return why no worker will start a job and which command helps; None if nothing hinders it."""
    if job.state is not State.READY and job.waits != "worker":
        return None
    queues = await store.work.queues()
    if any(queue.paused for queue in queues if queue.name == job.queue):
        resume = f"duly queues resume {shlex.quote(job.queue)}"
        return f'it waits: queue "{job.queue}" is paused; resume it: {resume}'
    living = present(await store.work.living())
    missing = what_is_missing(living, task=job.task, queue=job.queue, needs=job.needs)
    if missing is None:
        return None
    text, command = missing
    remedy = f"; {command.what}: {command.line}" if command else ""
    return f"it waits for a worker: {text}{remedy}"


async def _answer_schedule(store: Store, name: str, at: datetime | str | None) -> Explanation:
    schedule = await schedule_named(store, name)
    now = (await store.maintenance.progress()).now
    try:
        zone = schedule.plan.shown_zone
    except DulyError as error:
        return Explanation(sentence=f"{name} cannot be fired: {error}.")
    if at is None:
        return await _latest(store, schedule, now)
    asked = read_time(at, zone=zone, now=now)
    moment = _moment_in(schedule, asked)
    fire = await _row(store, schedule, asked, moment)
    if fire is None:
        return await _absent(store, schedule, asked, moment=moment, now=now)
    within = asked.start <= fire.due_at < asked.until or moment is None
    return await answer_moment(store, schedule, fire, moment=fire.due_at if within else moment)


async def answer_moment(
    store: Store,
    schedule: StoredSchedule,
    fire: StoredFire,
    *,
    moment: datetime | None = None,
    zone: str | None = None,
) -> Explanation:
    """Explain a ledger entry and what has happened to its run since.

    Times are in ``zone``, by default in the schedule's zone.
    """
    now = (await store.maintenance.progress()).now
    due, activity = moment or fire.due_at, store.activity
    into = other = None
    if fire.outcome is Outcome.MERGED:
        into = await activity.run_after(schedule.id, due)
    if fire.cause is Cause.OVERLAP:
        other = await activity.run_in_the_way(schedule.id, fire.decided_at)
    run = into or fire
    later = await _backfill(store, schedule, fire, due)

    async def known(number: int | None) -> JobEvidence | None:
        found = await _record(store, number)
        return None if found is None else evidence_of(found, zone=zone)

    return explain_moment(
        MomentEvidence(
            schedule=schedule,
            fire=fire,
            moment=due,
            now=now,
            job=await known(run.job_id),
            into=into,
            in_the_way=await known(None if other is None else other.id),
            last_decision=await activity.last_decision(fire.decided_at),
            notes=_clock_notes(schedule, due - SAME_NIGHT, due, past=True),
            backfill=later,
            backfill_job=await known(None if later is None else later.job_id),
            zone=zone,
        )
    )


def silent_until(
    schedule: StoredSchedule, now: datetime
) -> tuple[str, tuple[SuggestedCommand, ...]]:
    """Explain why a schedule whose cursor is in the future fires nothing, and how to fix it."""
    clock = LocalClock(schedule.plan.shown_zone, now)
    ahead = about(schedule.cursor - now)
    said = (
        f"fires nothing until {clock.whole(schedule.cursor)}: it was fired while the store's clock "
        f"was ahead, which was set back since, and is dealt with for the next {ahead}"
    )
    name = schedule.plan.name
    return said, (
        SuggestedCommand("let it go on from now", f"duly schedules rewind {shlex.quote(name)}"),
        SuggestedCommand("let all such schedules go on", "duly schedules rewind --ahead"),
    )


async def _latest(store: Store, schedule: StoredSchedule, now: datetime) -> Explanation:
    """Explain the oldest run that is overdue; if none is, the last one that was due."""
    latest = (await store.ledger.latest([schedule.id])).get(schedule.id)
    if schedule.next_at is not None and schedule.cursor > now + AHEAD:
        silent, commands = silent_until(schedule, now)
        return Explanation(sentence=f"{schedule.plan.name} {silent}.", commands=commands)
    overdue = (await upcoming_one(store, schedule)).overdue_at(now)
    if overdue is not None:
        asked = AskedTime(start=overdue, until=overdue + MICROSECOND, text="")
        answer = await _absent(store, schedule, asked, moment=overdue, now=now)
        before = [] if latest is None else [await answer_moment(store, schedule, latest)]
        more = _overdue_since(schedule, overdue, now)
        said = (f"the previous run: {one.sentence}" for one in before)
        return replace(answer, evidence=(*more, *said, *answer.evidence))
    pending = _pending(schedule, now)
    stopped = schedule.pause is not None or schedule.fault is not None
    if pending is not None and (latest is None or stopped or now - pending >= PROMPT):
        asked = AskedTime(start=pending, until=pending + MICROSECOND, text="")
        return await _absent(store, schedule, asked, moment=pending, now=now)
    if latest is not None:
        return await answer_moment(store, schedule, latest)
    return explain_absence(AbsenceEvidence(schedule=schedule, now=now))


def _overdue_since(schedule: StoredSchedule, first: datetime, now: datetime) -> tuple[str, ...]:
    """Return the number of runs that were due after the first overdue one."""
    more = runs_due(schedule, first, now) - 1
    last = _pending(schedule, now)
    if more < 1 or last is None:
        return ()
    when = LocalClock(schedule.plan.shown_zone, now).near(last)
    are = "is" if more == 1 else "are"
    return (f"{plural(more, 'more run')} {are} overdue, the last was due {when}",)


def _pending(schedule: StoredSchedule, now: datetime) -> datetime | None:
    """Return the last due moment if no scheduler has decided it yet, else None."""
    kept = schedule.plan.kept
    if schedule.runs_left == 0:
        return None
    due = schedule.next_at if isinstance(kept, Spaced) else kept.at_or_before(now)
    return due if due is not None and schedule.cursor < due <= now else None


def _moment_in(schedule: StoredSchedule, asked: AskedTime) -> datetime | None:
    """Return the first moment of the rule in the time asked about, or in its repetition."""
    timing = schedule.plan.timing
    if isinstance(timing, Spaced):
        return None
    if asked.lost and not _clock_notes(schedule, asked.start - SAME_NIGHT, asked.start, past=True):
        return None
    length = asked.until - asked.start
    for start in (asked.start, asked.again):
        due = None if start is None else timing.after(start - MICROSECOND)
        if due is not None and start is not None and due < start + length:
            return due
    return None


async def _row(
    store: Store, schedule: StoredSchedule, asked: AskedTime, moment: datetime | None
) -> StoredFire | None:
    name, length = schedule.plan.name, asked.until - asked.start
    for start in (asked.start, asked.again):
        if start is None or (asked.lost and moment is None):
            continue
        rows = await store.ledger.fires(name, since=start, until=start + length, limit=1_000)
        clock = [row for row in rows[::-1] if row.series == CLOCK]
        if clock:
            return next((row for row in clock if row.due_at == (moment or start)), clock[0])
        if rows:  # a manual run; the clock's moment may be in a row that covers many
            over = None if moment is None else await store.ledger.covering(name, moment)
            # A moment may have been requested several times: the last request counts.
            return over or next(row for row in rows if row.due_at == rows[-1].due_at)
    return None if moment is None else await store.ledger.covering(name, moment)


async def _absent(
    store: Store,
    schedule: StoredSchedule,
    asked: AskedTime,
    *,
    moment: datetime | None,
    now: datetime,
) -> Explanation:
    before, after = await _neighbours(store, schedule, asked)
    late = await find_overdue(store, now)
    changes = await store.schedules.changes(schedule.plan.name)
    return explain_absence(
        AbsenceEvidence(
            schedule=schedule,
            now=now,
            asked=asked,
            moment=moment,
            before=before,
            after=after,
            changes=tuple(changes),
            last_decision=await store.activity.last_decision(now),
            scheduler_is_running=late is None or late.scheduler_is_running,
            notes=_clock_notes(schedule, asked.start - SAME_NIGHT, asked.until, past=False),
            last_run=await _last_run(store, schedule) if schedule.runs_left == 0 else None,
        )
    )


async def _last_run(store: Store, schedule: StoredSchedule) -> datetime | None:
    """Return the due moment of the last run of a schedule that has made its ``max_runs``."""
    fires = await store.ledger.fires(schedule.plan.name, limit=1_000)
    return next((one.due_at for one in fires if one.series == CLOCK and one.job_id), None)


async def _neighbours(
    store: Store, schedule: StoredSchedule, asked: AskedTime
) -> tuple[datetime | None, datetime | None]:
    kept, name = schedule.plan.kept, schedule.plan.name
    if not isinstance(kept, Spaced):
        return kept.at_or_before(asked.start - MICROSECOND), kept.after(asked.until - MICROSECOND)
    earlier = await store.ledger.fires(name, until=asked.start, limit=1)
    later = await store.activity.run_after(schedule.id, asked.start)
    after = schedule.next_at if later is None else later.due_at
    return (earlier[0].due_at if earlier else None), after


def _clock_notes(
    schedule: StoredSchedule, start: datetime, end: datetime, *, past: bool
) -> tuple[str, ...]:
    notes = clock_change_notes(schedule.plan.kept, start, within=end - start)
    return (clock_changes(notes),) if notes and past else tuple(notes)


async def _backfill(
    store: Store, schedule: StoredSchedule, fire: StoredFire, moment: datetime
) -> StoredFire | None:
    """Return the latest backfill of a due moment of the clock, if there is one."""
    if fire.series != CLOCK:
        return None
    rows = await store.ledger.fires(
        schedule.plan.name, since=moment, until=moment + MICROSECOND, limit=100
    )
    return next((row for row in rows if row.is_backfill), None)


async def _record(store: Store, number: int | None) -> JobRecord | None:
    try:
        return None if number is None else await store.records.job(number)
    except NotFound:
        return None


def evidence_of(record: JobRecord, *, zone: str | None = None) -> JobEvidence:
    """Collect the evidence that explains a job; times are in ``zone`` or its schedule's zone."""
    job, schedule, now = record.job, record.schedule, record.now
    runner = next((worker for worker in record.workers if worker.id == job.worker), None)
    may_be_flow = job.waits == "steps" or job.state in ENDED
    own_zone = "UTC" if schedule is None else schedule.plan.shown_zone
    return JobEvidence(
        job=job,
        now=now,
        zone=zone or own_zone,
        schedule=None if schedule is None else schedule.plan.name,
        attempts=record.attempts,
        note=record.note if job.state is State.RUNNING else None,
        runner=runner,
        usual=_usual(record.past_runs),
        stopping=record.stopping,
        is_gone=runner is not None and is_gone(runner),
        living=[worker for worker in present(record.workers) if worker.lease_until > now],
        flow=record.flow if may_be_flow else None,
        lineage=lineage_of(record),
        queue=record.queue,
        running_in_queue=record.running_in_queue,
        ahead=record.ahead,
        limit=record.limit,
        behind=None if record.behind is None or record.behind.id == job.id else record.behind,
    )


def _usual(lengths: Sequence[timedelta]) -> timedelta | None:
    return sorted(lengths)[len(lengths) // 2] if len(lengths) >= ENOUGH_RUNS else None
