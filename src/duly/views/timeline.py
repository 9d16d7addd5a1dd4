"""Past, running and upcoming runs on one time axis.

A bar is a job that has started; an upcoming run is drawn as long as the last runs were. Bars that
overlap in one lane collide: the timeline is there to show such collisions.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from duly.durations import usual_runtime
from duly.errors import RuleError
from duly.model.job import StoredJob
from duly.model.job_filter import Filter
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.store.store import Store
from duly.views.schedules import own_zone

MOST_JOBS: Final = 600
MOST_PAGES: Final = 5
MOST_RUNNING: Final = 200
MOST_LANES: Final = 30
MOST_COMING: Final = 40  # moments of each schedule
AHEAD: Final = 1 / 3  # the share of the axis that lies in the future

By: TypeAlias = Literal["schedule", "queue", "worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    start: datetime
    end: datetime
    state: str  # of the job; "coming": it is not there yet
    job_id: int | None
    schedule: str  # its name; empty: none has made it
    task: str
    queue: str
    worker: str = ""  # its name; empty: it is not known any more
    usual: bool = True  # whether its length is one that is known
    collides: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOfBars:
    name: str
    link: bool  # whether it is the name of a schedule
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    start: datetime
    now: datetime
    end: datetime
    lanes: Sequence[LaneOfBars]
    more: int  # lanes that are not shown
    cut: datetime | None  # too many jobs: those that ended before this are not shown
    collisions: int
    zone: str | None  # of the schedules, if they have one in common


async def timeline(
    store: Store,
    *,
    span: timedelta,
    now: datetime,
    schedule: str | None = None,
    by: By = "schedule",
) -> Timeline:
    start, end = now - span, now + span * AHEAD
    jobs, cut = await _ended(store, start, schedule)
    jobs += await _running(store, schedule)
    names = await store.jobs.schedule_names(
        sorted({job.schedule_id for job in jobs if job.schedule_id is not None})
    )
    workers = {one.id: one.name for one in await store.work.workers()} if by == "worker" else {}
    bars = [_bar(job, names, now, worker=workers.get(job.worker or 0, "")) for job in jobs]
    due = await _due(store, end, schedule)
    for one in due if by != "worker" else ():
        bars += await _coming(store, one, now=now, end=end)
    zones = {own_zone(one.plan) for one in due}
    lanes = _lanes(bars, by)
    return Timeline(
        start=start,
        now=now,
        end=end,
        lanes=lanes[:MOST_LANES],
        more=max(len(lanes) - MOST_LANES, 0),
        cut=cut,
        collisions=sum(bar.collides for lane in lanes[:MOST_LANES] for bar in lane.bars),
        zone=zones.pop() if len(zones) == 1 else None,
    )


async def _ended(
    store: Store, since: datetime, schedule: str | None
) -> tuple[list[StoredJob], datetime | None]:
    """Return the newest jobs that ended.

    If there were too many, also return the time back to which they are complete.
    """
    wanted = Filter(states=_ENDED, schedule=schedule, since=since)
    found: list[StoredJob] = []
    after: str | None = None
    for _ in range(MOST_PAGES):
        page = await store.jobs.find(wanted, after=after, limit=MOST_JOBS)
        found += page.jobs
        after = page.after
        if after is None:
            return found, None
        if len(found) >= MOST_JOBS:
            break
    return found, found[-1].ended_at if found else since


async def _running(store: Store, schedule: str | None) -> list[StoredJob]:
    found = await store.activity.running(limit=MOST_RUNNING)
    if schedule is None:
        return found
    number = (await store.schedules.get(schedule)).id
    return [job for job in found if job.schedule_id == number]


async def _due(store: Store, end: datetime, schedule: str | None) -> Sequence[StoredSchedule]:
    if schedule is not None:
        found = await store.schedules.get(schedule)
        return [] if found.pause is not None or found.fault is not None else [found]
    return await store.activity.due_before(end, limit=MOST_LANES)


async def _coming(
    store: Store, schedule: StoredSchedule, *, now: datetime, end: datetime
) -> list[Bar]:
    usual = usual_runtime(await store.activity.past_runs(schedule.id))
    length = usual or timedelta()
    return [
        Bar(
            start=moment,
            end=moment + length,
            state="coming",
            job_id=None,
            schedule=schedule.plan.name,
            task=schedule.plan.task,
            queue=schedule.plan.queue,
            usual=usual is not None,
        )
        for moment in _moments(schedule, now, end)
    ]


def _moments(schedule: StoredSchedule, now: datetime, end: datetime) -> list[datetime]:
    rule = schedule.plan.fixed_rule
    if rule is not None:
        found: list[datetime] = []
        with suppress(RuleError):  # it costs too much: the schedule's fault says so
            found.extend(rule.between(now, end, schedule.coming(MOST_COMING)))
        return found
    return [schedule.next_at] if schedule.next_at is not None and schedule.next_at < end else []


def _bar(job: StoredJob, names: Mapping[int, str], now: datetime, *, worker: str) -> Bar:
    start = job.claimed_at or job.ended_at or now
    return Bar(
        start=start,
        end=job.ended_at or now,
        state=job.state.value,
        job_id=job.id,
        schedule=names.get(job.schedule_id or 0, ""),
        task=job.task,
        queue=job.queue,
        worker=worker,
    )


def _lane(bar: Bar, by: By) -> str:
    match by:
        case "schedule":
            return bar.schedule or f"{bar.task} (no schedule)"
        case "queue":
            return bar.queue
        case "worker":
            return bar.worker or "a worker that is gone"


def _lanes(bars: Sequence[Bar], by: By) -> list[LaneOfBars]:
    lanes: dict[str, list[Bar]] = defaultdict(list)
    for bar in _collided(bars):
        lanes[_lane(bar, by)].append(bar)
    return [
        LaneOfBars(
            name=name,
            link=by == "schedule" and any(bar.schedule for bar in lanes[name]),
            bars=lanes[name],
        )
        for name in sorted(lanes)
    ]


def _collided(bars: Iterable[Bar]) -> list[Bar]:
    """Return the bars by start, marking those that overlap an earlier run of their schedule."""
    found: list[Bar] = []
    busy: dict[str, datetime] = {}
    for bar in sorted(bars, key=lambda one: (one.start, one.end)):
        until = busy.get(bar.schedule)
        found.append(replace(bar, collides=until is not None and bar.start < until))
        if bar.schedule:
            busy[bar.schedule] = max(until or bar.end, bar.end)
    return found


_ENDED: Final = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
