"""A handle of a job: its state, its result, and a way to cancel it.

The state is the one that was last read; ``refresh`` reads it again. Every method that uses the
store has an async variant with the prefix ``a``.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar, cast

from duly import clock
from duly.connection import LazyStore, is_on_a_loop
from duly.errors import InvalidValue, JobFailed, NotFound, PayloadError, WrongState
from duly.model import job as model
from duly.model.job import Attempt
from duly.model.states import ENDED, State
from duly.registry.definition import Definition
from duly.registry.option_values import Duration, length_of
from duly.store.store import Store
from duly.views.why import unfinished

R_co = TypeVar("R_co", covariant=True)

LONGEST_WAIT: Final = timedelta(days=366)
# A result that is waited for is looked for at once, then less and less often.
FIRST_LOOK, LAST_LOOK = 0.01, 0.5
FOLLOWING = 0.25
PAGE = 1_000


class JobSnapshot(NamedTuple):
    """The state of a job when it was last read."""

    task: str
    title: str
    queue: str
    key: str | None
    tenant: str
    tags: Sequence[str]
    state: State
    due_at: datetime
    reason: str = ""
    error: str | None = None
    attempts: Sequence[Attempt] = ()

    @classmethod
    def promised(cls, call: model.JobRequest, now: datetime) -> Self:
        """Return the handle of a job that was just enqueued."""
        after = call.run_after
        due_at = now + after if isinstance(after, timedelta) else after or now
        return cls(
            task=call.task,
            title=call.title,
            queue=call.queue,
            key=call.key,
            tenant=call.tenant,
            tags=call.tags,
            state=State.SCHEDULED if due_at > now else State.READY,
            due_at=due_at,
        )

    @classmethod
    def of(cls, job: model.StoredJob, attempts: Sequence[Attempt]) -> Self:
        return cls(
            task=job.task,
            title=job.title,
            queue=job.queue,
            key=job.key,
            tenant=job.tenant,
            tags=job.tags,
            state=job.state,
            due_at=job.due_at,
            reason=job.reason,
            error=job.error,
            attempts=attempts,
        )


class Job(Generic[R_co]):
    __slots__ = ("__weakref__", "_definition", "_lazy", "_sight", "id")

    def __init__(
        self, lazy: LazyStore, number: int, sight: JobSnapshot, definition: Definition | None
    ) -> None:
        self._lazy = lazy
        self._sight = sight
        self._definition = definition  # None: the app has no such task
        self.id = number

    @property
    def task(self) -> str:
        return self._sight.task

    @property
    def title(self) -> str:
        return self._sight.title

    @property
    def queue(self) -> str:
        return self._sight.queue

    @property
    def key(self) -> str | None:
        return self._sight.key

    @property
    def tenant(self) -> str:
        return self._sight.tenant

    @property
    def tags(self) -> Sequence[str]:
        return self._sight.tags

    @property
    def state(self) -> State:
        return self._sight.state

    @property
    def due_at(self) -> datetime:
        """The time that the work is for."""
        return self._sight.due_at

    @property
    def reason(self) -> str:
        """Why the job waits, or how it ended."""
        return self._sight.reason

    @property
    def error(self) -> str | None:
        """The error of the last attempt if it failed, usually a traceback."""
        return self._sight.error

    @property
    def attempts(self) -> Sequence[Attempt]:
        """The attempts that did not succeed."""
        return self._sight.attempts

    def refresh(self) -> Self:
        """Read the current state of the job from the store."""
        return self._lazy.call(self._refresh, twin="job.arefresh()")

    async def arefresh(self) -> Self:
        return await self._refresh(await self._lazy.store())

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the task and return its result; raise ``JobFailed`` if it did not succeed.

        ``TimeoutError`` if the job has not ended within the ``timeout``.
        """
        patience = _seconds(timeout)
        if is_on_a_loop():
            raise InvalidValue(
                "result() on an event loop would block the loop that may have to run the job: use "
                "await job.aresult()"
            )
        return self._lazy.call(lambda store: self._result(store, patience), twin="job.aresult()")

    async def aresult(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - in words
        return await self._result(await self._lazy.store(), _seconds(timeout))

    def retry(self) -> Self:
        """Retry the job if it has failed."""
        return self._lazy.call(self._retry, twin="job.aretry()")

    async def aretry(self) -> Self:
        return await self._retry(await self._lazy.store())

    async def _retry(self, store: Store) -> Self:
        await store.jobs.retry(self.id)
        return await self._refresh(store)

    def cancel(self, *, reason: str = "") -> bool:
        """Cancel the job, or ask it to stop if it runs. Return False if it had ended before."""
        return self._lazy.call(lambda store: self._cancel(store, reason), twin="job.acancel()")

    async def acancel(self, *, reason: str = "") -> bool:
        return await self._cancel(await self._lazy.store(), reason)

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """Yield the job's log lines; with ``follow``, until the job ends."""
        last = 0
        while True:
            lines, last, over = self._lazy.call(
                lambda store: self._page(store, after=last),  # noqa: B023 - called at once
                twin="job.alogs()",
            )
            yield from lines
            if not lines and (over or not follow):
                return
            if not lines:
                self._lazy.call(lambda _: clock.sleep(FOLLOWING), twin="job.alogs()")

    async def alogs(self, *, follow: bool = False) -> AsyncIterator[str]:
        last = 0
        while True:
            lines, last, over = await self._page(await self._lazy.store(), after=last)
            for line in lines:
                yield line
            if not lines and (over or not follow):
                return
            if not lines:
                await clock.sleep(FOLLOWING)

    def __eq__(self, other: object) -> bool:
        """Compare by job number and store, not by the state that was read."""
        if not isinstance(other, Job):
            return NotImplemented
        return (self.id, self._lazy) == (other.id, other._lazy)

    def __hash__(self) -> int:
        return hash((Job, self.id))

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.task} {self.state}>"

    async def _refresh(self, store: Store) -> Self:
        job = await store.jobs.get(self.id)
        tried = job.attempt > 1 or job.state is State.FAILED
        self._sight = JobSnapshot.of(job, await store.jobs.attempts(self.id) if tried else ())
        return self

    async def _result(self, store: Store, patience: float | None) -> R_co:
        end = None if patience is None else clock.boottime() + patience
        pause = FIRST_LOOK
        while (job := await store.jobs.get(self.id)).state not in ENDED:
            left = LAST_LOOK if end is None else end - clock.boottime()
            if left <= 0:
                waited = timedelta(seconds=patience or 0)
                raise TimeoutError(await unfinished(store, job, waited=waited))
            await clock.sleep(min(pause, left))
            pause = min(pause * 1.5, LAST_LOOK)
        await self._refresh(store)
        return cast(R_co, _value(job, self._definition))

    async def _cancel(self, store: Store, reason: str) -> bool:
        with suppress(WrongState):
            state = await store.jobs.cancel(self.id, reason=reason)
            return state in (State.CANCELLED, State.RUNNING)
        return False

    async def _page(self, store: Store, *, after: int) -> tuple[list[str], int, bool]:
        """Return the log lines after ``after``, the last line's number, and whether the job ended.

        The state is read before the lines: a job writes all its lines before it ends.
        """
        over = (await store.jobs.get(self.id)).state in ENDED
        lines = await store.journal.logs(self.id, after=after, limit=PAGE)
        return [line.text for line in lines], lines[-1].seq if lines else after, over


def _value(job: model.StoredJob, definition: Definition | None) -> Any:  # noqa: ANN401 - what the task returns
    if job.state is not State.SUCCEEDED:
        reason = job.reason or f"it is {job.state}"
        raise JobFailed(
            f"{_named(job)} {job.state}: {reason}",
            job=job.id,
            state=job.state.value,
            reason=reason,
            error=job.error or "",
        )
    if definition is None:
        raise NotFound(
            f"{_named(job)} succeeded, but this app does not know the type of its result: it has "
            f"no task {job.task}"
        )
    try:
        return definition.signature.decode_result(job.result or "null")
    except PayloadError:
        if job.result is not None:
            raise
        raise NotFound(
            f"{_named(job)} succeeded, but its result was not stored, or was deleted: see "
            "keep_result="
        ) from None


def _named(job: model.StoredJob) -> str:
    return f"job {job.id} ({job.title or job.task})"


def _seconds(timeout: Duration | None) -> float | None:
    if timeout is None:
        return None
    return length_of("timeout", timeout, longest=LONGEST_WAIT, zero=True).total_seconds()
