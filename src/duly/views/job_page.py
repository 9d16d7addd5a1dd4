"""A job as somebody sees it who wants to know all about it: the answer, and what it rests on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duly.model.job import Attempt, Job
from duly.model.journal import LogLine, ProgressNote
from duly.model.states import ENDED, State
from duly.policy.why import Explanation, Lineage
from duly.store.store import Store
from duly.views.flow_page import Awaits, FlowSeen, flow_seen, lineage_of
from duly.views.schedules import own_zone
from duly.views.tenancy import HIGHEST_NUMBER, own_job
from duly.views.why import answer_job

LINES: Final = 1_000  # of a log, at once


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    job: Job
    now: datetime
    answer: Explanation
    schedule: str | None  # its name, if it is there
    zone: str  # that its moments are told in
    attempts: Sequence[Attempt]  # those that did not end it well
    workers: Mapping[int, str]  # names of those that are remembered
    note: ProgressNote | None
    stopping: str | None  # why it was asked to end, if it runs and was
    flow: FlowSeen | None = None  # its steps, if it is a flow
    lineage: Lineage | None = None  # the flow that it is a step of

    @property
    def name(self) -> str:
        """What people call it: a step by its name in the flow."""
        called = self.job.task if self.lineage is None else self.lineage.name
        return self.job.title or called

    @property
    def runs(self) -> bool:
        """Whether it is there to be run: else it is steps, or waits for an event."""
        is_wait = self.lineage is not None and self.lineage.kind == "wait"
        return self.flow is None and not is_wait

    @property
    def awaits(self) -> Awaits | None:
        """The event that it waits for."""
        return Awaits.of(self.job)

    def worker(self, number: int | None) -> str:
        return "" if number is None else self.workers.get(number, str(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSeen:
    """Lines of a log; ``over``: there will be no more behind them."""

    lines: Sequence[LogLine]
    last: int
    over: bool


async def job_page(
    store: Store, number: int, *, tenant: str | None, zone_of: Callable[[str | None], str]
) -> JobSeen:
    """``zone_of`` says on which clock its reader looks, given that of its schedule."""
    job = await own_job(store, number, tenant)
    schedule = None
    if job.schedule_id is not None:
        schedule = await store.evidence.schedule(job.schedule_id)
    zone = zone_of(None if schedule is None else own_zone(schedule.plan))
    running = job.state is State.RUNNING
    now = (await store.upkeep.progress()).now
    return JobSeen(
        job=job,
        now=now,
        answer=await answer_job(store, number, zone=zone),
        schedule=None if schedule is None else schedule.plan.name,
        zone=zone,
        attempts=await store.jobs.attempts(number),
        workers={one.id: one.name for one in await store.work.workers()},
        note=await store.journal.note(number) if running else None,
        stopping=await store.evidence.asked_to_stop(number) if running else None,
        flow=await flow_seen(store, number, now=now),
        lineage=await lineage_of(store, job),
    )


async def log_seen(
    store: Store, number: int, *, tenant: str | None, after: int = 0, limit: int = LINES
) -> LogSeen:
    """The job is looked at first: what it says, it says before its end."""
    over = (await own_job(store, number, tenant)).state in ENDED
    after = min(max(after, 0), HIGHEST_NUMBER)
    lines = await store.journal.logs(number, after=after, limit=limit)
    return LogSeen(
        lines=lines, last=lines[-1].seq if lines else after, over=over and len(lines) < limit
    )


async def whole_log(store: Store, number: int, *, tenant: str | None) -> Sequence[LogLine]:
    """All that is kept, which is bounded."""
    lines: list[LogLine] = []
    while True:
        last = lines[-1].seq if lines else 0
        found = await log_seen(store, number, tenant=tenant, after=last)
        lines += found.lines
        if len(found.lines) < LINES:
            return lines
