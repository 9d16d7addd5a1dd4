"""An event loop whose time and order are chosen, not measured.

Time stands still while anything can happen, and jumps to the next timer when nothing can: an hour
of waiting costs nothing. Of all the callbacks that could run next, the seed picks one. A real loop
runs them first come, first served, and so shows a program only one of the orders in which threads,
networks and databases may answer; here each seed shows another, and the same seed always the same.

That is stricter than asyncio: two ``call_soon`` in a row may run in either order. The primitives of
asyncio do not mind, and a program that does would mind a slow network as well.

So that a seed tells the same story in every process, tasks and futures are numbered and hashed by
their number, not by their address: asyncio keeps them in sets, and cancels a group in the set's
order. There is no selector and there are no threads, and whoever asks for them is refused.
"""

import asyncio
import gc
import heapq
import random
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar, TypeVarTuple, cast

if TYPE_CHECKING:
    # The abstract one has forty abstract methods about sockets, pipes and signals. They are not
    # here: each raises NotImplementedError. Only mypy asks for them.
    from asyncio import BaseEventLoop as _Base
else:
    from asyncio import AbstractEventLoop as _Base

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
Callback: TypeAlias = Callable[..., object]

# Whoever has this in its context does nothing until the time that it tells.
STILL: ContextVar[Callable[[], float]] = ContextVar("still")
# … and is looked at again after so many seconds: it may be over earlier.
GLANCE = 1.0
# More callbacks at one moment than any honest program needs.
PATIENCE = 1_000_000
# Timers to hold before looking for cancelled ones among them.
MANY = 1_000


class Deadlock(RuntimeError):
    """Nothing can happen any more, and somebody still waits."""


class TimeStandsStill(RuntimeError):
    """Callbacks follow one another without end, and none of them waits for time to pass."""


class VirtualLoop(_Base):
    """A whole event loop in one thread, driven by one seed.

    As a context manager it cancels what is left at the end, and raises what nobody had looked at.
    """

    def __init__(self, seed: int = 0, *, horizon: float = inf, patience: int = PATIENCE) -> None:
        self.errors: list[BaseException] = []  # of callbacks and tasks that nobody waited for
        self._dice = random.Random(seed)
        self._horizon = horizon
        self._patience = patience
        self._time = 0.0
        self._ready: list[_Handle] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self._many_timers = MANY
        self.numbers = count(1)
        self._stopping = False
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._cancel_what_is_left()
        self.close()
        gc.collect()  # a task that failed says so when it is deleted, in a cycle from 3.13 on
        if error is None and self.errors:
            raise BaseExceptionGroup("errors that nobody looked at", self.errors)

    def time(self) -> float:
        return self._time

    def run_until_complete(self, future: Awaitable[T] | Generator[Any, None, T]) -> T:
        """Run until the future is done, or has not been done by the horizon."""
        awaited = asyncio.ensure_future(cast(Awaitable[T], future), loop=self)
        awaited.add_done_callback(self._stop_at)
        try:
            self._run(self._horizon)
        finally:
            awaited.remove_done_callback(self._stop_at)
        if not awaited.done():
            raise self._never_done()
        return awaited.result()

    def run_until(self, moment: float) -> None:
        """Let everything happen that happens up to this time, and then be at this time."""
        self._run(moment)
        if not self._stopping:
            self._time = max(self._time, moment)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return _get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = _Handle(self._time, callback, args, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if len(self._timers) > self._many_timers:
            self._forget_cancelled_timers()
        timer = _Handle(when, callback, args, context)
        heapq.heappush(self._timers, (when, next(self.numbers), timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        number = next(self.numbers)
        named = f"task {number}" if name is None else str(name)
        return _Task(number, coro, loop=self, name=named, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context.get("exception") or RuntimeError(context["message"]))

    def get_debug(self) -> bool:
        return False

    def call_soon_threadsafe(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("a thread calls into the simulation, whose story it would make unsure")

    def run_in_executor(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("there are no threads in the simulation; give the work a port instead")

    def _forget_cancelled_timers(self) -> None:
        # Time-outs are made to be cancelled, and would fill the heap until their time has come.
        self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
        heapq.heapify(self._timers)
        self._many_timers = max(MANY, 2 * len(self._timers))

    def _run(self, until: float) -> None:
        with self._running():
            while not self._stopping and (self._ready or self._jump(until)):
                self._happen()

    @contextmanager
    def _running(self) -> Iterator[None]:
        if self._closed:
            raise RuntimeError("the loop is closed")
        if _get_running_loop() is not None:
            raise RuntimeError("another event loop is running in this thread")
        self._stopping = False
        _set_running_loop(self)
        try:
            yield
        finally:
            _set_running_loop(None)

    def _happen(self) -> None:
        """Let everything happen that can happen now, in the order of the dice."""
        ready, dice = self._ready, self._dice.random
        for _ in range(self._patience):
            if self._stopping or not ready:
                return
            chosen = int(dice() * len(ready))
            ready[chosen], ready[-1] = ready[-1], ready[chosen]
            handle = ready.pop()
            if handle.callback is None or self._stands_still(handle):
                continue
            self._call(handle.callback, handle)
        raise TimeStandsStill(
            f"{self._patience} callbacks ran at {self._time} s, and there is no end to them; "
            f"next: {ready[:3]}"
        )

    def _stands_still(self, handle: "_Handle") -> bool:
        """Whether the callback has to wait, because its process does."""
        still = handle.context.get(STILL)
        if still is None or (until := still()) <= self._time:
            return False
        again = min(until, self._time + GLANCE)
        heapq.heappush(self._timers, (again, next(self.numbers), handle))
        return True

    def _call(self, callback: Callback, handle: "_Handle") -> None:
        try:
            handle.context.run(callback, *handle.arguments)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 – to be raised at the end
            self.errors.append(error)

    def _jump(self, until: float) -> bool:
        """Go to the next timer, if it is not later: whether there was one."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers or timers[0][0] > until:
            return False
        self._time = max(self._time, timers[0][0])
        while timers and timers[0][0] <= self._time:
            self._ready.append(heapq.heappop(timers)[2])
        return True

    def _stop_at(self, _: asyncio.Future[Any]) -> None:
        self.stop()

    def _never_done(self) -> Exception:
        if self._stopping:
            return RuntimeError("the loop was stopped before the awaited future was done")
        if self._timers:
            return RuntimeError(f"the awaited future is not done by the horizon, {self._horizon} s")
        waiting = ", ".join(f"{task.get_name()} ({_where(task)})" for task in self._tasks())
        return Deadlock(f"nothing can happen any more at {self._time} s; still waiting: {waiting}")

    def _tasks(self) -> list["_Task[Any]"]:
        """Those that are not done, the oldest first."""
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, _Task)]
        return sorted(tasks, key=hash)

    def _cancel_what_is_left(self) -> None:
        for task in self._tasks():
            task.cancel()
        self.run_until(self._time + 60)  # time to clean up in
        for task in self._tasks():
            self.errors.append(RuntimeError(f"{task.get_name()} goes on though it was cancelled"))


class _Handle(asyncio.TimerHandle):
    """What is to be called, and when. As asyncio's, but lighter: half the time goes into these."""

    __slots__ = ("arguments", "callback", "context")

    def __init__(
        self, when: float, callback: Callback, arguments: tuple[Any, ...], context: Context | None
    ) -> None:
        self._when = when
        self.callback: Callback | None = callback
        self.arguments = arguments
        self.context = copy_context() if context is None else context

    def __repr__(self) -> str:
        return f"<{self.callback} at {self._when} s>"

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None


class _Future(asyncio.Future[Any]):
    _number = 0

    def __hash__(self) -> int:
        # Numbered when it first goes into a set, which few ever do.
        if not self._number:
            self._number = next(cast(VirtualLoop, self.get_loop()).numbers)
        return self._number


class _Task(asyncio.Task[T]):
    def __init__(self, number: int, coro: Any, **options: Any) -> None:  # noqa: ANN401
        self._number = number  # first: asyncio puts the task into a set while it is being made
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    return f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "not started"
