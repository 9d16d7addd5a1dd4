"""The setting ``DULY`` of a Django project, and the system checks of it and of its database.

Its keys are the settings of duly in upper case (``QUEUES``, ``CONCURRENCY``, …: docs/settings.md)
and those of ``ProjectSettings``. It takes the place of a settings file: environment variables and
options of a command win over it. The time zone of rules is Django's ``TIME_ZONE`` by default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution
from django.db import connections

from duly.errors import InvalidValue
from duly.settings.kinds import refusal
from duly.settings.loading import SettingsFile, use_framework
from duly.settings.settings import keys
from duly.store.sqlite.connection import sqlite3

SETTING: Final = "DULY"
# Settings of duly that a Django project gives in another way.
ELSEWHERE: Final = {"url": "DATABASE", "app": "DATABASE"}
# Options of a database that are Django's own, and not libpq's.
_OF_DJANGO: Final = ("assume_role", "isolation_level", "pool", "server_side_binding")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """The keys of ``DULY`` that only a Django project has."""

    database: str = "default"  # the alias of the database with duly's tables
    inline: bool = False  # run jobs in this process, right after the commit
    tasks_module: str = "tasks"  # imported from every installed app


def project() -> ProjectSettings:
    """Return the keys of ``DULY`` that only a Django project has."""
    return ProjectSettings(**_split(_written())[1])


def use_project_settings() -> None:
    """Let duly read its settings from ``DULY``."""
    values = {"zone": settings.TIME_ZONE, **_split(_written())[0]}
    use_framework(SettingsFile(path=_place(), values=values))


def check_written() -> None:
    """Raise ``InvalidValue`` if ``DULY`` has wrong keys or values."""
    values, own = _split(_written())
    for name, value in own.items():
        kind = {field.name: field.type for field in fields(ProjectSettings)}[name]
        if not isinstance(value, kind):  # type: ignore[arg-type]
            raise InvalidValue(f'{SETTING}["{name.upper()}"] = {value!r}: expected {kind}')
    for name, value in values.items():
        try:
            keys()[name].kind.read(value)
        except InvalidValue as error:
            raise InvalidValue(f'{SETTING}["{name.upper()}"] = {value!r}: {error}') from None


def database_url(alias: str) -> str:
    """Return the address of a Django database, as duly opens it with connections of its own."""
    connection = connections[alias]
    given = connection.settings_dict
    if connection.vendor == "sqlite":
        return str(given["NAME"])
    options = {
        name: value for name, value in (given.get("OPTIONS") or {}).items()
        if name not in _OF_DJANGO and isinstance(value, str | int)
    }  # fmt: skip
    host = str(given.get("HOST") or "")
    if given.get("PASSWORD"):
        options["password"] = given["PASSWORD"]
    if host.startswith("/"):
        options["host"], host = host, ""
    port = f":{given['PORT']}" if given.get("PORT") and host else ""
    if given.get("PORT") and not host:
        options["port"] = given["PORT"]
    user = f"{quote(given['USER'], safe='')}@" if given.get("USER") else ""
    name = quote(str(given.get("NAME") or ""), safe="")
    asked = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"postgresql://{user}{host}{port}/{name}{asked}"


def _written() -> Mapping[str, Any]:
    found = getattr(settings, SETTING, {})
    if not isinstance(found, Mapping):
        raise InvalidValue(f"{SETTING} = {found!r}: expected a dict, as {{'QUEUES': ['default']}}")
    return found


def _split(written: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split ``DULY`` into settings of duly and those of ``ProjectSettings``, by their names."""
    named = {str(name).lower(): value for name, value in written.items()}
    own = [field.name for field in fields(ProjectSettings)]
    known = {name for name in keys() if name not in ELSEWHERE}
    wrong = [name.upper() for name in named if name not in known and name not in own]
    if wrong:
        possible = [name.upper() for name in (*sorted(known), *own)]
        raise InvalidValue(refusal(wrong, possible, place=SETTING))
    return (
        {name: value for name, value in named.items() if name in known},
        {name: value for name, value in named.items() if name in own},
    )


def _place() -> Path:
    """Return the name under which messages show ``DULY``; relative paths start in its folder."""
    return Path(getattr(settings, "BASE_DIR", None) or Path.cwd()) / SETTING


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
