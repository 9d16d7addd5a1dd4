"""What type checkers accept of the package, and what they refuse, on exactly which lines.

Each checker reads the files as a user's own, with the package as it is installed and without the
settings of this repository.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FILES = [
    HERE / "accepted.py",
    HERE / "refused.py",
    # Without the seventh: SQLAlchemy takes longer to read than all the rest.
    *sorted((ROOT / "examples").glob("[01][!7]_*.py")),
]

Found: TypeAlias = set[tuple[str, int, str]]

EXPECTED = re.compile(r"# error: (?P<codes>[\w, -]+)$")
SAID_BY_MYPY = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")

OF_DJANGO = tuple(
    f"duly.django.{module}"
    for module in (
        "admin", "apps", "conf.check_settings", "dashboard", "management", "migrations", "models",
        "schedule_form", "schema", "tasks_backend", "urls",
    )
)  # fmt: skip


def test_mypy_refuses_every_mistake_and_nothing_else(tmp_path: Path) -> None:
    assert said_by_mypy(tmp_path) == marked()


@pytest.mark.thorough("repeats with another checker")
def test_basedpyright_refuses_the_same_lines(tmp_path: Path) -> None:
    assert said_by_basedpyright(tmp_path) == {(file, line) for file, line, _ in marked()}


@pytest.mark.thorough("reads all of the package and its dependencies: 6 s of a processor")
def test_every_public_symbol_has_a_type_that_is_written_down(tmp_path: Path) -> None:
    """Django ships no types, so what is made of its classes has none either."""
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", "duly", "--ignoreexternal"]
    # It asks the first Python on the path where packages are, whatever --pythonpath says.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, "--outputjson"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["typeCompleteness"]
    assert found["exportedSymbolCounts"]["withKnownType"] > 10_000, "it has read the package"
    assert [
        symbol["name"]
        for symbol in found["symbols"]
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
        if not symbol["name"].startswith(OF_DJANGO)
    ] == []


def marked() -> Found:
    """The lines of our files that have a mistake in them, and what mypy calls it."""
    return {
        (file.name, number, code)
        for file in FILES
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if (found := EXPECTED.search(line))
        for code in found["codes"].split(", ")
    }


def said_by_mypy(folder: Path) -> Found:
    options = ["--strict", "--config-file=", "--no-error-summary", "--no-pretty"]
    said = heard("mypy", *options, "--cache-dir", str(folder), *map(str, FILES))
    errors = [line for line in said.splitlines() if " error: " in line]
    found = [match for line in errors if (match := SAID_BY_MYPY.fullmatch(line))]
    assert len(found) == len(errors), said
    return {(Path(match["file"]).name, int(match["line"]), match["code"]) for match in found}


def said_by_basedpyright(folder: Path) -> set[tuple[str, int]]:
    settings = folder / "pyrightconfig.json"
    included = [str(file) for file in FILES]
    # ``a >> b`` is a line of its own: what it says is the order.
    order = {"reportUnusedExpression": False}
    asked_for = {"include": included, "typeCheckingMode": "strict", **order}
    settings.write_text(json.dumps(asked_for))
    asked = ["--project", str(settings), "--pythonpath", sys.executable, "--outputjson"]
    answer = json.loads(heard("basedpyright", *asked))
    assert answer["summary"]["filesAnalyzed"] == len(FILES), answer
    return {
        (Path(said["file"]).name, said["range"]["start"]["line"] + 1)
        for said in answer["generalDiagnostics"]
    }


def heard(checker: str, *words: str) -> str:
    command = [sys.executable, "-m", checker, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # 1: it has found mistakes
    return done.stdout
