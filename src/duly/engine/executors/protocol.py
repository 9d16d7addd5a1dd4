"""What runs a job: a coroutine on the loop, a thread, or a process of its own."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol, TypeAlias

from duly.engine.run import Execution
from duly.model.outcome import Completed, Outcome

# Told once, on the event loop, when a run is over.
OnEnd: TypeAlias = Callable[[Execution, Outcome | Completed], None]


class Executor(Protocol):
    @property
    def seats(self) -> int | None:
        """How many jobs it runs at once; None for any number."""
        ...

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
        """Begin, set ``run.stopper`` to what makes it end, and say ``over`` when it has."""
        ...

    def expire_after(
        self, run: Execution, timeout: timedelta, expired: Callable[[Execution], None]
    ) -> None:
        """See to it that the run is stopped when its time is over."""
        ...

    def after(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle: ...

    def kill(self) -> None:
        """From any thread, at once: end what can be ended."""
        ...

    def lease_until(self, moment: float) -> None:
        """From any thread: what can end itself does so then, if this is not called again before."""
        ...

    async def close(self) -> None: ...


class LoopTimers:
    """In the process of the worker, with timers of the running event loop."""

    seats: int | None = None

    def expire_after(
        self, run: Execution, timeout: timedelta, expired: Callable[[Execution], None]
    ) -> None:
        run.alarm = asyncio.get_running_loop().call_later(timeout.total_seconds(), expired, run)

    def after(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback)

    def lease_until(self, moment: float) -> None:
        """Nothing here could outlive the worker's own doubts."""
