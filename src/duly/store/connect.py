"""Connect to the store of a URL.

sqlite:///duly.db, a path, or :memory:        one file, nothing else needed
postgresql://user@host/database               many machines
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from duly.clock import now
from duly.errors import InvalidValue, StoreUnavailable
from duly.store.database import Ask, Database, Dialect, Operation
from duly.store.sqlite.database import DEADLINE as SQLITE_DEADLINE
from duly.store.sqlite.database import SqliteDatabase
from duly.store.store import SqlStore

POSTGRES_DEADLINE = timedelta(seconds=10)
_POSTGRES = ("postgresql://", "postgres://")
_REMOTE = ("https://", "http://")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.]*):")
_USER = re.compile(r"//(.*)@")
_PASSWORD = re.compile(r"(?<=[?&])(ssl)?password=[^&]*&?")
_POOLER = re.compile(r"(?P<before>[?&])pooler=transaction(?P<behind>&|$)")
_KEY = re.compile(r"\((?:due_at|ended_at)\) = \((-?\d+)\)")


def connect(
    url: str,
    *,
    clock: Callable[[], datetime] | None = None,
    create: bool = True,
    writes: bool = True,
    features: bool = True,
    deadline: timedelta | None = None,
    watches: bool = True,
) -> SqlStore:
    """Return a store that is not open yet. ``deadline`` replaces the default timeout of a call.

    ``clock`` is for tests; by default, it is the store's own.
    """
    if url.startswith(_POSTGRES):
        return SqlStore(_postgres(url, clock, features=features, deadline=deadline))
    file = SqliteDatabase(
        _path(url),
        clock=clock or now,
        create=create,
        writes=writes,
        watches=watches,
        deadline=deadline or SQLITE_DEADLINE,
    )
    return SqlStore(file)


def is_postgres(url: str) -> bool:
    return url.startswith(_POSTGRES)


def is_remote(url: str) -> bool:
    """Return whether the URL is the address of a duly server and not of a database."""
    return url.startswith(_REMOTE)


def spoken(url: str, *, features: bool = True) -> tuple[str, Dialect]:
    """Return the URL without duly's own parameters, and the dialect that it supports."""
    address, pooled = _POOLER.subn(_joint, url)
    dialect = Dialect("postgres", notify=not pooled, session=not pooled)
    return address, dialect if features else dialect.without_features()


def _path(url: str) -> str:
    """Return the file of an SQLite store; refuse a URL that looks like something else."""
    if is_remote(url):
        raise InvalidValue(
            f"this needs the database itself, but {place(url)} is a duly server: give --store "
            "postgresql://… or a path"
        )
    path = url.removeprefix("sqlite:///")
    scheme = _SCHEME.match(path)
    if path == ":memory:" or (path and scheme is None):
        return path
    if scheme is None or scheme[1].lower() in ("sqlite", "file"):
        raise InvalidValue("an SQLite database is a path, as duly.db, or sqlite:///duly.db")
    if scheme[1].lower().startswith("postgres"):
        raise InvalidValue("a PostgreSQL database is postgresql://user@host/database")
    raise InvalidValue(f'"{scheme[1]}://" is not a database; use sqlite:///path or postgresql://')


def place(url: str, *, folder: Path | None = None) -> str:
    """Return the store's address for display: no password, paths absolute from ``folder``."""
    if is_remote(url):
        return url.rstrip("/")
    if url.startswith(_POSTGRES):
        without = _PASSWORD.sub("", url)
        return _USER.sub(lambda found: f"//{found[1].partition(':')[0]}@", without)
    path = _path(url)
    return path if path == ":memory:" else str((folder or Path()).absolute() / path)


@contextmanager
def postgres_extra() -> Iterator[None]:
    """Say how to install PostgreSQL's driver if an import in the block does not find it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f'PostgreSQL needs {error.name}: pip install "duly[postgres]"'
        ) from None


def _postgres(
    url: str,
    clock: Callable[[], datetime] | None,
    *,
    features: bool,
    deadline: timedelta | None,
) -> Database:
    with postgres_extra():
        from duly.store.postgres.database import PostgresDatabase  # noqa: PLC0415 - an extra
    address, dialect = spoken(url, features=features)
    return PostgresDatabase(
        address,
        dialect=dialect,
        clock=clock,
        on_missing_partition=_make_day,
        deadline=deadline or POSTGRES_DEADLINE,
    )


def _joint(found: re.Match[str]) -> str:
    """Return the separator that remains when a parameter is removed from a URL."""
    return found["before"] if found["behind"] else ""


def _make_day(table: str, detail: str) -> Operation[None]:
    """Create the partition that a row was missing, from the server's error detail."""
    found = _KEY.search(detail)
    if found is None:
        raise StoreUnavailable(f"{table} has no partition for the row: {detail}")
    yield Ask("make_day", {"parent": table, "instant": int(found[1])})
