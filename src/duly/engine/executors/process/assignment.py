"""The job that a child runs, as its two threads see it.

The main thread runs the task. The other one hears what the worker says meanwhile, and has to get
it across: by a flag that the task may look at, and by an interruption, if it can be interrupted.
"""

import threading
from collections.abc import Callable, Sequence

from duly.engine.executors.process.frames import LogFrame, ProgressFrame
from duly.engine.executors.process.line import WorkerSocket
from duly.engine.executors.process.orders import RunRequest
from duly.errors import InvalidValue
from duly.model.payload import Json
from duly.registry.context import Context
from duly.registry.registry import JobTransaction


class ChildJob:
    """Also the port through which its context speaks to the worker."""

    def __init__(self, order: RunRequest, line: WorkerSocket, *, output: Sequence[int]) -> None:
        self.order = order
        self.completion: JobTransaction | None = (
            None  # the transaction in which the job ends itself
        )
        self._open: Callable[..., JobTransaction] | None = None
        self.output = output  # what is to be stdout and stderr
        self._line = line
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._expired = False
        self._on_cancel: Callable[[], None] | None = None
        self._on_expiry: Callable[[], None] | None = None

    def completed_by(self, open_completion: Callable[..., JobTransaction]) -> None:
        """How the task may end its job itself: called with the store's address and the job."""
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
        """From now on, or not any more; what was said before is caught up with."""
        with self._lock:
            self._on_cancel, self._on_expiry = cancel, expiry
            if cancel is not None and self._reason is not None:
                cancel()
            if expiry is not None and self._expired:
                expiry()

    @property
    def is_heard(self) -> bool:
        """Whether there is somebody to speak to, which is not so in a fork of the child."""
        return self._line.is_ours

    def log(self, line: LogFrame) -> None:
        self._line.send(line)

    def cancelled(self) -> str | None:
        return self._reason

    def progress(self, percent: float, message: str, meta: Json | None) -> None:
        self._line.send(ProgressFrame(percent, message, meta))

    def guard(self) -> None:
        """Nobody: what a child starts is in its own group, which ends with it."""

    def transaction(self, context: Context) -> object:
        if self.completion is None or not self.completion.completed:
            self.completion = self._opened(context)
        return self.completion

    def _opened(self, context: Context) -> JobTransaction:
        job, url = context.claimed, self.order.url
        if job is None or url is None or self._open is None:
            raise InvalidValue("transaction() needs a worker that knows where its store is")
        return self._open(url, job, lease=self.order.lease)
