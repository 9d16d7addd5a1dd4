"""What people are told whose command cannot be carried out: each message, word by word."""

import json
import os
from pathlib import Path
from shlex import quote

import pytest

from duly.app import place
from tests.app.programs import Programs
from tests.app.waiting import eventually
from tests.infrastructure.commands import typed

FILE = """
[schedules.backup]
rule = "every 1s"
shell = "true"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, on a machine in Berlin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    for name in [name for name in os.environ if name.startswith("DULY_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_no_app_is_named_and_one_is_found(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "jobs.py").write_text("from duly import Duly\n\nduly = Duly()\n")
    assert told("dev") == (
        2,
        "Error: no app named. shop/jobs.py creates a Duly(): try  duly dev shop/jobs.py\n",
    )


def test_no_app_is_named_and_there_is_none() -> None:
    assert told("up") == (
        3,
        "Error: no app named, and there is no tasks.py here: duly up shop.tasks, or set DULY_APP\n",
    )


@pytest.mark.parametrize("words", [["jobs"], ["schedules"], ["why", "report"], ["status"]])
def test_no_store_is_here(folder: Path, words: list[str]) -> None:
    assert told(*words) == (
        5,
        f"database: {folder}/duly.db\nError: no database at ./duly.db; name another (--store, "
        "DULY_URL), or create this one: start the app (duly up), or duly db migrate --store "
        "./duly.db\n",
    )
    assert list(folder.iterdir()) == []


def test_a_command_is_about_the_store_of_the_app_that_is_here(folder: Path) -> None:
    (folder / "tasks.py").write_text('from duly import Duly\n\nduly = Duly("mydata.db")\n')
    assert told("queues", "set", "mail", "--concurrency", "3")[0] == 0
    assert (folder / "mydata.db").exists()
    for words in (["status"], ["jobs"], ["schedules"], ["workers"], ["doctor"]):
        assert f"{folder}/mydata.db" in told(*words)[1]
    assert told("jobs", "--store", "other.db")[1].startswith(f"database: {folder}/other.db\n")
    assert not (folder / "duly.db").exists()


def test_an_app_that_cannot_be_imported_does_not_hide_the_store(folder: Path) -> None:
    (folder / "tasks.py").write_text("1 / 0\n")
    assert told("jobs")[1].startswith(
        "note: tasks.py cannot be imported (ZeroDivisionError: division by zero), so its database "
        f"is not known; using {folder}/duly.db. Give --store, or set DULY_URL\n"
        f"database: {folder}/duly.db\n"
    )


def test_an_app_that_nobody_would_find_is_named(folder: Path) -> None:
    (folder / "shop.py").write_text('from duly import Duly\n\nduly = Duly("mydata.db")\n')
    note = (
        "note: shop.py creates a Duly(); to use its database, give --store, or set "
        "DULY_APP=shop.py\n"
    )
    assert told("status")[1].startswith(note)


@pytest.mark.parametrize(
    "words",
    [
        ["schedules", "add", "every 1h", "--name", "tick", "--", "date"],
        ["queues", "set", "mail", "--concurrency", "3"],
        ["events", "emit", "order.paid"],
        ["tokens", "create", "ci", "--role", "viewer"],
    ],
)
def test_the_first_thing_that_is_written_makes_the_store(folder: Path, words: list[str]) -> None:
    assert told(*words)[0] == 0
    assert (folder / "duly.db").exists()


@pytest.mark.parametrize("words", [["jobs"], ["why", "report"], ["worker", "tasks.py"]])
def test_a_database_has_no_tables(folder: Path, pg_dsn: str, words: list[str]) -> None:
    (folder / "tasks.py").write_text("from duly import Duly\n\nduly = Duly()\n")
    code, said = told(*words, "--store", pg_dsn)
    assert code == 1
    assert said.splitlines()[-1] == (
        "Error: the database has no duly tables: run duly db migrate "
        f"--store {quote(place(pg_dsn))}"
    )
    assert "Traceback" not in said


def test_a_schedule_is_not_known() -> None:
    told("db", "migrate")
    told("schedules", "add", "every 5m", "--name", "nightly-report", "--task", "report")
    for words in (["why"], ["schedules", "pause"], ["schedules", "show"]):
        code, said = told(*words, "nigthly-report")
        assert code == 3
        assert said.splitlines()[1:] == [
            'Error: there is no schedule "nigthly-report"; did you mean "nightly-report"?'
        ]


def test_a_rule_has_no_zone() -> None:
    told("db", "migrate")
    assert told("schedules", "add", "02:00", "--name", "backup", "--", "true") == (
        2,
        'Error: "02:00" names an hour, so it needs a time zone: write "02:00 Europe/Berlin", or '
        "give the zone beside the rule (zone=, --zone)\n\n"
        "    02:00\n         ^\n\n"
        'This machine is in Europe/Berlin: "02:00 Europe/Berlin"\n',
    )


def test_a_crontab_has_no_zone(folder: Path) -> None:
    (folder / "crontab").write_text("30 2 * * * /srv/backup --full\n")
    assert told("import", "crontab", "crontab") == (
        2,
        "Error: a crontab has no zone; this machine is Europe/Berlin: pass --zone Europe/Berlin\n",
    )


def test_shell_is_off(folder: Path, programs: Programs) -> None:
    """Whoever starts it is told at once, and whoever asks why a job waits."""
    (folder / "schedules.toml").write_text(FILE)
    store = str(folder / "duly.db")
    up = programs.start(
        "-m", "duly", "up", str(folder / "schedules.toml"), "--store", store, "--name", "web"
    )
    up.hear("shell is disabled here; jobs of backup will wait: add --allow shell\n")
    eventually(lambda: heard("jobs", "-o", "name"), "a job that waits")
    [job] = heard("jobs", "-o", "name").split()
    eventually(lambda: "allows shell" in heard("why", job), "it is known who is there")
    sentence, *_, allow, _ = heard("why", job).splitlines()
    assert sentence.endswith(" and waits for a worker: no running worker allows shell.")
    assert allow == "  allow it      duly up --allow shell"
    up.signal()
    assert up.end() == 0


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (
            "tomorrow",
            '"tomorrow" is not a time; write it as 2026-11-16T09:00, optionally with Z or +01:00; '
            "or a duration, as 5m or 2h",
        ),
        (
            "5",
            '"5" is not a time; give a unit, 5s, 5m or 5h, or write it as 2026-11-16T09:00, '
            "optionally with Z or +01:00",
        ),
    ],
)
def test_until_when_is_not_understood(until: str, said: str) -> None:
    told("db", "migrate")
    told("schedules", "add", "every 5m", "--name", "a", "--", "true")
    code, why = told("schedules", "pause", "a", "--until", until)
    assert (code, why.splitlines()[-1]) == (2, f"Error: --until: {said}")


def test_a_number_is_no_time_to_run_after(folder: Path) -> None:
    (folder / "tasks.py").write_text(TASKS)
    assert told("run", "send", "to=ada", "--run-after", "5") == (
        2,
        'Error: --run-after 5: give a unit, "5s", "5m" or "5h", or a time, as 2026-03-05T02:00Z\n',
    )


def test_a_worker_has_nothing_that_it_could_run(folder: Path, programs: Programs) -> None:
    (folder / "tasks.py").write_text("from duly import Duly\n\nduly = Duly()\n")
    words = (str(folder / "tasks.py"), "--store", str(folder / "duly.db"))
    worker = programs.start("-m", "duly", "worker", *words)
    worker.hear(
        "tasks: none, so no job can run here: declare some with @duly.task, or --allow shell,http\n"
    )
    worker.hear("registered as number")
    worker.signal()
    assert worker.end() == 0


@pytest.mark.parametrize("words", [["db", "migrate"], ["worker", "tasks.py"], ["apply"]])
def test_the_folder_of_the_store_is_not_there(folder: Path, words: list[str]) -> None:
    (folder / "tasks.py").write_text(TASKS)
    (folder / "schedules.toml").write_text(FILE)
    code, said = told(*words, "--store", "data/five.db")
    assert (code, said.splitlines()[-1]) == (
        5,
        f"Error: cannot create {folder}/data/five.db: the folder {folder}/data does not exist: "
        "create it",
    )


@pytest.mark.skipif(not Path("/sys").is_dir(), reason="no folder that root cannot write to")
@pytest.mark.parametrize("words", [["db", "migrate"], ["dev", "tasks.py"], ["up", "tasks.py"]])
def test_the_folder_of_the_store_is_read_only(folder: Path, words: list[str]) -> None:
    (folder / "tasks.py").write_text(TASKS)
    code, said = told(*words, "--store", "/sys/duly.db")
    assert (code, said.splitlines()[-1]) == (
        5,
        "Error: cannot create /sys/duly.db: Permission denied; duly must be able to write to this "
        "folder: allow it, or name another (--store)",
    )


TASKS = """
from duly import Duly

duly = Duly()

@duly.task
def send(to: str, n: int = 1): ...
"""


def test_a_task_of_a_schedule_is_not_in_the_app(folder: Path) -> None:
    (folder / "tasks.py").write_text(TASKS)
    store = f"database: {folder}/duly.db\n"
    told("db", "migrate")
    assert told("schedules", "add", "every 5m", "--task", "sned", "to=ada") == (
        3,
        f'{store}Error: there is no task "sned"; did you mean "send"?\n',
    )
    for words, why in (
        ([], "send(to: str, n: int = 1): missing a required argument: 'to'"),
        (["t=ada"], 'send has no parameter "t"; did you mean to=?'),
        (["to=ada", "n=x"], "send: n=x: that is no int"),
    ):
        assert told("schedules", "add", "every 5m", "--task", "send", *words) == (
            2,
            f"Error: {why}\n",
        )
    assert heard("schedules", "-o", "name") == ""
    added = told("schedules", "add", "every 5m", "--task", "send", "to=7")
    assert added == (0, f"{store}Every 5 minutes.\n")
    [send] = json.loads(heard("schedules", "-o", "json"))
    assert send["args"] == {"to": "7"}  # it is text, as the parameter says


def test_a_task_of_a_schedule_and_a_queue_are_nobodys(folder: Path, programs: Programs) -> None:
    """No app is at hand: those who run are asked."""
    (folder / "below").mkdir()
    (folder / "below" / "tasks.py").write_text(TASKS)
    told("db", "migrate")
    adding = ("schedules", "add", "every 5m", "--task", "sned", "--name")
    assert told(*adding, "one")[1].splitlines()[-1] == (
        'note: no worker is running, so nobody can say whether there is a task "sned"'
    )
    assert told("queues", "pause", "mial")[1].splitlines()[-1] == (
        'note: no worker is running, and so none listens to the queue "mial"'
    )
    words = (str(folder / "below" / "tasks.py"), "--store", str(folder / "duly.db"))
    worker = programs.start("-m", "duly", "worker", *words, "--queues", "mail,default")
    worker.hear("registered as number")
    assert told(*adding, "two") == (
        0,
        f"database: {folder}/duly.db\nEvery 5 minutes.\nnote: no running worker knows the task "
        '"sned"; did you mean "send"?\n',
    )
    assert told("schedules", "add", "every 5m", "--task", "send", "to=ada") == (
        0,
        f"database: {folder}/duly.db\nEvery 5 minutes.\n",
    )
    assert told("queues", "pause", "mial") == (
        0,
        f"database: {folder}/duly.db\n"
        'note: no worker listens to the queue "mial": they listen to default, mail; '
        'did you mean "mail"?\n',
    )
    assert told("queues", "pause", "mail") == (0, f"database: {folder}/duly.db\n")
    worker.signal()
    assert worker.end() == 0


def told(*words: str) -> tuple[int, str]:
    done = typed(*words)
    return done.returncode, done.stderr


def heard(*words: str) -> str:
    return typed(*words).stdout
