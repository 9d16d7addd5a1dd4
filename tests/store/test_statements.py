"""One folder of SQL serves both dialects, and contains nothing that is not used."""

import ast
import re
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from duly.store.database import Dialect
from duly.store.migrate import migrations, read_migrations
from duly.store.sqlite.connection import MEMORY, apply_migration, connect, sqlite3
from duly.store.sqlite.database import SQLITE
from duly.store.statements import WORDS, Statements, Word, read_blocks, statements

STORE = Path(__file__).parents[2] / "src/duly/store"
POSTGRES = Dialect("postgres")
DIALECTS = [SQLITE, POSTGRES, POSTGRES.without_features()]
# They write several tables; elsewhere there is a statement for each.
ONLY_POSTGRES = {"finish_and_claim", "write_fires"}


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


def test_every_part_is_used_and_has_not_the_name_of_a_word() -> None:
    used = {word for block in read_blocks() for word in re.findall(r"\{(\w+)\}", block.text)}
    parts = {block.name for block in read_blocks() if block.kind == "part"}
    assert parts - used == set()
    assert {part for part in parts for word in WORDS if re.fullmatch(word.inside, part)} == set()


def every_text(dialect: Dialect) -> None:
    dict(statements.__wrapped__(dialect))
    read_migrations(STORE / "migrations", dialect)


@pytest.mark.parametrize("word", WORDS, ids=[word.inside for word in WORDS])
def test_every_word_is_used_and_a_statement_with_an_unknown_one_does_not_load(
    word: Word, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tuple(other for other in WORDS if other is not word)
    monkeypatch.setattr("duly.store.statements.WORDS", others)
    with pytest.raises(ValueError, match="is neither a part nor a word"):
        every_text(POSTGRES)


def test_a_text_is_made_when_it_is_first_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Statements(SQLITE)
    claim = texts["claim"]
    monkeypatch.setattr("duly.store.statements.WORDS", ())
    assert texts["claim"] is claim
    with pytest.raises(ValueError, match="is neither a part nor a word"):
        texts["claim_held"]


def test_a_dialect_has_a_text_of_its_own_only_where_it_differs() -> None:
    texts: dict[tuple[str, str], list[str]] = {}
    for block in read_blocks():
        texts.setdefault((block.kind, block.name), []).append(" ".join(block.text.split()))
    assert [name for name, own in texts.items() if len(set(own)) < len(own)] == []


@pytest.mark.parametrize("dialect", DIALECTS, ids=["sqlite", "postgres", "without features"])
def test_no_word_is_left_in_a_statement(dialect: Dialect) -> None:
    left = {name for name, text in statements(dialect).items() if re.search(r"[{}]|/\*\[", text)}
    assert left == set()


def test_a_statement_for_sqlite_has_no_cast_and_no_schema() -> None:
    named = {name for name, text in statements(SQLITE).items() if re.search(r"::|\bduly\.\w", text)}
    assert named == set()


@pytest.mark.parametrize("name", sorted(statements(SQLITE)))
def test_a_statement_takes_the_same_values_in_both_dialects(name: str) -> None:
    def values(dialect: Dialect) -> set[str]:
        return set(re.findall(r"(?<!:):([a-z_]+)", statements(dialect)[name])) - {"now"}

    if name in (
        "missing_days",
        "make_day",
        "trim_history",
        "trim_fires",
    ):  # only PostgreSQL keeps rows by the day
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


def test_sqlite_plans_a_statement_once_and_not_for_each_value() -> None:
    """It plans anew where a value decides which partial index fits: a claim took 4 x the CPU."""
    asked = 0

    def authorize(*_: object) -> int:  # SQLite asks while it plans
        nonlocal asked
        asked += 1
        return sqlite3.SQLITE_OK

    def is_planned_again(text: str) -> bool:
        before = asked
        with suppress(sqlite3.IntegrityError):  # of values that no row may have
            connection.execute(text, dict.fromkeys(re.findall(r":(\w+)", text), 1)).fetchall()
        return asked > before

    with closing(connect(MEMORY)) as connection:
        for migration in migrations(SQLITE):
            apply_migration(connection, migration, 0)
        connection.set_authorizer(authorize)
        again = [
            name
            for name, text in statements(SQLITE).items()
            if is_planned_again(text) and is_planned_again(text)
        ]
    assert again == ["database_settings"]  # it reads pragmas, each of which is a statement
