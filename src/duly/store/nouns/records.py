"""Records: a job or an event with everything that is known beside it, read in one transaction.

So its parts agree with each other, and a caller on the other side of a network asks once.
"""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar, cast

from duly.model.event import StoredEvent
from duly.model.flow import FlowInfo, StepState
from duly.model.job import StoredJob
from duly.model.job_filter import Filter
from duly.model.states import State
from duly.store import events, job_search, jobs, journal, limits, work
from duly.store.database import Operation
from duly.store.nouns.events import EventStore
from duly.store.nouns.evidence import EvidenceStore
from duly.store.nouns.jobs import JobStore
from duly.store.nouns.surroundings import SurroundingsStore
from duly.store.values import EventList, EventRecord, JobList, JobRecord, Reaction
from duly.store.verbs import Noun, reads

T = TypeVar("T")

MOST_LIMITS = 1_000
MOST_STEP_JOBS = 20  # jobs that are read of the steps in progress


class RecordStore(Noun):
    @reads("viewer")
    def job(self, number: int) -> Operation[JobRecord]:
        """Return everything about one job."""
        stored = yield from jobs.get(number)
        is_running = stored.state is State.RUNNING
        stop = _operation(EvidenceStore.asked_to_stop)
        found = JobRecord(
            now=(yield from _operation(SurroundingsStore.now)()),
            job=stored,
            attempts=(yield from jobs.attempts(number)),
            workers=(yield from work.workers()),
            note=(yield from journal.note(number)),
            stopping=(yield from stop(number)) if is_running else None,
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
            now=(yield from _operation(SurroundingsStore.now)()),
            page=page,
            schedules=(yield from job_search.schedule_names(schedules)) if schedules else {},
            workers={worker.id: worker.name for worker in known if worker.id in workers},
            flows=(yield from _operation(JobStore.flow_progress)([job.id for job in page.jobs])),
        )

    @reads("viewer")
    def event(self, number: int) -> Operation[EventRecord]:
        """Return one event and the reactions to it."""
        [found] = yield from _with_reactions([(yield from events.get(number))])
        return found

    @reads("viewer")
    def events(
        self,
        *,
        pattern: str = "*",
        key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Operation[EventList]:
        """Return what ``events.page`` finds, with the reactions to each."""
        search = events.EventSearch(
            pattern=pattern,
            key=key,
            since=since,
            until=until,
            tenant=tenant,
            after=after,
            limit=limit,
        )
        page = yield from events.page(search)
        return EventList(events=(yield from _with_reactions(page.events)), after=page.after)


def _operation(
    verb: Callable[..., Coroutine[Any, Any, T]],
) -> Callable[..., Operation[T]]:
    """Return the operation of a verb that ``reads``, to be a part of another one."""
    operation = cast("Callable[..., Operation[T]]", verb.__wrapped__)  # type: ignore[attr-defined]
    return lambda *args: operation(None, *args)


def _with_reactions(found: Sequence[StoredEvent]) -> Operation[list[EventRecord]]:
    reactions = (
        (yield from _operation(EventStore.reactions)([one.id for one in found])) if found else []
    )
    numbers = [fire.job_id for _, fire in reactions if fire.job_id is not None]
    runs = (yield from _operation(EvidenceStore.runs_of)(numbers)) if numbers else {}
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
        schedule=(yield from _operation(EvidenceStore.schedule)(number)),
        past_runs=(yield from _operation(EvidenceStore.past_runs)(number)),
    )


def _with_flow(found: JobRecord) -> Operation[JobRecord]:
    """Add the steps of a flow; of a step, the flow that it belongs to."""
    job = found.job
    flow = yield from _operation(JobStore.flow)(job.id)
    if flow is not None:
        numbers = [step.job_id for step in flow.steps if step.kind == "step" and step.job_id]
        found = replace(
            found,
            flow=flow,
            inner_flows=(yield from _operation(JobStore.flow_progress)(numbers)),
            step_jobs=(yield from _step_jobs(flow)),
        )
    if job.step is None or job.parent is None:
        return found
    return replace(
        found,
        parent=(yield from jobs.known(job.parent)),
        parent_flow=(yield from _operation(JobStore.flow)(job.parent)),
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
        job = yield from jobs.known(number)
        if job is not None:
            found.append(job)
    return found


def _with_obstacles(found: JobRecord) -> Operation[JobRecord]:
    """Add what a job that waits may wait for."""
    job = found.job
    if job.state not in (State.READY, State.BLOCKED):
        return found
    queues = yield from work.queues()
    lanes = (yield from limits.listed(MOST_LIMITS)) if job.waits == "limit" else []
    behind = None
    if job.schedule_id is not None and job.state is State.BLOCKED and job.waits is None:
        behind = yield from _operation(EvidenceStore.run_in_the_way)(job.schedule_id, found.now)
    return replace(
        found,
        queue=next((queue for queue in queues if queue.name == job.queue), None),
        running_in_queue=(yield from _operation(EvidenceStore.running_in)(job.queue)),
        ahead=(yield from _operation(EvidenceStore.count_ahead)(job.id))
        if job.state is State.READY
        else 0,
        limit=next((lane for lane in lanes if lane.name == job.waits_for), None),
        behind=behind,
    )
