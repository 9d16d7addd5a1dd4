"""How things stand: was everything kept, what needs somebody, what runs, what comes next."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.errors import NotFound
from duly.instants import HORIZON
from duly.model.flow import FlowProgress
from duly.model.job import Job
from duly.policy.why import Clock, first_line
from duly.store.protocol import Store
from duly.views.counts import LATE, Counts, counted
from duly.views.day_strip import Strip, StripView
from duly.views.flow_page import Awaits
from duly.views.late import LateRun
from duly.views.needs import Need, needs
from duly.views.overdue import Overdue, find_overdue
from duly.views.upcoming import upcoming

__all__ = ["AwaitingStep", "Coming", "Counts", "Need", "RunningJob", "Status", "counted", "status"]

WINDOW = timedelta(hours=24)
MOST_RUNNING = 10
MOST_NEXT = 5
MOST_AWAITING = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    id: int
    name: str  # of its title, or its task
    since: datetime
    percent: float | None = None
    message: str = ""


class AwaitingStep(NamedTuple):
    """A step that goes on when somebody, or something, says so."""

    id: int  # of its job
    flow: int
    name: str  # of its flow
    awaits: Awaits


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    name: str
    due_at: datetime
    zone: str
    overdue: bool = False  # no scheduler has fired it


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    now: datetime
    since: datetime
    counts: Counts
    needs: Sequence[Need] = ()
    running: Sequence[RunningJob] = ()
    running_count: int = 0
    awaiting: Sequence[AwaitingStep] = ()  # those that give up soonest
    coming: Sequence[Coming] = ()
    scheduled: bool = True  # whether there is any schedule
    late: Sequence[LateRun] = ()  # the last that were kept, and late
    strip: StripView | None = None  # where somebody looks again and again
    overdue: Overdue | None = None

    @property
    def ok(self) -> bool:
        return not self.needs

    def headline(self, zone: str = "UTC", *, brief: bool = False) -> str:
        """One of four sentences; ``brief``: without the numbers, which then stand beside it."""
        clock = Clock(zone, self.now)
        if self.overdue is not None:
            counted = self.overdue.counted
            return f"{counted} overdue." if brief else self.overdue.sentence(zone)
        if self.needs:
            count = len(self.needs)
            many = "1 promise needs you" if count == 1 else f"{count} promises need you"
            return f"{many}." if brief else f"{many} ({self._of_all(clock)})."
        if not self.scheduled:
            return "Nothing is scheduled yet."
        if not self.counts.due:
            return f"All is kept: nothing was due since {self._start(clock)}."
        if self.counts.not_kept:
            some = f"{self.counts.kept:,} of {self.counts.due:,} due since {self._start(clock)}"
            return f"{some} were kept, and nothing else needs you."
        ended = self.counts.kept
        under_way = f"; {self.counts.under_way:,} under way" if self.counts.under_way else ""
        return f"All {ended:,} due since {self._start(clock)} were kept{under_way}."

    def _of_all(self, clock: Clock) -> str:
        """What somebody runs by hand, or has promised, needs them and was not due by a schedule."""
        if not self.counts.due:
            return f"no schedule was due since {self._start(clock)}"
        due, kept = self.counts.due, self.counts.kept
        return f"{due:,} due since {self._start(clock)}, {kept:,} kept"

    def _start(self, clock: Clock) -> str:
        *day, time = clock.near(self.since).split()
        return f"yesterday {time[:5]}" if day else time[:5]


async def status(store: Store, strip: Strip | None = None, *, zone: str | None = None) -> Status:
    """How things stand; with a strip, by its counts and its hours.

    Times in sentences are in the zone; without one, each is in that of its schedule.
    """
    progress = await store.upkeep.progress()
    view = None if strip is None else await strip.look(store, progress.now)
    since = progress.now - WINDOW if view is None else view.since
    overdue = await find_overdue(store, progress.now) if view is None else view.overdue
    return Status(
        now=progress.now,
        since=since,
        counts=await _counts(store, since, overdue) if view is None else view.counts,
        strip=view,
        needs=await needs(store, progress, overdue, since=progress.now - WINDOW, zone=zone),
        running=await _running(store),
        running_count=progress.running,
        awaiting=await _awaiting(store),
        coming=await _coming(store, progress.now),
        scheduled=bool(await store.schedules.page(limit=1)),
        overdue=overdue,
    )


async def _counts(store: Store, since: datetime, overdue: Overdue | None) -> Counts:
    found = counted(await store.evidence.tallies(since, late=LATE))
    return found if overdue is None else replace(found, overdue=overdue.runs)


async def _running(store: Store) -> list[RunningJob]:
    """What has run longest."""
    jobs = await store.evidence.running(limit=MOST_RUNNING)
    flows = await store.jobs.flow_progress([job.id for job in jobs if job.waits == "steps"])
    return [
        _flow(job, flows[job.id]) if job.id in flows else await _one(store, job) for job in jobs
    ]


async def _one(store: Store, job: Job) -> RunningJob:
    note = await store.journal.note(job.id)
    mine = note if note is not None and note.attempt == job.attempt else None
    return RunningJob(
        id=job.id,
        name=job.title or job.task,
        since=job.claimed_at or job.ready_at,
        percent=None if mine is None else mine.percent,
        message="" if mine is None else first_line(mine.message),
    )


def _flow(job: Job, flow: FlowProgress) -> RunningJob:
    done = flow.steps - flow.remaining
    return RunningJob(
        id=job.id,
        name=job.title or job.task,
        since=job.claimed_at or job.ready_at,
        percent=100 * done / flow.steps,
        message=f"{done:,} of {flow.steps:,} steps",
    )


async def _awaiting(store: Store) -> list[AwaitingStep]:
    found = []
    for job in await store.evidence.awaiting(limit=MOST_AWAITING):
        awaits = Awaits.of(job)
        if awaits is not None and job.parent is not None:
            with suppress(NotFound):  # removed a moment ago
                flow = await store.jobs.get(job.parent)
                found.append(AwaitingStep(job.id, flow.id, flow.title or flow.task, awaits))
    return found


async def _coming(store: Store, now: datetime) -> list[Coming]:
    """Return the runs that are due next, overdue ones first.

    Some more are asked for than are shown: those that are skipped in advance come later.
    """
    found = await upcoming(store, await store.evidence.due_before(HORIZON, limit=MOST_NEXT * 10))
    next_ones = [
        Coming(
            name=one.plan.name,
            due_at=one.overdue_at(now) or one.next_at,
            zone=one.plan.shown_zone,
            overdue=one.overdue_at(now) is not None,
        )
        for one in found
        if one.next_at is not None
    ]
    return sorted(next_ones, key=lambda one: (one.due_at, one.name))[:MOST_NEXT]
