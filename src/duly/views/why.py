"""Why: gathers what is known of a moment or a job, and lets ``policy.why`` explain it."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from duly.errors import DulyError, NotFound
from duly.model.fire import CLOCK, Cause, Outcome, StoredFire
from duly.model.job import Job
from duly.model.schedule import PROMPT, StoredSchedule
from duly.model.states import ENDED, State
from duly.policy.sentences import clock_changes
from duly.policy.why import (
    AbsenceEvidence,
    AskedTime,
    Explanation,
    JobEvidence,
    LaneEvidence,
    LocalClock,
    MomentEvidence,
    ScheduleChange,
    SuggestedCommand,
    about,
    explain_absence,
    explain_job,
    explain_moment,
    read_time,
)
from duly.policy.why.answer import plural
from duly.rules import Spaced, clock_change_notes
from duly.store.store import Store
from duly.store.values import AHEAD
from duly.views.flow_page import lineage_of
from duly.views.overdue import find_overdue, runs_due
from duly.views.schedules import schedule_named, upcoming_one
from duly.views.workers import is_gone, present

ENOUGH_RUNS = 3  # to say what is usual
# So near to a moment, what the clocks on the walls did belongs to its story.
SAME_NIGHT = timedelta(hours=3)
MICROSECOND = timedelta(microseconds=1)


async def why_schedule(store: Store, name: str, at: datetime | str | None = None) -> str:
    """Why a schedule did, or did not, what it should at a time; without one, the last time."""
    return str(await answer_schedule(store, name, at))


async def why_job(store: Store, number: int) -> str:
    return str(await answer_job(store, number))


async def answer_schedule(store: Store, name: str, at: datetime | str | None = None) -> Explanation:
    schedule = await schedule_named(store, name)
    now = (await store.upkeep.progress()).now
    try:
        zone = schedule.plan.shown_zone
    except DulyError as error:
        return Explanation(sentence=f"{name} stands still: {error}.")
    if at is None:
        return await _latest(store, schedule, now)
    asked = read_time(at, zone=zone, now=now)
    moment = _moment_in(schedule, asked)
    fire = await _row(store, schedule, asked, moment)
    if fire is None:
        return await _absent(store, schedule, asked, moment=moment, now=now)
    within = asked.start <= fire.due_at < asked.until or moment is None
    return await answer_moment(store, schedule, fire, moment=fire.due_at if within else moment)


async def answer_job(store: Store, number: int, *, zone: str | None = None) -> Explanation:
    """On the clock of a zone; else on its schedule's."""
    job = await store.jobs.get(number)
    now = (await store.upkeep.progress()).now
    made_by = None
    if job.schedule_id is not None:
        made_by = await store.evidence.schedule(job.schedule_id)
    found = await _of_job(store, job, made_by, now)
    return explain_job(found if zone is None else replace(found, zone=zone))


async def answer_moment(
    store: Store,
    schedule: StoredSchedule,
    fire: StoredFire,
    *,
    moment: datetime | None = None,
    zone: str | None = None,
) -> Explanation:
    """What a row of the ledger says about a moment, and what has become of it since.

    On the clock of a zone; else on the schedule's.
    """
    now = (await store.upkeep.progress()).now
    due, evidence = moment or fire.due_at, store.evidence
    into = other = None
    if fire.outcome is Outcome.MERGED:
        into = await evidence.run_after(schedule.id, due)
    if fire.cause is Cause.OVERLAP:
        other = await evidence.run_in_the_way(schedule.id, fire.decided_at)
    run = into or fire
    job = await _job(store, run.job_id)
    later = await _backfill(store, schedule, fire, due)
    later_job = None if later is None else await _job(store, later.job_id)

    async def known(one: Job | None) -> JobEvidence | None:
        found = None if one is None else await _of_job(store, one, schedule, now)
        return found if found is None or zone is None else replace(found, zone=zone)

    return explain_moment(
        MomentEvidence(
            schedule=schedule,
            fire=fire,
            moment=due,
            now=now,
            job=await known(job),
            into=into,
            in_the_way=await known(other),
            last_decision=await evidence.last_decision(fire.decided_at),
            notes=_clock_notes(schedule, due - SAME_NIGHT, due, past=True),
            backfill=later,
            backfill_job=await known(later_job),
            zone=zone,
        )
    )


def silent_until(
    schedule: StoredSchedule, now: datetime
) -> tuple[str, tuple[SuggestedCommand, ...]]:
    """Say why a schedule fires nothing whose cursor is in the future, and what helps."""
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
        said = (f"the run before: {one.sentence}" for one in before)
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
    """The last moment that was due and that nobody has decided about."""
    kept = schedule.plan.kept
    due = schedule.next_at if isinstance(kept, Spaced) else kept.at_or_before(now)
    return due if due is not None and schedule.cursor < due <= now else None


def _moment_in(schedule: StoredSchedule, asked: AskedTime) -> datetime | None:
    """The first moment of the rule in the stretch that is asked about, or in its repetition."""
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
        if rows:  # somebody asked for it; the clock may have said its part in a row for many
            over = None if moment is None else await store.ledger.covering(name, moment)
            return over or _latest_of(rows, rows[-1].due_at)
    return None if moment is None else await store.ledger.covering(name, moment)


def _latest_of(rows: Sequence[StoredFire], moment: datetime) -> StoredFire:
    """Of a moment that was asked for several times, the last time."""
    return next(row for row in rows if row.due_at == moment)


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
            changes=tuple(ScheduleChange(at, who, what) for at, who, what in changes),
            last_decision=await store.evidence.last_decision(now),
            scheduler_is_running=late is None or late.scheduler_is_running,
            notes=_clock_notes(schedule, asked.start - SAME_NIGHT, asked.until, past=False),
        )
    )


async def _neighbours(
    store: Store, schedule: StoredSchedule, asked: AskedTime
) -> tuple[datetime | None, datetime | None]:
    kept, name = schedule.plan.kept, schedule.plan.name
    if not isinstance(kept, Spaced):
        return kept.at_or_before(asked.start - MICROSECOND), kept.after(asked.until - MICROSECOND)
    earlier = await store.ledger.fires(name, until=asked.start, limit=1)
    later = await store.evidence.run_after(schedule.id, asked.start)
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
    """The last time that somebody asked for a moment of the clock that had passed."""
    if fire.series != CLOCK:
        return None
    rows = await store.ledger.fires(
        schedule.plan.name, since=moment, until=moment + MICROSECOND, limit=100
    )
    return next((row for row in rows if row.is_backfill), None)


async def _job(store: Store, number: int | None) -> Job | None:
    try:
        return None if number is None else await store.jobs.get(number)
    except NotFound:
        return None


async def _of_job(
    store: Store, job: Job, schedule: StoredSchedule | None, now: datetime
) -> JobEvidence:
    workers = {info.id: info for info in await store.work.workers()}
    runner = None if job.worker is None else workers.get(job.worker)
    tried = job.fence > 1 or job.state not in (State.SUCCEEDED, State.RUNNING)
    found = JobEvidence(
        job=job,
        now=now,
        schedule=None if schedule is None else schedule.plan.name,
        zone="UTC" if schedule is None else schedule.plan.shown_zone,
        attempts=await store.jobs.attempts(job.id) if tried else (),
        runner=runner,
        is_gone=runner is not None and is_gone(runner),
        living=[info for info in present(workers.values()) if info.lease_until > now],
        usual=None if schedule is None else await _usual(store, schedule.id),
        flow=await store.jobs.flow(job.id) if _may_be_flow(job) else None,
        lineage=await lineage_of(store, job),
    )
    if job.state is State.RUNNING:
        return replace(
            found,
            note=await store.journal.note(job.id),
            stopping=await store.evidence.asked_to_stop(job.id),
        )
    if job.state not in (State.READY, State.BLOCKED):
        return found
    return replace(
        found,
        queue=next((one for one in await store.work.queues() if one.name == job.queue), None),
        running_in_queue=await store.evidence.running_in(job.queue),
        ahead=await store.evidence.count_ahead(job.id) if job.state is State.READY else 0,
        lane=await _lane(store, job.waits_for) if job.waits == "limit" else None,
        behind=await _behind(store, job, now) if job.waits is None else None,
    )


def _may_be_flow(job: Job) -> bool:
    return job.waits == "steps" or job.state in ENDED


async def _usual(store: Store, schedule: int) -> timedelta | None:
    lengths = await store.evidence.past_runs(schedule)
    return sorted(lengths)[len(lengths) // 2] if len(lengths) >= ENOUGH_RUNS else None


async def _lane(store: Store, name: str | None) -> LaneEvidence | None:
    lane = next((lane for lane in await store.limits.listed() if lane.name == name), None)
    if lane is None:
        return None
    return LaneEvidence(
        name=lane.name,
        concurrency=lane.concurrency,
        rate=lane.rate,
        running=lane.running,
        waiting=lane.waiting,
    )


async def _behind(store: Store, job: Job, now: datetime) -> Job | None:
    if job.schedule_id is None or job.state is not State.BLOCKED:
        return None
    first = await store.evidence.run_in_the_way(job.schedule_id, now)
    return first if first is not None and first.id != job.id else None
