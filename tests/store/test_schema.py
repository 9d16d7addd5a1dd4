"""The migrations, one after the other, make the schema that ``schema.sql`` shows."""

import re
import sqlite3
from pathlib import Path

import psycopg
import pytest

from duly.store.database import Dialect
from duly.store.migrate import migrations
from duly.store.sqlite.connection import split_script
from duly.store.sqlite.database import SQLITE
from duly.store.statements import with_features

STORE = Path(__file__).parents[2] / "src/duly/store"
POSTGRES = Dialect("postgres")

CATALOGUE = {
    "columns": """
        select table_name, ordinal_position, column_name, data_type, is_nullable, collation_name,
               column_default, generation_expression
          from information_schema.columns where table_schema = 'duly' order by 1, 2""",
    "indexes": "select tablename, indexdef from pg_indexes where schemaname = 'duly' order by 1, 2",
    "constraints": """
        select conrelid::regclass::text, pg_get_constraintdef(oid)
          from pg_constraint where connamespace = 'duly'::regnamespace order by 1, 2""",
    "functions": """
        select proname, pg_get_functiondef(oid)
          from pg_proc where pronamespace = 'duly'::regnamespace order by 1""",
    "triggers": """
        select tgrelid::regclass::text, pg_get_triggerdef(oid)
          from pg_trigger where not tgisinternal order by 1, 2""",
    "sequences": "select sequencename from pg_sequences where schemaname = 'duly' order by 1",
    "options": """
        select relname, relkind::text, reloptions
          from pg_class where relnamespace = 'duly'::regnamespace order by 1""",
}


def test_sqlite_is_what_its_schema_shows() -> None:
    by_migrations = [migration.script for migration in migrations(SQLITE)]
    assert sqlite_schema(by_migrations) == sqlite_schema([shown(SQLITE)])


@pytest.mark.parametrize("features", [True, False], ids=["all features", "none"])
def test_postgres_is_what_its_schema_shows(pg_dsn: str, features: bool) -> None:
    dialect = POSTGRES if features else POSTGRES.without_features()
    by_migrations = [migration.script for migration in migrations(dialect)]
    assert postgres_schema(pg_dsn, by_migrations) == postgres_schema(pg_dsn, [shown(dialect)])


def shown(dialect: Dialect) -> str:
    return with_features((STORE / dialect.name / "schema.sql").read_text(), dialect)


def sqlite_schema(scripts: list[str]) -> list[tuple[str, str]]:
    connection = sqlite3.connect(":memory:")
    for script in scripts:
        for statement in split_script(script):
            connection.execute(statement)
    found = connection.execute(
        "select name, sql from sqlite_master where sql is not null order by 1"
    )
    schema = [(name, re.sub(r"\s+", " ", sql)) for name, sql in found]
    connection.close()
    assert len(schema) > 20
    return schema


def postgres_schema(dsn: str, scripts: list[str]) -> dict[str, list[object]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for script in scripts:
            connection.execute(script.encode())
        found: dict[str, list[object]] = {
            what: list(connection.execute(query.encode()).fetchall())
            for what, query in CATALOGUE.items()
        }
        connection.execute("drop schema duly cascade")
    assert len(found["columns"]) > 100
    return found
