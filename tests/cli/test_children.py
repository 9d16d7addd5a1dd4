"""Processes that a command starts: what others on the machine can read of them."""

from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.app.waiting import eventually
from tests.cli.test_up import TASKS, said, started, stopped

another = pytest.mark.thorough("repeats with another command")


@pytest.mark.parametrize("command", ["worker --processes 2", "dev"])
def test_the_store_that_was_typed_is_not_typed_for_them(tmp_path: Path, command: str) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "duly.toml").write_text('url = "other.db"')
    typed = str(tmp_path / "hunter2.db")
    with started(tmp_path, *command.split(), "--store", typed, "--queues", "default,x") as process:
        said(tmp_path, "registered as number")  # it has opened its store
        lines = [line for line in commands() if str(process.pid) in line[:2] and "duly" in line]
        children = [line for pid, parent, *line in lines if parent == str(process.pid)]
        assert children
        for line in children:
            assert "default,x" in line
            assert not any("hunter2" in word for word in line)
        assert stopped(process) == 0
    assert f"database: {typed}" in (tmp_path / "log").read_text()
    assert not (tmp_path / "other.db").exists()


def commands() -> list[list[str]]:
    """Number, parent's number, and the words of every process that is there."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = (place / "stat").read_text().rpartition(")")[2].split()[1]
            words = (place / "cmdline").read_text().split("\0")
        except OSError:  # it has ended
            continue
        found.append([place.name, parent, *words])
    return found


LOOKING = """
import os
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener
from duly import Duly
duly = Duly()

def look(where: str) -> None:
    known = [name for name, value in os.environ.items() if "LAUNCH" in name or "duly_" in value]
    Path("seen").mkdir(exist_ok=True)
    Path("seen", where).write_text(f"{known}")

look("import")

@duly.schedule("every 1s")
@duly.task
def here() -> None:
    look("task")

@duly.schedule("every 1s")
@duly.task(executor="process")
def there() -> None:
    look("process")
"""


@pytest.mark.parametrize(
    "command",
    ["up", *(pytest.param(one, marks=another) for one in ("dev", "dev --no-reload"))],
)
def test_the_secret_of_the_dashboard_is_not_in_the_environment_of_tasks(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "tasks.py").write_text(LOOKING)
    with started(
        tmp_path, *command.split(), "--store", "duly.db", "--web", "--port", "0"
    ) as process:
        log = said(tmp_path, "/login?token=duly_")
        link = log.partition("dashboard: ")[2].split()[0]
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(link, timeout=20) as page:  # it opens the dashboard all the same
            assert page.status == 200
            assert "login" not in page.url
        seen = tmp_path / "seen"
        for where in ("import", "task", "process"):
            eventually((seen / where).exists, f"{where} to look at its environment")
            assert eventually_text(seen / where) == "[]"
        assert stopped(process) == 0


def eventually_text(path: Path) -> str:
    eventually(path.read_text, "it to be written")
    return path.read_text()
