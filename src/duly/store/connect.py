"""From a URL to a store.

sqlite:///duly.db, a path, or :memory:        one file, nothing else needed
postgresql://user@host/database               many machines
"""

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from duly.clock import now
from duly.errors import InvalidValue, StoreUnavailable
from duly.store.database import Ask, Database, Dialect, Operation
from duly.store.sql_store import SqlStore
from duly.store.sqlite.database import SqliteDatabase

_POOLER = re.compile(r"(?P<before>[?&])pooler=transaction(?P<behind>&|$)")
_KEY = re.compile(r"\((?:due_at|ended_at)\) = \((-?\d+)\)")


def connect(
    url: str,
    *,
    clock: Callable[[], datetime] | None = None,
    create: bool = True,
    features: bool = True,
) -> SqlStore:
    """A store that is not open yet. ``clock`` is for tests: the store's own time otherwise."""
    return SqlStore(database(url, clock=clock, create=create, features=features))


def database(
    url: str,
    *,
    clock: Callable[[], datetime] | None = None,
    create: bool = True,
    features: bool = True,
) -> Database:
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(url, clock, features=features)
    if "://" in url and not url.startswith("sqlite:"):
        scheme = url.partition("://")[0]
        raise InvalidValue(f'"{scheme}://" is no store; there are sqlite:///path and postgresql://')
    path = url.removeprefix("sqlite:///")
    if path == "sqlite://":
        path = ":memory:"
    return SqliteDatabase(
        path if path == ":memory:" else Path(path), clock=clock or now, create=create
    )


def place(url: str) -> str:
    """The store's address as people may read it: without a password."""
    if not url.startswith(("postgresql://", "postgres://")):
        path = url.removeprefix("sqlite:///")
        return path if path == ":memory:" else str(Path(path).absolute())
    return re.sub(r"//([^:/@]+):[^@/]*@", r"//\1@", re.sub(r"password=[^&]*&?", "", url))


def _postgres(url: str, clock: Callable[[], datetime] | None, *, features: bool) -> Database:
    try:
        from duly.store.postgres.database import PostgresDatabase  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f'PostgreSQL needs {error.name}: pip install "duly[postgres]"'
        ) from None
    url, pooled = _POOLER.subn(_joint, url)
    dialect = Dialect("postgres", notify=not pooled, session=not pooled)
    return PostgresDatabase(
        url,
        dialect=dialect if features else dialect.without_features(),
        clock=clock,
        on_missing_partition=_make_day,
    )


def _joint(found: re.Match[str]) -> str:
    """What is left between the parameters before and behind the one that is taken out."""
    return found["before"] if found["behind"] else ""


def _make_day(table: str, detail: str) -> Operation[None]:
    """The partition that a row was missing, from what the server says about the row."""
    found = _KEY.search(detail)
    if found is None:
        raise StoreUnavailable(f"{table} has no place for a row: {detail}")
    yield Ask("make_day", {"parent": table, "instant": int(found[1])})
