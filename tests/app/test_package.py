"""The package as it is imported: light, and helpful when it is mistaken for the app."""

import subprocess
import sys
from pathlib import Path

import pytest

import duly

HEAVY = {"asyncio", "msgspec", "psycopg", "sqlite3", "click", "logging"}
# What people look at, declare in files or ask for is imported when they do.
NOT_FOR_WORKERS = (
    "duly.alerts", "duly.builtin", "duly.demo", "duly.doctor", "duly.files", "duly.policy.why",
    "duly.rehearse", "duly.remote", "duly.targets", "duly.views", "duly.web", "jinja2", "starlette",
    "uvicorn",
)  # fmt: skip
TASKS = """
import sys
from duly import Duly

duly = Duly("shop.db")

@duly.task
async def show() -> None:
    print("imported", *sys.modules)
"""


def test_importing_it_is_light() -> None:
    asked = "import sys, duly; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_a_worker_imports_what_it_needs_for_its_first_job(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    asked = [sys.executable, "-m", "duly", "worker", "--burst"]
    enqueue = [sys.executable, "-c", "import tasks; tasks.show.enqueue()"]
    subprocess.run(enqueue, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    [said] = [line for line in done.stdout.splitlines() if line.startswith("imported ")]
    imported = set(said.split()) - {"duly.views", "duly.views.access"}
    assert "duly.engine.worker" in imported
    needless = [name for name in sorted(imported) if name.startswith(NOT_FOR_WORKERS)]
    assert needless == []
    assert sum(name.startswith("duly") for name in imported) <= 225


def test_every_name_it_promises_is_there() -> None:
    for name in duly.__all__:
        assert getattr(duly, name) is not None
    assert len(duly.__all__) <= 16
    assert set(duly.__all__) <= set(dir(duly))


def test_who_takes_the_package_for_the_app_is_told() -> None:
    with pytest.raises(AttributeError, match="your app is the object: from tasks import duly"):
        _ = duly.task  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'tusk'"):
        _ = duly.tusk  # type: ignore[attr-defined]
