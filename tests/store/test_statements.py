"""The .sql files of both dialects say the same things, and nothing that is not asked."""

import ast
import re
from pathlib import Path

import psycopg
import pytest

from duly.store.database import Dialect
from duly.store.migrate import migrations
from duly.store.sqlite.database import SQLITE
from duly.store.statements import statements

STORE = Path(__file__).parents[2] / "src/duly/store"
POSTGRES = Dialect("postgres")
DIALECTS = [SQLITE, POSTGRES, POSTGRES.without_features()]
ONLY_POSTGRES = {"turn"}  # elsewhere jobs are finished and claimed by several statements


def asked() -> set[str]:
    """Every statement that the store's Python names."""
    known = {name for dialect in DIALECTS for name in statements(dialect)}
    found = set()
    for file in STORE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        strings = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        found |= strings & known
    return found


@pytest.mark.parametrize("dialect", DIALECTS, ids=["sqlite", "postgres", "without features"])
def test_a_dialect_has_every_statement_and_no_other(dialect: Dialect) -> None:
    missing = ONLY_POSTGRES if dialect is SQLITE else set()
    assert set(statements(dialect)) == asked() - missing


@pytest.mark.parametrize("name", sorted(statements(SQLITE)))
def test_a_statement_takes_the_same_values_in_both_dialects(name: str) -> None:
    def values(dialect: Dialect) -> set[str]:
        return set(re.findall(r"(?<!:):([a-z_]+)", statements(dialect)[name])) - {"now"}

    if name in ("missing_days", "make_day"):  # only PostgreSQL keeps rows by the day
        assert values(SQLITE) == set()
    else:
        assert values(SQLITE) == values(POSTGRES)


@pytest.mark.parametrize("dialect", DIALECTS[:2], ids=["sqlite", "postgres"])
def test_no_statement_rolls_dice_or_reads_a_clock_of_its_own(dialect: Dialect) -> None:
    banned = re.compile(
        r"\b(random|now\(\)|current_timestamp|datetime\(|strftime|julianday|unixepoch"
        r"|clock_timestamp|statement_timestamp|autoincrement|advisory)",
        re.IGNORECASE,
    )
    texts = {**statements(dialect), **{m.name: m.script for m in migrations(dialect)}}
    found = {name: hit[0] for name, text in texts.items() if (hit := banned.search(text))}
    assert found == ({"initial": "clock_timestamp"} if dialect is POSTGRES else {})


def test_no_default_reads_a_clock(pg_dsn: str) -> None:
    """It would not know a test's time."""
    with psycopg.connect(pg_dsn) as connection:
        for migration in migrations(POSTGRES):
            connection.execute(migration.script.encode())
        defaults = connection.execute(
            "select adrelid::regclass::text, pg_get_expr(adbin, adrelid) from pg_attrdef"
            " where adrelid::regclass::text like 'duly.%'"
        ).fetchall()
    constant = re.compile(r"-?\d+|true|false|'[^']*'::text")
    assert [default for default in defaults if not constant.fullmatch(default[1])] == []
