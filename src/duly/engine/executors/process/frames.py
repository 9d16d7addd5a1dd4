"""The messages between a worker and its children: JSON after four bytes that give its length.

Never pickle: a frame from a child was written by a task and must not be able to run code here. The
worker's end of the socket is here too; the child's end is in ``child_job``.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias, assert_never

import msgspec
from msgspec.structs import replace as change

from duly.model.job import Claimed, StoredJob
from duly.model.outcome import Completed, Mismatched, Outcome, Raised, Succeeded
from duly.model.payload import EMPTY, Json


@dataclass(frozen=True, slots=True)
class CapturedLine:
    """A line that a job wrote; ``level`` is the level of its log record, or stdout or stderr."""

    at_us: int
    level: str
    text: str


OnLog: TypeAlias = Callable[[Sequence[CapturedLine]], None]
OnProgress: TypeAlias = Callable[[float, str, Json | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One attempt of a job. ``facts`` is the job itself, encoded by ``facts_of``."""

    task: str
    args: str
    facts: str
    timeout: timedelta | None = None
    grace: timedelta = timedelta(seconds=10)
    memory: int | None = None  # bytes
    url: str | None = None  # of the store
    lease: timedelta = timedelta(seconds=15)  # how long a transaction of the task may be idle

    @property
    def job_id(self) -> int:
        return job_of(self).id


def facts_of(job: StoredJob | Claimed) -> Json:
    """Encode the job without its arguments, which are sent beside it."""
    bare = replace(job, args=EMPTY) if isinstance(job, StoredJob) else change(job, args=EMPTY)
    return Json(msgspec.json.encode(bare).decode())


def job_of(request: RunRequest) -> StoredJob | Claimed:
    if request.facts.startswith("["):
        return change(_CLAIMED.decode(request.facts), args=request.args)
    return replace(_JOB.decode(request.facts), args=Json(request.args))


_CLAIMED = msgspec.json.Decoder(Claimed)
_JOB = msgspec.json.Decoder(StoredJob)


LONGEST_FRAME = 16 * 1024 * 1024
_PREFIX = 4


class InvalidFrame(Exception):
    """The other side sent bytes that are not a frame."""


class _Frame(msgspec.Struct, frozen=True, tag=True, array_like=True):
    pass


# From the worker:


class LoadFrame(_Frame, frozen=True):
    """The first frame: the worker's module search path."""

    path: tuple[str, ...]


class BeginFrame(_Frame, frozen=True):
    """Run a job. Two descriptors come with it: the job's stdout and stderr."""

    request: RunRequest


class CancelFrame(_Frame, frozen=True):
    reason: str


class ExpireFrame(_Frame, frozen=True):
    """The timeout of the job has passed."""


class LeaseFrame(_Frame, frozen=True):
    """The end of the worker's lease, in seconds of ``boottime``."""

    until: float


ToChild: TypeAlias = LoadFrame | BeginFrame | CancelFrame | ExpireFrame | LeaseFrame

# From the child:


class ReadyFrame(_Frame, frozen=True):
    """The application is imported."""


class BegunFrame(_Frame, frozen=True):
    """The task has started: from now on it may have had effects."""


class ProgressFrame(_Frame, frozen=True):
    percent: float
    message: str
    meta: str | None


class LogFrame(_Frame, frozen=True):
    at_us: int
    level: str
    text: str


class DoneFrame(_Frame, frozen=True):
    result: str | None


class CompletedFrame(_Frame, frozen=True):
    """The task has completed its job in a transaction."""


class FailedFrame(_Frame, frozen=True):
    error: str
    message: str
    traceback: str
    permanent: bool
    retry_after_us: int | None
    retryable: bool


class MismatchFrame(_Frame, frozen=True):
    """The arguments do not match the signature of the task."""

    reason: str
    signature: str


EndFrame: TypeAlias = DoneFrame | CompletedFrame | FailedFrame | MismatchFrame
FromChild: TypeAlias = ReadyFrame | BegunFrame | ProgressFrame | LogFrame | EndFrame


def outcome_of(ended: EndFrame) -> Outcome | Completed:
    match ended:
        case DoneFrame(result=result):
            return Succeeded(None if result is None else Json(result))
        case FailedFrame():
            wait = ended.retry_after_us
            return Raised(
                ended.error,
                ended.message,
                ended.traceback,
                permanent=ended.permanent,
                retry_after=None if wait is None else timedelta(microseconds=wait),
                retryable=ended.retryable,
            )
        case CompletedFrame():
            return Completed()
        case MismatchFrame():
            return Mismatched(ended.reason, ended.signature)
        case _:
            assert_never(ended)


def packed(frame: ToChild | FromChild) -> bytes:
    body = msgspec.json.encode(frame)
    if len(body) > LONGEST_FRAME:
        raise ValueError(
            f"a frame of {len(body):,} bytes is too long: at most {LONGEST_FRAME:,} are sent"
        )
    return len(body).to_bytes(_PREFIX, "big") + body


class FrameReader:
    """Splits a stream of bytes into the bodies of frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._bytes += data
        while (body := self._next()) is not None:
            yield body

    def _next(self) -> bytes | None:
        if len(self._bytes) < _PREFIX:
            return None
        end = _PREFIX + int.from_bytes(self._bytes[:_PREFIX], "big")
        if end > _PREFIX + LONGEST_FRAME:
            raise InvalidFrame(f"a frame of {end - _PREFIX:,} bytes")
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_PREFIX:end])
        del self._bytes[:end]
        return body


def from_worker(body: bytes) -> ToChild:
    return _TO_CHILD.decode(body)


def from_child(body: bytes) -> FromChild:
    try:
        return _FROM_CHILD.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidFrame(str(error)) from error


_TO_CHILD: msgspec.json.Decoder[ToChild] = msgspec.json.Decoder(ToChild)
_FROM_CHILD: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)


_CHUNK = 64 * 1024
# A task that reports progress in a tight loop is slowed down, so that it does not slow down the
# worker's other jobs.
_MOST_FRAMES = 100  # frames at once
_PAUSE_SECONDS = 0.01


class ChildSocket:
    """The worker's end of a child's socket; ``on_lost`` is called once the connection is gone.

    ``send`` without descriptors may be called from any thread, everything else on the event loop.
    """

    def __init__(
        self,
        end: socket.socket,
        *,
        on_frame: Callable[[FromChild], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._socket = end
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._unsent = bytearray()
        self._is_open = True
        self._lock = threading.Lock()  # frames must be sent whole
        self._loop = asyncio.get_running_loop()

    def listen(self) -> None:
        self._loop.add_reader(self._socket, self._read)

    def send(self, frame: ToChild, descriptors: Sequence[int] = ()) -> None:
        data, left = packed(frame), False
        with (
            self._lock,
            contextlib.suppress(OSError),
        ):  # the death of the child is noticed elsewhere
            if not self._is_open:
                return
            if descriptors:
                # They are sent with the first bytes. A child that waits for a job has read all
                # earlier frames, so the socket buffer has room for them.
                sent = socket.send_fds(self._socket, [data], descriptors)
                data = data[sent:]
            self._unsent += data
            self._push()
            left = bool(self._unsent)
        if left:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the socket will be
                self._loop.call_soon_threadsafe(self._write)

    def drain(self) -> None:
        """Read the frames that the child sent before it died."""
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
            if self._unsent:
                self._loop.add_writer(self._socket, self._write)
            else:
                self._loop.remove_writer(self._socket)

    def _push(self) -> None:
        try:
            sent = self._socket.send(self._unsent) if self._unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(self._unsent)
        del self._unsent[:sent]

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
            self._on_lost()
        return bool(data)

    def _take(self, data: bytes) -> None:
        bodies = list(self._reader.feed(data))
        for body in bodies:
            self._on_frame(from_child(body))
        if len(bodies) >= _MOST_FRAMES and self._is_open:
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_PAUSE_SECONDS, self._read_on)

    def _read_on(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._read)
