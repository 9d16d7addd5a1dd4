"""Where a child's jobs come in, and what the worker says about the one that runs."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import assert_never

from duly.clock import boottime
from duly.engine.executors.process import leash
from duly.engine.executors.process.assignment import ChildJob
from duly.engine.executors.process.frames import (
    BeginFrame,
    CancelFrame,
    ExpireFrame,
    LeaseFrame,
    LoadFrame,
    ToChild,
)
from duly.engine.executors.process.line import WorkerSocket

_TIME_TO_LEAVE = 0.5  # seconds, for what the application does at its exit


class JobInbox:
    def __init__(self, line: WorkerSocket, frames: Iterable[tuple[ToChild, list[int]]]) -> None:
        self._line = line
        self._frames = frames
        self._waiting: queue.SimpleQueue[ChildJob | None] = queue.SimpleQueue()
        self._current: ChildJob | None = None
        self._free = threading.Event()
        self._free.set()
        self._until: float | None = None  # the worker's lease lasts; nobody said so far
        line.patience = self._left
        # A daemon: whatever the main thread comes to, this one must not keep the child alive.
        threading.Thread(target=self._listen, name="duly-inbox", daemon=True).start()

    def __iter__(self) -> Iterator[ChildJob]:
        """The jobs, one after the other, until the worker hangs up."""
        while (assignment := self._waiting.get()) is not None:
            yield assignment

    def clear(self) -> None:
        self._free.set()

    def _listen(self) -> None:
        for frame, descriptors in self._frames:
            self._hear(frame, descriptors)
        self._waiting.put(None)
        if self._free.is_set():
            threading.Event().wait(_TIME_TO_LEAVE)
        leash.cut()

    def _hear(self, frame: ToChild, descriptors: list[int]) -> None:
        match frame:
            case BeginFrame(order=order):
                self._free.clear()
                self._current = ChildJob(order, self._line, output=descriptors)
                self._waiting.put(self._current)
            case CancelFrame(reason=reason):
                if self._current is not None:
                    self._current.cancel(reason)
            case ExpireFrame():
                if self._current is not None:
                    self._current.expire()
            case LeaseFrame(until=until):
                self._until = max(until, self._until or until)
            case LoadFrame():
                pass
            case _:
                assert_never(frame)

    def _left(self) -> float | None:
        """How long the job may run on if nothing more is heard; what waits for one may wait."""
        if self._until is None or self._free.is_set():
            return None
        return max(0.0, self._until - boottime())
