"""The real statements on an in-memory SQLite, and all that can go wrong on the way to it.

An operation takes its turn as the one writer, and each of its statements is a step at which the
dice may say: go on, wait, die, stand still, lose the connection. After the commit the answer may be
lost.

Nobody else can write during somebody's turn, so a step that merely goes on need not give way to the
others: they could see no difference. In a *loose* world, though, what a database without row locks
would read without holding it is read here outside of the turn, and others write in between.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context

from duly.clock import Timeout, sleep
from duly.errors import OutcomeUnknown, StoreUnavailable
from duly.instants import to_us
from duly.store.database import Ask, Dialect, Migration, Row, Start, T, alone
from duly.store.sqlite.connection import execute
from duly.store.sqlite.database import SQLITE
from tests.simulation.checkers import Transaction
from tests.simulation.counts import Asked
from tests.simulation.world import Host, World

# What a database without row locks reads before it holds anything.
_UNHELD = (
    "due_schedules", "due_with_settled", "live_jobs", "waiting_jobs", "settled_fires",
    "stale_schedules",
)  # fmt: skip


class SimulatedDatabase:
    """The database as one host sees it."""

    dialect: Dialect = SQLITE
    is_listening = False

    def __init__(self, world: World, host: Host) -> None:
        self._world = world
        self._host = host

    async def write(self, start: Start[T], /) -> T:
        result = await self._transact(start, writing=True)
        await self._answer()
        return result

    async def write_one(self, ask: Ask, /) -> list[Row]:
        return await self.write(lambda: alone(ask))

    async def read(self, start: Start[T], /) -> T:
        return await self._transact(start, writing=False)

    def nudge(self, topics: Sequence[str], /) -> None:
        if self._host.alive:
            self._world.nudge(self._host, tuple(topics))

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._host.listeners.append(listener)

    async def applied(self) -> list[int]:
        raise NotImplementedError("the world makes its tables itself")

    async def minimum(self) -> int:
        return 0

    async def apply(self, migration: Migration, /) -> bool:
        raise NotImplementedError("the world makes its tables itself")

    async def open(self) -> None:
        """The world is there before its hosts."""

    async def close(self) -> None:
        """… and stays after them."""

    async def _transact(self, start: Start[T], *, writing: bool) -> T:
        await self._reach()
        turn = _Turn(self._world, self._host, writing=writing)
        # The database does not stand still with its client.
        task = self._world.loop.create_task(turn.run(start), context=Context())
        try:
            return await task
        except _TerminatedError:
            self._world.sometimes["transaction ended from outside"] += 1
            raise self._unavailable(
                "the transaction was undone: nothing came for too long"
            ) from None

    async def _reach(self) -> None:
        """Get through to the database, or do not."""
        world, host = self._world, self._host
        if not host.alive:
            raise asyncio.CancelledError
        await sleep(world.dice.random() * world.knobs.latency)
        until = max(world.outage_until, host.cut_until)
        if until > world.loop.time():
            # Some notice at once; some wait for an answer that does not come.
            if world.chance(0.3):
                await sleep(world.knobs.deadline)
            raise self._unavailable("the database cannot be reached")
        if world.chance(world.odds.refused):
            raise self._unavailable("the connection was refused")

    async def _answer(self) -> None:
        world = self._world
        if world.chance(world.odds.lost_answer):
            world.tell(self._host.name, "loses the answer")
            world.sometimes["answer lost"] += 1
            world.unanswered.update(world.checkers.claimed)
            await sleep(world.dice.random() * world.knobs.deadline)
            raise OutcomeUnknown("the answer to the commit was lost")

    def _unavailable(self, why: str) -> StoreUnavailable:
        self._world.tell(self._host.name, "fails:", why)
        return StoreUnavailable(why)


class _Turn:
    """One operation, from its first statement to its commit."""

    def __init__(self, world: World, host: Host, *, writing: bool) -> None:
        self._world = world
        self._host = host
        self._writing = writing
        self._outages = world.outages
        self._connection = world.connection
        self._now = 0
        self._told = 0
        self._asked: list[Asked] = []
        self._since = world.checkers.counts.commits
        self._open = False
        self._holds = False  # something that nobody else may write, until the commit

    async def run(self, start: Start[T]) -> T:
        operation = start()
        try:
            await self._begin()
            ask = next(operation)
            while True:
                await self._step()
                rows = self._execute(ask)
                if self._writing and self._lets_go(ask):
                    await self._give_way()
                ask = operation.send(rows)
        except StopIteration as end:
            result: T = end.value
            await self._step()
            self._commit()
            return result
        finally:
            operation.close()
            self._undo()

    async def _begin(self) -> None:
        lock = self._world.writer
        if lock.locked():
            try:
                async with Timeout(self._world.knobs.deadline):
                    await lock.acquire()
            except TimeoutError:
                raise StoreUnavailable("other writers were at it for too long") from None
        else:
            await lock.acquire()
        self._open = True
        self._connection.execute("begin immediate" if self._writing else "begin")
        self._read_clock()

    def _read_clock(self) -> None:
        self._now = self._world.now
        told = self._host.wall() if self._world.sabotage.nodes_clock else self._world.clock.now()
        self._told = to_us(told)

    def _execute(self, ask: Ask) -> list[Row]:
        world = self._world
        rows = execute(self._connection, world.texts[ask.statement], ask.values, self._told)
        if len(rows) > 1 and world.unordered[ask.statement]:
            world.dice.shuffle(rows)
        # Who holds numbers is named by real dice, and nothing depends on the name.
        values = {name: value for name, value in ask.values.items() if name != "holder"}
        world.tell(self._host.name, ask.statement, f"{values} → {rows}")
        self._asked.append(Asked(ask.statement, ask.values, len(rows)))
        return rows

    async def _step(self) -> None:
        """A moment between two statements."""
        world, host = self._world, self._host
        if not host.alive:
            raise asyncio.CancelledError
        roll = world.dice.random()
        odds = world.odds
        if roll < odds.at_a_statement:
            if roll < odds.delay:
                await sleep(world.dice.random() ** 3 * 3)
            elif roll < odds.delay + odds.cut:
                raise StoreUnavailable("the connection was lost, and the transaction undone")
            elif roll < odds.delay + odds.cut + odds.crash:
                world.tell(host.name, "crashes in a transaction")
                host.crash()
                raise asyncio.CancelledError
            else:
                host.freeze(world.knobs.lease * (0.5 + 2 * world.dice.random()))
        await self._stand_still()
        if self._outages != world.outages or host.cut_until > world.loop.time():
            raise StoreUnavailable("the connection was lost, and the transaction undone")

    async def _stand_still(self) -> None:
        still = self._host.frozen_until - self._world.loop.time()
        if still > self._world.knobs.idle:
            await sleep(self._world.knobs.idle)
            raise _TerminatedError
        if still > 0:
            await sleep(still)

    def _lets_go(self, ask: Ask) -> bool:
        """Whether nothing is held after this statement, in this world."""
        if self._world.sabotage.torn:
            return True
        self._holds = self._holds or ask.statement not in _UNHELD
        return self._world.loose and not self._holds

    async def _give_way(self) -> None:
        """Hold nothing for a moment, and come back."""
        self._commit()
        self._end_turn()
        await sleep(self._world.dice.random() ** 2 * 0.2)
        await self._begin()

    def _commit(self) -> None:
        if not self._writing:
            return
        self._connection.execute("commit")
        changes = self._world.watch.take()
        made = Transaction(self._host.name, self._now, self._asked, changes, self._since)
        self._world.checkers.committed(made)

    def _undo(self) -> None:
        if not self._open:
            return
        if self._connection.in_transaction:
            self._connection.execute("rollback")
            changes = self._world.watch.take()
            if changes and not self._writing:
                self._world.violated(f"{self._asked} was asked as a read, and writes: {changes}")
        self._end_turn()

    def _end_turn(self) -> None:
        self._open = False
        self._world.writer.release()


class _TerminatedError(Exception):
    """The database has ended a transaction whose client said nothing for too long."""
