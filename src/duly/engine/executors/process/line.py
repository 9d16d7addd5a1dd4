"""The child's end of the socket."""

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from duly.engine.executors.process import leash
from duly.engine.executors.process.frames import (
    BeginFrame,
    FrameReader,
    FromChild,
    ToChild,
    from_worker,
    packed,
)

_READ_SIZE = 64 * 1024
_LOOK_SECONDS = 0.5
_DESCRIPTORS = 2  # come with a Begin


class SignalShield(Protocol):
    """While it is held, nothing is raised in this thread from outside."""

    def __enter__(self) -> object: ...
    def __exit__(self, *exception: object) -> None: ...


class WorkerSocket:
    def __init__(self, descriptor: int, *, shield: SignalShield) -> None:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 – it has no name
        self._socket = socket.socket(fileno=descriptor)
        self._shield = shield
        self._lock = threading.Lock()
        self.is_ours = True
        # How many seconds of silence are left to this process; None for any number.
        self.patience: Callable[[], float | None] = lambda: None
        os.register_at_fork(after_in_child=self._forked)

    def send(self, frame: FromChild) -> None:
        """From any thread. Half a frame would garble all that follow, hence the shield."""
        data = packed(frame)
        with self._shield, self._lock:
            if self.is_ours:
                self._socket.sendall(data)

    def frames(self) -> Iterator[tuple[ToChild, list[int]]]:
        """What the worker says, with the descriptors that came with it, until it hangs up."""
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
                else:  # what came with the same bytes may belong to the next one
                    yield frame, []

    def close(self) -> None:
        self._socket.close()

    def _receive(self, descriptors: list[int]) -> bytes:
        try:
            self._await_word()
            data, came, _, _ = socket.recv_fds(self._socket, _READ_SIZE, _DESCRIPTORS)
        except (OSError, ValueError):  # ValueError: it is closed
            return b""
        descriptors += came
        return data

    def _await_word(self) -> None:
        """What was said before the end of patience counts, also if we come late to hear it."""
        word = select.poll()
        word.register(self._socket, select.POLLIN)
        while True:
            left = self.patience()
            # Not in one go: while the machine sleeps, this wait stands still, and a lease does not.
            if word.poll(None if left is None else 1000 * min(left, _LOOK_SECONDS)):
                return
            if left is not None and left <= 0:
                leash.cut()

    def _forked(self) -> None:
        # A task has forked. Two processes that write to one socket would garble it, and the lock
        # may have been held by a thread that is not there any more.
        self.is_ours = False
        self._lock = threading.Lock()
