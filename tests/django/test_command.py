"""``manage.py duly``: a worker in a process of its own runs the jobs of the project."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "django_shop"
ENQUEUE = """
from tests.django.shop.api_tasks import add
from tests.django.shop.tasks import mail
mail.enqueue("ada"), add.enqueue(1, 2)
"""


def managed(*words: str, database: Path, **settings: str) -> str:
    said = {"DJANGO_SETTINGS_MODULE": "tests.django.settings", "SHOP_DATABASE": str(database)}
    done = subprocess.run(
        [sys.executable, "-m", "django", *words],
        cwd=ROOT,
        env={**os.environ, **said, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_worker_runs_the_jobs_of_the_project(tmp_path: Path) -> None:
    database = tmp_path / "shop.sqlite3"
    managed("migrate", "--run-syncdb", "-v", "0", database=database)
    managed("shell", "-v", "0", "-c", ENQUEUE, database=database)
    managed("duly", "worker", "--burst", "--scheduler", database=database)
    listed = managed("duly", "jobs", "list", database=database)
    states = {line.split()[2]: line.split()[1] for line in listed.splitlines()[1:]}
    assert states == {"django_task": "succeeded", "mail": "succeeded"}
    assert "nightly" in managed("duly", "schedules", "list", database=database)


@pytest.mark.thorough("four processes of a project like the one above")
def test_the_example_project_runs(tmp_path: Path) -> None:
    shop = {"DJANGO_SETTINGS_MODULE": "shop.settings", "PYTHONPATH": str(SHOP)}
    database = tmp_path / "example.sqlite3"
    managed("migrate", "-v", "0", database=database, **shop)
    managed("duly", "run", "send_receipt", "order_id=7", database=database, **shop)
    managed("duly", "worker", "--burst", database=database, **shop)
    listed = managed("duly", "jobs", "list", database=database, **shop)
    assert listed.splitlines()[1].split()[1:3] == ["succeeded", "send_receipt"]
