"""Migrate the schema of a database to the one that this version of duly expects.

Migrations are files ``store/migrations/NNNN_name.sql``, one text for both databases. They only go
forward, in one transaction each. One leaves the database usable for the versions of duly before it,
unless its file says ``-- minimum: NNNN``: from then on a node must know that migration. Older ones
refuse to start, and those that run stop in order.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from duly.errors import DulyError, SchemaMismatch
from duly.store.database import Database, Dialect, Migration
from duly.store.statements import script

NO_TABLES = "the database has no duly tables: run duly db migrate"

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_MINIMUM = re.compile(r"^-- minimum: (\d{4})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Schema:
    """The applied migrations of a database, and those that this version of duly expects."""

    applied: tuple[int, ...]
    expected: tuple[int, ...]
    minimum: int = 0  # the migration that a node must know to use the database

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.expected) - set(self.applied)))

    @property
    def unknown(self) -> tuple[int, ...]:
        """Return the migrations that a newer version of duly has applied."""
        return tuple(sorted(set(self.applied) - set(self.expected)))

    @property
    def ok(self) -> bool:
        return self.problem is None

    @property
    def too_new(self) -> str | None:
        """Return why this version of duly must not use the database; None if it may."""
        known = max(self.expected, default=0)
        if self.minimum <= known:
            return None
        return (
            "the database is too new for this version of duly: it needs one that knows migration "
            f"{self.minimum}, but this one knows {known}; upgrade duly on this machine"
        )

    @property
    def problem(self) -> str | None:
        """Return the problem and its remedy in one sentence; None if there is no problem."""
        if self.too_new:
            return self.too_new
        if self.missing and not self.applied:
            return NO_TABLES
        if self.missing:
            return (
                f"the database is older than this version of duly ({_named(self.missing)} "
                "missing): run duly db migrate"
            )
        return None

    @property
    def note(self) -> str | None:
        """Return a notice if a newer duly migrated the database; None otherwise.

        A migration leaves the database usable for the version of duly before it.
        """
        if not self.unknown:
            return None
        return (
            f"a newer version of duly has changed the database ({_named(self.unknown)} unknown to "
            "this one)"
        )


def migrations(dialect: Dialect) -> list[Migration]:
    """Return the migrations of the dialect, in order."""
    return list(_migrations(dialect))


async def migrate(
    database: Database,
    *,
    report: Callable[[Migration], None] | None = None,
    known: Sequence[Migration] | None = None,
) -> list[Migration]:
    """Apply missing migrations; return those applied by this call, not by a concurrent process.

    ``known`` replaces the dialect's migrations. ``report`` is called after each one.
    """
    schema = await check(database, known=known)
    if schema.too_new:
        raise SchemaMismatch(schema.too_new)
    there = set(schema.applied)
    done: list[Migration] = []
    for migration in _known(database, known):
        if migration.number not in there and await _applied(database, migration):
            done.append(migration)
            if report:
                report(migration)
    return done


async def _applied(database: Database, migration: Migration) -> bool:
    try:
        return await database.apply(migration)
    except DulyError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())
        raise SchemaMismatch(
            f"migration {migration.number} ({migration.name}) could not be applied, and was "
            f"rolled back: {said}. The tables do not match the record of migrations"
        ) from error


async def check(database: Database, *, known: Sequence[Migration] | None = None) -> Schema:
    expected = tuple(migration.number for migration in _known(database, known))
    applied = tuple(sorted(await database.applied()))
    return Schema(applied, expected, await database.minimum())


async def require(database: Database, *, known: Sequence[Migration] | None = None) -> None:
    """Raise ``SchemaMismatch`` if the database is older than this duly, or too new for it.

    One that is newer, but not too new, is accepted: during a deploy, nodes of the previous version
    keep running, and may restart.
    """
    problem = (await check(database, known=known)).problem
    if problem:
        raise SchemaMismatch(problem)


def read_migrations(folder: Traversable, dialect: Dialect) -> list[Migration]:
    found: dict[int, Migration] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        migration = _read(file, dialect)
        if migration.number in found:
            raise ValueError(f"{file.name}: there are two migrations numbered {migration.number}")
        found[migration.number] = migration
    return list(found.values())


@cache
def _migrations(dialect: Dialect) -> tuple[Migration, ...]:
    return tuple(read_migrations(files("duly.store") / "migrations", dialect))


def _read(file: Traversable, dialect: Dialect) -> Migration:
    name = _FILE.fullmatch(file.name)
    if not name:
        raise ValueError(f"{file.name}: a migration is named as in 0001_tables.sql")
    text = file.read_text(encoding="utf-8")
    minimum = _MINIMUM.search(text)
    return Migration(
        int(name[1]), name[2], script(text, dialect), int(minimum[1]) if minimum else 0
    )


def _known(database: Database, given: Sequence[Migration] | None) -> Sequence[Migration]:
    return migrations(database.dialect) if given is None else given


def _named(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"migration {numbers[0]} is"
    return f"migrations {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} are"
