"""Executors run jobs: on the event loop, in a thread or in a child process."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol, TypeAlias

from duly.engine.execution import Execution
from duly.model.outcome import Completed, Outcome

# Called once, on the event loop, when an execution has ended.
OnEnd: TypeAlias = Callable[[Execution, Outcome | Completed], None]


class Executor(Protocol):
    @property
    def concurrency(self) -> int | None:
        """Return how many jobs it runs at once; None for any number."""
        ...

    def start(self, run: Execution, arguments: Mapping[str, object], over: OnEnd) -> None:
        """Start, set ``run.stopper`` to the function that stops it, call ``over`` at its end."""
        ...

    def expire_after(
        self, run: Execution, timeout: timedelta, expired: Callable[[Execution], None]
    ) -> None:
        """Stop the execution when its timeout has passed."""
        ...

    def after(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle: ...

    def kill(self) -> None:
        """Kill what can be killed, now. From any thread."""
        ...

    def lease_until(self, moment: float) -> None:
        """Let jobs end themselves at ``moment`` unless this is called again. From any thread."""
        ...

    async def close(self) -> None: ...


class LoopTimers:
    """Timers of the running event loop, for executors."""

    concurrency: int | None = None

    def expire_after(
        self, run: Execution, timeout: timedelta, expired: Callable[[Execution], None]
    ) -> None:
        run.alarm = asyncio.get_running_loop().call_later(timeout.total_seconds(), expired, run)

    def after(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback)

    def lease_until(self, moment: float) -> None:
        """Do nothing: these jobs end with the process of the worker."""
