"""``duly[sqlite]``: pysqlite3 is used where it is installed and newer, and nothing beside it.

Each test runs a program of its own with pysqlite3 on its path, since a process has one driver.
"""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

PYSQLITE3 = Path(sys.prefix, "pysqlite3")  # where scripts/setup puts it, apart from the rest

TASKS = """
from duly import Duly

duly = Duly("shop.db")


@duly.task
def greet(name: str) -> str:
    return f"hello {name}"
"""


def printed(folder: Path, *command: str, newer: bool = True) -> str:
    path = {"PYTHONPATH": str(PYSQLITE3)} if newer else {}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | path,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    assert PYSQLITE3.is_dir(), "run: make setup"
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


def test_jobs_run_on_pysqlite3_and_doctor_names_it(shop: Path) -> None:
    enqueue = "import tasks; print(tasks.greet.enqueue('ada').id)"
    number = printed(shop, "-c", enqueue).strip()
    printed(shop, "-m", "duly", "worker", "--burst")
    assert "hello ada" in printed(shop, "-m", "duly", "jobs", "show", number)
    newer = printed(shop, "-c", "import pysqlite3; print(pysqlite3.sqlite_version)").strip()
    assert f"{newer} (of pysqlite3)" in printed(shop, "-m", "duly", "doctor")


def test_a_file_made_by_one_library_is_read_by_the_other(shop: Path) -> None:
    enqueue = "import tasks; print(tasks.greet.enqueue('ada').id)"
    number = printed(shop, "-c", enqueue).strip()
    assert "greet" in printed(shop, "-m", "duly", "jobs", "show", number, newer=False)


def test_a_connection_of_the_other_library_is_refused(shop: Path) -> None:
    said = printed(
        shop,
        "-c",
        "import sqlite3, tasks\n"
        "tasks.greet.enqueue('ada')\n"
        "tasks.greet.using(connection=sqlite3.connect('shop.db')).enqueue('bob')",
    )
    assert "the connection uses sqlite3, but duly uses pysqlite3 (SQLite 3." in said
    assert "connect with pysqlite3, or uninstall pysqlite3" in said


def test_a_connection_of_pysqlite3_is_taken_where_duly_uses_it(shop: Path) -> None:
    said = printed(
        shop,
        "-c",
        "import pysqlite3, tasks\n"
        "tasks.greet.enqueue('ada')\n"
        "mine = pysqlite3.connect('shop.db')\n"
        "tasks.greet.using(connection=mine).enqueue('bob')\n"
        "mine.rollback()\n"
        "print(len(tasks.duly.jobs.list()))",
    )
    assert said.strip() == "1"


def test_the_interpreters_own_is_used_where_pysqlite3_is_older(shop: Path) -> None:
    older = shop / "pysqlite3"
    older.mkdir()
    (older / "__init__.py").touch()
    (older / "dbapi2.py").write_text("sqlite_version_info = (3, 1, 0)")
    said = printed(
        shop, "-c", "from duly.store.sqlite.connection import *; print(sqlite3.sqlite_version)"
    )
    assert said.strip() == sqlite3.sqlite_version
