"""A short storm in every test run; `make campaign` raises the long one."""

from pathlib import Path

import pytest

from tests.acceptance.storm import Storm, storm


def check(result: Storm) -> None:
    assert result.kills >= 3
    assert result.due >= 300
    assert (result.lost, result.doubled) == ([], [])


async def test_killed_schedulers_lose_and_double_nothing_on_sqlite(tmp_path: Path) -> None:
    url = str(tmp_path / "duly.db")
    check(await storm(url, tmp_path, nodes=3, schedules=100, seconds=7, pause=1.0))


@pytest.mark.thorough(
    "repeats on the other database; behind a pooler the storm is raised in every run"
)
async def test_killed_schedulers_lose_and_double_nothing_on_postgres(
    pg_dsn: str, tmp_path: Path
) -> None:
    check(await storm(pg_dsn, tmp_path, nodes=3, schedules=100, seconds=7, pause=1.0))
