"""Every command says from afar what it says where the database is. On SQLite."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.app.access import login
from duly.cli import main
from duly.clock import now
from duly.model.access import Role
from duly.model.event import Emitted, EventFilter
from duly.model.payload import Json
from tests.app.remote.server import Elsewhere, elsewhere
from tests.app.waiting import eventually
from tests.factories import call, plan

APP = """
from duly import Duly
duly = Duly("sqlite:///not-the-one.db")

@duly.task
def send(to: str = "ada", password: str = "") -> None: ...
"""
SECRETIVE = Json('{"to":"ada","password":"hunter2"}')
SHEET = """
[schedules.nightly-NAME]
rule = "02:00"
zone = "UTC"
shell = "make report"

[queues.mail-NAME]
concurrency = 5
"""


@pytest.fixture
def there(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NO_COLOR", "1")
    with elsewhere(url) as there:
        there.do(lambda store: store.schedules.add([
            plan("report", "02:00 UTC", task="send", args=SECRETIVE),
            plan("beat", "every 5m", task="send"),
            plan("welcome", "on user.joined", task="send"),
        ]))  # fmt: skip
        there.do(lambda store: store.events.emit([
            Emitted(name="user.joined", payload=SECRETIVE, key="u7"), Emitted(name="user.left"),
        ]))  # fmt: skip
        there.do(lambda store: store.events.react(limit=10))
        there.do(lambda store: store.jobs.enqueue([
            call("send", args=SECRETIVE, key="k", tags=("nightly",)),
            call("send", queue="mail", priority=5, tenant="acme", title="Mail for Ada"),
        ]))  # fmt: skip
        yield there


@pytest.fixture
def token(there: Elsewhere, tmp_path: Path) -> str:
    """Of one whose name is that of who is at the keyboard, so that both do it in one name."""
    return token_file(there, tmp_path, login(), "admin")


def token_file(
    there: Elsewhere, folder: Path, name: str, role: Role, *, tenant: str | None = None
) -> str:
    path = folder / f"{name}.token"
    path.write_text(there.token(name, role, tenant=tenant) + "\n")
    path.chmod(0o600)
    return str(path)


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def afar(there: Elsewhere, token: str, *words: str) -> Result:
    return duly("--url", there.url, "--token-file", token, *words)


READING = [
    ["status"],
    ["status", "-o", "json"],
    ["why", "report"],
    ["why", "JOB"],
    ["next", "report"],
    ["schedules"],
    ["schedules", "list", "-o", "json"],
    ["schedules", "show", "report"],
    ["schedules", "show", "report", "-o", "json"],
    ["schedules", "history", "beat"],
    ["schedules", "next", "beat"],
    ["schedules", "simulate", "report", "--from", "2027-03-01T00:00Z"],
    ["jobs"],
    ["jobs", "list", "-o", "jsonl"],
    ["jobs", "list", "queue:mail", "-o", "name"],
    ["jobs", "show", "JOB"],
    ["jobs", "show", "JOB", "-o", "json"],
    ["jobs", "logs", "JOB"],
    ["events"],
    ["events", "list", "user.*", "--key", "u7", "-o", "jsonl"],
    ["events", "show", "EVENT"],
    ["events", "show", "EVENT", "-o", "json"],
    ["events", "replay", "welcome", "--since", "1d", "--dry-run", "-o", "json"],
    ["queues"],
    ["queues", "-o", "json"],
    ["limits"],
    ["workers"],
    ["workers", "-o", "json"],
    ["export"],
    ["tokens"],
    ["tokens", "list", "-o", "json"],
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_is_read_from_afar_is_what_is_read_at_home(
    there: Elsewhere, url: str, token: str, words: list[str]
) -> None:
    jobs = there.do(lambda store: store.jobs.page())
    events = there.do(lambda store: store.events.page(EventFilter(pattern="user.joined"))).events
    others = {"JOB": str(jobs[0].id), "EVENT": str(events[0].id)}
    words = [others.get(word, word) for word in words]
    away, here = within_a_minute(there, token, url, words)
    if steady(away.stdout) != steady(here.stdout):  # a run became due between them
        away, here = within_a_minute(there, token, url, words)
    assert steady(away.stdout) == steady(here.stdout)
    assert (away.exit_code, here.exit_code) == (here.exit_code, 0), away.output
    if words[0] != "next":
        assert away.stderr.startswith(f"server: {there.url}\n")


def within_a_minute(
    there: Elsewhere, token: str, url: str, words: list[str]
) -> tuple[Result, Result]:
    """Run a command on the server and on the file in one minute: lengths are told in minutes."""
    while True:
        minute = now().replace(second=0, microsecond=0)
        found = afar(there, token, *words), duly(*words, "--store", url)
        if now().replace(second=0, microsecond=0) == minute:
            return found


def steady(text: str) -> str:
    """Without what is another a moment later."""
    text = re.sub(r'"(now|last_used_at)":\s*"[^"]*"', r'"\1": …', text)
    return re.sub(r"\d+(\.\d+)?\s?(ms|s|m|h|seconds?|minutes?)\b|\d\d:\d\d:\d\d(\.\d+)?", "…", text)


CHANGING = [
    ["schedules", "add", "every 700h", "--task", "send", "--name", "NEW", "to=ada"],
    ["schedules", "edit", "NAME", "--overlap", "queue_one"],
    ["schedules", "pause", "NAME", "--note", "a holiday"],
    ["schedules", "pause", "NAME", "--until", "2d"],
    ["schedules", "resume", "NAME"],
    ["schedules", "skip-next", "NAME"],
    ["schedules", "run", "NAME"],
    ["schedules", "remove", "NAME", "--yes"],
    [
        "schedules",
        "backfill",
        "NAME",
        "--from",
        "2026-03-01T00:00Z",
        "--to",
        "2026-03-01T00:12Z",
        "--yes",
    ],
    ["jobs", "cancel", "JOB"],
    ["events", "emit", "NAME", "n=1", "--key", "k"],
    ["queues", "pause", "NAME"],
    ["queues", "set", "NAME", "--concurrency", "3", "--rate", "5/s"],
    ["limits", "set", "NAME", "--concurrency", "2"],
    ["run", "send", "to=eve", "--app", "APP", "--queue", "NAME"],
    ["apply", "SHEET", "--name", "NAME", "--yes"],
    ["plan", "SHEET", "--name", "NAME"],
    ["tokens", "create", "NAME", "--role", "viewer"],
]


@pytest.mark.parametrize("words", CHANGING, ids=" ".join)
def test_what_is_changed_from_afar_is_changed_as_at_home(  # noqa: PLR0917 - fixtures
    there: Elsewhere, url: str, token: str, words: list[str], tmp_path: Path
) -> None:
    app = tmp_path / f"app_{tmp_path.name}.py"  # another module for each
    app.write_text(APP)
    there.do(lambda store: store.schedules.add([plan(name, RULE) for name in TWINS]))
    jobs = there.do(lambda store: store.jobs.enqueue([call("send", key=name) for name in TWINS]))

    def said(name: str, number: int) -> list[str]:
        (tmp_path / f"{name}.toml").write_text(SHEET.replace("NAME", name))
        others = {"NAME": name, "NEW": f"new-{name}", "JOB": str(number)}
        others |= {"APP": str(app), "SHEET": str(tmp_path / f"{name}.toml")}
        return [others.get(word, word) for word in words]

    away = afar(there, token, *said("away", jobs[0]))
    here = duly(*said("home", jobs[1]), "--store", url)
    assert (away.exit_code, here.exit_code) == (0, 0), away.output + here.output
    assert unnamed(away.stdout) == unnamed(here.stdout)
    assert traces(there, "away") == traces(there, "home")


TWINS = ("away", "home")
RULE = "2026-03-01 *:0/5 UTC | every 1000h"  # moments to backfill, and one far away


def unnamed(text: str) -> str:
    return re.sub(r"duly_\S+|\d{4,}", "…", steady(text)).replace("away", "home")


def traces(there: Elsewhere, name: str) -> list[object]:
    """What is there of one of the twins, and who has done it."""
    entries = there.do(lambda store: store.access.audit(limit=1_000))
    plans = there.do(lambda store: store.schedules.page())
    queues = there.do(lambda store: store.work.queues())
    jobs = there.do(lambda store: store.jobs.page())
    return [
        [(one.who, one.action, unnamed(one.details)) for one in entries if name in one.subject],
        [unnamed(repr((one.plan, one.pause and one.pause.by))) for one in plans if name in one.key],
        [unnamed(repr(queue)) for queue in queues if queue.name == name],
        [unnamed(repr((job.task, job.args, job.submitter))) for job in jobs if job.queue == name],
    ]


def test_the_doctor_looks_at_what_is_in_the_tables(there: Elsewhere, token: str) -> None:
    looked = afar(there, token, "doctor", "-o", "json")
    assert looked.exit_code == 1  # a job waits, and nobody is there to run it
    levels = {one["check"]: one["level"] for one in json.loads(looked.stdout)["findings"]}
    assert levels.pop("tasks") == "problem"
    assert levels == dict.fromkeys(
        ("partitions", "clock", "zone data", "moments", "schedules", "workers", "alerts"), "ok"
    )


def test_a_log_is_followed_from_afar_to_the_end_of_its_job(there: Elsewhere, token: str) -> None:
    number = there.do(lambda store: store.jobs.page())[0].id
    options = ["--url", there.url, "--token-file", token]
    command = [sys.executable, "-m", "duly", *options, "jobs", "logs", "-f", str(number)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as following:
        try:
            looks = "/api/v1/store/journal/logs"
            eventually(lambda: there.asked.count(looks) > 1, "two looks")
            assert following.poll() is None
            there.do(lambda store: store.jobs.cancel(number))
            assert following.wait(20) == 0
            assert following.stderr is not None
            assert f"job {number} has no log output" in following.stderr.read()
        finally:
            following.kill()
