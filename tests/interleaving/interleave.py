"""Two or three transactions on a real PostgreSQL, in every order of their steps.

A simulator on SQLite has one writer at a time, and cannot see what READ COMMITTED allows: a
statement that looks before it waits, two who both find nothing. Here each session has a connection
of its own and is driven step by step: a statement, another, a commit. Which session steps next is
a choice, and every sequence of choices is an order that is run, from the same rows.

* A step that waits for a lock is found by asking the server who blocks it, never by its slowness;
  the others go on meanwhile, and it goes on as soon as it can. An order in which it would have to
  step while it waits does not exist.
* A deadlock is waited for, and its victim begins its operation again, as it would in earnest.
* Where there are too many orders, those with the fewest preemptions come first (a preemption is a
  switch away from a session that could have gone on). All of a number of preemptions are run, or
  none: ``Explored.preemptions`` says up to which. Most races need one, and few more than two.

Time is virtual: it goes on by ``tick`` with every step.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from duly.store.database import Start, T
from tests.interleaving.player import Player, Program, first_to_end, is_deadlocked
from tests.interleaving.stage import Stage

Sessions: TypeAlias = Mapping[str, Callable[[], Program]]

__all__ = ["Check", "Explored", "Order", "Program", "Sessions", "explore", "once"]

MOST = 400


def once(start: Start[T]) -> Callable[[], Program]:
    """A session that runs one operation."""

    def program() -> Program:
        return (yield start)

    return program


@dataclass(slots=True)
class Order:
    """One order of the steps, and what each session came to: what it returned, or its error."""

    story: list[str] = field(default_factory=list)
    results: dict[str, object] = field(default_factory=dict)
    deadlocks: int = 0
    waits: int = 0


@dataclass(slots=True)
class Explored:
    """How many orders were run, and the first that broke something."""

    orders: int = 0
    preemptions: int | None = None  # None: these are all orders that there are
    deadlocks: int = 0
    waits: int = 0
    broken: Sequence[str] = ()
    story: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n  ".join([*self.broken, f"in order {self.orders}:", *self.story])


Check: TypeAlias = Callable[[Order], Awaitable[Sequence[str]]]


async def explore(
    stage: Stage,
    sessions: Sessions,
    check: Check,
    *,
    tick: timedelta = timedelta(seconds=1),
    most: int = MOST,
) -> Explored:
    """Run the orders until one breaks something; ``check`` says what an order has broken."""
    explored = Explored()
    async for order in _interleavings(stage, sessions, explored, tick=tick, most=most):
        explored.orders += 1
        explored.deadlocks += order.deadlocks
        explored.waits += order.waits
        explored.broken = [*_refused(order), *await check(order)]
        if explored.broken:
            explored.story = order.story
            break
    return explored


async def _interleavings(
    stage: Stage, sessions: Sessions, explored: Explored, *, tick: timedelta, most: int
) -> AsyncIterator[Order]:
    """By the number of preemptions; each order once."""
    levels: list[deque[tuple[int, ...]]] = [deque([()])]
    done = 0
    for preemptions in range(1_000):
        if preemptions == len(levels):
            return
        if preemptions > 1 and done + len(levels[preemptions]) > most:
            explored.preemptions = preemptions - 1
            return
        while levels[preemptions]:
            run = _Run(stage, sessions, levels[preemptions].popleft(), tick)
            yield await run.played()
            done += 1
            for cost, choices in run.untried():
                while len(levels) <= cost:
                    levels.append(deque())
                levels[cost].append(choices)


@dataclass(frozen=True, slots=True)
class _Choice:
    chosen: int
    options: tuple[int, ...]
    current: int | None  # who stepped before, if that one could go on
    preemptions: int  # so far


class _Run:
    """One order: the choices that are given, and then nobody is interrupted."""

    def __init__(
        self, stage: Stage, sessions: Sessions, given: tuple[int, ...], tick: timedelta
    ) -> None:
        self._stage = stage
        self._given = given
        self._tick = tick
        self._trail: list[_Choice] = []
        self._order = Order()
        self._players = [
            Player(
                name,
                program(),
                connection=stage.connections[place],
                story=self._order.story,
            )
            for place, (name, program) in enumerate(sessions.items())
        ]

    async def played(self) -> Order:
        await self._stage.reset()
        current: int | None = None
        preemptions = 0
        try:
            while not all(player.done for player in self._players):
                options = self._able()
                if not options:
                    await self._resolved()
                    continue
                going_on = current if current in options else None
                chosen = self._choose(options, going_on)
                self._trail.append(_Choice(chosen, options, going_on, preemptions))
                preemptions += going_on is not None and chosen != going_on
                current = chosen
                await self._step(self._players[chosen])
        finally:
            for player in self._players:
                await player.leave()
        self._order.results = {player.name: player.result for player in self._players}
        self._order.deadlocks = sum(player.deadlocks for player in self._players)
        return self._order

    def untried(self) -> list[tuple[int, tuple[int, ...]]]:
        """The orders that leave this one behind what was given, and how often they preempt."""
        found = []
        for place in range(len(self._given), len(self._trail)):
            choice = self._trail[place]
            before = tuple(earlier.chosen for earlier in self._trail[:place])
            cost = choice.preemptions + (choice.current is not None)
            found += [(cost, (*before, o)) for o in choice.options if o != choice.chosen]
        return found

    def _able(self) -> tuple[int, ...]:
        return tuple(
            place
            for place, player in enumerate(self._players)
            if not player.done and not player.waits
        )

    def _choose(self, options: tuple[int, ...], going_on: int | None) -> int:
        place = len(self._trail)
        if place < len(self._given) and self._given[place] in options:
            return self._given[place]
        return options[0] if going_on is None else going_on

    async def _step(self, player: Player) -> None:
        self._stage.now += self._tick
        player.begin_step(self._stage)
        await self._ended_or_waiting(player)
        await self._freed()

    async def _freed(self) -> None:
        """Let those go on who waited for locks that were given up."""
        while any(player.freed_others for player in self._players):
            for player in self._players:
                player.freed_others = False
            for player in self._players:
                if player.waits:
                    await self._ended_or_waiting(player)

    async def _ended_or_waiting(self, player: Player) -> None:
        waited = player.waits
        blockers = await player.ended_or_blocked(self._stage)
        if not blockers:
            return
        self._order.waits += not waited
        if await is_deadlocked(self._stage, player, self._players):
            await self._resolved()

    async def _resolved(self) -> None:
        """Wait until the server has chosen the victim of a deadlock."""
        waiting = [player for player in self._players if player.waits]
        victim = await first_to_end(waiting)
        await victim.ended()
        await self._freed()


def _refused(order: Order) -> list[str]:
    """A database error that is no deadlock is a fault of the statements."""
    return [
        f"{name} was refused by the database: {type(result).__name__}: {result}"
        for name, result in order.results.items()
        if type(result).__module__.startswith("psycopg")
    ]
