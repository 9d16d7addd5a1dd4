"""Enqueue inside the caller's own transaction, on whatever connection the caller has.

The operation is the one that runs on our own connections. Each of its statements takes one value,
a JSON text, and that can be sent through any driver; ``drivers`` says how. Jobs appear, or vanish,
with the caller's transaction. Nobody is nudged, because nothing has happened before it commits.

Numbers come from a block that is reserved on the same connection and forgotten afterwards. SQLite
takes the reservation back when the caller rolls back, so what is left of the block is not ours.

What takes several statements is all or nothing: it gets a transaction of its own where none is
open, and a savepoint where the caller could go on after an error.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from duly import clock
from duly.errors import InvalidValue, SchemaMismatch
from duly.instants import to_us
from duly.model.job import Call
from duly.model.payload import LONGEST_ARGS, check_text
from duly.store import jobs
from duly.store.database import Ask, Dialect, Operation
from duly.store.foreign.drivers import STYLES, Connection, Driver, Style, recognised
from duly.store.ids import BLOCK, Ids
from duly.store.jobs import Wanted
from duly.store.statements import statements

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

# The first thing that we ask. Without tables it is null, where an error would end the caller's
# transaction.
_RESERVE = {"postgres": {"reserve_ids": "select nextval(to_regclass('duly.id_block'))"}}


class Brackets(NamedTuple):
    """What comes before and after the statements, and what comes instead if one fails."""

    before: str
    after: str
    instead: tuple[str, ...]


_TRANSACTION = Brackets("begin", "commit", ("rollback",))
_SAVEPOINT = Brackets("savepoint", "release", ("go back", "release"))
_BRACKETS = {
    "begin": "begin",
    "commit": "commit",
    "rollback": "rollback",
    "savepoint": "savepoint duly_enqueue",
    "release": "release savepoint duly_enqueue",
    "go back": "rollback to savepoint duly_enqueue",
}

_VALUE = re.compile(r"(?<!:):(now|batch)\b")


def enqueue_on(connection: object, calls: Sequence[Call]) -> list[int]:
    """Remember jobs, in the transaction of the connection: their numbers."""
    driver = _driver(connection)
    if driver.waits:
        raise InvalidValue(
            f"this is {_named(connection)}: await … aenqueue(…); "
            f"enqueue(…) is for connections of {driver.package} and others that are not awaited"
        )
    _check(calls)
    return _run(_Talk.on(driver, connection), calls) if calls else []


async def aenqueue_on(connection: object, calls: Sequence[Call]) -> list[int]:
    """The same, on a connection whose statements are awaited."""
    driver = _driver(connection)
    if not driver.waits:
        raise InvalidValue(
            f"this is {_named(connection)} of {driver.package}, which cannot be awaited: "
            "enqueue(…) without await"
        )
    _check(calls)
    if not calls:
        return []
    if driver.relay:
        lender = await driver.relay(connection)
        return list(await lender.run_sync(enqueue_on, calls))
    return await _run_awaited(_Talk.on(driver, connection), calls)


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
        texts = {**statements(dialect), **_BRACKETS, **_RESERVE.get(dialect.name, {})}
        now = "null" if dialect.name == "postgres" else str(to_us(clock.now()))
        return cls(driver, connection, dialect.name, STYLES[style], texts, now)

    def ask(self, ask: Ask) -> Any:  # noqa: ANN401 - rows, or what they are awaited from
        text, values = self.texts[ask.statement], None
        if ask.values:
            values = self.style.values(str(ask.values["batch"]), _places(text))
            text = self.written(text)
        return self.driver.execute(self.connection, text, values)

    def written(self, text: str) -> str:
        """The statement as the driver wants it.

        The value is said to be text: a driver that was taught to write jsonb would quote it again.
        """
        place = self.style.place + ("::text" if self.dialect == "postgres" else "")
        if "%" in place:
            text = text.replace("%", "%%")
        return _VALUE.sub(lambda found: self.now if found[1] == "now" else place, text)

    def brackets(self, calls: Sequence[Call]) -> Brackets | None:
        """None where one statement writes, and where there is nothing to go back to.

        From the 65th savepoint on that writes in one transaction, everybody's reads are slower on
        PostgreSQL. So who enqueues one job after the other gets none: an error of the server ends
        the transaction there, and a key that is taken is noticed before anything has changed.
        """
        if all(call.key is None for call in calls):
            return None
        if self.dialect == "postgres":
            if not self.driver.in_transaction(self.connection):
                return _TRANSACTION
            if len(calls) == 1:
                return None
        return _SAVEPOINT


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


async def _run_awaited(talk: _Talk, calls: Sequence[Call]) -> list[int]:
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
    yield Ask(brackets.before)
    try:
        answers = yield from jobs.enqueue(wanted)
    except BaseException:
        with suppress(Exception):  # where the connection is lost, so is what it has done
            for statement in brackets.instead:
                yield Ask(statement)
        raise
    yield Ask(brackets.after)
    return answers


def _numbers(count: int) -> Operation[list[int]]:
    """Before any savepoint: this is what makes sqlite3 begin the caller's transaction.

    A savepoint outside one would be a transaction itself, and its release the commit.
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
    """Refuse here what PostgreSQL would refuse, and end the caller's transaction for it."""
    for call in calls:
        check_text(call.args, "arguments", longest=LONGEST_ARGS)
        check_text(call.retry or "", "retry", longest=LONGEST_ARGS)


def _driver(connection: object) -> Driver:
    driver = recognised(connection)
    if driver is None:
        raise _refused(f"{_named(connection)} of {type(connection).__module__}")
    return driver


def _refused(found: str) -> InvalidValue:
    return InvalidValue(f"{found} is nothing to enqueue on; there are: {ACCEPTED}")


def _named(connection: object) -> str:
    name = type(connection).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def _places(text: str) -> int:
    return sum(found == "batch" for found in _VALUE.findall(text))
