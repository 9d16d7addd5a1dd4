"""All writes except enqueue and emit inside the caller's transaction: a store on its connection.

The store has the nouns and operations of any other, and lives as long as one call. Its writes are
committed or rolled back with the caller's transaction. No process is notified, because nothing has
happened before the commit; a caller that learns of its commit gives ``nudge``, and notifies then.

Two things are not possible on the caller's connection, and are refused. A repeatable read
transaction does not see what others have committed, which a decision about a schedule needs. And a
row of a day without a partition would need one created, and other transactions would wait for that.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from duly.errors import InvalidValue, StoreUnavailable, WrongState
from duly.store.database import Ask, Dialect, Migration, Operation, Row, Start, alone
from duly.store.foreign.drivers import Driver
from duly.store.foreign.talk import (
    Talk,
    at_once,
    bracketed,
    carry_out,
    driver_of,
    named,
    reserved,
)
from duly.store.store import SqlStore, Store

T = TypeVar("T")

Work: TypeAlias = Callable[[Store], Coroutine[Any, Any, T]]

Nudge: TypeAlias = Callable[[Sequence[str]], None]


def _to_nobody(_: Sequence[str]) -> None:
    """Notify nobody: duly is not told of the caller's commit, and other processes poll."""


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


def write_on(connection: object, work: Work[T], verb: Verb, nudge: Nudge = _to_nobody) -> T:
    """Run the work on a store in the transaction of the connection."""
    driver = driver_of(connection)
    if driver.waits:
        raise InvalidValue(f"this is {named(connection)}: await {verb.awaited}")
    return at_once(_visit(driver, connection, work, decides=verb.decides, nudge=nudge))


async def awrite_on(connection: object, work: Work[T], verb: Verb) -> T:
    """Run the work like ``write_on``, on an asynchronous connection."""
    driver = driver_of(connection)
    if not driver.waits:
        raise InvalidValue(
            f"this is {named(connection)} of {driver.package}, which cannot be awaited: "
            f"{verb.called} without await"
        )
    if driver.relay:
        lender = await driver.relay(connection)
        result: T = await lender.run_sync(write_on, work, verb)
        return result
    return await _visit(driver, connection, work, decides=verb.decides, nudge=_to_nobody)


async def _visit(
    driver: Driver, connection: object, work: Work[T], *, decides: bool, nudge: Nudge
) -> T:
    talk = Talk.on(driver, connection)
    ids = await carry_out(talk, reserved(1))
    if decides:
        await carry_out(talk, _see_what_others_commit(talk))
    return await work(SqlStore(_Guest(talk, whole=decides, nudge=nudge), ids=ids))


def _see_what_others_commit(talk: Talk) -> Operation[None]:
    if not talk.on_postgres:
        return  # SQLite has one writer at a time
    [(found,)] = yield Ask("isolation")
    if found != "read committed":
        raise InvalidValue(
            f"the transaction is {found}, but a change of a schedule must see what others commit "
            "in the meantime: use read committed, or leave connection= out"
        )


class _Guest:
    """The caller's connection as the database of a store."""

    def __init__(self, talk: Talk, *, whole: bool, nudge: Nudge) -> None:
        self.dialect: Dialect = talk.dialect
        self.nudge = nudge
        self._talk = talk
        self._whole = whole

    async def write(self, start: Start[T], /) -> T:
        operation = bracketed(self._talk.brackets(whole=self._whole), start())
        try:
            return await carry_out(self._talk, operation)
        except Exception as error:
            if _lacks_a_place(error):
                raise StoreUnavailable(NO_PLACE) from error
            raise

    async def write_one(self, ask: Ask, /) -> list[Row]:
        return await self.write(lambda: alone(ask))

    async def read(self, start: Start[T], /) -> T:
        return await carry_out(self._talk, start())

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


class _Lodger(_Guest):
    """The caller's connection as the database of a store that lives longer than one call."""

    def __init__(self, driver: Driver, connection: object, nudge: Nudge) -> None:
        super().__init__(Talk.on(driver, connection), whole=True, nudge=nudge)
        self._driver, self._connection = driver, connection

    async def write(self, start: Start[T], /) -> T:
        self._talk = Talk.on(self._driver, self._connection)  # with the moment of now
        return await super().write(start)

    async def read(self, start: Start[T], /) -> T:
        self._talk = Talk.on(self._driver, self._connection)
        return await super().read(start)


def store_on(connection: object, nudge: Nudge = _to_nobody) -> SqlStore:
    """Return a store on a connection that does not wait; its calls never do either."""
    return SqlStore(_Lodger(driver_of(connection), connection, nudge))


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
