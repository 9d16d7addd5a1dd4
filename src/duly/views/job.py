"""A job as it is shown: in a list (``JobView``) and with everything about it (``JobDetail``)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from msgspec import Meta

from duly.durations import SECOND, about, parse_duration
from duly.model.flow import FlowProgress
from duly.model.job import Attempt, StoredJob
from duly.model.job_filter import HIGHEST_NUMBER, Filter
from duly.model.journal import ProgressNote
from duly.model.states import ENDED, LIVE, Move, State, sources
from duly.policy.redaction import hidden, hidden_call, json_text, redacted
from duly.policy.why import Lineage, explain_job, first_line
from duly.store.records import JobList, JobRecord
from duly.store.store import Store
from duly.views import FilledView, Length, Listed, Made, RateText, Text, duration, filled, read_json
from duly.views.access import own_filter, own_job, own_record
from duly.views.failures import FailureGroup, failures
from duly.views.flow import Awaits, FlowView, flow_progress, flow_view, lineage_of
from duly.views.schedules import own_zone
from duly.views.why import WhyView, evidence_of

Action: TypeAlias = Literal["retry", "cancel", "remove"]

# The states in which each action is possible.
STATES: Final[dict[Action, tuple[State, ...]]] = {
    "retry": sources(Move.RETRY),
    "cancel": LIVE,
    "remove": ENDED,
}
LOG_LINES: Final = 1_000  # of a log, at once
MOST_COUNTED: Final = 10_000
MOST_NAMES: Final = 200  # of each kind, that are offered to be completed
_WAITS: Final = {"event": "waits for", "outcome": "handed to"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as a list shows it."""

    id: Annotated[int, Meta(ge=1, le=HIGHEST_NUMBER)]
    state: State
    task: str
    title: Text
    queue: str
    priority: int
    tenant: str
    submitter: str
    key: Text | None
    tags: tuple[str, ...]
    schedule: Annotated[str | None, Meta(description="The schedule that made it.")]
    attempt: Annotated[int, Meta(description="How often it was begun.")]
    worker: Annotated[str | None, Meta(description="The worker that runs it, or ran it last.")]
    created_at: datetime
    due_at: Annotated[datetime, Meta(description="The due time that the work is for.")]
    ready_at: Annotated[datetime, Meta(description="From when it may run.")]
    deadline: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    took: Annotated[
        str | None,
        Meta(description="How long it took; or has run or waited so far, in whole seconds."),
    ]
    reason: Annotated[Text, Meta(description="Why it waits, or how it ended.")]
    summary: Annotated[str, Meta(description="One line: progress of a flow, reason or error.")]
    parent: Annotated[
        int | None, Meta(description="The flow that it is a step of, or the job it came from.")
    ]
    step: Annotated[int | None, Meta(description="Its place in the flow, from 1.")]
    part: Annotated[int | None, Meta(description="Which of the jobs of that step, from 1.")]
    flow: Annotated[FlowProgress | None, Meta(description="Its progress, if it is a flow.")]

    @classmethod
    def of(
        cls,
        job: StoredJob,
        *,
        now: datetime,
        schedule: str | None = None,
        worker: str | None = None,
        flow: FlowProgress | None = None,
        **more: Any,
    ) -> Self:
        if worker is None and job.worker is not None:
            worker = str(job.worker)
        return filled(
            cls,
            job,
            job.terms,
            schedule=schedule,
            worker=worker,
            started_at=job.claimed_at,
            took=duration(_took(job, now)),
            summary=_summary(job, flow),
            step=None if job.step is None else job.step + 1,
            part=None if job.part is None else job.part + 1,
            flow=flow,
            **more,
        )

    @property
    def name(self) -> str:
        """The display name: the title, or else the task."""
        return self.title or self.task

    @property
    def at(self) -> datetime:
        """The time when the job ended; if it has not ended, the time from which it may run."""
        return self.ended_at or self.ready_at

    @property
    def length(self) -> timedelta | None:
        """Return how long the job took, or has run or waited so far; None if it has no length."""
        return None if self.took is None else parse_duration(self.took)

    @property
    def actions(self) -> frozenset[Action]:
        """The actions that are possible in the current state."""
        return frozenset(action for action, states in STATES.items() if self.state in states)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One execution of a job."""

    number: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    took: str
    outcome: Annotated[str, Meta(description="raised, timed out, lost, …")]
    reason: Text
    error: Text | None

    @property
    def length(self) -> timedelta:
        return parse_duration(self.took)

    @property
    def state(self) -> str:
        return self.outcome if self.outcome in (State.RUNNING, State.SUCCEEDED) else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView(FilledView):
    """Progress that a job reports of itself."""

    percent: float
    message: str
    meta: Annotated[Any, Made(read_json), Meta(description="What else it reported.")]
    at: datetime

    @property
    def reported(self) -> str:
        """Return the other values that the job reported, as JSON; empty if there are none."""
        return json_text(self.meta) if self.meta else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimit(FilledView):
    """A limit that a job runs under."""

    name: str
    concurrency: int | None
    rate: Annotated[RateText | None, Meta(examples=["5/s"])]

    def __str__(self) -> str:
        """``2 at once, 5/s``."""
        at_once = "" if self.concurrency is None else f"{self.concurrency} at once"
        return ", ".join(filter(None, (at_once, self.rate)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackView(FilledView):
    """A task that is enqueued when a job ends."""

    task: str
    timeout: Length | None

    def __str__(self) -> str:
        """``tell_ops, timeout 30s``."""
        return f"{self.task}, timeout {self.timeout}" if self.timeout else self.task


Following: TypeAlias = Annotated[CallbackView, Made(CallbackView.of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobView):
    """Everything about a job; secrets are hidden."""

    why: WhyView
    zone: Annotated[str, Meta(description="The time zone of the sentences in `why`.")]
    args: Any
    limits: Annotated[tuple[JobLimit, ...], Made(lambda found: tuple(map(JobLimit.of, found)))]
    needs: Annotated[dict[str, int], Made(dict)]
    timeout: Length | None
    waits: Annotated[str | None, Meta(description="What blocks it: limit, worker, event, …")]
    waits_for: Annotated[Text | None, Meta(description="The limit or the event it waits for.")]
    attempts: Annotated[
        tuple[AttemptView, ...], Meta(description="Its executions that did not end it well.")
    ]
    progress: ProgressView | None
    stopping: Annotated[str | None, Meta(description="Why it was asked to stop, while it runs.")]
    process: Annotated[int | None, Meta(description="The process id of its worker.")]
    schedule_removed: Annotated[bool, Meta(description="Its schedule does not exist any more.")]
    result: Annotated[Any, Made(lambda text: hidden(read_json(text)))]
    error: Text | None
    on_success: Annotated[Following | None, Meta(description="The task that follows success.")]
    on_failure: Following | None
    on_cancelled: Following | None
    flow: FlowView | None
    lineage: Annotated[Lineage | None, Meta(description="The flow that it is a step of.")]
    awaits: Awaits | None

    @property
    def name(self) -> str:
        """The display name: the title, or else the task; for a flow step, its name in the flow."""
        return self.title or (self.task if self.lineage is None else self.lineage.name)

    @property
    def runs(self) -> bool:
        """Return whether a worker runs this job, not a flow or a step that waits for an event."""
        return self.flow is None and (self.lineage is None or self.lineage.kind != "wait")

    @property
    def executions(self) -> tuple[AttemptView, ...]:
        """All attempts, including the current one and the one that succeeded."""
        runs = self.state in (State.RUNNING, State.SUCCEEDED) and self.flow is None
        if self.started_at is None or not runs:
            return self.attempts
        last = AttemptView(
            number=max([self.attempt, *(one.number + 1 for one in self.attempts)]),
            worker=self.worker,
            started_at=self.started_at,
            ended_at=self.ended_at,
            took=self.took or "0s",
            outcome=self.state.value,
            reason="",
            error=None,
        )
        return (*self.attempts, last)

    @property
    def callbacks(self) -> list[tuple[str, CallbackView]]:
        """The tasks that follow, with their occasions."""
        found = (
            ("on success", self.on_success),
            ("on failure", self.on_failure),
            ("on cancelled", self.on_cancelled),
        )
        return [(occasion, callback) for occasion, callback in found if callback]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The short fields as pairs of name and value, without empty ones."""
        pairs = [
            ("task", self.task),
            ("key", self.key or ""),
            ("tenant", self.tenant),
            ("tags", ", ".join(self.tags)),
            ("priority", str(self.priority) if self.priority else ""),
            ("submitter", self.submitter),
            ("limits", ", ".join(limit.name for limit in self.limits)),
            (_WAITS.get(self.waits or "", "waits at"), self.waits_for or ""),
            ("needs", ", ".join(f"{name}={amount}" for name, amount in self.needs.items())),
            ("timeout", about(parse_duration(self.timeout)) if self.timeout else ""),
            ("reported", self.progress.reported if self.progress else ""),
        ]
        return [(name, value) for name, value in pairs if value]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLineView(FilledView):
    """A line of a job's log."""

    number: Annotated[int, Meta(description="They rise from 1, through all its attempts.")]
    at: datetime
    level: str
    text: Text
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Lines of a log; ``over``: no more will follow them. ``is_full``: more may be there."""

    lines: Sequence[LogLineView]
    last: int
    over: bool
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The jobs that an action is possible for: the filter that finds them, and how many."""

    words: str
    jobs: int

    @property
    def is_more(self) -> bool:
        """Return whether counting stopped at the maximum, so that there may be more jobs."""
        return self.jobs >= MOST_COUNTED


async def job_detail(
    store: Store,
    number: int,
    *,
    tenant: str | None = None,
    zone_of: Callable[[str | None], str] = lambda own: own or "UTC",
) -> JobDetail:
    """Return everything about a job; ``zone_of`` chooses the zone, given its schedule's."""
    record = await own_record(store, number, tenant)
    own = None if record.schedule is None else own_zone(record.schedule.plan)
    return _detail(record, zone_of(own))


async def job_list(
    store: Store,
    wanted: Filter,
    *,
    tenant: str | None = None,
    after: str | None = None,
    limit: int = 100,
    most_pages: int = 1,
) -> Listed[JobView]:
    """Return matching jobs, reading up to ``most_pages`` pages of the store to find ``limit`` jobs.

    A job that ends meanwhile is found twice, and listed once.
    """
    wanted = own_filter(wanted, tenant)
    found: dict[int, JobView] = {}
    while True:
        listed = await store.records.jobs(wanted, after=after, limit=limit - len(found))
        for view in _rows(listed):
            found.setdefault(view.id, view)
        after, most_pages = listed.page.after, most_pages - 1
        if after is None or len(found) >= limit or not most_pages:
            searched_to = listed.page.searched_to
            return Listed(items=list(found.values()), next=after, searched_to=searched_to)


async def job_log(
    store: Store, number: int, *, tenant: str | None = None, after: int = 0, limit: int = LOG_LINES
) -> LogPage:
    """Return lines of the log after a line; the job is read first, as it logs before its end."""
    over = (await own_job(store, number, tenant)).state in ENDED
    after = min(max(after, 0), HIGHEST_NUMBER)
    found = await store.journal.logs(number, after=after, limit=limit)
    lines = [LogLineView.of(line, number=line.seq) for line in found]
    last = lines[-1].number if lines else after
    is_full = len(lines) == limit
    return LogPage(lines=lines, last=last, over=over and not is_full, is_full=is_full)


async def whole_log(store: Store, number: int, *, tenant: str | None) -> Sequence[LogLineView]:
    """Return all lines that are kept, which is bounded."""
    lines: list[LogLineView] = []
    while True:
        page = await job_log(store, number, tenant=tenant, after=lines[-1].number if lines else 0)
        lines += page.lines
        if not page.is_full:
            return lines


async def remove_job(store: Store, number: int, *, tenant: str | None = None) -> None:
    """Delete a job that has ended, with its attempts and its log."""
    await own_job(store, number, tenant)
    await store.jobs.remove(number)


async def matching(store: Store, wanted: Filter, action: Action, *, tenant: str | None) -> Matching:
    """Count the jobs that match and that the action is possible for."""
    states = tuple(state for state in wanted.states or State if state in STATES[action])
    if not states:
        return Matching(words="", jobs=0)
    narrowed = replace(own_filter(wanted, tenant), states=states)
    count = await store.jobs.count(narrowed, at_most=MOST_COUNTED)
    return Matching(words=str(narrowed), jobs=count)


async def failure_groups(
    store: Store, wanted: Filter, *, tenant: str | None
) -> Sequence[FailureGroup]:
    return await failures(store, own_filter(wanted, tenant))


async def known_names(store: Store, *, tenant: str | None) -> dict[str, list[str]]:
    """Return names that may follow the words of a filter; none to a caller of one tenant."""
    if tenant is not None:
        return {}
    workers = await store.work.workers()
    schedules = await store.schedules.page(limit=MOST_NAMES)
    tasks = {name for one in workers for name in one.tasks} | {one.plan.task for one in schedules}
    queues = {name for one in workers for name in one.queues} | {
        one.name for one in await store.work.queues()
    }
    return {
        "queue": sorted(queues)[:MOST_NAMES],
        "task": sorted(tasks)[:MOST_NAMES],
        "schedule": [one.plan.name for one in schedules],
    }


def _rows(listed: JobList) -> Iterator[JobView]:
    for job in listed.page.jobs:
        yield JobView.of(
            job,
            now=listed.now,
            schedule=listed.schedules.get(job.schedule_id or 0),
            worker=listed.workers.get(job.worker or 0),
            flow=listed.flows.get(job.id),
        )


def _detail(record: JobRecord, zone: str) -> JobDetail:
    job, schedule = record.job, record.schedule
    names = {worker.id: worker.name for worker in record.workers}
    runner = next((worker for worker in record.workers if worker.id == job.worker), None)
    return JobDetail.of(
        job,
        now=record.now,
        schedule=None if schedule is None else schedule.plan.name,
        worker=None if runner is None else runner.name,
        flow=_flow(record),
        why=WhyView.of(explain_job(evidence_of(record, zone=zone))),
        zone=zone,
        args=hidden_call(job.task, read_json(job.args)),
        attempts=tuple(_attempt(one, names) for one in record.attempts),
        progress=_progress(record.note),
        stopping=None if record.stopping is None else redacted(record.stopping),
        process=None if runner is None else runner.profile.host.pid or None,
        schedule_removed=job.schedule_id is not None and schedule is None,
        lineage=lineage_of(record),
        awaits=Awaits.shown(job),
    )


def _flow(record: JobRecord) -> FlowView | None:
    if record.flow is None:
        return None
    return flow_view(record.flow, record.now, record.step_jobs, record.inner_flows)


def _attempt(one: Attempt, names: dict[int, str]) -> AttemptView:
    worker = None if one.worker is None else names.get(one.worker, str(one.worker))
    took = duration(one.ended_at - one.started_at) or "0s"
    return filled(AttemptView, one, worker=worker, took=took)


def _progress(note: ProgressNote | None) -> ProgressView | None:
    if note is None:
        return None
    found = ProgressView.of(note)
    return replace(found, message=redacted(found.message), meta=hidden(found.meta))


def _took(job: StoredJob, now: datetime) -> timedelta | None:
    """Return the duration of a job; if it has not ended, the whole seconds it ran or waited."""
    if job.ended_at is not None:
        return None if job.claimed_at is None else job.ended_at - job.claimed_at
    since = job.claimed_at if job.state is State.RUNNING else max(job.ready_at, job.created_at)
    return None if since is None or since > now else (now - since) // SECOND * SECOND


def _summary(job: StoredJob, flow: FlowProgress | None) -> str:
    """Return the progress of a flow and the reason of the state; empty if the state says it all."""
    is_plain = job.state is State.SUCCEEDED and job.attempt <= 1
    why = (
        "" if is_plain or job.waits == "steps" else first_line(job.reason) or first_line(job.error)
    )
    steps = "" if flow is None else flow_progress(flow)
    return redacted(": ".join(filter(None, (steps, why))))
