"""What the pages show is what happens: their Python runs, their commands print what they say."""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

from duly.rules import Rule, parse
from tests.infrastructure.commands import completed

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])

BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>duly .+)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
ROOM = re.compile(r"`(\w+)`")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (page.relative_to(ROOT).as_posix(), block["text"])
        for page in PAGES
        for block in BLOCK.finditer(page.read_text())
        if block["language"] == language
    ]


def test_every_python_block_runs(tmp_path: Path) -> None:
    assert blocks("python")
    for number, (page, text) in enumerate(blocks("python")):
        (tmp_path / f"block_{number}.py").write_text(text)
        done = completed(f"block_{number}", folder=tmp_path, PYTHONWARNINGS="error")
        assert done.returncode == 0, f"{page}: {done.stderr}"


def test_every_command_prints_what_the_page_says() -> None:
    shown = [
        (page, found["command"], found["output"])
        for page, text in blocks("console")
        for found in COMMAND.finditer(text)
    ]
    assert shown
    for page, command, output in shown:
        assert completed(*shlex.split(command)).stdout == output, page


def test_every_recipe_is_a_rule() -> None:
    recipes = (ROOT / "docs/rules.md").read_text().partition("## Recipes")[2].partition("\n## ")[0]
    rules = re.findall(r"^\| [^|]+ \| `([^`]+)`", recipes, re.MULTILINE)
    assert len(rules) >= 10
    for rule in rules:
        found = parse(rule, name="a name")
        assert isinstance(found, Rule)
        assert found.after(datetime(2026, 11, 15, tzinfo=UTC))


def test_the_architecture_page_names_the_rooms_of_the_contract() -> None:
    contract = (ROOT / ".importlinter").read_text()
    layers = re.search(r"layers =\n((?:    .+\n)+)", contract)
    assert layers is not None
    rooms = [re.findall(r"\w+", line) for line in layers[1].splitlines()]
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.partition("| --- |")[2].partition("\n\n")[0]
    cells = [row.split("|") for row in table.splitlines() if row.startswith("| `")]
    assert [ROOM.findall(row[1]) for row in cells] == rooms


def test_the_architecture_page_names_every_package() -> None:
    table = (ROOT / "docs/architecture.md").read_text().partition("\n## ")[0]
    packages = {path.stem for path in (ROOT / "src/duly").iterdir()}
    assert packages - {"__init__", "__pycache__", "py"} - set(ROOM.findall(table)) == set()


def test_the_architecture_page_names_files_that_are_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text().partition("## How it is shown")[0]
    named = re.findall(r"`((?:\w+/)+\w+)`", page)
    assert len(named) > 20
    there = [ROOT / ("." if name.startswith("tests/") else "src/duly") / name for name in named]
    assert [path for path in there if not (path.exists() or path.with_suffix(".py").exists())] == []


def test_the_architecture_page_names_every_file_of_the_rules() -> None:
    page = (ROOT / "docs/architecture.md").read_text().partition("## Rules")[2]
    named = set(re.findall(r"`(\w+)…?`", page))
    files = {path.stem for path in (ROOT / "src/duly/rules").iterdir()}
    assert {file for file in files if not file.startswith("__")} - named == set()


def test_every_decision_is_in_the_list() -> None:
    listed = (ROOT / "docs/decisions/README.md").read_text()
    assert [page.name for page in PAGES if page.name[0] == "0" and page.name not in listed] == []
