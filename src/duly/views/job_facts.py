"""Jobs with what is known beside them: who runs them, which schedule they are of, how far they are.

For those who look at them from elsewhere, by their numbers or by what they have in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from duly.model.flow import FlowProgress
from duly.model.job import Attempt, Job
from duly.model.job_filter import parse_filter
from duly.model.journal import LogLine, ProgressNote
from duly.policy.why import Explanation
from duly.store.store import Store
from duly.views.job_list import within
from duly.views.tenancy import own_job
from duly.views.why import answer_job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    job: Job
    schedule: str | None = None
    worker: str | None = None  # the name of who runs it, or ran it last
    flow: FlowProgress | None = None  # how far it is, if it is a flow


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStory:
    """Everything about one."""

    facts: JobFacts
    attempts: Sequence[Attempt] = ()  # those that did not end it well
    names: Mapping[int, str] = field(default_factory=dict)  # of workers that are remembered
    note: ProgressNote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsPage:
    """Some of those that match; see ``duly.app.jobs.JobPage``."""

    jobs: Sequence[JobFacts]
    after: str | None
    searched_to: datetime | None


async def facts_page(
    store: Store, words: str, *, after: str | None, limit: int, tenant: str | None = None
) -> FactsPage:
    wanted = within(parse_filter(words), tenant)
    page = await store.jobs.find(wanted, after=after, limit=limit)
    facts = await facts_of(store, page.jobs)
    return FactsPage(jobs=facts, after=page.after, searched_to=page.searched_to)


async def facts_of(store: Store, jobs: Sequence[Job]) -> list[JobFacts]:
    names = await _worker_names(store) if any(job.worker is not None for job in jobs) else {}
    numbers = sorted({job.schedule_id for job in jobs if job.schedule_id is not None})
    schedules = await store.jobs.schedule_names(numbers) if numbers else {}
    flows = await store.jobs.flow_progress([job.id for job in jobs]) if jobs else {}
    return [
        JobFacts(
            job=job,
            schedule=schedules.get(job.schedule_id or 0),
            worker=None if job.worker is None else names.get(job.worker, str(job.worker)),
            flow=flows.get(job.id),
        )
        for job in jobs
    ]


async def job_story(store: Store, number: int, *, tenant: str | None = None) -> JobStory:
    [facts] = await facts_of(store, [await own_job(store, number, tenant)])
    return JobStory(
        facts=facts,
        attempts=await store.jobs.attempts(number),
        names=await _worker_names(store),
        note=await store.journal.note(number),
    )


async def why_own_job(store: Store, number: int, *, tenant: str | None = None) -> Explanation:
    await own_job(store, number, tenant)
    return await answer_job(store, number)


async def job_lines(
    store: Store, number: int, *, after: int, limit: int, tenant: str | None = None
) -> list[LogLine]:
    """What it has said, behind the line of that number."""
    await own_job(store, number, tenant)
    return await store.journal.logs(number, after=after, limit=limit)


async def forget_job(store: Store, number: int, *, tenant: str | None = None) -> None:
    """With its attempts and what it said; one that has not ended stays."""
    await own_job(store, number, tenant)
    await store.jobs.remove(number)


async def _worker_names(store: Store) -> dict[int, str]:
    return {info.id: info.name for info in await store.work.workers()}
