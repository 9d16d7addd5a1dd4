"""The mistakes that people make first, and what they are told: each message, word by word.

In Python a mistake is refused at the line that makes it; the command names that line, and shows no
traceback. Lines that are wrong are marked ``# here``.
"""

import os
import subprocess
import sys
import traceback
from pathlib import Path
from shlex import quote

import pytest

import duly as package
from duly import Duly, DulyError
from duly.app import place
from duly.errors import SchemaMismatch
from tests.infrastructure.commands import typed

IMPORTS = """\
from datetime import UTC, datetime, timedelta
from duly import Context, Duly

duly = Duly()
"""

# What is wrong with a declaration, and is known when the module is imported.
DECLARATIONS = {
    "no zone": (
        """
@duly.schedule("Mon..Fri 02:00")  # here
@duly.task
def report(): ...
""",
        '"Mon..Fri 02:00" names an hour, so it needs a time zone. This machine is in '
        'Europe/Berlin: write "Mon..Fri 02:00 Europe/Berlin", or pass zone="Europe/Berlin", here '
        'or for every schedule: Duly(zone="Europe/Berlin")',
    ),
    "no zone of what is left out": (
        """
@duly.task
def report(): ...
duly.schedule("every 5m", report, exclude="Sat,Sun")  # here
""",
        '"Sat,Sun" names an hour, so it needs a time zone. This machine is in Europe/Berlin: '
        'write "Sat,Sun Europe/Berlin", or pass zone="Europe/Berlin", here or for every schedule: '
        'Duly(zone="Europe/Berlin")',
    ),
    "naive datetime": (
        """
@duly.task
def report(): ...
duly.schedule("every 5m", report, start=datetime(2027, 1, 4, 9))  # here
""",
        "start=2027-01-04 09:00:00 is naive and needs a zone: datetime(…, tzinfo=UTC)",
    ),
    "number as duration": (
        """
@duly.task(timeout=30)  # here
async def sync(): ...
""",
        'sync: timeout=30: a unit is missing: write "30s" or "30m"',
    ),
    "impossible time-out": (
        """
@duly.task(timeout="10m")  # here
def crunch(): ...
""",
        'crunch: a thread cannot be stopped: use executor="process" (killed after 10m), or '
        'executor="thread" (only reported), or make the function async',
    ),
    "schedule over a task with required arguments": (
        """
@duly.schedule("every 5m")  # here
@duly.task
def rollup(region: str, deep: bool = False): ...
""",
        'rollup needs region, but the schedule passes no arguments: duly.schedule("…", '
        'rollup.bind(region=…), name="…")',
    ),
    "decorators in the wrong order": (
        """
@duly.task
@duly.schedule("every 5m")  # here
def report(): ...
""",
        "report is not a task yet: @duly.schedule goes above @duly.task: swap them, or add "
        "@duly.task",
    ),
    "two tasks with one name": (
        """
@duly.task
def report(): ...

@duly.task  # here
def report(day): ...
""",
        'two tasks are named "report": report in tasks.py:6 and report in tasks.py:9; rename one '
        'of them with name="…"',
    ),
    "forgotten takes_context": (
        """
@duly.task  # here
def report(context: Context, day: str): ...
""",
        "report: parameter `context` is a Context, which callers cannot pass: set "
        "takes_context=True and make it the first parameter, or call current() inside",
    ),
    "a length of time as a rule": (
        """
@duly.schedule(timedelta(minutes=5), zone="UTC")  # here
@duly.task
def report(): ...
""",
        'duly.schedule(datetime.timedelta(seconds=300)): a rule must be text: write "every 5m"',
    ),
    "a number as a rule": (
        """
@duly.schedule(300)  # here
@duly.task
def report(): ...
""",
        'duly.schedule(300): a rule must be text: write "every 300s" or "every 300m"',
    ),
    "something else as a rule": (
        """
@duly.schedule(["02:00"])  # here
@duly.task
def report(): ...
""",
        'duly.schedule([\'02:00\']): a rule must be text: write "every 5m" or "Mon..Fri 02:00 '
        'Europe/Berlin"',
    ),
    "something else as what is left out": (
        """
@duly.task
def report(): ...
duly.schedule("every 5m", report, exclude=["Sat"])  # here
""",
        'exclude=[\'Sat\']: a rule must be text: write "every 5m" or "Mon..Fri 02:00 '
        'Europe/Berlin"',
    ),
    "schedule without parentheses": (
        """
@duly.schedule  # here
@duly.task
def report(): ...
""",
        'a schedule needs a rule: @duly.schedule("every 5m")',
    ),
    "schedule without parentheses over a plain function": (
        """
@duly.task
@duly.schedule  # here
def report(): ...
""",
        'a schedule needs a rule: @duly.schedule("every 5m")',
    ),
    "schedule of nothing": (
        """
@duly.schedule()  # here
@duly.task
def report(): ...
""",
        'a schedule needs a rule: @duly.schedule("every 5m")',
    ),
    "unknown option of a task": (
        """
@duly.task(retries=3)  # here
def report(): ...
""",
        "a task has no option retries=; did you mean retry=?",
    ),
    "unknown option of a task with a context": (
        """
@duly.task(takes_context=True, max_retries=3)  # here
def report(context): ...
""",
        "a task has no option max_retries=; did you mean retry=?",
    ),
    "the package instead of the app": (
        """
import duly
@duly.task  # here
def report(): ...
""",
        "duly is the package; your app is the object: from tasks import duly",
    ),
}

TASK = """
@duly.task
def confirm(order: int): ...
"""
# What is wrong with a call.
CALLS = {
    "naive datetime": (
        "confirm.using(run_after=datetime(2027, 1, 4, 9)).enqueue(7)  # here",
        "run_after=2027-01-04 09:00:00 is naive and needs a zone: datetime(…, tzinfo=UTC)",
    ),
    "number as duration": (
        "confirm.using(run_after=30).enqueue(7)  # here",
        'run_after=30: a unit is missing: write "30s" or "30m"',
    ),
    "number as a wait between retries": (
        "from duly import Retry\nRetry(first=10)  # here",
        'Retry: first=10: say "10s" or "10m"',
    ),
    "no zone": (
        'duly.schedules.add("02:00", confirm.bind(7))  # here',
        '"02:00" names an hour, so it needs a time zone. This machine is in Europe/Berlin: write '
        '"02:00 Europe/Berlin", or pass zone="Europe/Berlin", here or for every schedule: '
        'Duly(zone="Europe/Berlin")',
    ),
    "a length of time as a rule": (
        "duly.schedules.add(timedelta(hours=1, minutes=30), confirm.bind(7))  # here",
        'duly.schedules.add(datetime.timedelta(seconds=5400)): a rule must be text: write "every '
        '1h30m"',
    ),
    "a moment as a rule": (
        "duly.schedules.add(datetime(2027, 1, 4, 9, tzinfo=UTC), confirm.bind(7))  # here",
        "duly.schedules.add(datetime.datetime(2027, 1, 4, 9, 0, tzinfo=datetime.timezone.utc)): a "
        'rule must be text: write "2027-01-04T09:00:00+00:00"',
    ),
    "a number as another rule": (
        'duly.schedules.edit("report", rule=300)  # here',
        'duly.schedules.edit(rule=300): a rule must be text: write "every 300s" or "every 300m"',
    ),
    "unknown choice for a job": (
        "confirm.using(retries=3).enqueue(7)  # here",
        "using() has no option retries=; did you mean retry=?",
    ),
    "unknown schedule": (
        'duly.schedules.add("every 5m", confirm.bind(7), name="nightly-report")\n'
        'duly.schedules.pause("nigthly-report")  # here',
        'there is no schedule "nigthly-report"; did you mean "nightly-report"?',
    ),
    "sync call with an async session": (
        "from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine\n"
        'session = AsyncSession(create_async_engine("postgresql+asyncpg://"))\n'
        "confirm.using(connection=session).enqueue(7)  # here",
        "this is an AsyncSession: await confirm.using(connection=…).aenqueue(…)",
    ),
    "several jobs with an async session": (
        "from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine\n"
        'session = AsyncSession(create_async_engine("postgresql+asyncpg://"))\n'
        "duly.enqueue_many([confirm.bind(7), confirm.bind(8)], connection=session)  # here",
        "this is an AsyncSession: await duly.aenqueue_many(…, connection=…)",
    ),
    "another database's session": (
        "from sqlalchemy import NullPool, create_engine\n"
        "from sqlalchemy.orm import Session\n"
        'with Session(create_engine("sqlite://", poolclass=NullPool)) as session:\n'
        "    confirm.using(connection=session).enqueue(7)  # here",
        "the session's database has no duly tables; duly uses {folder}/duly.db",
    ),
    "another database's connection": (
        "import sqlite3, contextlib\n"
        'with contextlib.closing(sqlite3.connect(":memory:")) as connection:\n'
        "    confirm.using(connection=connection).enqueue(7)  # here",
        "the connection's database has no duly tables; duly uses {folder}/duly.db",
    ),
}
MISTAKES = [
    *(pytest.param(*mistake, id=name) for name, mistake in DECLARATIONS.items()),
    *(pytest.param(TASK + text, said, id=f"call: {name}") for name, (text, said) in CALLS.items()),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, on a machine in Berlin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    for name in [name for name in os.environ if name.startswith("DULY_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_refused_at_its_line(folder: Path, text: str, message: str) -> None:
    program, names = IMPORTS + text, dict[str, object](__name__="tasks")
    with pytest.raises(DulyError) as refused:
        exec(compile(program, "tasks.py", "exec"), names)  # noqa: S102 - as importing it would
    for app in names.values():
        if isinstance(app, Duly):
            app.close()
    assert str(refused.value) == message.format(folder=folder)
    steps = traceback.extract_tb(refused.value.__traceback__)
    assert [step.lineno for step in steps if step.filename == "tasks.py"] == [line_of(program)]


@pytest.mark.parametrize(("text", "message"), DECLARATIONS.values(), ids=DECLARATIONS)
def test_the_command_names_the_line_and_shows_no_traceback(
    folder: Path, text: str, message: str
) -> None:
    program = IMPORTS + text
    (folder / "tasks.py").write_text(program)
    told = typed("up")
    assert told.returncode == 2
    assert told.stderr == f"Error: tasks.py:{line_of(program)}: {message}\n"
    assert list(folder.glob("duly.db*")) == []


def line_of(program: str) -> int:
    [line] = [at for at, text in enumerate(program.splitlines(), 1) if text.endswith("# here")]
    return line


@pytest.mark.parametrize("word", ["task", "schedule", "schedules", "jobs", "run", "enqueue_many"])
def test_whatever_an_app_has_the_package_says_that_it_is_not_it(word: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(package, word)
    assert str(refused.value) == (
        "duly is the package; your app is the object: from tasks import duly"
    )
    assert not hasattr(package, word)


def test_a_store_whose_folder_is_not_there_is_refused_once_and_briefly(folder: Path) -> None:
    (folder / "five.py").write_text(
        'from duly import Duly\n\nduly = Duly("data/five.db")\n\n\n'
        "@duly.task\ndef hi(): ...\n\n\nhi.enqueue()\n"
    )
    told = subprocess.run(
        [sys.executable, "five.py"], capture_output=True, text=True, check=False
    ).stderr
    assert told.splitlines()[-1] == (
        f"duly.errors.StoreUnavailable: cannot create {folder}/data/five.db: the folder "
        f"{folder}/data does not exist: create it"
    )
    assert told.count("Traceback") == 1
    assert "concurrent/futures" not in told


def test_a_database_without_tables_is_told_to_be_migrated(pg_dsn: str) -> None:
    duly = Duly(pg_dsn)

    @duly.task
    def confirm() -> None: ...

    with pytest.raises(SchemaMismatch) as refused:
        confirm.enqueue()
    duly.close()
    assert str(refused.value) == (
        f"the database has no duly tables: run duly db migrate --store {quote(place(pg_dsn))}"
    )
