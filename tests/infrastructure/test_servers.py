"""The machines that other tests stand on are real, and give each test a clean start."""

import asyncio
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Page

from tests.infrastructure.cluster import installed_programs
from tests.infrastructure.postgres import at_database, choose

ROOT = Path(__file__).parents[2]


def test_postgresql_answers_with_the_version_that_was_chosen(
    pg_dsn: str, request: pytest.FixtureRequest
) -> None:
    with psycopg.connect(pg_dsn) as connection:
        version = connection.info.server_version
    assert request.node.callspec.id in {f"pg{version // 10_000}", "given"}


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_gets_a_database_without_tables(pg_dsn: str, turn: int) -> None:
    with psycopg.connect(pg_dsn) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'")
        assert tables.fetchall() == [], f"turn {turn} found what another left"
        connection.execute("create table something_to_find ()")


def test_a_server_is_gone_when_the_tests_were_killed() -> None:
    if not installed_programs():
        pytest.skip("NO POSTGRESQL")
    start_and_wait = """if True:
        import sys
        from tests.infrastructure.cluster import installed_programs, running_cluster
        with running_cluster(installed_programs().popitem()[1]) as cluster:
            print(cluster.directory, flush=True)
            sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", start_and_wait],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tests:
        assert tests.stdout
        directory = Path(tests.stdout.readline().strip())
        assert (directory / "data").is_dir()
        tests.kill()
        tests.communicate()  # until the last heir of its standard error has ended
    assert not directory.exists()


def test_a_version_that_is_not_there_is_refused_by_naming_those_that_are() -> None:
    found = {"15": Path("fifteen"), "18": Path("eighteen")}
    with pytest.raises(pytest.UsageError, match="no PostgreSQL 17 here; found: 15, 18"):
        choose("17", found)


def test_the_newest_version_is_chosen_unless_told_otherwise() -> None:
    found = {"15": Path("fifteen"), "18": Path("eighteen")}
    assert list(choose("newest", found)) == ["18"]
    assert list(choose("15", found)) == ["15"]
    assert list(choose("all", found)) == ["15", "18"]


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql:///postgres", "postgresql:///mine?"),
        ("postgresql://me:secret@db:5433/x?a=b", "postgresql://me:secret@db:5433/mine?a=b"),
    ],
)
def test_a_dsn_is_pointed_at_another_database(dsn: str, expected: str) -> None:
    assert at_database(dsn, "mine") == expected


def test_chromium_renders_a_page_and_runs_its_script(page: Page) -> None:
    page.set_content("<h1>late</h1><script>document.querySelector('h1').innerText = 'due'</script>")
    assert page.inner_text("h1") == "due"


def test_a_loop_can_run_in_the_test_after_a_browser_test() -> None:
    async def answer() -> str:
        return "due"

    assert asyncio.run(answer()) == "due"


async def test_a_coroutine_can_be_the_test_after_a_browser_test() -> None:
    assert asyncio.get_running_loop().is_running()


def test_the_browser_still_answers_after_another_loop_has_run(page: Page) -> None:
    assert page.evaluate("1 + 1") == 2
