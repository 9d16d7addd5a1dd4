"""Every other write inside the caller's own transaction: a store, on the caller's connection.

The store has the nouns and operations of any other, and lives as long as one call. What it writes
is there, or is not, with the caller's transaction; nobody is nudged, because nothing has happened
before that commits.

Two things cannot be had on a connection that is not ours, and are refused. A transaction that is
repeatable read does not see what others have committed, and who decides about a schedule must. And
a row of a day that has no partition yet would need one made, which is not for others to wait for.
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

NO_PLACE = (
    "duly's tables have no partition for a row of that day, and one is not made in a transaction "
    "of yours; nothing was done: start duly up or duly scheduler, which make them ahead, or leave "
    "connection= out"
)
_CHECK_VIOLATION = "23514"


class Verb(NamedTuple):
    """What the caller said, for those who should have said it otherwise.

    ``decides``: by what others have committed meanwhile; it may be refused after it has written.
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
    """Have the work done by a store in the transaction of the connection."""
    driver = driver_of(connection)
    if driver.waits:
        raise InvalidValue(f"this is {named(connection)}: await {verb.awaited}")
    return at_once(_visit(driver, connection, work, decides=verb.decides))


async def awrite_on(connection: object, work: Work[T], verb: Verb) -> T:
    """The same, on a connection whose statements are awaited."""
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
    return await _visit(driver, connection, work, decides=verb.decides)


async def _visit(driver: Driver, connection: object, work: Work[T], *, decides: bool) -> T:
    talk = Talk.on(driver, connection)
    ids = await carry_out(talk, reserved(1))
    if decides:
        await carry_out(talk, _see_what_others_commit(talk))
    return await work(SqlStore(_Guest(talk, whole=decides), ids=ids))


def _see_what_others_commit(talk: Talk) -> Operation[None]:
    if not talk.on_postgres:
        return  # whoever writes there is alone
    [(found,)] = yield Ask("isolation")
    if found != "read committed":
        raise InvalidValue(
            f"the transaction is {found}, and what is decided about a schedule depends on what "
            "others commit meanwhile: make it read committed, or leave connection= out"
        )


class _Guest:
    """A connection of somebody else's, as the database of a store."""

    def __init__(self, talk: Talk, *, whole: bool) -> None:
        self.dialect: Dialect = talk.dialect
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

    def nudge(self, topics: Sequence[str], /) -> None:
        """Whoever commits does not tell us, and others look for themselves before long."""

    def listen(self, listener: Callable[[str], None], /) -> None:
        """Nothing is heard in the time of one call."""

    async def applied(self) -> list[int]:
        raise WrongState("a connection of yours is not migrated; run duly db migrate")

    async def minimum(self) -> int:
        raise WrongState("a connection of yours is not migrated; run duly db migrate")

    async def apply(self, migration: Migration, /) -> bool:  # noqa: ARG002
        raise WrongState("a connection of yours is not migrated; run duly db migrate")

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """It is others' to close."""


def _lacks_a_place(error: BaseException) -> bool:
    """Whether it says, under whatever frameworks have put around it, that a day is missing.

    The message is translated into the server's language; only this one names no constraint.
    """
    beneath = getattr(error, "orig", None) or error.__cause__
    if beneath is not None:
        return _lacks_a_place(beneath)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    about = getattr(error, "diag", error)
    return state == _CHECK_VIOLATION and not getattr(about, "constraint_name", None)
