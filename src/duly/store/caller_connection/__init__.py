"""Writes inside the caller's transaction, on its connection.

Jobs and events are written by one operation each; every other change by a store, which has the
nouns and operations of any other, and lives as long as one call. The writes are committed or rolled
back with the caller's transaction, and other processes are notified by its commit.

Two things are not possible on the caller's connection, and are refused. A repeatable read
transaction does not see what others have committed, which a decision about a schedule needs. And a
row of a day without a partition would need one created, and other transactions would wait for that.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from duly.errors import InvalidValue, StoreUnavailable, WrongState
from duly.model.event import Emitted
from duly.model.job import JobRequest
from duly.model.payload import LONGEST_ARGS, check_text
from duly.store import events
from duly.store.caller_connection.drivers import (
    CallerConnection,
    Driver,
    bracketed,
    carry_out,
    driver_of,
    named,
    notified,
    reserved,
)
from duly.store.database import Ask, Dialect, Migration, Operation, Row, Start, alone, at_once
from duly.store.enqueueing import enqueue, numbered_calls, topics_of
from duly.store.ids import all_new
from duly.store.store import SqlStore, Store
from duly.store.values import EVENTS

T = TypeVar("T")

Work: TypeAlias = Callable[[Store], Coroutine[Any, Any, T]]
Run: TypeAlias = Callable[[Driver, object], Coroutine[Any, Any, T]]

NO_PLACE = (
    "duly's tables have no partition for that day, and none can be created in your own "
    "transaction; nothing was done: start duly up or duly scheduler, which create partitions "
    "ahead, or leave connection= out"
)
_CHECK_VIOLATION = "23514"


class Verb(NamedTuple):
    """The method that the caller used, for error messages that name the right one.

    ``decides``: the outcome depends on what others committed; it may be refused after writing.
    """

    owner: str
    name: str
    given: str = "…, connection=…"
    decides: bool = True

    @property
    def called(self) -> str:
        return f"{self.owner}.{self.name}({self.given})"

    @property
    def awaited(self) -> str:
        return f"{self.owner}.a{self.name}({self.given})"


def write_on(connection: object, work: Work[T], verb: Verb) -> T:
    """Run the work on a store in the transaction of the connection."""
    return _run_on(connection, partial(_visit, work, verb), awaited=verb.awaited)


async def awrite_on(connection: object, work: Work[T], verb: Verb) -> T:
    """Run the work like ``write_on``, on an asynchronous connection."""
    return await _arun_on(connection, partial(_visit, work, verb), called=verb.called)


def enqueue_on(connection: object, calls: Sequence[JobRequest]) -> list[int]:
    """Store jobs in the transaction of the connection; return their ids."""
    return _run_on(connection, partial(_enqueue, calls), awaited=_awaited(calls))


async def aenqueue_on(connection: object, calls: Sequence[JobRequest]) -> list[int]:
    """Store jobs like ``enqueue_on``, on an asynchronous connection."""
    return await _arun_on(connection, partial(_enqueue, calls), called="enqueue(…)")


def emit_on(connection: object, said: Sequence[Emitted]) -> list[int]:
    """Store events in the transaction of the connection; return their ids."""
    return _run_on(connection, partial(_emit, said), awaited="duly.aemit(…, connection=…)")


async def aemit_on(connection: object, said: Sequence[Emitted]) -> list[int]:
    """Store events like ``emit_on``, on an asynchronous connection."""
    return await _arun_on(connection, partial(_emit, said), called="duly.emit(…, connection=…)")


def _run_on(connection: object, run: Run[T], *, awaited: str = "") -> T:
    """Run a write on a connection that does not wait; ``awaited`` is the call for one that does."""
    driver = driver_of(connection)
    if driver.waits:
        raise InvalidValue(f"this is {named(connection)}: await {awaited}")
    return at_once(run(driver, connection))


async def _arun_on(connection: object, run: Run[T], *, called: str) -> T:
    driver = driver_of(connection)
    if not driver.waits:
        raise InvalidValue(
            f"this is {named(connection)} of {driver.package}, which cannot be awaited: "
            f"{called} without await"
        )
    if driver.relay:
        lender = await driver.relay(connection)
        result: T = await lender.run_sync(_run_on, run)
        return result
    return await run(driver, connection)


async def _visit(work: Work[T], verb: Verb, driver: Driver, connection: object) -> T:
    caller = CallerConnection.on(driver, connection)
    ids = await carry_out(caller, reserved(1))
    if verb.decides:
        await carry_out(caller, _see_what_others_commit(caller))
    database = _CallerDatabase(caller, whole=verb.decides)
    result = await work(SqlStore(database, ids=ids))
    await carry_out(caller, notified(caller, database.topics))
    return result


async def _enqueue(calls: Sequence[JobRequest], driver: Driver, connection: object) -> list[int]:
    for call in calls:  # here: an error of PostgreSQL would abort the caller's transaction
        check_text(call.args, "arguments", longest=LONGEST_ARGS)
        check_text(call.retry or "", "retry", longest=LONGEST_ARGS)
    if not calls:
        return []
    caller = CallerConnection.on(driver, connection)
    return await carry_out(caller, _enqueued(caller, calls))


async def _emit(said: Sequence[Emitted], driver: Driver, connection: object) -> list[int]:
    if not said:
        return []
    caller = CallerConnection.on(driver, connection)
    return await carry_out(caller, _emitted(caller, said))


def _enqueued(caller: CallerConnection, calls: Sequence[JobRequest]) -> Operation[list[int]]:
    """Enqueue the jobs, in a savepoint only where one is needed.

    Without keys, one statement writes. A key that is taken is noticed before anything is changed.
    So a caller that enqueues one job after the other needs no savepoint.
    """
    ids = yield from reserved(len(calls))
    numbers = ids.take(len(calls))
    has_keys = any(call.key is not None for call in calls)
    brackets = caller.brackets(whole=len(calls) > 1) if has_keys else None
    numbers = yield from bracketed(brackets, enqueue(numbered_calls(calls, numbers)))
    yield from notified(caller, topics_of(calls))
    return numbers


def _awaited(calls: Sequence[JobRequest]) -> str:
    """Return the asynchronous call that the caller should have used, for the error message."""
    if len(calls) == 1:
        return f"{calls[0].task}.using(connection=…).aenqueue(…)"
    return "duly.aenqueue_many(…, connection=…)"


def _emitted(caller: CallerConnection, said: Sequence[Emitted]) -> Operation[list[int]]:
    ids = yield from reserved(len(said))
    numbers = ids.take(len(said))
    all_new((yield events.emit(said, numbers)), len(said))
    yield from notified(caller, [EVENTS])
    return numbers


def _see_what_others_commit(caller: CallerConnection) -> Operation[None]:
    if not caller.on_postgres:
        return  # SQLite has one writer at a time
    [(found,)] = yield Ask("isolation")
    if found != "read committed":
        raise InvalidValue(
            f"the transaction is {found}, but a change of a schedule must see what others commit "
            "in the meantime: use read committed, or leave connection= out"
        )


class _CallerDatabase:
    """The caller's connection as the database of a store."""

    def __init__(self, caller: CallerConnection, *, whole: bool) -> None:
        self.dialect: Dialect = caller.dialect
        self.topics: dict[str, None] = {}  # to notify other processes of
        self._caller = caller
        self._whole = whole

    async def write(self, start: Start[T], /) -> T:
        operation = bracketed(self._caller.brackets(whole=self._whole), start())
        try:
            return await carry_out(self._caller, operation)
        except Exception as error:
            if _lacks_a_place(error):
                raise StoreUnavailable(NO_PLACE) from error
            raise

    async def write_one(self, ask: Ask, /) -> list[Row]:
        return await self.write(lambda: alone(ask))

    async def read(self, start: Start[T], /) -> T:
        return await carry_out(self._caller, start())

    def nudge(self, topics: Sequence[str], /) -> None:
        self.topics.update(dict.fromkeys(topics))

    is_listening = False

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Do nothing: the store lives for one call only."""

    async def applied(self) -> list[int]:
        raise WrongState("a connection of yours is not migrated; run duly db migrate")

    async def minimum(self) -> int:
        raise WrongState("a connection of yours is not migrated; run duly db migrate")

    async def apply(self, migration: Migration, /) -> bool:  # noqa: ARG002
        raise WrongState("a connection of yours is not migrated; run duly db migrate")

    async def open(self) -> None:
        """Do nothing: the connection is open."""

    async def close(self) -> None:
        """Do nothing: the caller closes the connection."""


class _LastingCallerDatabase(_CallerDatabase):
    """The caller's connection as the database of a store that lives longer than one call."""

    def __init__(self, driver: Driver, connection: object) -> None:
        super().__init__(CallerConnection.on(driver, connection), whole=True)
        self._driver, self._connection = driver, connection

    async def write(self, start: Start[T], /) -> T:
        self._caller = CallerConnection.on(self._driver, self._connection)  # with the moment of now
        return await super().write(start)

    async def read(self, start: Start[T], /) -> T:
        self._caller = CallerConnection.on(self._driver, self._connection)
        return await super().read(start)

    def nudge(self, topics: Sequence[str], /) -> None:
        at_once(carry_out(self._caller, notified(self._caller, topics)))


def store_on(connection: object) -> SqlStore:
    """Return a store on a connection that does not wait; its calls never do either."""
    return SqlStore(_LastingCallerDatabase(driver_of(connection), connection))


def _lacks_a_place(error: BaseException) -> bool:
    """Return whether the error, unwrapped from a framework's, says that a partition is missing.

    The message is translated into the server's language; only this one names no constraint.
    """
    beneath = getattr(error, "orig", None) or error.__cause__
    if beneath is not None:
        return _lacks_a_place(beneath)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    about = getattr(error, "diag", error)
    return state == _CHECK_VIOLATION and not getattr(about, "constraint_name", None)
