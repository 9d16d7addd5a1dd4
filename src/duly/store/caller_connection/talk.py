"""Run the store's named statements on a caller's connection.

Where a value stands in a statement, and how it is handed over, is the driver's (``drivers``). What
it is, is the database's: a list is an array on PostgreSQL and JSON on SQLite, and the moment is the
server's there and given here. On PostgreSQL a text is said to be one: a driver that was taught to
write jsonb would quote it again.

What takes several statements is all or nothing: it gets a transaction of its own where none is
open, and a savepoint where the caller could go on after an error.
"""

import json
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

from duly import clock
from duly.errors import InvalidValue, SchemaMismatch
from duly.instants import to_us
from duly.store.caller_connection.drivers import (
    STYLES,
    Connection,
    Driver,
    Style,
    Values,
    recognised,
)
from duly.store.database import Ask, Dialect, Operation, Value
from duly.store.ids import BLOCK, Ids
from duly.store.statements import statements, with_places

T = TypeVar("T")

ACCEPTED = (
    "a connection of psycopg, psycopg2, asyncpg or sqlite3, a Connection or Session of SQLAlchemy "
    "(or its AsyncConnection, AsyncSession), or a connection of Django, to PostgreSQL or SQLite"
)
NO_TABLES = (
    "the connection's database has no duly tables; give a connection to the database that duly "
    "uses, or run duly db migrate on this one"
)

# As our own databases are, which are not imported here: they bring their drivers along.
DIALECTS = {
    "postgresql": Dialect("postgres"),
    "sqlite": Dialect("sqlite", skip_locked=False, partitions=False, finishes_and_claims=False),
}

_BRACKETS = {
    "begin": "begin",
    "commit": "commit",
    "rollback": "rollback",
    "savepoint": "savepoint duly_write",
    "release": "release savepoint duly_write",
    "go back": "rollback to savepoint duly_write",
}
_OURS = {
    "postgres": {
        # The first thing that we ask. Without tables it is null, where an error would end the
        # caller's transaction.
        "reserve_ids": "select nextval(to_regclass('duly.id_block'))",
        "isolation": "select current_setting('transaction_isolation')",
        "notify": "select pg_notify('duly', topic) from unnest(:topics::text[]) as topic",
    },
    # The right to write is taken before the first read, as in transactions of our own.
    "sqlite": {"begin": "begin immediate"},
}
_NO_TEXTS: frozenset[str] = frozenset()

# A commit with a notification waits for every other such commit of the server. So a process sends
# one for each topic in this time, and the rest is found by polling.
_QUIET_SECONDS = 0.01
_notified_at: dict[str, float] = {}


class Brackets(NamedTuple):
    """The statements before and after an operation, and those that undo it if one fails."""

    before: str
    after: str
    instead: tuple[str, ...]


_TRANSACTION = Brackets("begin", "commit", ("rollback",))
_SAVEPOINT = Brackets("savepoint", "release", ("go back", "release"))


@dataclass(frozen=True, slots=True)
class Talk:
    """A connection, with everything that is needed to send statements on it."""

    driver: Driver
    connection: Connection
    dialect: Dialect
    style: Style
    now: int | None  # None: the server knows

    @classmethod
    def on(cls, driver: Driver, connection: Connection) -> "Talk":
        connection = driver.reach(connection)
        database, style = driver.dialect(connection), driver.style(connection)
        if database not in DIALECTS or style not in STYLES:
            raise refused(f"{named(connection)} of {driver.package} to {database} ({style})")
        if database == "sqlite":
            _refuse_other_sqlite(driver.module(connection))
        dialect = DIALECTS[database]
        now = None if dialect.name == "postgres" else to_us(clock.now())
        return cls(driver, connection, dialect, STYLES[style], now)

    @property
    def on_postgres(self) -> bool:
        return self.dialect.name == "postgres"

    def ask(self, ask: Ask) -> Any:  # noqa: ANN401 - rows, or what they are awaited from
        texts = _NO_TEXTS
        if self.on_postgres:
            texts = frozenset(name for name, value in ask.values.items() if isinstance(value, str))
        written = _written(self.dialect, self.style, ask.statement, texts)
        values = written.filled(self._bound(ask.values)) if written.names else None
        return self.driver.execute(self.connection, written.text, values)

    def brackets(self, *, whole: bool) -> Brackets | None:
        """Return the transaction or savepoint that an operation needs; None if it needs neither.

        ``whole``: the operation may be refused after it has written, and is then undone completely.

        Call this after a first statement, which is what begins the caller's transaction.

        From the 65th savepoint that writes in one transaction, reads of all sessions are slower on
        PostgreSQL. So there is no savepoint where it is not needed: an error of the server aborts
        the transaction there anyway.
        """
        if not self.driver.in_transaction(self.connection):
            return _TRANSACTION
        return None if self.on_postgres and not whole else _SAVEPOINT

    def _bound(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        if self.on_postgres:
            return values
        bound = {
            name: json.dumps(value) if isinstance(value, (list, tuple)) else value
            for name, value in values.items()
        }
        return {**bound, "now": self.now}


def _refuse_other_sqlite(module: str) -> None:
    """Refuse a connection of another SQLite library than the one that duly uses here."""
    from duly.store.sqlite.connection import LIBRARY, sqlite3  # noqa: PLC0415 - only for SQLite

    library = "pysqlite3" if module.startswith("pysqlite3") else "sqlite3"
    if library != LIBRARY:
        raise InvalidValue(
            f"the connection uses {library}, but duly uses {LIBRARY} (SQLite "
            f"{sqlite3.sqlite_version}) in this process: two SQLite libraries on one file in one "
            f"process can damage it; connect with {LIBRARY}, or uninstall pysqlite3"
        )


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking connection was given an operation that must be awaited")


async def carry_out(talk: Talk, operation: Operation[T]) -> T:
    """Run the operation and return its result; wait only where the driver does."""
    try:
        ask = next(operation)
        while True:
            try:
                rows = talk.ask(ask)
                if talk.driver.waits:
                    rows = await rows
            except BaseException as error:  # noqa: BLE001 - the operation raises it again
                ask = operation.throw(error)
            else:
                ask = operation.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def bracketed(brackets: Brackets | None, operation: Operation[T]) -> Operation[T]:
    if brackets is None:
        return (yield from operation)
    yield Ask(brackets.before)
    try:
        result = yield from operation
    except BaseException:
        with suppress(Exception):  # where the connection is lost, so is what it has done
            for statement in brackets.instead:
                yield Ask(statement)
        raise
    yield Ask(brackets.after)
    return result


def reserved(count: int) -> Operation[Ids]:
    """Reserve at least this many ids; unused ones are lost.

    SQLite takes the reservation back when the caller rolls back.

    Before any savepoint: this is what makes sqlite3 begin the caller's transaction. A savepoint
    outside one would be a transaction itself, and its release the commit.
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
    return ids


def notified(talk: Talk, topics: Iterable[str]) -> Operation[None]:
    """Let PostgreSQL notify other processes when the caller's transaction commits.

    Processes on SQLite watch the file.
    """
    now = clock.boottime()
    new = [topic for topic in topics if now - _notified_at.get(topic, 0.0) >= _QUIET_SECONDS]
    if talk.on_postgres and new:
        _notified_at.update(dict.fromkeys(new, now))
        yield Ask("notify", {"topics": new})


def driver_of(connection: object) -> Driver:
    driver = recognised(connection)
    if driver is None:
        raise refused(f"{named(connection)} of {type(connection).__module__}")
    return driver


def refused(found: str) -> InvalidValue:
    return InvalidValue(
        f"{found} is not a connection that duly can write to; supported: {ACCEPTED}"
    )


def named(connection: object) -> str:
    name = type(connection).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


class _Written(NamedTuple):
    """A statement in a driver's form, and the names of its values in placeholder order."""

    text: str
    names: tuple[str, ...]
    by_name: bool

    def filled(self, values: Mapping[str, Value]) -> Values:
        if self.by_name:
            return {name: values[name] for name in self.names}
        return tuple(values[name] for name in self.names)


@lru_cache(maxsize=1_000)
def _written(dialect: Dialect, style: Style, statement: str, texts: frozenset[str]) -> _Written:
    names: list[str] = []

    def place(name: str) -> str:
        if name == "now" and dialect.name == "postgres":
            return "null"
        if style.repeated or name not in names:
            names.append(name)
        cast = "::text" if name in texts else ""
        return style.place.format(name=name, number=names.index(name) + 1) + cast

    percent = "%%" if "%" in style.place else "%"
    text = with_places(_texts(dialect)[statement], place, percent=percent)
    if not names:  # then no driver looks for places, or at percent signs
        text = text.replace(percent, "%")
    return _Written(text, tuple(names), style.by_name)


@cache
def _texts(dialect: Dialect) -> Mapping[str, str]:
    texts = statements(dialect)
    # How long a caller's transaction waits for a lock is not for us to say.
    patient = {"hold_schedules_briefly": texts["hold_schedules"]}
    return {**texts, **patient, **_BRACKETS, **_OURS[dialect.name]}
