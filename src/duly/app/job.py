"""A handle of a job: all its fields, its result and progress, and a way to cancel it.

The state is the one that was last read; ``refresh`` reads it again. Every method that uses the
store has an async variant with the prefix ``a``.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, cast

from duly import clock
from duly.app.actions import Action, awaitable, blocking
from duly.connection import LazyStore, is_on_a_loop
from duly.errors import (
    InvalidValue,
    JobFailed,
    NotFound,
    PayloadError,
    SignatureChanged,
    WrongState,
)
from duly.model import job as model
from duly.model.job import Attempt
from duly.model.payload import decode
from duly.model.states import ENDED, State
from duly.registry.definition import Definition
from duly.registry.option_values import Duration, length_of
from duly.store.store import Store

if TYPE_CHECKING:
    from duly.views.job import ProgressView

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

LONGEST_WAIT: Final = timedelta(days=366)
# A result that is waited for is looked for at once, then less and less often.
FIRST_LOOK, LAST_LOOK = 0.01, 0.5
FOLLOWING = 0.25
PAGE = 1_000


class PromisedJob(NamedTuple):
    """A job that was just enqueued and has not been read since."""

    asked: model.JobRequest
    now: datetime

    def stored(self, number: int) -> model.StoredJob:
        """Return the job as the store should have it."""
        asked, now = self
        after = asked.run_after
        due_at = now + after if isinstance(after, timedelta) else after or now
        return model.StoredJob(
            **{name: getattr(asked, name) for name in _ASKED},
            id=number,
            state=State.SCHEDULED if due_at > now else State.READY,
            created_at=now,
            due_at=due_at,
            ready_at=due_at,
            deadline=due_at + asked.start_within if asked.start_within else None,
        )


_ASKED: Final = (*(field.name for field in fields(model.Label)), "key", "late", "retry", "parent")


class _Stored(Generic[T]):
    """A field of the job, as it was last read."""

    def __init__(self, column: str = "") -> None:
        self._column = column  # empty: called as the field

    def __set_name__(self, _: type, name: str) -> None:
        self._column = self._column or name

    def __get__(self, job: "Job[Any] | None", _: type) -> T:
        return cast(T, self if job is None else getattr(job.stored, self._column))


class Job(Generic[R_co]):
    _noun: ClassVar[str] = "job"
    __slots__ = ("__weakref__", "_definition", "_found", "_lazy", "attempts", "id")

    task: _Stored[str] = _Stored()
    title: _Stored[str] = _Stored()
    queue: _Stored[str] = _Stored()
    priority: _Stored[int] = _Stored()
    key: _Stored[str | None] = _Stored()
    tenant: _Stored[str] = _Stored()
    submitter: _Stored[str] = _Stored()
    tags: _Stored[tuple[str, ...]] = _Stored()
    state: _Stored[State] = _Stored()
    reason: _Stored[str] = _Stored()  # why the job waits, or how it ended
    error: _Stored[str | None] = _Stored()  # of the last attempt if it failed, usually a traceback
    parent: _Stored[int | None] = _Stored()  # the flow of the step, or the job that it follows
    attempt: _Stored[int] = _Stored()  # how often it was begun
    created_at: _Stored[datetime] = _Stored()
    due_at: _Stored[datetime] = _Stored()  # the time that the work is for
    ready_at: _Stored[datetime] = _Stored()  # the earliest start
    deadline: _Stored[datetime | None] = _Stored()  # the latest start
    started_at: _Stored[datetime | None] = _Stored("claimed_at")  # of the last attempt
    ended_at: _Stored[datetime | None] = _Stored()

    def __init__(
        self,
        lazy: LazyStore,
        number: int,
        found: model.StoredJob | PromisedJob,
        definition: Definition | None,
        *,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        self._lazy = lazy
        self._found = found
        self._definition = definition  # None: the app has no such task
        self.attempts: Sequence[Attempt] = attempts  # those that did not succeed
        self.id: int = number

    @property
    def stored(self) -> model.StoredJob:
        """The job as it was last read from the store."""
        if isinstance(self._found, PromisedJob):
            self._found = self._found.stored(self.id)
        return self._found

    @property
    def args(self) -> dict[str, Any]:
        """The arguments by name, in the types of the task; as JSON if they do not fit the task."""
        if self._definition is not None:
            with suppress(SignatureChanged):
                return self._definition.signature.decode(self.stored.args)
        return cast(dict[str, Any], decode(self.stored.args))

    @property
    def timeout(self) -> timedelta | None:
        """The time that an attempt may take."""
        return self.stored.terms.timeout

    @blocking
    def progress(self) -> Action["ProgressView | None"]:
        """Return the progress that the job last reported with ``current().progress()``."""
        return Action(self._progress)

    async def _progress(self, store: Store) -> "ProgressView | None":
        from duly.views.job import ProgressView  # noqa: PLC0415 - a worker needs no views

        note = await store.journal.note(self.id)
        return None if note is None else ProgressView.of(note)

    @blocking
    def refresh(self) -> Action[Self]:
        """Read the current state of the job from the store."""
        return Action(self._refresh)

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
        return self._lazy.call(
            lambda store: self._result(store, patience), async_name="job.aresult()"
        )

    async def aresult(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - in words
        return await self._result(await self._lazy.store(), _seconds(timeout))

    @blocking
    def retry(self) -> Action[Self]:
        """Retry the job if it has failed."""
        return Action(self._retry)

    async def _retry(self, store: Store) -> Self:
        await store.jobs.retry(self.id)
        return await self._refresh(store)

    @blocking
    def cancel(self, *, reason: str = "") -> Action[bool]:
        """Cancel the job, or ask it to stop if it runs. Return False if it had ended before."""
        return Action(lambda store: self._cancel(store, reason))

    aprogress: Final = awaitable(progress)
    arefresh: Final = awaitable(refresh)
    aretry: Final = awaitable(retry)
    acancel: Final = awaitable(cancel)

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """Yield the job's log lines; with ``follow``, until the job ends."""
        last = 0
        while True:
            lines, last, over = self._lazy.call(
                lambda store: self._page(store, after=last),  # noqa: B023 - called at once
                async_name="job.alogs()",
            )
            yield from lines
            if not lines and (over or not follow):
                return
            if not lines:
                self._lazy.call(lambda _: clock.sleep(FOLLOWING), async_name="job.alogs()")

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
        self._found, self.attempts = job, await store.jobs.attempts(self.id) if tried else ()
        return self

    async def _result(self, store: Store, patience: float | None) -> R_co:
        end = None if patience is None else clock.boottime() + patience
        pause = FIRST_LOOK
        while (job := await store.jobs.get(self.id)).state not in ENDED:
            left = LAST_LOOK if end is None else end - clock.boottime()
            if left <= 0:
                waited = timedelta(seconds=patience or 0)
                from duly.views.why import unfinished  # noqa: PLC0415 - a worker needs no views

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
