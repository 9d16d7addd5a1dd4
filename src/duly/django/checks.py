"""System checks of ``DULY`` and of the database that it names."""

from importlib.util import find_spec
from typing import Any, Final

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution
from django.db import connections

from duly.django.conf import check_written, project
from duly.errors import InvalidValue
from duly.store.sqlite.connection import sqlite3

# Since this version, two programs that write to one SQLite file cannot lose a commit.
SAFE_SQLITE: Final = (3, 51, 3)


def check_settings(**_: Any) -> list[CheckMessage]:
    try:
        check_written()
    except InvalidValue as error:
        return [Error(str(error), id="duly.E001")]
    alias = project().database
    if alias not in connections:
        known = ", ".join(sorted(connections))
        said = f'DULY["DATABASE"] = "{alias}": no such database; DATABASES has {known}'
        return [Error(said, id="duly.E002")]
    match connections[alias].vendor:
        case "postgresql":
            return _postgres()
        case "sqlite":
            return _sqlite(alias)
        case vendor:
            said = f'DULY["DATABASE"] = "{alias}" is {vendor}: duly needs PostgreSQL or SQLite'
            hint = "Name another database of the project in DULY, which may be a SQLite file."
            return [Error(said, hint=hint, id="duly.E003")]


def _postgres() -> list[CheckMessage]:
    if find_spec("psycopg") is not None:
        return []
    said = "duly needs psycopg 3 for its workers, and only psycopg2 is installed"
    return [Error(said, hint='pip install "duly[django,postgres]"', id="duly.E004")]


def _sqlite(alias: str) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    options = settings.DATABASES[alias].get("OPTIONS") or {}
    if str(options.get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        found.append(
            Caution(
                f'the SQLite database "{alias}" has deferred transactions: one that reads first '
                'fails with "database is locked" if a worker writes meanwhile',
                hint='DATABASES[…]["OPTIONS"] = {"transaction_mode": "IMMEDIATE"}',
                id="duly.W001",
            )
        )
    if sqlite3.sqlite_version_info < SAFE_SQLITE and not settings.DEBUG:
        found.append(
            Caution(
                f"SQLite {sqlite3.sqlite_version}: Django and a worker write to one file, and "
                "before 3.51.3 a commit can be lost in rare cases",
                hint="Use PostgreSQL in production, or a newer SQLite library.",
                id="duly.W002",
            )
        )
    return found
