"""Real packages beside duly: schedulers that a project leaves, and one that uses the Tasks API."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.app.import_sources import read_django_q, read_tasks_export, read_tasks_scheduler
from duly.cli.main import main
from duly.files import ScheduleEntry
from duly.files.file_text import read

ROOT = Path(__file__).parents[2]
FAR = "2099-01-05T10:00:00+00:00"
BERLIN = "Europe/Berlin"


def managed(database: Path, *words: str) -> str:
    said = {"DJANGO_SETTINGS_MODULE": "tests.django.peer_settings", "SHOP_DATABASE": str(database)}
    done = subprocess.run(
        [sys.executable, "-m", "django", *words],
        cwd=ROOT,
        env={**os.environ, **said},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's database with the tables of all of them, and rows in each."""
    file = tmp_path_factory.mktemp("project") / "shop.sqlite3"
    script = "from pathlib import Path; from tests.django.library.fill import make"
    managed(file, "shell", "-v", "0", "-c", f"{script}; make(Path({str(file)!r}))")
    return file


def entries(*found: ScheduleEntry) -> dict[str, ScheduleEntry]:
    return {entry.name: entry for entry in found}


TASKS = entries(
    ScheduleEntry(
        name="front", rule="0 5 * * *", zone="UTC", task="shop.front", queue="mail",
        priority="high",
    ),
    ScheduleEntry(
        name="later", rule=FAR, task="shop.later", queue="default", paused=True,
        note="its argument when is what shop.now() returns: call it in the task; its arguments [7] "
        "have no names: write args = { name = … } with those of the task's parameters",
    ),
    ScheduleEntry(
        name="nightly", rule="30 2 * * *", zone="UTC", task="shop.nightly", queue="default"
    ),
    ScheduleEntry(
        name="off", rule="0 5 * * *", zone="UTC", task="shop.off", queue="default", paused=True,
        note="it was not enabled",
    ),
    ScheduleEntry(
        name="poll", rule=f"every 5m from {FAR}", task="shop.poll", queue="default",
        args={
            "a": "x", "b": 3, "c": 1.5, "d": True, "e": "2027-01-01T00:00:00+00:00",
            "f": {"deep": [1]},
        },
    ),
    ScheduleEntry(
        name="thrice", rule=f"every 1h from {FAR}", task="shop.thrice", queue="default", max_runs=3
    ),
)  # fmt: skip


def test_the_tasks_of_django_tasks_scheduler_are_read_from_its_tables(database: Path) -> None:
    found = read_tasks_scheduler(str(database))
    assert found.sheet.schedules == TASKS
    assert found.unread == ()
    assert [note.split(":")[0] for note in found.notes if note.endswith("left out")] == [
        "ended",
        "gone",
    ]
    assert "nightly: timeout=60 and result_ttl=600 cannot be carried" in "\n".join(found.notes)


def test_what_its_own_command_exports_is_read_to_the_same(database: Path) -> None:
    exported = database.with_name("export.json").read_text()
    assert read_tasks_export(exported).sheet.schedules == TASKS


def test_the_schedules_of_django_q2_are_read_from_its_table(database: Path) -> None:
    found = read_django_q(str(database), zone=BERLIN)
    assert found.sheet.schedules == entries(
        ScheduleEntry(name="once", rule=FAR, task="shop.once"),
        ScheduleEntry(
            name="minutes", rule=f"every 15m from {FAR}", task="shop.minutes", paused=True,
            note="its arguments [1, 'Ada'] have no names: write args = { name = … } with those of "
            "the task's parameters",
        ),
        ScheduleEntry(name="hourly", rule=f"every 1h from {FAR}", task="shop.hourly", max_runs=4),
        ScheduleEntry(
            name="daily", rule="every 1 days at 11:00:00 from 2099-01-05", zone=BERLIN,
            task="shop.daily", args={"x": 1, "name": "Ada"}, queue="mail",
        ),
        ScheduleEntry(
            name="weekly", rule="every 1 weeks at 11:00:00 from 2099-01-05", zone=BERLIN,
            task="shop.weekly", args={"x": 2},
        ),
        ScheduleEntry(
            name="quarterly", rule="every 3 months at 11:00:00 from 2099-01-05", zone=BERLIN,
            task="shop.quarterly",
        ),
        ScheduleEntry(name="cron", rule="0 7 * * 1-5", zone=BERLIN, task="shop.cron"),
        ScheduleEntry(
            name="dated", rule="every 1 days at 11:00:00 from 2099-01-05", zone=BERLIN,
            task="shop.dated", paused=True,
            note="its argument day is the due time: use current().due_at",
        ),
    )  # fmt: skip
    said = "\n".join(found.notes)
    assert "q_options={'group': 'a'} and hook=shop.told cannot be carried" in said
    assert [note.split(":")[0] for note in found.notes if note.endswith("left out")] == [
        "schedule 2",
        "schedule 9",
    ]


def test_the_command_of_the_project_reads_its_own_database_in_its_own_zone(database: Path) -> None:
    printed = managed(database, "duly", "import", "django-q2")
    assert (
        read(printed).schedules.keys()
        == read_django_q(str(database), zone=BERLIN).sheet.schedules.keys()
    )
    assert printed.count(f'zone = "{BERLIN}"') == 5


@pytest.mark.parametrize(
    ("words", "row", "others"),
    [(["django-tasks-scheduler"], "front", 5), (["django-q2", "--zone", BERLIN], "schedule 3", 7)],
)
def test_one_bad_row_imports_nothing_and_is_named(
    database: Path, words: list[str], row: str, others: int
) -> None:
    broken = str(database.with_name("broken.sqlite3"))
    refused = CliRunner().invoke(main, ["import", *words, broken])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"warning: {row}: " in refused.stderr
    assert "1 entry could not be read: nothing is printed" in refused.stderr
    rest = CliRunner().invoke(main, ["import", *words, broken, "--partial"])
    assert (rest.exit_code, len(read(rest.stdout).schedules)) == (1, others)


SEARCH = """
from duly.django.testing import run_jobs
from modelsearch.backends import get_search_backend
from tests.django.library.models import Book

def found():
    return [book.title for book in get_search_backend().search("whale", Book)]

Book.objects.create(title="The whale")
before = found()
run_jobs()
print(before, found())
"""


def test_a_package_that_uses_the_tasks_api_runs_unchanged(database: Path) -> None:
    """modelsearch, the search of Wagtail, puts what was saved into its index by a task."""
    assert managed(database, "shell", "-v", "0", "-c", SEARCH) == "[] ['The whale']\n"
