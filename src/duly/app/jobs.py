"""``duly.jobs``: jobs by number or by filter.

A filter is text such as ``"state:failed queue:mail since:2h"``; see ``duly.model.job_filter``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duly.app.job import Job, JobSnapshot
from duly.app.twins import Action, AppNoun, awaitable, blocking
from duly.connection import LazyStore
from duly.errors import InvalidValue
from duly.model import job as model
from duly.model.job import Attempt
from duly.model.job_filter import Filter, parse_filter
from duly.registry.registry import Registry
from duly.store.store import Store
from duly.store.values import Page
from duly.views.failures import FailureGroup, failures
from duly.views.tenancy import own_filter, own_job
from duly.views.why import why_job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A page of matching jobs; ``after`` is the cursor for the next page.

    The cursor is None on the last page. Any other page may be short or empty, because a search
    stops after enough rows: ``searched_to`` is the time back to which it looked.
    """

    jobs: Sequence[Job[Any]]
    after: str | None
    searched_to: datetime | None


class Jobs(AppNoun):
    """Jobs by number or filter; ``tenant`` limits them to one tenant, None means all tenants."""

    _noun = "duly.jobs"

    def __init__(self, registry: Registry, lazy: LazyStore, *, tenant: str | None = None) -> None:
        super().__init__(lazy)
        self._registry = registry
        self._tenant = tenant

    @blocking
    def get(self, number: int, /) -> Action[Job[Any]]:
        async def get(store: Store) -> Job[Any]:
            found = await own_job(store, number, self._tenant)
            return self._job(found, await store.jobs.attempts(number))

        return Action(get)

    @blocking
    def list(
        self, words: str = "", /, *, after: str | None = None, limit: int = 100
    ) -> Action[Sequence[Job[Any]]]:
        """Return matching jobs: live ones, roughly newest first, then ended ones, last ended first.

        The search goes on until ``limit`` jobs are found or all were looked at; ``page`` returns
        sooner. Attempts are not loaded: call ``refresh()`` on a job.
        """
        wanted = self._meant(words)

        async def find(store: Store) -> Sequence[Job[Any]]:
            found = await walked(store, wanted, after=after, limit=limit)
            return [self._job(one, ()) for one in found.jobs]

        return Action(find)

    @blocking
    def page(
        self, words: str = "", /, *, after: str | None = None, limit: int = 100
    ) -> Action[JobPage]:
        """Return one page of matching jobs quickly; ``after`` is the cursor of the page before."""
        wanted = self._meant(words)

        async def find(store: Store) -> JobPage:
            found = await store.jobs.find(wanted, after=after, limit=limit)
            jobs = [self._job(one, ()) for one in found.jobs]
            return JobPage(jobs=jobs, after=found.after, searched_to=found.searched_to)

        return Action(find)

    @blocking
    def failures(self, words: str = "", /) -> Action[Sequence[FailureGroup]]:
        """Group the newest failed jobs that match by task and error, most frequent first."""
        wanted = self._meant(words)
        return Action(lambda store: failures(store, wanted))

    @blocking
    def count(self, words: str = "", /, *, at_most: int = 10_000) -> Action[int]:
        """Count matching jobs; a result of ``at_most`` means that there may be more."""
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.count(wanted, at_most=at_most))

    @blocking
    def cancel(self, words: str, /, *, reason: str = "") -> Action[Sequence[int]]:
        """Cancel matching jobs that wait, ask running ones to stop, and return their numbers."""
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.cancel_found(wanted, reason=reason))

    @blocking
    def remove(self, words: str, /) -> Action[Sequence[int]]:
        """Delete matching jobs that have ended, with all their data, and return their numbers.

        Jobs that have not ended are left alone: cancel them first.
        """
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.remove_found(wanted))

    @blocking
    def why(self, number: int, /) -> Action[str]:
        """Explain how a job ended, or why it has not run yet."""
        return Action(lambda store: why_job(store, number, tenant=self._tenant))

    @blocking
    def retry(self, words: str = "", /, *, first: int | None = None) -> Action[Sequence[int]]:
        """Retry failed jobs that match, oldest failure first, and return their numbers.

        The order is by the time of the failure, not of the enqueueing. ``first=5`` retries five of
        them, to see whether the problem is fixed.
        """
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.retry_found(wanted, first=first))

    aget = awaitable(get)
    alist = awaitable(list)
    apage = awaitable(page)
    afailures = awaitable(failures)
    acount = awaitable(count)
    acancel = awaitable(cancel)
    aremove = awaitable(remove)
    awhy = awaitable(why)
    aretry = awaitable(retry)

    def _meant(self, words: str) -> Filter:
        asked: object = words
        if not isinstance(asked, str):
            raise InvalidValue(
                f'{asked!r} is not a filter, as "state:failed task:send"; for one job use '
                "duly.jobs.get(number).retry()"
            )
        return own_filter(parse_filter(words), self._tenant)

    def _job(self, found: model.StoredJob, attempts: Sequence[Attempt]) -> Job[Any]:
        """Return the handle of a job.

        If this app does not have its task, only the result is missing.
        """
        known = found.task in self._registry
        definition = self._registry.get(found.task) if known else None
        return Job(self._lazy, found.id, JobSnapshot.of(found, attempts), definition)


async def walked(
    store: Store,
    wanted: Filter,
    *,
    after: str | None,
    limit: int,
    most_pages: int | None = None,
) -> Page:
    """Read pages until ``limit`` jobs are found or ``most_pages`` pages were read.

    A job that ends meanwhile is found twice, and returned once.
    """
    page = await store.jobs.find(wanted, after=after, limit=limit)
    found = {job.id: job for job in page.jobs}
    pages = 1
    while page.after is not None and len(found) < limit and pages != most_pages:
        page = await store.jobs.find(wanted, after=page.after, limit=limit - len(found))
        for job in page.jobs:
            found.setdefault(job.id, job)
        pages += 1
    return Page(jobs=list(found.values()), after=page.after, searched_to=page.searched_to)
