"""A secret that was given to a schedule is shown to nobody who only looks."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly import Duly
from duly.app import Store
from duly.app.access import commanded
from duly.cli.main import main
from duly.model.access import Actor
from duly.model.payload import Json
from tests.cli.test_schedules import changes, on, plan, store

__all__ = ["store"]

SHEET = """
[schedules.hook]
rule = "every 5m"
http = { url = "https://hooks.example/x?key=%(secret)s", method = "POST", body = "%(secret)s", \
headers = { X-Odd = "%(secret)s", Authorization = "Bearer %(secret)s", Accept = "text/html" } }

[schedules.backup]
rule = "every 5m"
shell = "backup --token %(secret)s"
env = { PGPASSWORD = "%(secret)s", LANG = "%(secret)s" }
stdin = "%(secret)s"

[schedules.copy]
rule = "every 5m"
command = ["copy", "--password", "%(secret)s", "Cookie: a=b; c=%(secret)s"]
env = { AWS_SESSION_TOKEN = "%(secret)s" }

[queues.mail]
concurrency = 3
"""

NAMES = ("hook", "backup", "copy")
LOOKING = (
    ("plan", "FILE"),
    ("plan", "FILE", "-o", "json"),
    ("schedules",),
    *(("schedules", "-o", output) for output in ("wide", "json", "jsonl", "name")),
    *(
        (*words, *how)
        for name in NAMES
        for words in (("schedules", "show", name), ("schedules", "history", name), ("why", name))
        for how in ((), ("-o", "json"))
        if words[0] != "why" or not how
    ),
    ("jobs",),
    *(("jobs", "-o", output) for output in ("wide", "json", "jsonl", "name")),
    *(("jobs", "show", "JOB", *how) for how in ((), ("-o", "json"))),
    ("jobs", "logs", "JOB"),
    ("status",),
    ("status", "-o", "json"),
    ("queues", "-o", "json"),
    ("limits", "-o", "json"),
    ("workers", "-o", "json"),
)


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """Applied twice, so that there are changes to tell of, and with a job of each."""
    path = tmp_path / "schedules.toml"
    for secret in ("hunter1", "hunter2"):
        path.write_text(SHEET % {"secret": secret})
        done = duly("apply", str(path), "--yes")
        assert done.exit_code == 0, done.output
        assert "hunter" not in done.output
    for name in NAMES:
        assert duly("schedules", "run", name).exit_code == 0
    path.write_text(SHEET % {"secret": "hunter3"})
    return path


def test_no_command_that_looks_shows_it(sheet: Path) -> None:
    numbers = duly("jobs", "-o", "name").stdout.split()
    assert len(numbers) == 3
    for words in LOOKING:
        for number in numbers if "JOB" in words else numbers[:1]:
            said = [{"FILE": str(sheet), "JOB": number}.get(word, word) for word in words]
            done = duly(*said)
            assert done.exit_code == 0, (said, done.output)
            assert "hunter" not in done.output, said


def test_what_is_kept_of_a_change_does_not_hold_it(store: str, sheet: Path) -> None:
    assert sheet.exists()
    told = [what for name in NAMES for _, what in changes(store, name)]
    assert sum("changed in a hidden part" in what for what in told) == 3
    assert "hunter" not in f"{told}"


def test_of_an_edit_the_audit_log_tells_without_it(store: str) -> None:
    words = ("--", "copy", "--password", "hunter1")
    assert duly("schedules", "add", "every 5m", "--name", "copy", *words).exit_code == 0
    with_another = replace(plan(store, "copy"), args=Json('{"argv":["x","--password","hunter2"]}'))

    async def edited(there: Store) -> object:
        return (
            await commanded(there)
            .acting(Actor("ada", "program"))
            .schedules.edit("copy", lambda _: with_another)
        )

    on(store, edited)
    [deed, _] = Duly(store).audit.list()
    assert deed.action == "schedules.edit"
    assert "--password" in deed.details
    assert "hunter" not in str(deed)


def test_what_is_no_secret_is_shown(sheet: Path) -> None:
    assert sheet.exists()
    shown = duly("schedules", "show", "hook").stdout
    assert '"url":"https://hooks.example/x?***","method":"POST","body":"***"' in shown
    assert '"X-Odd":"***","Authorization":"***","Accept":"text/html"' in shown
    assert '"env":{"PGPASSWORD":"***","LANG":"***"}' in duly("schedules", "show", "backup").stdout
    assert '"argv":["copy","--password","***","Cookie: ***"]' in (
        duly("schedules", "show", "copy").stdout
    )


def test_an_export_is_for_its_owner_and_says_so(sheet: Path) -> None:
    done = duly("export")
    assert done.stdout.count("hunter2") == 11
    assert "values that other commands hide (backup, copy, hook): keep it private" in done.stderr
    sheet.write_text(done.stdout)
    assert duly("plan", str(sheet)).stdout.startswith("nothing to do")


def test_an_export_without_secrets_has_nothing_to_say(tmp_path: Path) -> None:
    path = tmp_path / "schedules.toml"
    path.write_text('[schedules.backup]\nrule = "every 5m"\nshell = "backup"\n')
    assert duly("apply", str(path), "--yes").exit_code == 0
    assert "keep it" not in duly("export").stderr


def test_a_password_in_a_url_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "schedules.toml"
    path.write_text(
        '[schedules.hook]\nrule = "every 5m"\nhttp = { url = "https://ada:hunter2@x.example/" }\n'
    )
    for words in (("plan", str(path)), ("apply", str(path), "--yes")):
        done = duly(*words)
        assert done.exit_code == 2
        assert "put it into headers" in done.stderr
        assert "hunter" not in done.output


@pytest.mark.parametrize(
    "address", ["postgresql://bob:hunter2/x@h/d", "host=h password=hunter2 dbname=x"]
)
def test_a_password_in_the_address_of_a_store_is_not_repeated(address: str) -> None:
    done = duly("jobs", "--store", address)
    assert done.exit_code == 2
    assert "hunter" not in done.output
