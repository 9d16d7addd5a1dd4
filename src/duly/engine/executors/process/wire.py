"""The worker's end of a child's socket, on the event loop."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

from duly.engine.executors.process.frames import (
    Broken,
    FromChild,
    Inbox,
    ToChild,
    from_child,
    packed,
)

_CHUNK = 64 * 1024
# A task that reports its progress in a tight loop is held up by this; the worker's other jobs would
# be otherwise.
_FLOOD = 100  # frames at once
_BREATH = 0.01  # seconds


class Wire:
    """``lost`` is called once the other end cannot be talked to any more."""

    def __init__(
        self, end: socket.socket, *, hear: Callable[[FromChild], None], lost: Callable[[], None]
    ) -> None:
        self._socket = end
        self._hear = hear
        self._lost = lost
        self._inbox = Inbox()
        self._outbox = bytearray()
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(end, self._read)

    def send(self, frame: ToChild, descriptors: Sequence[int] = ()) -> None:
        if not self._is_open:
            return
        data = packed(frame)
        with contextlib.suppress(OSError):  # its death is noticed elsewhere
            if descriptors:
                # They travel with the first bytes. A child that waits for a job has read all that
                # was said before, so there is room for those.
                sent = socket.send_fds(self._socket, [data], descriptors)
                data = data[sent:]
            self._outbox += data
            self._write()

    def drain(self) -> None:
        """Read what the child still said before it died."""
        while self._is_open and self._read():
            pass

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _write(self) -> None:
        try:
            sent = self._socket.send(self._outbox) if self._outbox else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(self._outbox)
        del self._outbox[:sent]
        if self._outbox:
            self._loop.add_writer(self._socket, self._write)
        else:
            self._loop.remove_writer(self._socket)

    def _read(self) -> bool:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        try:
            self._take(data)
        except Broken:
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
