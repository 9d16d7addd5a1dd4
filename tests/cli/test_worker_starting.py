"""``duly worker``, ``duly workers`` and ``duly queues``: what they take, refuse and say."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli import main
from tests.app import shop
from tests.app.programs import Programs

pytestmark = pytest.mark.usefixtures("shop_is_open")


def command(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere.py"], 3, "there is no file"),
        (["no.such.module"], 3, 'there is no module "no"'),
        (["tests.app.shop:missing"], 3, 'has no "missing"'),
        (["tests.app.waiting"], 3, "there is no app in"),
        (["tests.app.shop", "--resources", "gpu"], 2, "whole numbers: gpu=1,mem=8"),
        (["tests.app.shop", "--lease", "15"], 2, 'write "15s"'),
        (
            ["tests.app.shop", "--concurrency", "0"],
            2,
            "--concurrency 0: a whole number from 1 to 10000",
        ),
        (["tests.app.shop", "--store", "mysql://h/d"], 2, '"mysql:" is not a database'),
        (["tests.app.shop", "--store", "postgresql://127.0.0.1:1/d"], 5, "127.0.0.1:1"),
        (["nowhere.py", "--processes", "2"], 3, "there is no file"),
    ],
)
def test_what_cannot_be_started_says_why(
    programs: Programs, words: list[str], code: int, said: str
) -> None:
    program = programs.start("-m", "duly", "worker", *words)
    assert program.end() == code
    assert said in program.said
    assert "Traceback" not in program.said


def test_a_database_that_was_not_migrated_needs_its_operator(
    programs: Programs, pg_dsn: str
) -> None:
    program = programs.start("-m", "duly", "worker", "tests.app.shop", "--store", pg_dsn)
    assert (program.end(), "run duly db migrate" in program.said) == (1, True)


def test_without_a_name_the_app_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = command("worker")
    assert (nothing.exit_code, "there is no tasks.py here" in nothing.stderr) == (3, True)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text("from duly import Duly\n\napp = Duly()\n")
    found = command("worker")
    assert found.exit_code == 2
    assert "shop/jobs.py creates a Duly(): try  duly worker shop/jobs.py" in found.stderr


def test_the_store_that_an_operator_names_counts_for_everything_the_worker_starts(
    programs: Programs, tmp_path: Path, url: str
) -> None:
    """Also for what jobs enqueue, here and in children."""
    shop.order.enqueue(1)
    worker = programs.worker("--store", url, "--burst", DULY_URL=str(tmp_path / "other.db"))
    assert worker.end() == 0
    assert not (tmp_path / "other.db").exists()


def test_who_asks_for_a_worker_that_is_not_there_is_told_who_is(url: str) -> None:
    shop.add.enqueue(1)
    told = command("workers", "drain", "web", "--store", url)
    assert (told.exit_code, told.stderr.splitlines()[-1]) == (
        3,
        'Error: no running worker is named "web"; running: none',
    )


def test_a_queue_is_limited_by_hand(url: str) -> None:
    shop.add.enqueue(1)
    command("queues", "set", "mail", "--concurrency", "5", "--rate", "100/m", "--store", url)
    command("queues", "set", "mail", "--rate", "none", "--fair", "--store", url)
    default, mail = json.loads(command("queues", "--store", url, "-o", "json").stdout)
    assert (default["name"], default["ready"]) == ("default", 1)
    assert mail == {
        "name": "mail",
        "paused": False,
        "note": "",
        "concurrency": 5,
        "rate": None,
        "fair": True,
        **dict.fromkeys(("ready", "scheduled", "blocked", "running"), 0),
        **dict.fromkeys(("succeeded", "failed", "cancelled", "expired"), 0),
        "ended_whole": True,
        "failed_whole": True,
        "oldest_ready_at": None,
    }
    assert command("queues", "set", "mail", "--store", url).exit_code == 2
    wrong = command("queues", "set", "mail", "--concurrency", "many", "--store", url)
    assert (wrong.exit_code, "a whole number from 1" in wrong.stderr) == (2, True)


def test_help_teaches_with_examples() -> None:
    for noun in ("worker", "workers", "queues"):
        shown = command(noun, "--help").stdout
        assert "\\b" not in shown
        assert f"\n    duly {noun}" in shown


def test_asking_never_makes_a_store(tmp_path: Path) -> None:
    url = str(tmp_path / "other.db")
    for words in (["workers"], ["queues"], ["queues", "pause", "mail"], ["workers", "stop", "w"]):
        told = command(*words, "--store", url)
        assert (told.exit_code, "no database at" in told.stderr) == (5, True)
    assert not Path(url).exists()
