"""Records: a job or an event with everything that is known beside it, read in one transaction.

So its parts agree with each other, and a caller on the other side of a network asks once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from duly.model.event import EVERY_EVENT, EventFilter, StoredEvent
from duly.model.fire import StoredFire
from duly.model.flow import FlowInfo, FlowProgress, StepState
from duly.model.job import Attempt, StoredJob
from duly.model.job_filter import Filter
from duly.model.journal import ProgressNote
from duly.model.limit import LimitInfo, Queue
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.model.worker import WorkerInfo
from duly.store import activity, events, job_search, jobs, journal, limits, work
from duly.store.database import Operation, current_time
from duly.store.job_search import Page
from duly.store.values import RunTimes
from duly.store.verbs import Noun, reads


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """A page of jobs, and the names and the progress that a list shows beside each."""

    now: datetime
    page: Page
    schedules: Mapping[int, str]  # names, by number
    workers: Mapping[int, str]
    flows: Mapping[int, FlowProgress]  # of those jobs that are flows


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Everything that is known about one job, read in one transaction."""

    now: datetime
    job: StoredJob
    attempts: Sequence[Attempt] = ()  # that did not end it well
    workers: Sequence[WorkerInfo] = ()  # all that are remembered
    note: ProgressNote | None = None
    stopping: str | None = None  # why it was asked to stop, if it runs and was
    schedule: StoredSchedule | None = None  # that made it
    past_runs: Sequence[timedelta] = ()  # how long the last runs of its schedule took
    flow: FlowInfo | None = None  # its steps, if it is a flow
    inner_flows: Mapping[int, FlowProgress] = field(default_factory=dict)  # steps that are flows
    step_jobs: Sequence[StoredJob] = ()  # of the steps in progress, the first few
    parent: StoredJob | None = None  # the flow that it is a step of
    parent_flow: FlowInfo | None = None
    # Only of a job that waits:
    queue: Queue | None = None
    running_in_queue: int = 0
    ahead: int = 0
    limit: LimitInfo | None = None
    behind: StoredJob | None = None  # the run of its schedule that has to end first


@dataclass(frozen=True, slots=True)
class Reaction:
    """A schedule's reaction to an event: the ledger row, and the times of its job."""

    schedule: str
    fire: StoredFire
    run: RunTimes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """An event, and the reactions to it by the names of the schedules."""

    event: StoredEvent
    reactions: Sequence[Reaction]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """A page of events with the reactions to each."""

    events: Sequence[EventRecord]
    after: str | None = None


T = TypeVar("T")

MOST_LIMITS = 1_000
MOST_STEP_JOBS = 20  # jobs that are read of the steps in progress


class RecordStore(Noun):
    @reads("viewer")
    def job(self, number: int) -> Operation[JobRecord]:
        """Return everything about one job."""
        stored = yield from job_search.get(number)
        is_running = stored.state is State.RUNNING
        found = JobRecord(
            now=(yield from current_time()),
            job=stored,
            attempts=(yield from job_search.attempts(number)),
            workers=(yield from work.workers()),
            note=(yield from journal.note(number)),
            stopping=(yield from activity.asked_to_stop(number)) if is_running else None,
        )
        found = yield from _with_schedule(found)
        found = yield from _with_flow(found)
        return (yield from _with_obstacles(found))

    @reads("viewer")
    def jobs(
        self, wanted: Filter, *, after: str | None = None, limit: int = 100
    ) -> Operation[JobList]:
        """Return what ``jobs.find`` finds, with the names and the progress that a list shows."""
        page = yield from job_search.find(wanted, after, limit)
        schedules = sorted({job.schedule_id for job in page.jobs if job.schedule_id is not None})
        workers = {job.worker for job in page.jobs if job.worker is not None}
        known = (yield from work.workers()) if workers else []
        return JobList(
            now=(yield from current_time()),
            page=page,
            schedules=(yield from job_search.schedule_names(schedules)) if schedules else {},
            workers={worker.id: worker.name for worker in known if worker.id in workers},
            flows=(yield from jobs.flow_progress([job.id for job in page.jobs])),
        )

    @reads("viewer")
    def event(self, number: int) -> Operation[EventRecord]:
        """Return one event and the reactions to it."""
        [found] = yield from _with_reactions([(yield from events.get(number))])
        return found

    @reads("viewer")
    def events(
        self, wanted: EventFilter = EVERY_EVENT, *, after: str | None = None, limit: int = 100
    ) -> Operation[EventList]:
        """Return what ``events.page`` finds, with the reactions to each."""
        page = yield from events.page(wanted, after=after, limit=limit)
        return EventList(events=(yield from _with_reactions(page.events)), after=page.after)


def _with_reactions(found: Sequence[StoredEvent]) -> Operation[list[EventRecord]]:
    reactions = (yield from events.reactions([one.id for one in found])) if found else []
    numbers = [fire.job_id for _, fire in reactions if fire.job_id is not None]
    runs = (yield from activity.runs_of(numbers)) if numbers else {}
    by_event: dict[int, list[Reaction]] = defaultdict(list)
    for schedule, fire in reactions:
        by_event[fire.series].append(Reaction(schedule, fire, runs.get(fire.job_id or 0)))
    return [EventRecord(event=one, reactions=by_event[one.id]) for one in found]


def _with_schedule(found: JobRecord) -> Operation[JobRecord]:
    number = found.job.schedule_id
    if number is None:
        return found
    return replace(
        found,
        schedule=(yield from activity.schedule(number)),
        past_runs=(yield from activity.past_runs(number)),
    )


def _with_flow(found: JobRecord) -> Operation[JobRecord]:
    """Add the steps of a flow; of a step, the flow that it belongs to."""
    job = found.job
    flow = yield from jobs.flow(job.id)
    if flow is not None:
        numbers = [step.job_id for step in flow.steps if step.kind == "step" and step.job_id]
        found = replace(
            found,
            flow=flow,
            inner_flows=(yield from jobs.flow_progress(numbers)),
            step_jobs=(yield from _step_jobs(flow)),
        )
    if job.step is None or job.parent is None:
        return found
    return replace(
        found,
        parent=(yield from job_search.known(job.parent)),
        parent_flow=(yield from jobs.flow(job.parent)),
    )


def _step_jobs(flow: FlowInfo) -> Operation[list[StoredJob]]:
    """The jobs of the first steps that have started and not ended."""
    numbers = [
        step.job_id
        for step in flow.steps
        if step.state is StepState.RUNNING and step.kind != "map" and step.job_id is not None
    ]
    found: list[StoredJob] = []
    for number in numbers[:MOST_STEP_JOBS]:
        job = yield from job_search.known(number)
        if job is not None:
            found.append(job)
    return found


def _with_obstacles(found: JobRecord) -> Operation[JobRecord]:
    """Add the queue, limit, run or jobs ahead that a waiting job may wait for."""
    job = found.job
    if job.state not in (State.READY, State.BLOCKED):
        return found
    queues = yield from work.queues()
    known = (yield from limits.listed(limit=MOST_LIMITS)) if job.waits == "limit" else []
    behind = None
    if job.schedule_id is not None and job.state is State.BLOCKED and job.waits is None:
        behind = yield from activity.run_in_the_way(job.schedule_id, found.now)
    return replace(
        found,
        queue=next((queue for queue in queues if queue.name == job.queue), None),
        running_in_queue=(yield from activity.running_in(job.queue)),
        ahead=(yield from activity.count_ahead(job.id)) if job.state is State.READY else 0,
        limit=next((one for one in known if one.name == job.waits_for), None),
        behind=behind,
    )
