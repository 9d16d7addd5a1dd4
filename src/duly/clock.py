"""The only place that reads a clock, and the only one that waits for it.

Everything else takes the moment as an argument, so that a test can choose it.
"""

import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TypeAlias

Teller: TypeAlias = Callable[[], datetime | None]  # None: it does not know any more


def now() -> datetime:
    chosen = _CHOSEN.get()
    moment = None if chosen is None else chosen()
    return datetime.now(UTC) if moment is None else moment


def choose(teller: Teller | None) -> Teller | None:
    """Replace the clock in this context and in tasks it starts; return the previous clock.

    Code in other contexts keeps the machine's time.
    """
    before = _CHOSEN.get()
    _CHOSEN.set(teller)
    return before


def boottime() -> float:
    """Return seconds on a clock that cannot be set and that includes the time of a suspend.

    Where there is no such clock, the monotonic one: there, a suspend looks like a jump of every
    other clock.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    else:  # noqa: RET505 – mypy knows the platform, and would call a line below it unreachable
        return time.monotonic()


async def sleep(seconds: float) -> None:
    """Wait on the running loop's own time, which may be virtual.

    Zero yields to other tasks once.
    """
    # Importing it takes 60 ms, which `duly next` need not pay to read the clock.
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(seconds)


class Timeout:
    """``asyncio.timeout``, which before Python 3.11.3 fails in a task that is being cancelled.

    There, such a task that cleaned up within a time limit got a ``CancelledError`` at the limit
    instead of the ``TimeoutError`` it was prepared for, and left the rest of its cleanup undone.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expired = False

    def expired(self) -> bool:
        return self._expired

    async def __aenter__(self) -> Self:
        import asyncio  # noqa: PLC0415 - as above

        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task = task
        self._cancelled_before = task.cancelling()
        self._alarm = asyncio.get_running_loop().call_later(self._seconds, self._expire)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        import asyncio  # noqa: PLC0415 - as above

        self._alarm.cancel()
        if not self._expired:
            return
        cancelled_by_others = self._task.uncancel() > self._cancelled_before
        if (
            kind is not None
            and issubclass(kind, asyncio.CancelledError)
            and not cancelled_by_others
        ):
            raise TimeoutError from error

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()


_CHOSEN: ContextVar[Teller | None] = ContextVar("duly.clock", default=None)
