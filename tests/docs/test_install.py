"""The package, built and installed into an empty environment, as users without a clone have it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_PACKAGES = 12  # duly and what it needs

PROGRAM = """
from wsgiref.util import setup_testing_defaults
from duly import Duly, User

duly = Duly("jobs.db")

@duly.task
async def greet(name: str) -> str:
    return f"hello {name}"

def show(path: str) -> None:
    environ = {"PATH_INFO": path}
    setup_testing_defaults(environ)
    dashboard = duly.wsgi(auth=lambda _: User("ada", "viewer"))
    print(path, b"".join(dashboard(environ, lambda status, _: print(status, end=" "))) != b"")

if __name__ == "__main__":
    with duly.running():
        print(greet.enqueue("world").result("30s"))
    show("/")
    show("/static/0/duly.css")
"""


@pytest.mark.thorough("builds the package and installs it")
def test_the_wheel_of_the_sdist_works_in_an_empty_environment(tmp_path: Path) -> None:
    """``uv build`` makes the sdist, and the wheel from the sdist: both are tried."""
    run(sys.executable, "-m", "uv", "build", "-q", str(ROOT), "--out-dir", "dist", at=tmp_path)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    [_] = (tmp_path / "dist").glob("*.tar.gz")
    run(sys.executable, "-m", "venv", "empty", at=tmp_path)
    python, duly = str(tmp_path / "empty/bin/python"), str(tmp_path / "empty/bin/duly")
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    pins = ("--constraint", str(ROOT / "constraints.txt"))
    run(*pip, "install", "-q", str(wheel), *pins, at=tmp_path)

    names = {line.partition("==")[0] for line in run(*pip, "freeze", at=tmp_path).splitlines()}
    assert len({name.partition(" ")[0] for name in names}) <= MOST_PACKAGES, names
    said = run(duly, "--version", at=tmp_path)
    assert re.fullmatch(
        r"duly [\d.]+ \(Python [\d.]+, tables \d+, SQLite [\d.]+, no psycopg\)\n", said
    )
    (tmp_path / "tasks.py").write_text(PROGRAM)
    assert run(python, "-W", "error", "tasks.py", at=tmp_path).splitlines() == [
        "hello world",
        "200 OK / True",
        "200 OK /static/0/duly.css True",
    ]
    assert "greet" in run(duly, "jobs", "--store", "jobs.db", at=tmp_path)


def run(*command: str, at: Path) -> str:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
