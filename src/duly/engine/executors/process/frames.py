"""What the worker and a child say to each other: JSON behind four bytes that give its length.

Never pickle: what comes out of a child was written by a task, and must not be able to run here.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from duly.engine.executors.process.orders import RunRequest

LONGEST_FRAME = 16 * 1024 * 1024
_PREFIX = 4


class InvalidFrame(Exception):
    """The other side sent something that is no frame."""


class _Frame(msgspec.Struct, frozen=True, tag=True, array_like=True):
    pass


# From the worker.


class LoadFrame(_Frame, frozen=True):
    """The first frame. Modules are looked for where the worker finds its own."""

    path: tuple[str, ...]


class BeginFrame(_Frame, frozen=True):
    """Run this. With it come two descriptors: what is to be the job's stdout and stderr."""

    order: RunRequest


class CancelFrame(_Frame, frozen=True):
    reason: str


class ExpireFrame(_Frame, frozen=True):
    """The job's time is over."""


class LeaseFrame(_Frame, frozen=True):
    """Until when jobs of the worker may run, in seconds of ``boottime``."""

    until: float


ToChild: TypeAlias = LoadFrame | BeginFrame | CancelFrame | ExpireFrame | LeaseFrame

# From the child.


class ReadyFrame(_Frame, frozen=True):
    """The application is imported."""


class BegunFrame(_Frame, frozen=True):
    """From here on the job may have done something."""


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
    """The task has ended its job itself, in a transaction."""


class FailedFrame(_Frame, frozen=True):
    error: str
    message: str
    traceback: str
    permanent: bool
    retry_after_us: int | None
    retryable: bool


class MismatchFrame(_Frame, frozen=True):
    """The arguments and the function do not fit."""

    reason: str
    signature: str


EndFrame: TypeAlias = DoneFrame | CompletedFrame | FailedFrame | MismatchFrame
FromChild: TypeAlias = ReadyFrame | BegunFrame | ProgressFrame | LogFrame | EndFrame


def packed(frame: ToChild | FromChild) -> bytes:
    body = msgspec.json.encode(frame)
    if len(body) > LONGEST_FRAME:
        raise ValueError(f"a frame of {len(body):,} bytes, and at most {LONGEST_FRAME:,} are sent")
    return len(body).to_bytes(_PREFIX, "big") + body


class FrameReader:
    """Bytes in, as they come; bodies of frames out, whole."""

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
