"""``duly.jobs``: jobs by number or by filter.

A filter is text such as ``"state:failed queue:mail since:2h"``; see ``duly.model.job_filter``.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, get_origin

from duly.app.actions import Action, AppNoun, awaitable, blocking
from duly.app.job import Job
from duly.connection import LazyStore
from duly.engine.http_worker import failed, succeeded
from duly.errors import InvalidValue
from duly.model import job as model
from duly.model.job import Attempt
from duly.model.job_filter import Filter, parse_filter
from duly.model.outcome import ReportAnswer
from duly.registry.annotations import plain
from duly.registry.codecs import codec
from duly.registry.registry import Registry
from duly.store.job_search import Page
from duly.store.store import Store
from duly.views.access import own_filter, own_job

if TYPE_CHECKING:
    from duly.views.failures import FailureGroup


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
    def failures(self, words: str = "", /) -> Action["Sequence[FailureGroup]"]:
        """Group the newest failed jobs that match by task and error, most frequent first."""
        wanted = self._meant(words)
        from duly.views.failures import failures  # noqa: PLC0415 - a worker needs no views

        return Action(lambda store: failures(store, wanted))

    @blocking
    def count(self, words: str = "", /, *, at_most: int = 10_000) -> Action[int]:
        """Count matching jobs; a result of ``at_most`` means that there may be more."""
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.count(wanted, at_most=at_most))

    @blocking
    def report(
        self,
        number: int,
        /,
        *,
        result: object = None,
        error: str | None = None,
        traceback: str = "",
        retry: bool | str = True,
        message: str | None = None,
    ) -> Action[ReportAnswer]:
        """Report the outcome of a job that was handed to another system: its result, or its error.

        ``message`` is the id of the message that the outcome is of. A report of a job that has
        ended, a second one, or one of another database's message changes nothing: the answer says
        so.
        """
        outcome = (
            succeeded(result) if error is None else failed(error, traceback=traceback, retry=retry)
        )

        async def report(store: Store) -> ReportAnswer:
            await own_job(store, number, self._tenant)
            return await store.jobs.report(number, outcome, message=message)

        return Action(report)

    @blocking
    def cancel(self, words: str, /, *, reason: str = "") -> Action[Sequence[int]]:
        """Cancel matching jobs that wait, ask running ones to stop, and return their numbers."""
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.cancel_found(wanted, reason=reason))

    @blocking
    def remove(self, words: str, /) -> Action[Sequence[int]]:
        """Delete matching jobs that have ended, with all their data, and return their numbers.

        Jobs that have not ended are not removed: cancel them first.
        """
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.remove_found(wanted))

    @blocking
    def why(self, number: int, /) -> Action[str]:
        """Explain how a job ended, or why it has not run yet."""
        from duly.views.why import why_job  # noqa: PLC0415 - a worker needs no views

        return Action(lambda store: why_job(store, number, tenant=self._tenant))

    @blocking
    def retry(self, words: str = "", /, *, first: int | None = None) -> Action[Sequence[int]]:
        """Retry failed jobs that match, oldest failure first, and return their numbers.

        The order is by the time of the failure, not of the enqueueing. ``first=5`` retries five of
        them, to see whether the problem is fixed.
        """
        wanted = self._meant(words)
        return Action(lambda store: store.jobs.retry_found(wanted, first=first))

    aget: Final = awaitable(get)
    alist: Final = awaitable(list)
    apage: Final = awaitable(page)
    afailures: Final = awaitable(failures)
    acount: Final = awaitable(count)
    areport: Final = awaitable(report)
    acancel: Final = awaitable(cancel)
    aremove: Final = awaitable(remove)
    awhy: Final = awaitable(why)
    aretry: Final = awaitable(retry)

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
        task = self._registry.find(found.task)
        return Job(self._lazy, found.id, found, task, attempts=attempts)


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


def reading_jobs(function: Callable[..., Any], jobs: Callable[[], Jobs]) -> Callable[..., Any]:
    """Return a task's function with numbers in place of its parameters that are jobs.

    ``def told(job: Job[Any]) -> None``, as a callback may be: such an argument is stored as the
    number of the job. When the task runs, the job is read from the store, so that the task sees its
    arguments, its error and its result as they are then.
    """
    signature, names = _taken(function)
    if not names:
        return function
    numbered = [
        each.replace(annotation=int) if each.name in names else each
        for each in signature.parameters.values()
    ]
    if inspect.iscoroutinefunction(plain(function)):

        @wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
            given = signature.bind(*args, **kwargs)
            for name in _numbers(given.arguments, names):
                given.arguments[name] = await jobs().aget(given.arguments[name])
            return await function(*given.args, **given.kwargs)

    else:

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
            given = signature.bind(*args, **kwargs)
            for name in _numbers(given.arguments, names):
                given.arguments[name] = jobs().get(given.arguments[name])
            return function(*given.args, **given.kwargs)

    run.__signature__ = signature.replace(parameters=numbered)  # type: ignore[attr-defined]
    return run


def _taken(function: Callable[..., Any]) -> tuple[inspect.Signature, Sequence[str]]:
    """Return the signature, and the names of the parameters that are jobs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # define() says what is wrong with it
        return inspect.Signature(), ()
    if any("Job" in str(each.annotation) for each in signature.parameters.values()):
        with suppress(NameError):  # a type that is defined further down
            signature = inspect.signature(function, eval_str=True)
    kinds = {each.name: each.annotation for each in signature.parameters.values()}
    return signature, [name for name, kind in kinds.items() if Job in (kind, get_origin(kind))]


def _numbers(given: Mapping[str, object], names: Sequence[str]) -> list[str]:
    """Return the names of the jobs that are given by number; a direct call may give the job."""
    return [name for name in names if not isinstance(given.get(name, None), Job | None)]


def _refuse(_: object) -> Job[Any]:
    raise InvalidValue("a Job can be a parameter of its own only: def told(job: Job[Any])")


codec(Job, attrgetter("id"), _refuse)
