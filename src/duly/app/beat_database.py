"""Reading the tables of django-celery-beat from a database, for ``duly import``; read-only.

Only tables of plain values are read. APScheduler's job stores hold pickles, and unpickling a row
may run any code.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeAlias

from duly.clock import now
from duly.declare.importers.collector import Imported
from duly.declare.importers.django_celery_beat import APP, TABLES, TASKS, from_dump, from_tables
from duly.errors import InvalidValue, NotFound, StoreUnavailable
from duly.store.connect import is_postgres, place, spoken
from duly.store.sqlite.connection import connect_to_read

Rows: TypeAlias = Sequence[Mapping[str, Any]]

MOST_ROWS: Final = 100_000  # of one table
CONNECT_SECONDS: Final = 10

_SCHEME: Final = re.compile(r"([A-Za-z][\w+.-]*):/")
_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
_THERE_IN_SQLITE: Final = "select name from sqlite_master where type in ('table', 'view')"
_THERE_IN_POSTGRES: Final = "select relname as name from pg_class where pg_table_is_visible(oid)"
_MAGIC: Final = b"SQLite format 3\0"


def is_database(source: str) -> bool:
    """Return whether the source is a database: a URL or a SQLite file."""
    if _SCHEME.match(source):
        return True
    path = Path(source)
    if path.is_file():
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    return ":" not in source and path.suffix in _SUFFIXES


def shown_address(source: str) -> str:
    """Return the address of a database without its password."""
    scheme = _SCHEME.match(source)
    if scheme and not is_postgres(source) and scheme[1] != "sqlite":
        return f"{scheme[1]}://…"
    return place(source)


def read_beat_tables(source: str, *, zone: str | None = None) -> Imported:
    """Read the periodic tasks of django-celery-beat from a database."""
    tables = _postgres(source) if is_postgres(source) else _sqlite(source)
    if TASKS not in tables:
        raise NotFound(
            f"{shown_address(source)} has no table {APP}_{TASKS}: is it the database in which "
            f"Django keeps {APP}?"
        )
    return from_tables(tables, now=now(), zone=zone)


def read_beat_dump(text: str, *, zone: str | None = None) -> Imported:
    """Read the periodic tasks from the output of ``manage.py dumpdata``."""
    return from_dump(text, now=now(), zone=zone)


def _sqlite(source: str) -> dict[str, Rows]:
    scheme = _SCHEME.match(source)
    if scheme and scheme[1] != "sqlite":
        raise InvalidValue(
            f'"{scheme[1]}://" is not supported; use sqlite:///path or postgresql://…. For any '
            f"other database: python manage.py dumpdata {APP} | duly import celery-beat -"
        )
    path = Path(place(source))
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    try:
        with closing(connect_to_read(path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("begin")  # a consistent snapshot of all tables
            return _tables(lambda text: map(dict, connection.execute(text)), _THERE_IN_SQLITE)
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise InvalidValue(f"{path} is not an SQLite database") from None
        raise StoreUnavailable(f"{path} cannot be read: {error}") from None


def _postgres(source: str) -> dict[str, Rows]:
    try:
        import psycopg  # noqa: PLC0415 - an extra
        from psycopg.rows import dict_row  # noqa: PLC0415

        from duly.store.postgres.connections import read_address  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f'PostgreSQL needs {error.name}: pip install "duly[postgres]"'
        ) from None
    given = read_address(spoken(source)[0])
    try:
        with psycopg.connect(
            **{"connect_timeout": CONNECT_SECONDS, **given}, row_factory=dict_row
        ) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("set local statement_timeout = '60s'")
            return _tables(connection.execute, _THERE_IN_POSTGRES)
    except psycopg.Error as error:
        raise StoreUnavailable(f"{shown_address(source)} cannot be read: {error}") from None


def _tables(ask: Callable[[str], Iterable[Mapping[str, Any]]], which: str) -> dict[str, Rows]:
    """Return the rows of the tables that exist."""
    there = {row["name"] for row in ask(which)}
    found = {table: f"{APP}_{table}" for table in TABLES}
    return {table: _rows(ask, name) for table, name in found.items() if name in there}


def _rows(ask: Callable[[str], Iterable[Mapping[str, Any]]], table: str) -> Rows:
    rows = list(ask(f"select * from {table} limit {MOST_ROWS + 1}"))  # noqa: S608 - names of ours
    if len(rows) > MOST_ROWS:
        raise InvalidValue(
            f"{table} has more than {MOST_ROWS:,} rows, which is too many for one file"
        )
    return rows
