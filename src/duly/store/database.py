"""Operations on the store, and the databases that run them.

An operation is written once, as a generator: it yields statements, receives their rows, and returns
its result. It knows neither database, nor thread, nor event loop. The runner decides what happens
between two statements:

* ``sqlite`` runs it in the writer thread, with others, inside one commit;
* ``postgres`` runs it on an asynchronous connection;
* ``caller_connection`` runs it on the caller's own connection, inside the caller's transaction;
* the simulator runs it with a crash, a pause or a lost answer between any two statements;
* the interleaving tests run two or three of them against each other, in every order.

A whole operation is one transaction. It may be run again from the beginning (a deadlock, a lost
connection), so it is given as a function that makes it, and everything it writes may be repeated.

Rows are locked in one order, so that transactions do not wait for each other in a circle:
schedules, then keys or flows, then jobs, then limits, then queues.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from duly.instants import from_us

T = TypeVar("T")

Value: TypeAlias = int | str | Sequence[int | None] | Sequence[str | None] | None
Row: TypeAlias = tuple[Any, ...]


class Ask(NamedTuple):
    """One statement, by its name in the ``.sql`` files, and its values.

    A list of numbers or words arrives as an array where there are arrays, and as JSON elsewhere.
    The database that runs the statement adds ``now``, unless the operation says which (``as_of``).
    """

    statement: str
    values: Mapping[str, Value] = {}


Operation: TypeAlias = Generator[Ask, list[Row], T]
Start: TypeAlias = Callable[[], Operation[T]]


def alone(ask: Ask) -> Operation[list[Row]]:
    """Return one statement as an operation."""
    return (yield ask)


def current_time() -> Operation[datetime]:
    """Return the time of the store's clock."""
    [(now,)] = yield Ask("now")
    return from_us(now)


def as_of(now: int, operation: Operation[T]) -> Operation[T]:
    """Run an operation with one moment as the ``now`` of all its statements."""
    try:
        ask = next(operation)
        while True:
            ask = operation.send((yield Ask(ask.statement, {**ask.values, "now": now})))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        operation.close()


async def run_on(
    ask_rows: Callable[[Ask], list[Row] | Awaitable[list[Row]]], operation: Operation[T]
) -> T:
    """Run the operation on a connection of any kind; wait only where its driver does."""
    try:
        ask = next(operation)
        while True:
            try:
                found = await done(ask_rows(ask))
            except BaseException as error:  # noqa: BLE001 - the operation raises it again
                ask = operation.throw(error)
            else:
                ask = operation.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


async def done(result: T | Awaitable[T]) -> T:
    """Return the result of a call that has blocked, or await it."""
    return await result if isinstance(result, Awaitable) else result


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits: of code for both kinds of connections."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking connection was given an operation that must be awaited")


@dataclass(frozen=True)
class Dialect:
    """The optional features of a database. No guarantee of duly depends on them.

    The suite runs once with all of them off, so that other databases that speak PostgreSQL's
    language remain possible.
    """

    name: str  # as in the .sql files: postgres or sqlite
    skip_locked: bool = True  # else due schedules are read without a lock, and compared when set
    partitions: bool = True  # else old rows are deleted, not dropped by the day
    notify: bool = True  # else changes made by other processes are found by polling
    writes_at_once: bool = True  # several tables by one statement, else by one statement for each
    session: bool = True  # else no setting and no prepared statement outlives a transaction

    def without_features(self) -> "Dialect":
        return Dialect(
            self.name,
            skip_locked=False,
            partitions=False,
            notify=False,
            writes_at_once=False,
            session=False,
        )


class Migration(NamedTuple):
    """One step from a schema to the next."""

    number: int
    name: str
    script: str
    minimum: int = 0  # a node must know this migration to use the database from then on


class Database(Protocol):
    """Runs operations. Every call has a deadline; a failed one raises ``StoreUnavailable``.

    ``OutcomeUnknown`` says that the commit may have happened. Any other error means that nothing
    was written, and an error raised by the operation itself comes out as it is.
    """

    dialect: Dialect

    async def write(self, start: Start[T], /) -> T:
        """Run the operation as one transaction that may write."""
        ...

    async def write_one(self, ask: Ask, /) -> list[Row]:
        """Run a single statement that is a transaction by itself."""
        ...

    async def read(self, start: Start[T], /) -> T:
        """Run the operation on one consistent view, without the right to write."""
        ...

    def nudge(self, topics: Sequence[str], /) -> None:
        """Notify all other processes that something changed; a best-effort hint."""
        ...

    def listen(self, listener: "Callable[[str], None]", /) -> None:
        """Call ``listener`` with each topic, on the event loop, when another process nudges."""
        ...

    @property
    def is_listening(self) -> bool:
        """Return whether the nudges of other processes arrive."""
        ...

    async def applied(self) -> list[int]:
        """Return the numbers of the applied migrations; none for an empty database."""
        ...

    async def minimum(self) -> int:
        """Return the migration that a node must know to use this database; 0 for none."""
        ...

    async def apply(self, migration: "Migration", /) -> bool:
        """Apply and record the migration unless it is recorded; return whether it was applied.

        Any number of processes may call this at once; one of them applies the migration.
        """
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...
