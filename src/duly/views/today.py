"""Today: were all runs OK, what needs attention, what is running, what is next."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta

from duly.clock import boottime
from duly.errors import NotFound
from duly.instants import HORIZON
from duly.model.fire import StoredFire
from duly.model.flow import FlowProgress
from duly.model.job import StoredJob
from duly.model.schedule import StoredSchedule
from duly.policy.redaction import redacted
from duly.policy.why import LocalClock, first_line
from duly.store.store import Store
from duly.views import filled
from duly.views.attention import Need, needs
from duly.views.charts import DayStrip, StripView
from duly.views.fires import LATE, Counts, counted
from duly.views.flow import Awaits
from duly.views.overdue import OverdueRuns, find_overdue
from duly.views.schedules import upcoming
from duly.views.why import answer_moment

WINDOW = timedelta(hours=24)
MOST_RUNNING = 10
MOST_NEXT = 5
MOST_AWAITING = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that is running."""

    id: int
    name: Annotated[str, Meta(description="Its title, or its task.")]
    since: datetime
    percent: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingStep(Awaits):
    """A step of a flow that waits for an event: POST /api/v1/events answers it."""

    id: int  # of its job
    flow: int
    name: Annotated[str, Meta(description="The name of its flow.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """The next run of a schedule."""

    name: str
    due_at: datetime
    zone: str
    overdue: Annotated[bool, Meta(description="Due, and not fired yet.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRun:
    schedule: str
    due_at: datetime
    job_id: int | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    now: datetime
    since: datetime
    counts: Counts
    needs: Sequence[Need] = ()
    running: Sequence[RunningJob] = ()
    running_count: int = 0
    awaiting: Sequence[AwaitingStep] = ()  # those with the earliest timeout
    coming: Sequence[NextRun] = ()
    scheduled: bool = True  # whether there is any schedule
    late: Sequence[LateRun] = ()  # the last that were kept, and late
    strip: StripView | None = None  # only for callers that poll
    overdue: OverdueRuns | None = None

    @property
    def ok(self) -> bool:
        return not self.needs

    def headline(self, zone: str = "UTC", *, brief: bool = False) -> str:
        """Summarize the status in one sentence; ``brief`` omits the numbers shown beside it."""
        clock = LocalClock(zone, self.now)
        if self.overdue is not None:
            counted = self.overdue.counted
            return f"{counted} overdue." if brief else self.overdue.sentence(zone)
        if self.needs:
            count = len(self.needs)
            many = "1 item needs attention" if count == 1 else f"{count} items need attention"
            return f"{many}." if brief else f"{many} ({self._of_all(clock)})."
        if not self.scheduled:
            return "Nothing is scheduled yet."
        if not self.counts.due:
            return f"All OK: nothing was due since {self._start(clock)}."
        if self.counts.failed:
            some = (
                f"{self.counts.succeeded:,} of {self.counts.due:,} due since {self._start(clock)}"
            )
            return f"{some} were OK, and nothing needs attention."
        ended = self.counts.succeeded
        in_progress = (
            f"; {self.counts.in_progress:,} in progress" if self.counts.in_progress else ""
        )
        runs, were = ("1 run", "was") if ended == 1 else (f"All {ended:,} runs", "were")
        return f"{runs} since {self._start(clock)} {were} OK{in_progress}."

    def _of_all(self, clock: LocalClock) -> str:
        """Count the scheduled runs. An item may need attention although no schedule was due."""
        if not self.counts.due:
            return f"no schedule was due since {self._start(clock)}"
        due, kept = self.counts.due, self.counts.succeeded
        return f"{due:,} due since {self._start(clock)}, {kept:,} OK"

    def _start(self, clock: LocalClock) -> str:
        *day, time = clock.near(self.since).split()
        return f"yesterday {time[:5]}" if day else time[:5]


@dataclass(frozen=True, slots=True, kw_only=True)
class TodayView:
    """Show whether all runs since yesterday were OK, and the items that need attention."""

    headline: str
    ok: Annotated[bool, Meta(description="Nothing needs attention.")]
    now: datetime
    since: datetime
    due: int
    succeeded: int
    late: Annotated[int, Meta(description="Succeeded, and started late.")]
    in_progress: int
    failed: Annotated[int, Meta(description="Missed or failed.")]
    overdue: Annotated[int, Meta(description="Due, and not fired: no scheduler is running.")]
    merged: Annotated[int, Meta(description="Replaced by another run; not counted as due.")]
    skipped: Annotated[int, Meta(description="Skipped on purpose; not counted as due.")]
    needs: Annotated[Sequence[Need], Meta(description="What needs attention.")]
    running: Sequence[RunningJob]
    running_count: int
    awaiting: Annotated[Sequence[AwaitingStep], Meta(description="The first to time out, first.")]
    next: Sequence[NextRun]

    @classmethod
    def of(cls, found: Status, zone: str) -> "TodayView":
        headline = found.headline(zone)
        return filled(cls, found.counts, found, headline=headline, next=found.coming)


async def status(store: Store, strip: DayStrip | None = None, *, zone: str | None = None) -> Status:
    """Return the current status; with a strip, its counts and hours come from there.

    Times in sentences are in ``zone``; without one, each is in the zone of its schedule.
    """
    progress = await store.maintenance.progress()
    due = await store.activity.due_before(HORIZON, limit=MOST_NEXT * 10)
    view = None if strip is None else await strip.look(store, progress.now, first=due)
    since = progress.now - WINDOW if view is None else view.since
    if view is None:
        overdue = await find_overdue(store, progress.now, first=due)
    else:
        overdue = view.overdue
    return Status(
        now=progress.now,
        since=since,
        counts=await _counts(store, since, overdue) if view is None else view.counts,
        strip=view,
        needs=await needs(store, progress, overdue, since=progress.now - WINDOW, zone=zone),
        running=await _running(store),
        running_count=progress.running,
        awaiting=await _awaiting(store),
        coming=await _coming(store, due, progress.now),
        scheduled=bool(due) or bool(await store.schedules.page(limit=1)),
        overdue=overdue,
    )


async def _counts(store: Store, since: datetime, overdue: OverdueRuns | None) -> Counts:
    found = counted(await store.activity.tallies(since, late=LATE))
    return found if overdue is None else replace(found, overdue=overdue.runs)


async def _running(store: Store) -> list[RunningJob]:
    """Return the running jobs and flows, longest-running first."""
    jobs = await store.activity.running(limit=MOST_RUNNING)
    parents = [job.id for job in jobs if job.waits == "steps"]
    flows = await store.jobs.flow_progress(parents) if parents else {}
    return [await _running_job(store, job, flows.get(job.id)) for job in jobs]


async def _running_job(store: Store, job: StoredJob, flow: FlowProgress | None) -> RunningJob:
    """Return a running job with its reported progress; of a flow, how many steps are done."""
    percent, message = None, ""
    if flow is not None:
        done = flow.steps - flow.remaining
        percent, message = 100 * done / flow.steps, f"{done:,} of {flow.steps:,} steps"
    else:
        note = await store.journal.note(job.id)
        if note is not None and note.attempt == job.attempt:
            percent, message = note.percent, redacted(first_line(note.message))
    return RunningJob(
        id=job.id,
        name=redacted(job.title or job.task),
        since=job.claimed_at or job.ready_at,
        percent=percent,
        message=message,
    )


async def _awaiting(store: Store) -> list[AwaitingStep]:
    found = []
    for job in await store.activity.awaiting(limit=MOST_AWAITING):
        awaits = Awaits.shown(job)
        if awaits is not None and job.parent is not None:
            with suppress(NotFound):  # removed a moment ago
                flow = await store.jobs.get(job.parent)
                name = redacted(flow.title or flow.task)
                found.append(filled(AwaitingStep, awaits, id=job.id, flow=flow.id, name=name))
    return found


async def _coming(store: Store, due: Sequence[StoredSchedule], now: datetime) -> list[NextRun]:
    """Return the runs that are due next, overdue ones first.

    More schedules are read than are shown, because runs skipped in advance move back.
    """
    found = await upcoming(store, due)
    next_ones = [
        NextRun(
            name=one.plan.name,
            due_at=one.overdue_at(now) or one.next_at,
            zone=one.plan.shown_zone,
            overdue=one.overdue_at(now) is not None,
        )
        for one in found
        if one.next_at is not None
    ]
    return sorted(next_ones, key=lambda one: (one.due_at, one.name))[:MOST_NEXT]


MOST = 10
PAUSE_SECONDS = 10.0


class LateRuns:
    """Made once in a process, for one store: it asks again when other hours have some."""

    def __init__(self, zone: str = "UTC") -> None:
        self._zone = zone
        self._seen: list[tuple[datetime, int]] = []
        self._known: list[LateRun] = []
        self._asked_at = -PAUSE_SECONDS

    async def look(self, store: Store, view: StripView) -> list[LateRun]:
        seen = [(cell.start, cell.counts.late) for cell in view.hours if cell.counts.late]
        if seen != self._seen and boottime() - self._asked_at >= PAUSE_SECONDS:
            self._known = await _late(
                store, [start for start, _ in seen], view.now, zone=self._zone
            )
            self._seen, self._asked_at = seen, boottime()
        return self._known


async def _late(
    store: Store, hours: Sequence[datetime], until: datetime, *, zone: str
) -> list[LateRun]:
    """Return late runs, newest hour first, reading only the hours that have some.

    A run may have been decided long after it was due.
    """
    found: list[LateRun] = []
    for hour in reversed(hours):
        left = MOST - len(found)
        for row in await store.activity.late_moments(hour, until, late=LATE, limit=left):
            found += await _said(store, row, zone)
        if len(found) >= MOST:
            break
        until = hour
    return found


async def _said(store: Store, row: StoredFire, zone: str) -> list[LateRun]:
    """Return the explained late run; an empty list if its schedule no longer exists."""
    schedule = await store.activity.schedule(row.schedule_id)
    if schedule is None:
        return []
    answer = await answer_moment(store, schedule, row, zone=zone)
    return [
        LateRun(
            schedule=schedule.plan.name,
            due_at=row.due_at,
            job_id=row.job_id,
            sentence=answer.short or answer.sentence,
        )
    ]


FRESH_SECONDS = 0.8


class TodayCache:
    """Caches the status for concurrent readers. Created once per process, for one store."""

    def __init__(self) -> None:
        self._strip = DayStrip()
        self._lock = asyncio.Lock()
        self._late: dict[str, LateRuns] = {}
        self._known: dict[str, tuple[float, Status]] = {}  # by zone
        self._overdue: OverdueRuns | None = None
        self._overdue_asked_at = -FRESH_SECONDS

    async def look(self, store: Store, zone: str) -> Status:
        """Return the current status, with all times in one zone, from a short-lived cache."""
        async with self._lock:
            asked_at, known = self._known.get(zone, (0.0, None))
            if known is not None and boottime() - asked_at <= FRESH_SECONDS:
                return known
            found = await status(store, self._strip, zone=zone)
            runs = self._late.setdefault(zone, LateRuns(zone))
            late = await runs.look(store, found.strip) if found.strip else ()
            fresh = replace(found, late=late)
            self._known[zone] = (boottime(), fresh)
            self._overdue, self._overdue_asked_at = found.overdue, boottime()
            return fresh

    async def overdue(self, store: Store) -> OverdueRuns | None:
        """Return the overdue runs, which every page shows first; cached for concurrent pages."""
        if boottime() - self._overdue_asked_at > FRESH_SECONDS:
            self._overdue_asked_at = boottime()
            self._overdue = await find_overdue(store, await store.diagnostics.now())
        return self._overdue
