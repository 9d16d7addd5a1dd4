"""Jobs in a list, as people read one: what each is, when, how long, and why.

And what such a list is for: how many jobs match that something can be done about.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from duly.errors import NotAllowed
from duly.model.filter_language import fits
from duly.model.flow import FlowProgress
from duly.model.job import Job
from duly.model.job_filter import Filter
from duly.model.states import ENDED, LIVE, Move, State, sources
from duly.policy.why import first_line
from duly.store.store import Store
from duly.views.failures import FailureGroup, failures
from duly.views.flow_page import told_far

Deed: TypeAlias = Literal["retry", "cancel", "remove"]

# In which states a job can be for each of them.
STATES: Final[dict[Deed, tuple[State, ...]]] = {
    "retry": sources(Move.RETRY),
    "cancel": LIVE,
    "remove": ENDED,
}
MOST_COUNTED: Final = 10_000
MOST_NAMES: Final = 200  # of each kind, that are offered to be completed
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    id: int
    state: str
    name: str  # its title, or its task
    task: str
    queue: str
    tenant: str
    at: datetime  # when it ended; or from when it may run, if it has not
    length: timedelta | None  # how long it took, has run or has waited; None: it did not
    why: str
    steps: str = ""  # how far it is, if it is a flow

    @classmethod
    def of(cls, job: Job, now: datetime, flow: FlowProgress | None = None) -> "JobRow":
        return cls(
            id=job.id,
            state=job.state.value,
            name=job.title or job.task,
            task=job.task,
            queue=job.queue,
            tenant=job.tenant,
            at=job.ended_at or job.ready_at,
            length=length_of(job, now),
            why="" if _is_plain(job) else first_line(job.reason) or first_line(job.error),
            steps="" if flow is None else told_far(flow),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRows:
    """Some of those that match; ``after`` is what the next are asked for with."""

    rows: Sequence[JobRow]
    after: str | None
    searched_to: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Jobs that something can be done about: the words that find them, and how many there are."""

    words: str
    jobs: int

    @property
    def is_more(self) -> bool:
        """Whether there are so many that they were not counted to the end."""
        return self.jobs >= MOST_COUNTED


async def job_rows(
    store: Store, wanted: Filter, *, tenant: str | None, after: str | None, limit: int
) -> JobRows:
    found = await store.jobs.find(within(wanted, tenant), after=after, limit=limit)
    now = (await store.upkeep.progress()).now
    flows = await store.jobs.flow_progress([job.id for job in found.jobs])
    return JobRows(
        rows=[JobRow.of(job, now, flows.get(job.id)) for job in found.jobs],
        after=found.after,
        searched_to=found.searched_to,
    )


async def matching(store: Store, wanted: Filter, deed: Deed, *, tenant: str | None) -> Matching:
    """Those of the jobs that match about which it can be done."""
    states = tuple(state for state in wanted.states or State if state in STATES[deed])
    if not states:
        return Matching(words="", jobs=0)
    meant = replace(within(wanted, tenant), states=states)
    count = await store.jobs.count(meant, at_most=MOST_COUNTED)
    return Matching(words=str(meant), jobs=count)


async def failed_alike(
    store: Store, wanted: Filter, *, tenant: str | None
) -> Sequence[FailureGroup]:
    return await failures(store, within(wanted, tenant))


async def known_names(store: Store, *, tenant: str | None) -> dict[str, list[str]]:
    """What may stand behind the words of a filter; to somebody of one tenant, what is no secret."""
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


def within(wanted: Filter, tenant: str | None) -> Filter:
    """The filter, for somebody who may see what is a tenant's; None: what is anybody's."""
    if tenant is None:
        return wanted
    if not fits(tenant, wanted.tenant):
        raise NotAllowed(f"tenant:{wanted.tenant}: you may see what is {tenant}'s")
    return replace(wanted, tenant=tenant)


def length_of(job: Job, now: datetime) -> timedelta | None:
    """How long it took; or, in whole seconds, how long it has run or waited."""
    if job.ended_at is not None:
        return None if job.claimed_at is None else job.ended_at - job.claimed_at
    since = job.claimed_at if job.state is State.RUNNING else max(job.ready_at, job.created_at)
    return None if since is None or since > now else (now - since) // _SECOND * _SECOND


def _is_plain(job: Job) -> bool:
    """Whether its state says it all."""
    return (job.state is State.SUCCEEDED and job.attempt <= 1) or job.waits == "steps"
