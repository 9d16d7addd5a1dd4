"""The context of a running task: its job, its due moment, and whether it should stop.

A context is made for every attempt and rarely used, so it computes its values on demand. A ``Port``
connects it to the worker and the store.

Instruments are code of integrations around the enqueueing of jobs and around the call of a task. An
app without one pays a look at an empty list when it enqueues, and nothing when it runs a job.
"""

import contextvars
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import ContextVar, Token
from datetime import datetime
from functools import wraps
from typing import Any, Protocol, Self

from duly.errors import InvalidValue, NotInAJob
from duly.model import payload
from duly.model.fire import DueMoment
from duly.model.job import Claimed, JobRequest, StoredJob
from duly.model.payload import Json, storable
from duly.policy.retry import Retry
from duly.policy.verdict import Tried

LONGEST_MESSAGE = 1_000


class ProcessGuard(Protocol):
    """Kills a process group when the worker dies or its lease ends."""

    @property
    def lease_is_over(self) -> bool:
        """Return whether the program was or will be killed because the lease ended."""
        ...

    def watch(self, group: int) -> None:
        """Start to guard this process group."""
        ...

    def release(self) -> None:
        """Stop guarding; call it before the process group's id can be reused."""
        ...


class Port(Protocol):
    """The services of the worker for a running task."""

    def cancelled(self) -> str | None:
        """Return why the job should stop, or None."""
        ...

    def progress(self, percent: float, message: str, meta: Json | None) -> None: ...

    def guard(self) -> ProcessGuard | None:
        """Return a guard for a process group that the task will start; None if there is none."""
        ...

    def transaction(self, context: "Context") -> Any:  # noqa: ANN401 - for `with` and `async with`
        ...


class Context:
    """The result of ``current()``; the first parameter of a task with ``takes_context=True``."""

    __slots__ = ("_port", "_retry", "_source")

    def __init__(self, job: StoredJob | Claimed, retry: Retry, port: Port) -> None:
        self._source = job
        self._retry = retry  # of the task; the job may have its own
        self._port = port

    @property
    def job(self) -> StoredJob:
        source = self._source
        return source if isinstance(source, StoredJob) else source.job

    @property
    def port(self) -> Port:
        """The services of the worker."""
        return self._port

    @property
    def claimed(self) -> Claimed | None:
        """The claimed job; None outside of a worker."""
        return self._source if isinstance(self._source, Claimed) else None

    @property
    def fire(self) -> DueMoment | None:
        """The due moment in a schedule's ledger, if a schedule made the job."""
        return self._source.fire

    @property
    def due_at(self) -> datetime:
        """The due moment of the job: the schedule's, ``run_after``, or when it was enqueued."""
        return self.job.due_at

    @property
    def attempt(self) -> int:
        return self._source.attempt

    @property
    def is_last_attempt(self) -> bool:
        """Return whether an error now would fail the job. Lost attempts do not count."""
        tried = Tried.of(self._source, self._retry)
        return tried.attempt - tried.crashes >= tried.retry.attempts

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger(f"duly.job.{self._source.task}")

    @property
    def cancelled(self) -> bool:
        return self._port.cancelled() is not None

    @property
    def reason(self) -> str:
        """The reason for which the job was cancelled; empty if it was not."""
        return self._port.cancelled() or ""

    def progress(self, percent: float, message: str = "", /, **meta: object) -> None:
        """Report the progress of the job, from 0 to 100."""
        asked: object = percent
        if not isinstance(asked, int | float) or math.isnan(within := min(max(asked, 0), 100)):
            raise InvalidValue(f"progress({asked!r}): expected a number from 0 to 100")
        shown = storable(str(message), LONGEST_MESSAGE)
        more = payload.encode(meta, what="progress") if meta else None
        self._port.progress(float(within), shown, more)

    def transaction(self) -> Any:  # noqa: ANN401 - for `with` and `async with`; the port's own type
        """Open a transaction in the job's store; its commit also commits the job's success."""
        return self._port.transaction(self)


def current() -> Context:
    """Return the context of the job that this code runs in."""
    try:
        return _CURRENT.get()
    except LookupError:
        raise NotInAJob(
            "current() was called outside of a job; pass the values as arguments, or in a test "
            "run the function inside duly.testing.context(due_at=…)"
        ) from None


def current_or_none() -> Context | None:
    return _CURRENT.get(None)


class entered:  # noqa: N801 - used as a function: `with entered(context):`
    """Make a context the current one inside the block."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> Context:
        self._token: Token[Context] = _CURRENT.set(self._context)
        return self._context

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)


def surrounding(context: Context) -> contextvars.Context:
    """Return a copy of the current contextvars with the context set, for another thread."""
    surroundings = contextvars.copy_context()
    surroundings.run(_CURRENT.set, context)
    return surroundings


_CURRENT: ContextVar[Context] = ContextVar("duly.current")


class Instrument:
    """Hooks of an integration around enqueueing and running; by default they do nothing."""

    def sending(
        self, requests: Sequence[JobRequest]
    ) -> AbstractContextManager[Sequence[JobRequest]]:
        """Surround the enqueueing of these jobs; the value is what is enqueued."""
        return nullcontext(requests)

    def running(self, context: Context) -> AbstractContextManager[object]:
        """Surround the call of a task, in the process, thread or coroutine that it runs in."""
        return nullcontext(context)


class Sending(ExitStack):
    """Surrounds the enqueueing of jobs with every instrument; the value is what is enqueued."""

    def __init__(self, instruments: Sequence[Instrument], requests: Sequence[JobRequest]) -> None:
        super().__init__()
        self._instruments = instruments
        self.requests: Sequence[JobRequest] = requests

    def __enter__(self) -> Self:
        for instrument in self._instruments:
            self.requests = self.enter_context(instrument.sending(self.requests))
        return self


def instrumented(
    function: Callable[..., Any], instruments: Sequence[Instrument], *, is_async: bool
) -> Callable[..., Any]:
    """Wrap the function of a task in instruments; those that are added later count, too."""

    @wraps(function)
    def plain(*args: Any, **kwargs: Any) -> object:
        with _running(instruments):
            return function(*args, **kwargs)

    @wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> object:
        with _running(instruments):
            return await function(*args, **kwargs)

    return coroutine if is_async else plain


def _running(instruments: Sequence[Instrument]) -> ExitStack:
    stack, context = ExitStack(), current_or_none()
    if context is not None:
        for instrument in instruments:
            stack.enter_context(instrument.running(context))
    return stack
