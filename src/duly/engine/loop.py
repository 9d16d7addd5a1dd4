"""The one loop of the program.

A service does one bounded piece of work in each ``tick`` and returns how long it wants to rest. The
loop does the rest, once for all services:

* A tick that fails is reported and repeated after a pause, which grows while it keeps failing.
* An unavailable store fails the ticks of every service. That is reported once when it begins and
  once when it is over.
* A tick that takes too long is cancelled. One that does not end even then is left behind, and a new
  one starts beside it: no service stops because something never answers. A tick that was left
  behind may still write; the store's guards refuse writes that come too late, and a tick must leave
  its service usable wherever it is cut off.
* A service that listens to nudges rests no longer than the poll interval. Polling is the truth and
  a nudge an optimisation: a lost nudge costs half a second, or two seconds after a quiet while in
  which nudges could arrive. A service without nudges, or one that is ``patient``, rests as long as
  it asked for.
* The health of a service is the age of its last good tick, not whether its task exists.

Only the event loop's own time is used, so that all of this runs in virtual time too. The loop
cannot see a tick that blocks the event loop itself: the heartbeat's thread watches for that.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias

from duly.clock import sleep
from duly.errors import InvalidValue, StoreUnavailable
from duly.events import (
    Emit,
    EngineEvent,
    ServiceRestarted,
    StoreLost,
    StoreRecovered,
    TickFailed,
    TickStalled,
    ignore_event,
)

EVERYBODY = "*"
CALM = 4  # how much longer a poll is after a quiet while

Dice: TypeAlias = Callable[[], float]  # from 0 to 1, without 1


class Service(Protocol):
    """Work that is repeated."""

    @property
    def name(self) -> str: ...

    @property
    def topics(self) -> frozenset[str]:
        """The nudges that wake it; ``*`` for all of them."""
        ...

    async def tick(self) -> timedelta:
        """Do one bounded piece of work; return how long to rest. Zero: there is more to do."""
        ...


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """The time limits of the loop."""

    tick: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=1)  # for a cancelled tick to end
    poll: timedelta = timedelta(seconds=0.5)  # the longest rest, give or take a fifth
    quiet_polls: int = 20  # in a row that found nothing; then polls are four times as long
    pause: timedelta = timedelta(seconds=0.1)  # after a failure, doubled with each further one
    longest_pause: timedelta = timedelta(seconds=2)


DEFAULTS = LoopLimits()


@dataclass(frozen=True, slots=True)
class ServiceProgress:
    """The progress of a service."""

    age: timedelta  # since its last good tick, or since the start
    ticks: int  # good ones
    failures: int
    last_error: str | None


class Loop:
    """Ticks services until it is told to stop."""

    def __init__(
        self,
        services: Sequence[Service],
        *,
        dice: Dice,
        emit: Emit = ignore_event,
        limits: LoopLimits = DEFAULTS,
        listening: Callable[[], bool] = lambda: False,
    ) -> None:
        """``listening`` tells whether the nudges of other processes arrive."""
        names = [service.name for service in services]
        if len(set(names)) < len(names):
            raise InvalidValue(f"two services share a name: {', '.join(sorted(names))}")
        outage = _Outage()
        self._keepers = [
            _Keeper(
                service, outage=outage, dice=dice, emit=emit, limits=limits, listening=listening
            )
            for service in services
        ]

    def nudge(self, topic: str) -> None:
        """Wake the services that asked for the topic. Only from the event loop's own thread."""
        for keeper in self._keepers:
            topics = keeper.service.topics
            if topic == EVERYBODY and keeper.is_impatient:
                keeper.wake.set()
            elif not topics.isdisjoint((topic, EVERYBODY)):
                keeper.wake.set()
                keeper.quiet_polls = 0

    def progress(self) -> Mapping[str, ServiceProgress]:
        """Return the progress of each service that still ticks, by name. From any thread."""
        return {
            keeper.service.name: keeper.progress() for keeper in self._keepers if not keeper.is_over
        }

    def end(self, names: Collection[str]) -> None:
        """Stop these services, while the others go on."""
        for keeper in self._keepers:
            if keeper.service.name in names:
                keeper.is_over = True
                keeper.wake.set()
                keeper.halt.set()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Tick until ``stop`` is set and the ticks under way have ended, or until cancelled."""
        stop = stop or asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for keeper in self._keepers:
                group.create_task(keeper.keep(stop), name=f"{keeper.service.name} keeper")
            await stop.wait()
            for keeper in self._keepers:
                keeper.wake.set()
                keeper.halt.set()


class _Keeper:
    """Ticks one service."""

    def __init__(
        self,
        service: Service,
        *,
        outage: "_Outage",
        dice: Dice,
        emit: Emit,
        limits: LoopLimits,
        listening: Callable[[], bool],
    ) -> None:
        self.service = service
        self._outage = outage
        self.wake = Waiter()  # set by nudges
        self.halt = Waiter()  # set by the end only
        self.is_over = False
        self._dice = dice
        self._emit = emit
        self._limits = limits
        self._listening = listening
        self.quiet_polls = 0  # ticks in a row that wanted to rest, and no nudge meant this service
        self._time: Callable[[], float] = lambda: 0.0
        self._good_at = 0.0
        self._ticks = 0
        self._failures = 0
        self._failures_in_a_row = 0
        self._last_error: str | None = None
        self._left_behind: list[asyncio.Task[float]] = []  # the event loop holds tasks only weakly

    def progress(self) -> ServiceProgress:
        age = timedelta(seconds=self._time() - self._good_at)
        return ServiceProgress(
            age, self._ticks, failures=self._failures, last_error=self._last_error
        )

    async def keep(self, stop: asyncio.Event) -> None:
        self._time = asyncio.get_running_loop().time
        self._good_at = self._time()
        while not (stop.is_set() or self.is_over):
            rest = await self._tick()
            if rest is None:
                # Nudges do not shorten the pause after a failure.
                await self.halt.rest(self._pause())
            elif self.is_impatient:
                is_quiet = rest >= self._limits.poll.total_seconds()
                self.quiet_polls = self.quiet_polls + 1 if is_quiet else 0
                await self.wake.rest(min(rest, self._poll()))
            else:
                await self.wake.rest(rest)

    @property
    def is_impatient(self) -> bool:
        return bool(self.service.topics) and not getattr(self.service, "patient", False)

    async def _tick(self) -> float | None:
        """Tick once; return the rest in seconds, or None if the tick failed."""
        # A task of its own: it can be left behind, and its own cancellation cannot be mistaken
        # for ours.
        tick = asyncio.create_task(_rest_after(self.service), name=f"{self.service.name} tick")
        try:
            await _give(tick, self._limits.tick)
        except asyncio.CancelledError:
            await self._end(tick)
            raise
        if tick.done():
            return self._judge(tick)
        await self._stalled(tick)
        return None

    def _judge(self, tick: asyncio.Task[float]) -> float | None:
        if tick.cancelled():
            # Not by us: something that it awaited was cancelled. That must not end the service.
            self._failed(
                asyncio.CancelledError("a task or future that the tick awaited was cancelled")
            )
            return None
        error = tick.exception()
        if isinstance(error, Exception):
            self._failed(error)
            return None
        rest = tick.result()  # or raises, and ends the program: neither a result nor an Exception
        self._good_at = self._time()
        self._ticks += 1
        self._failures_in_a_row = 0
        over = self._outage.answered(self.service.name, self._good_at)
        if over is not None:
            self._say(StoreRecovered(over))
        return rest

    def _failed(self, error: BaseException) -> None:
        self._count(f"{type(error).__name__}: {error}")
        if not isinstance(error, StoreUnavailable):
            self._say(TickFailed(self.service.name, error))
        elif self._outage.failed(self.service.name, self._time()):
            self._say(StoreLost(self.service.name, error))

    async def _stalled(self, tick: asyncio.Task[float]) -> None:
        self._count(f"no answer within {self._limits.tick}")
        self._say(TickStalled(self.service.name, self._limits.tick))
        await self._end(tick)
        if not tick.done():
            self._say(ServiceRestarted(self.service.name))

    async def _end(self, tick: asyncio.Task[float]) -> None:
        """Cancel a tick and wait a moment for its end."""
        self._left_behind.append(tick)
        tick.add_done_callback(self._forget)
        tick.cancel()
        await _give(tick, self._limits.grace)

    def _forget(self, tick: asyncio.Task[float]) -> None:
        self._left_behind.remove(tick)
        if not tick.cancelled():
            tick.exception()  # retrieved, or asyncio logs a warning

    def _count(self, error: str) -> None:
        self._failures += 1
        self._failures_in_a_row += 1
        self._last_error = error

    def _say(self, event: EngineEvent) -> None:
        # An error of the listener must not stop the service.
        with contextlib.suppress(Exception):
            self._emit(event)

    def _poll(self) -> float:
        is_calm = self.quiet_polls > self._limits.quiet_polls and self._listening()
        poll = self._limits.poll * (CALM if is_calm else 1)
        return poll.total_seconds() * (0.8 + 0.4 * self._dice())

    def _pause(self) -> float:
        doublings = min(self._failures_in_a_row - 1, 30)
        pause = min(self._limits.pause * (1 << doublings), self._limits.longest_pause)
        return pause.total_seconds()


class _Outage:
    """The services that wait for the store, and since when any of them does."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._since = 0.0

    def failed(self, service: str, at: float) -> bool:
        """Note a tick that the store did not answer; return whether an outage begins with it."""
        begins = not self._waiting
        if begins:
            self._since = at
        self._waiting.add(service)
        return begins

    def answered(self, service: str, at: float) -> timedelta | None:
        """Note a good tick; return how long the outage was if it is over now."""
        if service not in self._waiting:
            return None
        self._waiting.remove(service)
        return None if self._waiting else timedelta(seconds=at - self._since)


async def _give(tick: asyncio.Task[float], time: timedelta) -> None:
    """Wait for the end of the tick, at most that long."""
    over = Waiter()
    tick.add_done_callback(lambda _: over.set())
    await over.rest(time.total_seconds())


async def _rest_after(service: Service) -> float:
    rest: timedelta = await service.tick()
    return rest.total_seconds()


class Waiter:
    """A rest that can be cut short: one sleeper, any number of wakers on the same event loop."""

    def __init__(self) -> None:
        self._nudged = False
        self._sleeper: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._nudged = True
        if self._sleeper is not None:
            _wake_up(self._sleeper)

    async def rest(self, seconds: float) -> bool:
        """Rest until woken or until the time has passed; return whether it was woken.

        Other tasks of the loop run in any case.
        """
        if self._nudged or seconds <= 0:
            await sleep(0)
        else:
            await self._sleep(seconds)
        nudged, self._nudged = self._nudged, False
        return nudged

    async def _sleep(self, seconds: float) -> None:
        # Without asyncio.timeout, which raises two exceptions and takes twice as long.
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        alarm = loop.call_later(seconds, _wake_up, self._sleeper)
        try:
            await self._sleeper
        finally:
            alarm.cancel()
            self._sleeper = None


def _wake_up(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
