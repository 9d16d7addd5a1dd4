"""Where a child runs a job, and makes an outcome of whatever happens."""

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Awaitable, Iterator, Sequence
from datetime import timedelta
from functools import partial

from duly.engine.execution import raised, returned
from duly.engine.executors.process import limits
from duly.engine.executors.process.alarm import TimeoutSignal
from duly.engine.executors.process.assignment import ChildJob
from duly.engine.executors.process.frames import (
    CompletedFrame,
    DoneFrame,
    EndFrame,
    FailedFrame,
    MismatchFrame,
)
from duly.engine.executors.process.orders import job_of
from duly.errors import NotFound, SignatureChanged
from duly.model.outcome import Raised, Succeeded
from duly.model.payload import Json
from duly.policy.retry import Retry
from duly.registry.context import Context, entered
from duly.registry.definition import Definition
from duly.registry.registry import Registry

_MICROSECOND = timedelta(microseconds=1)


class ChildRunner:
    def __init__(self, registry: Registry, alarm: TimeoutSignal) -> None:
        self._registry = registry
        self._alarm = alarm
        self._usual = os.dup(1), os.dup(2)

    def work_on(self, assignment: ChildJob) -> EndFrame:
        with self._output_of(assignment):
            order = assignment.order
            try:
                definition = self._registry.get(order.task)
            except NotFound as error:
                return MismatchFrame(str(error), "")
            try:
                arguments = definition.signature.decode(Json(order.args))
            except SignatureChanged as error:
                return MismatchFrame(str(error), definition.signature.fingerprint)
            return self._outcome(assignment, definition, arguments)

    def _outcome(
        self, assignment: ChildJob, definition: Definition, arguments: dict[str, object]
    ) -> EndFrame:
        job = job_of(assignment.order)
        if self._registry.completion is not None:
            opened = partial(self._registry.completion, definition=definition)
            assignment.completed_by(opened)
        context = Context(job, definition.retry, assignment)
        try:
            with limits.address_space(assignment.order.memory), entered(context):
                value = self._call(assignment, definition, context, arguments)
        except BaseException as error:  # noqa: BLE001 – also what would end the interpreter
            if _is_complete(assignment):
                return CompletedFrame()
            return failed(error, definition.retry)
        if _is_complete(assignment):
            return CompletedFrame()
        outcome = returned(value, definition)
        return DoneFrame(outcome.result) if isinstance(outcome, Succeeded) else _frame(outcome)

    def _call(
        self,
        assignment: ChildJob,
        definition: Definition,
        context: Context,
        arguments: dict[str, object],
    ) -> object:
        given = (context,) if definition.takes_context else ()
        if definition.is_async:
            with asyncio.Runner() as runner:
                return runner.run(_awaited(assignment, definition, given, arguments))
        with self._alarm.armed():
            assignment.interrupt_by(expiry=self._alarm.ring)
            try:
                return definition.function(*given, **arguments)
            finally:
                assignment.interrupt_by()

    @contextlib.contextmanager
    def _output_of(self, assignment: ChildJob) -> Iterator[None]:
        """Send what is written to descriptors 1 and 2 where the worker says, as long as it runs."""
        _redirect(assignment.output)
        for descriptor in assignment.output:
            os.close(descriptor)
        try:
            yield
        finally:
            _flush()
            _redirect(self._usual)


async def _awaited(
    assignment: ChildJob,
    definition: Definition,
    given: tuple[object, ...],
    arguments: dict[str, object],
) -> object:
    loop = asyncio.get_running_loop()
    task = loop.create_task(_called(definition, given, arguments))

    def interrupt() -> None:
        loop.call_soon_threadsafe(task.cancel)

    assignment.interrupt_by(cancel=interrupt, expiry=interrupt)
    try:
        return await task
    finally:
        assignment.interrupt_by()


async def _called(
    definition: Definition, given: tuple[object, ...], arguments: dict[str, object]
) -> object:
    running: object = definition.function(*given, **arguments)
    return await running if isinstance(running, Awaitable) else running


def _is_complete(assignment: ChildJob) -> bool:
    """Whether what the task came to is known to the store already, and nobody else needs to say."""
    return assignment.completion is not None and assignment.completion.completed


def failed(error: BaseException, retry: Retry) -> FailedFrame:
    return _frame(raised(error, retry))


def _frame(outcome: Raised) -> FailedFrame:
    wait = outcome.retry_after
    return FailedFrame(
        error=outcome.error,
        message=outcome.message,
        traceback=outcome.traceback,
        permanent=outcome.permanent,
        retry_after_us=None if wait is None else wait // _MICROSECOND,
        retryable=outcome.retryable,
    )


def _redirect(output: Sequence[int]) -> None:
    for descriptor, standard in zip(output, (1, 2), strict=True):
        os.dup2(descriptor, standard)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    ctypes.CDLL(None).fflush(None)
