"""The worker's end of a child's socket, on the event loop."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Sequence

from duly.engine.executors.process.frames import (
    FrameReader,
    FromChild,
    InvalidFrame,
    ToChild,
    from_child,
    packed,
)

_CHUNK = 64 * 1024
# A task that reports its progress in a tight loop is held up by this; the worker's other jobs would
# be otherwise.
_FLOOD = 100  # frames at once
_BREATH = 0.01  # seconds


class ChildSocket:
    """``lost`` is called once the other end cannot be talked to any more.

    Frames are sent from any thread, those without descriptors; all else belongs to the event loop.
    """

    def __init__(
        self, end: socket.socket, *, hear: Callable[[FromChild], None], lost: Callable[[], None]
    ) -> None:
        self._socket = end
        self._hear = hear
        self._lost = lost
        self._inbox = FrameReader()
        self._outbox = bytearray()
        self._is_open = True
        self._lock = threading.Lock()  # for what is sent: half a frame would garble all others
        self._loop = asyncio.get_running_loop()

    def listen(self) -> None:
        self._loop.add_reader(self._socket, self._read)

    def send(self, frame: ToChild, descriptors: Sequence[int] = ()) -> None:
        data, left = packed(frame), False
        with self._lock, contextlib.suppress(OSError):  # its death is noticed elsewhere
            if not self._is_open:
                return
            if descriptors:
                # They travel with the first bytes. A child that waits for a job has read all that
                # was said before, so there is room for those.
                sent = socket.send_fds(self._socket, [data], descriptors)
                data = data[sent:]
            self._outbox += data
            self._push()
            left = bool(self._outbox)
        if left:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the wire soon
                self._loop.call_soon_threadsafe(self._write)

    def drain(self) -> None:
        """Read what the child still said before it died."""
        while self._is_open and self._read():
            pass

    def close(self) -> None:
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._loop.remove_reader(self._socket)
                self._loop.remove_writer(self._socket)
                self._socket.close()

    def _write(self) -> None:
        with self._lock:
            if not self._is_open:
                return
            self._push()
            if self._outbox:
                self._loop.add_writer(self._socket, self._write)
            else:
                self._loop.remove_writer(self._socket)

    def _push(self) -> None:
        try:
            sent = self._socket.send(self._outbox) if self._outbox else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(self._outbox)
        del self._outbox[:sent]

    def _read(self) -> bool:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        try:
            self._take(data)
        except InvalidFrame:
            data = b""
        if not data:
            self.close()
            self._lost()
        return bool(data)

    def _take(self, data: bytes) -> None:
        bodies = list(self._inbox.feed(data))
        for body in bodies:
            self._hear(from_child(body))
        if len(bodies) >= _FLOOD and self._is_open:
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_BREATH, self._read_on)

    def _read_on(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._read)
