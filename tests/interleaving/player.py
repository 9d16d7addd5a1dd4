"""A session of an interleaving: it takes one step at a time, and may have to wait in it."""

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

from duly.clock import Timeout
from duly.store.database import Ask, Operation, Row, Start
from duly.store.postgres.connections import PASSING
from tests.interleaving.stage import Connection, Stage

# It gives out operations, each a transaction, and gets back what they returned.
Program: TypeAlias = Generator[Start[Any], Any, object]

_GLANCE = 0.002  # seconds between two looks at whether a step waits for a lock
_LONGEST = 10.0  # seconds after which a deadlock that is not noticed is a fault of ours


class Player:
    """A session: its transactions one after another, each a sequence of steps."""

    def __init__(
        self, name: str, program: Program, *, connection: Connection, story: list[str]
    ) -> None:
        self.name = name
        self.connection = connection
        self.result: object = None
        self.done = False
        self.waits = False
        self.freed_others = False  # it gave up its locks, and nobody has looked yet who goes on
        self.deadlocks = 0
        self._program = program
        self._story = story
        self._start: Start[Any]
        self._operation: Operation[Any]
        self._ask: Ask | None = None  # none: what is left is to commit, or to roll back
        self._value: object = None
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._next_transaction()

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    def begin_step(self, stage: Stage) -> None:
        self._story.append(f"{self.name}: {self._what}")
        self._task = asyncio.create_task(self._act(stage))

    @property
    def task(self) -> "asyncio.Task[None]":
        """The step that is under way."""
        if self._task is None:
            raise RuntimeError(f"{self.name} has begun no step")
        return self._task

    async def ended_or_blocked(self, stage: Stage) -> list[int]:
        """Wait until the step is over, or until it is known for whom it waits."""
        while True:
            await asyncio.wait({self.task}, timeout=_GLANCE)
            if self.task.done():
                await self.ended()
                return []
            blockers = await stage.blockers(self.connection)
            if blockers:
                if not self.waits:
                    self._story[-1] += " … waits"
                self.waits = True
                return blockers

    async def ended(self) -> None:
        """Take in the answer to a step, and get the next one ready."""
        if self.waits:
            self._story.append(f"{self.name}: … goes on")
        self.waits = False
        error = self.task.exception()
        self._task = None
        if isinstance(error, PASSING):
            self._story.append(f"{self.name}: begins again: {type(error).__name__}")
            self.deadlocks += 1
            await self._undo()
            self._begin()
        elif isinstance(error, Exception):
            await self._undo()
            self._next_transaction(error)

    async def leave(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})
            await self.connection.rollback()
        self._operation.close()

    @property
    def _what(self) -> str:
        if self._ask:
            return self._ask.statement
        return f"roll back: {type(self._error).__name__}" if self._error else "commit"

    async def _act(self, stage: Stage) -> None:
        """One step. A last look and the commit are one: nobody can notice what lies between."""
        if self._ask:
            unnoticed = stage.only_reads(self._ask.statement)
            more = self._go_on(await stage.rows(self.connection, self._ask))
            if more or not unnoticed:
                return
            self._story[-1] += f", {self._what}"
        await (self.connection.rollback() if self._error else self.connection.commit())
        self.freed_others = True
        self._next_transaction(self._error)

    async def _undo(self) -> None:
        await self.connection.rollback()
        self.freed_others = True

    def _next_transaction(self, error: Exception | None = None) -> None:
        try:
            if error:
                self._start = self._program.throw(error)
            else:
                self._start = self._program.send(self._value)
        except StopIteration as end:
            self.result, self.done = end.value, True
        except Exception as raised:  # noqa: BLE001 - what a session came to is for the check
            self.result, self.done = raised, True
        else:
            self._begin()

    def _begin(self) -> None:
        self._operation = self._start()
        self._go_on(None)

    def _go_on(self, rows: list[Row] | None) -> bool:
        """Whether another statement follows."""
        self._value = self._error = self._ask = None
        try:
            self._ask = self._operation.send(rows) if rows is not None else next(self._operation)
        except StopIteration as end:
            self._value = end.value
        except Exception as error:  # noqa: BLE001 - an operation may refuse; its session sees it
            self._error = error
        return self._ask is not None


async def first_to_end(players: Sequence[Player]) -> Player:
    """Whose step is over first, of those that wait."""
    tasks = {player.task: player for player in players}
    async with Timeout(_LONGEST):
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return tasks[done.pop()]


async def is_deadlocked(stage: Stage, player: Player, players: Sequence[Player]) -> bool:
    """Whether this one waits, over others, for itself."""
    waits_for = {
        other.pid: await stage.blockers(other.connection) for other in players if other.waits
    }
    reached: set[int] = set()
    ahead = list(waits_for.get(player.pid, ()))
    while ahead:
        pid = ahead.pop()
        if pid not in reached:
            reached.add(pid)
            ahead += waits_for.get(pid, ())
    return player.pid in reached
