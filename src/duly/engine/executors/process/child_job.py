"""One job in a child process: the socket to the worker, the interruption, the call of the task.

The main thread runs the task; another thread reads what the worker sends meanwhile. A cancel or a
timeout reaches the task as a flag that it may check, and as an interruption where that is possible.
"""

import asyncio
import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

from duly.engine.execution import raised, returned
from duly.engine.executors.process import kernel
from duly.engine.executors.process.frames import (
    BeginFrame,
    CompletedFrame,
    DoneFrame,
    EndFrame,
    FailedFrame,
    FrameReader,
    FromChild,
    LogFrame,
    MismatchFrame,
    ProgressFrame,
    RunRequest,
    ToChild,
    from_worker,
    job_of,
    packed,
)
from duly.errors import InvalidValue, NotFound, SignatureChanged, SoftTimeout
from duly.model.outcome import Raised, Succeeded
from duly.model.payload import Json
from duly.policy.retry import Retry
from duly.registry.context import Context, entered
from duly.registry.definition import Definition
from duly.registry.registry import JobTransaction, Registry

_SIGNAL = signal.SIGUSR1
_READ_SIZE = 64 * 1024
_LOOK_SECONDS = 0.5
_DESCRIPTORS = 2  # sent with a BeginFrame: stdout and stderr of the job
_MICROSECOND = timedelta(microseconds=1)


class TimeoutSignal:
    """Raises ``SoftTimeout`` in a task that runs in the main thread.

    By a signal, because only a signal interrupts a blocking system call. It is raised nowhere but
    in the task: inside ``with signal:`` it is held back, so that a frame is always sent whole.
    """

    def __init__(self) -> None:
        self._armed = False
        self._rung = False
        self._shields = 0
        self._listen()

    def ring(self) -> None:
        """Interrupt the task. May be called from any thread."""
        self._rung = True
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, _SIGNAL)

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """Allow one interruption of the code inside."""
        self._listen()  # again: the application or a task may have replaced the handler
        self._rung = False
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._shields += 1

    def __exit__(self, *exception: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self._shields -= 1
            self._act()

    def _listen(self) -> None:
        signal.signal(_SIGNAL, lambda *_: self._act())

    def _act(self) -> None:
        if self._armed and self._rung and not self._shields:
            self._armed = False
            raise SoftTimeout("its time is over: clean up and end, it is killed after its grace")


class WorkerSocket:
    """The child's end of the socket to its worker."""

    def __init__(self, descriptor: int, *, shield: TimeoutSignal) -> None:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 – it has no name
        self._socket = socket.socket(fileno=descriptor)
        self._shield = shield
        self._lock = threading.Lock()
        self.is_ours: bool = True
        # Return how many seconds the worker may be silent; None: no limit.
        self.patience: Callable[[], float | None] = lambda: None
        os.register_at_fork(after_in_child=self._forked)

    def send(self, frame: FromChild) -> None:
        """Send a frame, whole. May be called from any thread."""
        data = packed(frame)
        with self._shield, self._lock:
            if self.is_ours:
                self._socket.sendall(data)

    def frames(self) -> Iterator[tuple[ToChild, list[int]]]:
        """Yield the worker's frames with their descriptors until the socket is closed."""
        inbox = FrameReader()
        descriptors: list[int] = []
        while True:
            data = self._receive(descriptors)
            if not data:
                return
            for body in inbox.feed(data):
                frame = from_worker(body)
                if isinstance(frame, BeginFrame):
                    yield frame, descriptors[:]
                    descriptors.clear()
                else:  # descriptors that came with the same bytes may belong to the next frame
                    yield frame, []

    def close(self) -> None:
        self._socket.close()

    def _receive(self, descriptors: list[int]) -> bytes:
        try:
            self._wait_for_data()
            data, came, _, _ = socket.recv_fds(self._socket, _READ_SIZE, _DESCRIPTORS)
        except (OSError, ValueError):  # ValueError: the socket is closed
            return b""
        descriptors += came
        return data

    def _wait_for_data(self) -> None:
        """Wait for data; kill the process group when the lease ends without any.

        Data that was sent before the lease ended counts, even if it is read late.
        """
        data = select.poll()
        data.register(self._socket, select.POLLIN)
        while True:
            left = self.patience()
            # In short waits: poll() stands still while the machine is suspended, a lease does not.
            if data.poll(None if left is None else 1000 * min(left, _LOOK_SECONDS)):
                return
            if left is not None and left <= 0:
                kill_own_group()

    def _forked(self) -> None:
        # A task has forked. Two processes must not write to one socket, and the thread that held
        # the lock may not exist in the fork.
        self.is_ours = False
        self._lock = threading.Lock()


def kill_own_group() -> None:
    """Kill this process and everything it started."""
    os.killpg(0, signal.SIGKILL)


class FrameSink(Protocol):
    """Takes the frames of a job."""

    @property
    def is_ours(self) -> bool:
        """Return whether frames arrive; False in a fork of the process."""
        ...

    def send(self, frame: FromChild) -> None: ...


class ChildJob:
    """The job of this child as both threads see it; also the port of its context."""

    def __init__(self, request: RunRequest, worker: FrameSink, *, output: Sequence[int]) -> None:
        self.request = request
        # The transaction in which the task completes the job.
        self.completion: JobTransaction | None = None
        self._open: Callable[..., JobTransaction] | None = None
        self.output = output  # descriptors for stdout and stderr
        self._worker = worker
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._expired = False
        self._on_cancel: Callable[[], None] | None = None
        self._on_expiry: Callable[[], None] | None = None

    def completed_by(self, open_completion: Callable[..., JobTransaction]) -> None:
        """Set the function that opens a transaction, given the store's URL and the job."""
        self._open = open_completion

    def cancel(self, reason: str) -> None:
        with self._lock:
            self._reason = reason
            if self._on_cancel is not None:
                self._on_cancel()

    def expire(self) -> None:
        with self._lock:
            self._expired = True
            if self._on_expiry is not None:
                self._on_expiry()

    def interrupt_by(
        self, *, cancel: Callable[[], None] | None = None, expiry: Callable[[], None] | None = None
    ) -> None:
        """Set or remove the interruptions; one that came before is delivered at once."""
        with self._lock:
            self._on_cancel, self._on_expiry = cancel, expiry
            if cancel is not None and self._reason is not None:
                cancel()
            if expiry is not None and self._expired:
                expiry()

    @property
    def is_heard(self) -> bool:
        """Return whether frames reach the worker; False in a fork of the child."""
        return self._worker.is_ours

    def log(self, line: LogFrame) -> None:
        self._worker.send(line)

    def cancelled(self) -> str | None:
        return self._reason

    def progress(self, percent: float, message: str, meta: Json | None) -> None:
        self._worker.send(ProgressFrame(percent, message, meta))

    def guard(self) -> None:
        """Do nothing: processes that a child starts are in its group and end with it."""

    def transaction(self, context: Context) -> object:
        if self.completion is None or not self.completion.completed:
            self.completion = self._opened(context)
        return self.completion

    def _opened(self, context: Context) -> JobTransaction:
        job, url = context.claimed, self.request.url
        if job is None or url is None or self._open is None:
            raise InvalidValue("transaction() needs a worker that knows where its store is")
        return self._open(url, job, lease=self.request.lease)


class ChildRunner:
    """Calls the task of a job and turns the result into a frame."""

    def __init__(self, registry: Registry, timeout: TimeoutSignal) -> None:
        self._registry = registry
        self._timeout = timeout
        self._usual = os.dup(1), os.dup(2)

    def run(self, job: ChildJob) -> EndFrame:
        with self._output_of(job):
            request = job.request
            try:
                definition = self._registry.get(request.task)
            except NotFound as error:
                return MismatchFrame(str(error), "")
            try:
                arguments = definition.signature.decode(Json(request.args))
            except SignatureChanged as error:
                return MismatchFrame(str(error), definition.signature.fingerprint)
            return self._outcome(job, definition, arguments)

    def _outcome(
        self, job: ChildJob, definition: Definition, arguments: dict[str, object]
    ) -> EndFrame:
        facts = job_of(job.request)
        if self._registry.completion is not None:
            opened = partial(self._registry.completion, definition=definition)
            job.completed_by(opened)
        context = Context(facts, definition.retry, job)
        try:
            with kernel.address_space(job.request.memory), entered(context):
                value = self._call(job, definition, context, arguments)
        except BaseException as error:  # noqa: BLE001 – SystemExit and KeyboardInterrupt too
            if _is_complete(job):
                return CompletedFrame()
            return failed(error, definition.retry)
        if _is_complete(job):
            return CompletedFrame()
        outcome = returned(value, definition)
        return DoneFrame(outcome.result) if isinstance(outcome, Succeeded) else _frame(outcome)

    def _call(
        self,
        job: ChildJob,
        definition: Definition,
        context: Context,
        arguments: dict[str, object],
    ) -> object:
        given = (context,) if definition.takes_context else ()
        if definition.is_async:
            with asyncio.Runner() as runner:
                return runner.run(_awaited(job, definition, given, arguments))
        with self._timeout.armed():
            job.interrupt_by(expiry=self._timeout.ring)
            try:
                return definition.function(*given, **arguments)
            finally:
                job.interrupt_by()

    @contextlib.contextmanager
    def _output_of(self, job: ChildJob) -> Iterator[None]:
        """Redirect descriptors 1 and 2 to the pipes of the job while it runs."""
        _redirect(job.output)
        for descriptor in job.output:
            os.close(descriptor)
        try:
            yield
        finally:
            _flush()
            _redirect(self._usual)


async def _awaited(
    job: ChildJob,
    definition: Definition,
    given: tuple[object, ...],
    arguments: dict[str, object],
) -> object:
    loop = asyncio.get_running_loop()
    task = loop.create_task(_called(definition, given, arguments))

    def interrupt() -> None:
        loop.call_soon_threadsafe(task.cancel)

    job.interrupt_by(cancel=interrupt, expiry=interrupt)
    try:
        return await task
    finally:
        job.interrupt_by()


async def _called(
    definition: Definition, given: tuple[object, ...], arguments: dict[str, object]
) -> object:
    running: object = definition.function(*given, **arguments)
    return await running if isinstance(running, Awaitable) else running


def _is_complete(job: ChildJob) -> bool:
    """Return whether the task has completed its job in a transaction of its own."""
    return job.completion is not None and job.completion.completed


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
