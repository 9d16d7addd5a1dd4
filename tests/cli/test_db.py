"""``duly db``: tables are made when asked for, never by asking."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.app import place
from duly.cli import main
from duly.store.migrate import migrations
from duly.store.sqlite.database import SQLITE

LATEST = len(migrations(SQLITE))


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_migrate_makes_the_store_and_a_second_time_does_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "duly.db")
    first = duly("db", "migrate", "--store", path)
    assert (first.exit_code, first.stdout.splitlines()[-1]) == (0, f"{LATEST} applied")
    second = duly("db", "migrate", "--store", path)
    assert (second.exit_code, second.stdout) == (0, "nothing to do\n")
    assert second.stderr == f"database: {path}\n"


def test_check_says_that_all_is_well(tmp_path: Path) -> None:
    path = str(tmp_path / "duly.db")
    duly("db", "migrate", "--store", path)
    done = duly("db", "check", "--store", path)
    assert done.exit_code == 0
    assert (
        done.stdout
        == f"schema   {LATEST} of {LATEST}\nunfired  nothing\nready    0 jobs\nrunning  0 jobs\n"
    )


def test_asking_never_makes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "duly.db"
    done = duly("db", "check", "--store", str(path))
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr == (
        f"database: {path}\nError: no database at {path}; name another (--store, DULY_URL), or "
        f"create this one: start the app (duly up), or duly db migrate --store {path}\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be read"])
def test_asking_leaves_a_foreign_file_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.db"
    path.write_bytes(content)
    assert duly("db", "check", "--store", str(path)).exit_code in (1, 5)
    assert (list(tmp_path.iterdir()), path.read_bytes()) == ([path], content)


def test_asking_leaves_a_store_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "duly.db"
    duly("db", "migrate", "--store", str(path))
    before = path.read_bytes()
    assert duly("db", "check", "--store", str(path)).exit_code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("mysql://bob:hunter2@h/d", '"mysql:" is not a database'),
        ("postgresql+psycopg://bob:hunter2@h/d", "postgresql://user@host/database"),
        ("sqlite:jobs.db", "sqlite:///duly.db"),
        ("file:foo.db?mode=ro", "sqlite:///duly.db"),
        ("", "sqlite:///duly.db"),
    ],
)
def test_what_is_no_store_is_refused_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = duly("db", "migrate", "--store", store)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "hunter2" not in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("password", ["hunter2", "p@ss", "a/b", ":"])
def test_a_password_is_never_shown(password: str) -> None:
    for url in (
        f"postgresql://bob:{password}@127.0.0.1:1/d",
        f"postgresql://bob@127.0.0.1:1/d?password={password}&connect_timeout=1",
    ):
        assert password not in place(url).removeprefix("postgresql://").replace("127.0.0.1:1/d", "")


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    done = duly("db", "migrate", "--store", str(tmp_path))
    assert (done.exit_code, list(tmp_path.iterdir())) == (5, [])
    assert "is a folder" in done.stderr


def test_the_store_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_STORE", str(tmp_path / "elsewhere.db"))
    assert duly("db", "migrate").exit_code == 0
    assert (tmp_path / "elsewhere.db").exists()


def test_postgres_is_migrated_and_checked(pg_dsn: str) -> None:
    before = duly("db", "check", "--store", pg_dsn)
    assert before.exit_code == 1
    assert "run duly db migrate" in before.stderr
    assert duly("db", "migrate", "--store", pg_dsn).exit_code == 0
    assert duly("db", "check", "--store", pg_dsn).exit_code == 0


def test_a_server_that_is_not_there_is_said_to_be_unreachable_without_its_password() -> None:
    done = duly("db", "check", "--store", "postgresql://ada:secret@127.0.0.1:1/jobs")
    assert done.exit_code == 5
    assert "127.0.0.1:1" in done.stderr
    assert "secret" not in done.output
