"""Instruments: code of integrations around the enqueueing of jobs and around the call of a task.

An app without one pays a look at an empty list when it enqueues, and nothing when it runs a job.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import wraps
from typing import Any, Self

from duly.model.job import JobRequest
from duly.registry.context import Context, current_or_none


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
