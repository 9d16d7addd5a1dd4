"""Enqueue inside the caller's own transaction, on whatever connection the caller has.

The operation is the one that runs on our own connections. Each of its statements takes one value,
a JSON text, so a driver needs to know only how that value is placed and how a statement is sent:
``DRIVERS`` says so for each. Drivers are recognised by the names of their classes and never
imported from here. Jobs appear, or vanish, with the caller's transaction; nobody is nudged, because
nothing has happened before it commits.

Numbers come from a block that is reserved on the same connection and forgotten afterwards. SQLite
takes the reservation back when the caller rolls back, so what is left of the block is not ours.

What takes several statements is all or nothing. It gets a transaction of its own where none is
open, and a savepoint where somebody may go on after an error.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from duly import clock
from duly.errors import InvalidValue, SchemaMismatch
from duly.model.job import Call
from duly.model.payload import LONGEST_ARGS, check_text
from duly.rules.instants import to_us
from duly.store import jobs
from duly.store.database import Ask, Dialect, Operation, Row
from duly.store.ids import BLOCK, Ids
from duly.store.jobs import Wanted
from duly.store.statements import statements

Connection: TypeAlias = Any  # of a driver that may not be installed here
Values: TypeAlias = Any  # as the driver wants them

ACCEPTED = (
    "a connection of psycopg, psycopg2, asyncpg or sqlite3, a Connection or Session of SQLAlchemy "
    "(or its AsyncConnection, AsyncSession), or a connection of Django, to PostgreSQL or SQLite"
)
NO_TABLES = (
    "the connection's database has no duly tables; give a connection to the database that duly "
    "uses, or run duly db migrate on this one"
)

# Of the features of a dialect, none makes a difference to how jobs are enqueued.
_DIALECTS = {"postgresql": Dialect("postgres"), "sqlite": Dialect("sqlite")}
# Without tables, this is null. Any error would end the caller's transaction, and this is the
# first that we ask.
_RESERVE = {"postgres": {"reserve_ids": "select nextval(to_regclass('duly.id_block'))"}}
_BRACKETS = {
    "begin": "begin",
    "commit": "commit",
    "rollback": "rollback",
    "savepoint": "savepoint duly_enqueue",
    "release": "release savepoint duly_enqueue",
    "return": "rollback to savepoint duly_enqueue",
}
_VALUE = re.compile(r"(?<!:):(now|batch)\b")


def enqueue_on(connection: object, calls: Sequence[Call]) -> list[int]:
    """Remember jobs in the transaction of the connection: their numbers."""
    driver = _driver(connection)
    if driver.waits:
        raise InvalidValue(
            f"this is {_named(connection)}: await … aenqueue(…), for {driver.package} has to be "
            "awaited here"
        )
    _check(calls)
    return _run(_Talk.on(driver, connection), calls) if calls else []


async def aenqueue_on(connection: object, calls: Sequence[Call]) -> list[int]:
    """The same on a connection whose statements are awaited."""
    driver = _driver(connection)
    if not driver.waits:
        raise InvalidValue(
            f"this is {_named(connection)}: call … enqueue(…), for {driver.package} cannot be "
            "awaited here"
        )
    _check(calls)
    if driver.relay is not None:
        return await driver.relay(connection, calls) if calls else []
    return await _arun(_Talk.on(driver, connection), calls) if calls else []


class Style(NamedTuple):
    """How a driver writes the place of a value (PEP 249), and takes what belongs there."""

    place: str
    values: Callable[[str, int], Values]  # from the text and how often it is wanted


STYLES = {
    "pyformat": Style("%(batch)s", lambda batch, _: {"batch": batch}),
    "format": Style("%s", lambda batch, times: (batch,) * times),
    "named": Style(":batch", lambda batch, _: {"batch": batch}),
    "qmark": Style("?", lambda batch, times: (batch,) * times),
    "numeric_dollar": Style("$1", lambda batch, _: (batch,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """How connections of some classes are spoken to."""

    package: str
    classes: tuple[str, ...]
    waits: bool = False
    reach: Callable[[Connection], Connection] = lambda connection: connection
    dialect: Callable[[Connection], str] = lambda _: "postgresql"
    style: Callable[[Connection], str] = lambda _: "pyformat"
    # The rows of a statement, or, where it waits, what they are awaited from.
    execute: Callable[[Connection, str, Values], Any] = NotImplemented
    in_transaction: Callable[[Connection], bool] = lambda _: True  # after the first statement
    relay: Callable[[Connection, Sequence[Call]], Awaitable[list[int]]] | None = None


@dataclass(frozen=True, slots=True)
class _Talk:
    """A connection, and everything that is to be known for asking it."""

    driver: Driver
    connection: Connection
    dialect: str
    style: Style
    texts: Mapping[str, str]
    now: str

    @classmethod
    def on(cls, driver: Driver, connection: Connection) -> "_Talk":
        connection = driver.reach(connection)
        database, style = driver.dialect(connection), driver.style(connection)
        if database not in _DIALECTS or style not in STYLES:
            raise _refused(f"{_named(connection)} of {driver.package} to {database} ({style})")
        dialect = _DIALECTS[database]
        own = _RESERVE.get(dialect.name, {})
        texts = {**statements(dialect), **_BRACKETS, **own}
        now = "null" if dialect.name == "postgres" else str(to_us(clock.now()))
        return cls(driver, connection, dialect.name, STYLES[style], texts, now)

    def ask(self, ask: Ask) -> Any:  # noqa: ANN401 - rows, or an awaitable of them
        text, values = self.texts[ask.statement], None
        if ask.values:
            # Said to be text: whoever taught the driver to write jsonb would have it written twice.
            place = self.style.place + ("::text" if self.dialect == "postgres" else "")
            written = {"now": self.now, "batch": place}
            times = len(re.findall(r"(?<!:):batch\b", text))
            values = self.style.values(str(ask.values["batch"]), times)
            text = text.replace("%", "%%") if "%" in place else text
            text = _VALUE.sub(lambda found: written[found[1]], text)
        return self.driver.execute(self.connection, text, values)

    def brackets(self, calls: Sequence[Call]) -> tuple[str, str, tuple[str, ...]] | None:
        """What comes before and after the statements, and instead if one fails.

        The 65th savepoint that writes in one transaction slows down everybody else's reads on
        PostgreSQL: whoever enqueues one job after the other gets none. There, an error has ended
        the transaction anyway, and a key that is taken is noticed before anything is written.
        """
        if all(call.key is None for call in calls):
            return None
        if self.dialect == "postgres" and not self.driver.in_transaction(self.connection):
            return "begin", "commit", ("rollback",)
        if self.dialect == "postgres" and len(calls) == 1:
            return None
        return "savepoint", "release", ("return", "release")


def _run(talk: _Talk, calls: Sequence[Call]) -> list[int]:
    operation = _enqueue(talk, calls)
    try:
        ask = next(operation)
        while True:
            try:
                rows = talk.ask(ask)
            except BaseException as error:  # noqa: BLE001 - the operation raises it again
                ask = operation.throw(error)
            else:
                ask = operation.send(rows)
    except StopIteration as end:
        return list(end.value)


async def _arun(talk: _Talk, calls: Sequence[Call]) -> list[int]:
    operation = _enqueue(talk, calls)
    try:
        ask = next(operation)
        while True:
            try:
                rows = await talk.ask(ask)
            except BaseException as error:  # noqa: BLE001 - the operation raises it again
                ask = operation.throw(error)
            else:
                ask = operation.send(rows)
    except StopIteration as end:
        return list(end.value)


def _enqueue(talk: _Talk, calls: Sequence[Call]) -> Operation[list[int]]:
    numbers = yield from _numbers(len(calls))
    wanted = [Wanted(call, number) for call, number in zip(calls, numbers, strict=True)]
    brackets = talk.brackets(calls)
    if brackets is None:
        return (yield from jobs.enqueue(wanted))
    begin, end, undo = brackets
    yield Ask(begin)
    try:
        answers = yield from jobs.enqueue(wanted)
    except BaseException:
        with suppress(Exception):  # a lost connection cannot be told, and has nothing to undo
            for statement in undo:
                yield Ask(statement)
        raise
    yield Ask(end)
    return answers


def _numbers(count: int) -> Operation[list[int]]:
    """On SQLite this comes first for another reason: it makes the driver begin a transaction.

    A savepoint would be the whole transaction otherwise, and its release the commit.
    """
    ids = Ids()
    for _ in range(-(-count // BLOCK)):
        try:
            [(block,)] = yield Ask("reserve_ids")
        except Exception as error:
            if "no such table: duly_" in str(error):
                raise SchemaMismatch(NO_TABLES) from error
            raise
        if block is None:
            raise SchemaMismatch(NO_TABLES)
        ids.add(block)
    return list(ids.draw(count))


def _check(calls: Sequence[Call]) -> None:
    """What PostgreSQL would refuse, refused before it ends the caller's transaction."""
    for call in calls:
        check_text(call.args, "arguments", longest=LONGEST_ARGS)
        check_text(call.retry or "", "retry", longest=LONGEST_ARGS)
