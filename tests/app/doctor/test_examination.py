"""An examination as a whole: nothing ends it, nothing is made, and every check is documented."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.app import migrate_store
from duly.doctor import check_names, examine
from duly.errors import InvalidValue, StoreUnavailable

PAGE = Path(__file__).parents[3] / "docs/operating.md"
ON_SQLITE = {
    *("SQLite", "file system", "disk space", "schema", "writing", "clock", "zone data"),
    *("moments", "schedules", "tasks", "workers", "alerts"),
}
ON_POSTGRES = (ON_SQLITE - {"SQLite", "file system", "disk space"}) | {
    "PostgreSQL",
    "durability",
    "connections",
    "listening",
    "vacuum",
    "partitions",
}


async def test_every_check_is_made_once(url: str, postgres_url: str) -> None:
    await migrate_store(url)
    local = [one.check for one in await examine(url)]
    served = [one.check for one in await examine(postgres_url)]
    assert (sorted(local), sorted(served)) == (sorted(ON_SQLITE), sorted(ON_POSTGRES))
    assert set(check_names()) == ON_SQLITE | ON_POSTGRES


async def test_a_finding_that_is_not_well_says_what_helps(url: str, postgres_url: str) -> None:
    await migrate_store(url)
    for one in [*await examine(url), *await examine(postgres_url)]:
        assert bool(one.fix) == (one.level != "ok"), one


async def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = str(tmp_path / "duly.db")
    with pytest.raises(StoreUnavailable):
        await examine(path)
    assert list(Path(path).parent.iterdir()) == []


async def test_a_store_in_memory_cannot_be_looked_at() -> None:
    with pytest.raises(InvalidValue):
        await examine(":memory:")


@pytest.fixture
def empty_file(tmp_path: Path) -> Iterator[str]:
    """It is as empty afterwards."""
    path = tmp_path / "empty.db"
    path.touch()
    yield str(path)
    assert path.read_bytes() == b""


async def test_without_tables_only_what_is_around_them_is_looked_at(empty_file: str) -> None:
    *around, schema = await examine(empty_file)
    assert (schema.check, schema.level, schema.fix) == ("schema", "problem", "duly db migrate")
    assert schema.said == "the database has no duly tables"
    assert [one.check for one in around] == ["SQLite", "file system", "disk space", "writing"]


async def test_an_empty_database_has_no_tables(pg_dsn: str) -> None:
    findings = await examine(pg_dsn)
    assert (findings[-1].check, findings[-1].said) == ("schema", "the database has no duly tables")


async def test_a_migration_that_is_missing_is_a_problem_and_a_newer_one_is_worth_knowing(
    url: str,
) -> None:
    await migrate_store(url)
    with sqlite3.connect(url) as file:
        file.execute("insert into duly_migration values (999, 'future', 0, 0)")
    file.close()
    [newer] = [one for one in await examine(url) if one.check == "schema"]
    assert (newer.level, "a newer version of duly" in newer.said) == ("warning", True)
    with sqlite3.connect(url) as file:
        file.execute("update duly_migration set minimum = 999 where number = 999")
    file.close()
    outgrown = (await examine(url))[-1]
    assert (outgrown.level, outgrown.fix) == ("problem", "upgrade duly on this machine")
    assert outgrown.said == "the database is too new for this version of duly"
    with sqlite3.connect(url) as file:
        file.execute("update duly_migration set minimum = 0")
        file.execute("delete from duly_migration where number = 1")
    file.close()
    older = (await examine(url))[-1]
    assert (older.check, older.level, older.fix) == ("schema", "problem", "duly db migrate")
    assert "migration 1 is missing" in older.said


async def test_a_check_that_cannot_be_made_is_a_finding(url: str) -> None:
    await migrate_store(url)
    with sqlite3.connect(url) as file:
        file.execute("drop table duly_fire")
    file.close()
    findings = {one.check: one for one in await examine(url)}
    assert findings["clock"].level == "problem"
    assert findings["clock"].said == "could not be checked: no such table: duly_fire"
    assert findings["workers"].level == "ok"


def test_every_check_has_its_place_in_the_page() -> None:
    named = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    assert named == check_names()
