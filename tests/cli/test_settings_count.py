"""What is configured counts: for commands that ask, for those that run, and for Python."""

import json
import os
import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result

from duly import Duly
from duly.cli import main
from duly.connection import configured, retention_of
from duly.runtime.node import worker_words
from tests.app.waiting import eventually

TASKS = """
from duly import Duly
duly = Duly()

@duly.task
def hello() -> None: ...
"""
MORE = """
from tasks import duly

@duly.schedule("02:00")
@duly.task
def report() -> None: ...
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, and one below it in which everything is called."""
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "more.py").write_text(MORE)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


def write(project: Path, **settings: object) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    (project / "duly.toml").write_text("\n".join(lines))


def command(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(main, words, env=environment)


def burst(*words: str, **environment: str) -> str:
    """What a worker says that ends at once."""
    done = subprocess.run(
        [sys.executable, "-m", "duly", "worker", "--burst", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stderr


def test_the_file_names_the_store_of_commands_and_of_python(project: Path) -> None:
    write(project, url="shop.db", app="tasks.py")
    assert Duly().url == str(project / "shop.db")
    assert f"database: {project}/shop.db" in burst()
    asked = command("jobs")
    assert (asked.exit_code, asked.stderr.splitlines()[0]) == (0, f"database: {project}/shop.db")
    assert not (project / "below" / "duly.db").exists()


def test_what_is_typed_wins_over_the_environment_and_that_over_the_file(project: Path) -> None:
    write(project, app="tasks.py", queues=["mail"], concurrency=3)
    assert "queues: mail (concurrency 3)" in burst()
    assert "queues: slow (concurrency 3)" in burst(DULY_QUEUES="slow")
    assert "queues: fast (concurrency 3)" in burst("--queues", "fast", DULY_QUEUES="slow")


def test_the_code_names_a_path_from_the_folder_of_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Duly("own.db").url == str(project / "below" / "own.db")
    (project / "below" / "deep").mkdir()
    write(project, zone="UTC")
    monkeypatch.chdir("deep")
    assert Duly("own.db").url == str(project / "own.db")


def test_modules_that_are_to_be_imported_are_and_their_rules_have_the_zone(project: Path) -> None:
    write(project, url="shop.db", app="tasks.py", imports=["more"], zone="Europe/Berlin")
    said = subprocess.Popen([sys.executable, "-m", "duly", "up"], stderr=subprocess.PIPE, text=True)
    try:
        app = Duly(str(project / "shop.db"))
        eventually((project / "shop.db").exists, "a store")
        eventually(lambda: [one.name for one in app.schedules.list()] == ["report"], "a schedule")
    finally:
        said.terminate()
        said.communicate()
    [report] = app.schedules.list()
    assert report.zone == "Europe/Berlin"


def test_how_long_things_are_kept_and_how_workers_work_reaches_them(project: Path) -> None:
    write(project, keep_history="1d", keep_failed="2d", keep_fires="3d", concurrency=7)
    kept = retention_of(configured())
    assert [kept.history.days, kept.failed.days, kept.fires.days] == [1, 2, 3]
    assert worker_words(configured())["concurrency"] == 7


# The command, whose pruner deletes without having watched the clock for ten minutes.
HASTY = """
from duly.engine.maintenance import Pruner
from duly.engine.timekeeper import Caution
from duly.__main__ import main

Pruner.__init__.__kwdefaults__["caution"] = Caution()
main()
"""


def test_what_is_old_is_forgotten_when_the_settings_say(project: Path) -> None:
    write(project, url="shop.db", app="tasks.py", keep_history="1ms")
    (project / "go.py").write_text(
        f"import sys; sys.path.insert(0, {str(project)!r})\n"
        "from tasks import duly, hello\nhello.enqueue()\n"
    )
    subprocess.run([sys.executable, "../go.py"], check=True)
    burst()
    jobs = Duly(str(project / "shop.db")).jobs
    assert len(jobs.list()) == 1
    up = subprocess.Popen([sys.executable, "-c", HASTY, "scheduler"])
    try:
        eventually(lambda: not jobs.list(), "what is old to be forgotten")
    finally:
        up.terminate()
        up.wait()


def test_less_is_said_from_a_higher_level_on(project: Path) -> None:
    write(project, url="shop.db", app="tasks.py")
    assert "registered as number" in burst()
    assert burst("--log-level", "warning") == f"database: {project}/shop.db\n"
    assert "registered as number" not in burst(DULY_LOG_LEVEL="error")


def test_a_mistake_in_the_file_is_found_by_whoever_asks(project: Path) -> None:
    write(project, quues=["mail"])
    asked = command("jobs")
    assert asked.exit_code == 2
    assert "no setting is called quues (did you mean queues?)" in asked.stderr


def test_a_schedule_is_asked_for_by_its_name(project: Path) -> None:
    write(project, url="shop.db", zone="Europe/Berlin")
    app = Duly()

    @app.task
    def hello() -> None: ...

    app.schedules.add("02:00", hello, name="nightly")
    [_, second] = app.schedules.preview("nightly", count=2)
    found = command("next", "nightly", "-n", "2")
    assert (found.exit_code, "every day at 02:00" in found.stdout.lower()) == (0, True)
    app.schedules.skip_next("nightly")
    behind = json.loads(command("next", "nightly", "-n", "1", "-o", "json").stdout)
    assert behind == [second.strftime("%Y-%m-%dT%H:%M:%SZ")]
    unknown = command("next", "nighty")
    assert unknown.exit_code == 2
    assert f'No schedule is called "nighty" in {project}/shop.db either.' in unknown.stderr


def test_a_file_of_schedules_is_all_that_is_needed(project: Path) -> None:
    (project / "below" / "schedules.toml").write_text(
        f'[schedules.tick]\nrule = "every 1s"\nshell = "echo tick >> ticks"\ncwd = "{project}"\n'
    )
    log = project / "log"
    with log.open("w") as stream:
        up = subprocess.Popen(
            [sys.executable, "-m", "duly", "up", "schedules.toml", "--allow", "shell"],
            stderr=stream,
        )
        try:
            eventually((project / "ticks").exists, "a tick")
        finally:
            up.terminate()
            code = up.wait()
    assert code == 0
    assert "schedules.toml: 1 to add" in log.read_text()


def test_a_file_of_schedules_that_needs_what_is_off_says_which_flag(project: Path) -> None:
    (project / "below" / "schedules.toml").write_text(
        '[schedules.tick]\nrule = "every 1h"\nshell = "true"\n'
    )
    log = project / "log"
    with log.open("w") as stream:
        up = subprocess.Popen(
            [sys.executable, "-m", "duly", "scheduler", "schedules.toml"], stderr=stream
        )
        try:
            eventually(lambda: "add --allow shell" in log.read_text(), "the flag")
        finally:
            up.terminate()
            up.wait()


def test_up_makes_the_tables_of_a_database_only_when_told(project: Path, pg_dsn: str) -> None:
    write(project, url=pg_dsn, app="tasks.py")
    refused = subprocess.run(
        [sys.executable, "-m", "duly", "up"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, "run duly db migrate" in refused.stderr) == (1, True)
    log = project / "log"
    with log.open("w") as stream:
        up = subprocess.Popen([sys.executable, "-m", "duly", "up", "--migrate"], stderr=stream)
        try:
            eventually(lambda: "registered as number" in log.read_text(), "a worker")
        finally:
            up.terminate()
            assert up.wait() == 0


def test_the_zone_is_that_of_schedules_which_a_person_adds(project: Path) -> None:
    write(project, url="shop.db", zone="Asia/Tokyo")
    command("db", "migrate")
    added = command("schedules", "add", "02:00", "--task", "hello", "--end", "2099-01-01")
    assert (added.exit_code, "02:00:00 JST" in added.stdout) == (0, True)
    command("schedules", "add", "02:00 Europe/Paris", "--task", "hello", "--name", "own")
    command("schedules", "add", "every 5m", "--task", "hello", "--name", "none", "--zone", "none")
    app = Duly()
    assert (app.schedules.get("hello").zone, app.schedules.get("none").zone) == ("Asia/Tokyo", None)
    assert app.schedules.preview("own", count=1)[0].astimezone(ZoneInfo("Europe/Paris")).hour == 2


def test_the_zone_is_that_of_rules_which_a_person_edits(project: Path) -> None:
    write(project, url="shop.db")
    command("db", "migrate")
    command("schedules", "add", "every 5m", "--task", "hello")
    write(project, url="shop.db", zone="Asia/Tokyo")
    app = Duly()
    assert command("schedules", "edit", "hello", "--queue", "ops").exit_code == 0
    assert app.schedules.get("hello").zone is None
    edited = command("schedules", "edit", "hello", "--rule", "02:00")
    assert (edited.exit_code, "02:00:00 JST" in edited.stdout) == (0, True)
    assert app.schedules.get("hello").zone == "Asia/Tokyo"
    supposed = command("schedules", "simulate", "--rule", "03:00", "--to", "48h")
    assert (supposed.exit_code, "03:00 JST" in supposed.stdout) == (0, True)


def test_the_zone_is_that_of_a_file_which_names_none_and_is_applied_with_it(project: Path) -> None:
    write(project, url="shop.db", zone="Asia/Tokyo")
    Path("schedules.toml").write_text('[schedules.a]\nrule = "02:00"\nshell = "true"\n')
    assert command("plan").stdout.splitlines() == [
        "+ schedule a  02:00 Asia/Tokyo  shell",
        "1 to add",
    ]
    assert command("apply").exit_code == 0
    assert Duly().schedules.get("a").zone == "Asia/Tokyo"
    assert command("plan").stdout == "nothing to do: 1 unchanged\n"
    changed = command("plan", DULY_ZONE="Europe/Berlin")
    assert changed.stdout.splitlines()[0] == ('~ schedule a  zone: "Asia/Tokyo" -> "Europe/Berlin"')
    assert changed.exit_code == 0
    Path("schedules.toml").write_text(
        '[defaults]\nzone = "UTC"\n[schedules.a]\nrule = "02:00"\nshell = "true"\n'
    )
    assert '"Asia/Tokyo" -> "UTC"' in command("plan").stdout


def test_the_zone_is_that_of_a_file_which_is_run(project: Path) -> None:
    write(project, url="shop.db", zone="Asia/Tokyo")
    Path("schedules.toml").write_text('[schedules.a]\nrule = "02:00"\nshell = "true"\n')
    log = project / "log"
    with log.open("w") as stream:
        up = subprocess.Popen([sys.executable, "-m", "duly", "up", "schedules.toml"], stderr=stream)
        try:
            eventually(lambda: "registered as number" in log.read_text(), "a worker")
            assert [one.zone for one in Duly().schedules.list()] == ["Asia/Tokyo"]
        finally:
            up.terminate()
            assert up.wait() == 0


def test_the_zone_is_that_of_a_crontab_and_who_imports_it_is_told(project: Path) -> None:
    write(project, zone="Asia/Tokyo")
    Path("crontab").write_text("30 2 * * * /srv/backup\n")
    by_file = command("import", "crontab", "crontab")
    assert (by_file.exit_code, 'zone = "Asia/Tokyo"' in by_file.stdout) == (0, True)
    assert by_file.stderr.splitlines()[0] == (
        "zone: Asia/Tokyo (from duly.toml); use --zone ZONE for another"
    )
    by_word = command("import", "crontab", "crontab", "--zone", "UTC")
    assert ('zone = "UTC"' in by_word.stdout, "duly.toml" in by_word.stderr) == (True, False)


def test_an_import_reads_no_settings_that_it_does_not_need(project: Path) -> None:
    """A module may be imported by whatever tool, in whatever state the settings are."""
    (project / "duly.toml").write_text("this is no TOML")
    declared = (
        TASKS
        + '\nduly.schedule("every 5m", hello)\nduly.schedule("02:00 UTC", hello, name="two")\n'
    )
    (project / "below" / "tasks.py").write_text(declared)
    subprocess.run(
        [sys.executable, "-c", "import tasks"], check=True, env={**os.environ, "DULY_FOO": "1"}
    )
    (project / "below" / "tasks.py").write_text(TASKS + '\nduly.schedule("02:00", hello)\n')
    needs = subprocess.run(
        [sys.executable, "-c", "import tasks"], capture_output=True, text=True, check=False
    )
    assert "duly.toml" in needs.stderr.splitlines()[-1]
