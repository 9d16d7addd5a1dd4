"""Open SQLite connections with duly's settings, and run operations and migrations on them.

Nothing here starts a thread or takes a lock: the writer, the reader and the simulator share it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

from duly.errors import InvalidValue, StoreUnavailable
from duly.store.database import Migration, Operation, Row, Value

__all__ = ["LIBRARY", "sqlite3"]


if TYPE_CHECKING:
    import sqlite3
else:
    import sqlite3 as standard

    try:
        from pysqlite3 import dbapi2 as packaged
    except ImportError:
        packaged = standard
    sqlite3 = max(standard, packaged, key=lambda library: library.sqlite_version_info)

LIBRARY = sqlite3.__name__.partition(".")[0]


T = TypeVar("T")
Synchronous: TypeAlias = Literal["full", "normal"]

MEMORY = ":memory:"
BUSY = timedelta(seconds=15)

# Anything else that SQLite says (a missing table, a broken constraint) is a mistake of ours.
_OUT_OF_OUR_HANDS = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}


def connect(
    path: str | Path,
    synchronous: Synchronous = "full",
    *,
    busy: timedelta = BUSY,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """Open a connection that may write to the existing file, or to ``:memory:``.

    Memory mapping stays off: it turns a damaged log into a damaged file. The checkpoint at 1,000
    pages (4 MB) happens inside the commit that reaches them, and so under the writer's lock.
    """
    if synchronous not in get_args(Synchronous):
        raise InvalidValue(f"synchronous={synchronous!r}: it is one of {get_args(Synchronous)}")
    connection = _connection(path, "rw", busy, factory)
    with closed_on_error(connection):
        mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
        if mode not in {"wal", "memory"}:
            raise StoreUnavailable(
                f"{path}: SQLite cannot keep a write-ahead log there, only a journal of mode "
                f"{mode}; use a file on a local disk"
            )
        connection.execute(f"pragma synchronous = {synchronous}")
        connection.execute("pragma wal_autocheckpoint = 1000")
        connection.execute("pragma foreign_keys = on")
    return connection


def connect_to_read(path: Path, *, busy: timedelta = BUSY) -> sqlite3.Connection:
    """Open a read-only connection, which never checkpoints, not even when it closes."""
    return _connection(path, "ro", busy, sqlite3.Connection)


@contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close a connection that cannot be prepared."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def execute(
    connection: sqlite3.Connection, text: str, values: Mapping[str, Value], now_us: int
) -> list[Row]:
    """Run one statement and return its rows."""
    bound = {
        name: json.dumps(value) if isinstance(value, (list, tuple)) else value
        for name, value in values.items()
    }
    return connection.execute(text, {"now": now_us, **bound}).fetchall()


def run(
    connection: sqlite3.Connection,
    operation: Operation[T],
    *,
    texts: Mapping[str, str],
    now_us: int,
) -> T:
    """Run the operation inside the current transaction, and return its result."""
    try:
        ask = next(operation)
        while True:
            rows = execute(connection, texts[ask.statement], ask.values, now_us)
            ask = operation.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        operation.close()


def applied_migrations(connection: sqlite3.Connection) -> list[int]:
    if not _has_migrations(connection):
        return []
    recorded = connection.execute("select number from duly_migration order by number")
    return [number for (number,) in recorded]


def minimum_migration(connection: sqlite3.Connection) -> int:
    """Return the migration that a node must know to use this database; 0 for none."""
    if not _has_migrations(connection):
        return 0
    asked = connection.execute("select coalesce(max(minimum), 0) from duly_migration")
    return int(asked.fetchone()[0])


def _has_migrations(connection: sqlite3.Connection) -> bool:
    named = "select count(*) from sqlite_master where type = 'table' and name = 'duly_migration'"
    return bool(connection.execute(named).fetchone() == (1,))


def apply_migration(connection: sqlite3.Connection, migration: Migration, now_us: int) -> bool:
    """Apply and record a migration in the current transaction, unless it is recorded."""
    if migration.number in applied_migrations(connection):
        return False
    connection.execute(
        "create table if not exists duly_migration"
        " (number integer primary key, name text not null, applied_at integer not null,"
        " minimum integer not null)"
    )
    for statement in split_script(migration.script):
        connection.execute(statement)
    connection.execute(
        "insert into duly_migration (number, name, applied_at, minimum) values (?, ?, ?, ?)",
        (migration.number, migration.name, now_us, migration.minimum),
    )
    return True


def split_script(script: str) -> Iterator[str]:
    """Yield the statements of a script; ``executescript`` would commit the open transaction."""
    *pieces, rest = script.split(";")
    statement = ""
    for piece in pieces:
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if (statement + rest).strip():
        yield (statement + rest).strip()


def told(error: Exception) -> Exception:
    """Return the error to raise: ``StoreUnavailable`` for an outside cause, else the same."""
    if primary_code(error) not in _OUT_OF_OUR_HANDS:
        return error
    unavailable = StoreUnavailable(f"SQLite could not do it, and nothing was written: {error}")
    unavailable.__cause__ = error
    return unavailable


def primary_code(error: Exception) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _connection(
    path: str | Path, mode: str, busy: timedelta, factory: type[sqlite3.Connection]
) -> sqlite3.Connection:
    memory = str(path) == MEMORY
    connection = sqlite3.connect(
        MEMORY if memory else f"{Path(path).absolute().as_uri()}?mode={mode}",
        uri=not memory,
        timeout=busy.total_seconds(),
        isolation_level=None,
        cached_statements=512,
        factory=factory,
        check_same_thread=factory is sqlite3.Connection,
    )
    with closed_on_error(connection):
        connection.execute("pragma mmap_size = 0")
    return connection
