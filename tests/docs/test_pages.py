"""What the pages show is what happens: their Python runs, their commands print what they say."""

import re
import shlex
import tomllib
from contextlib import suppress
from datetime import UTC, datetime
from itertools import dropwhile, takewhile
from pathlib import Path

import click
import pytest

from duly.cli import main
from duly.errors import DulyError
from duly.files.file_text import read
from duly.rules import Rule, parse
from duly.settings import load
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
    """The page about Django is followed in a project: ``tests/django/test_page.py``."""
    found = [(page, text) for page, text in blocks("python") if page != "docs/django.md"]
    assert found
    for number, (page, text) in enumerate(found):
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


def test_every_toml_block_is_a_file_that_duly_reads(tmp_path: Path) -> None:
    found = blocks("toml")
    assert found
    for page, text in found:
        variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "https://example.com/")
        try:
            if "schedules" in tomllib.loads(text):
                read(text, place=page)
            else:
                (tmp_path / "duly.toml").write_text(text)
                said = load({}, variables, tmp_path).origins
                assert set(said.values()) == {"duly.toml"}, page
        except DulyError as error:
            pytest.fail(f"{page}: {error}\n{text}")


def test_every_command_line_has_commands_and_options_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # In the help of commands, two spaces stand between an example and what it does.
    lines = [(page, line) for page, text in blocks("sh") for line in whole_lines(text)]
    for page, text in blocks("text"):
        examples = [line for line in text.splitlines() if line.startswith("duly ")]
        lines += [(page, re.split(r" {2,}", line)[0]) for line in examples]
    typed = [(page, words) for page, line in lines for words in commands_of(line)]
    assert len(typed) > 200
    for page, words in typed:
        try:
            parse_command(main, words)
        except click.UsageError as error:
            pytest.fail(f"{page}: {shlex.join(words)}: {error.message}")


def whole_lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def commands_of(line: str) -> list[list[str]]:
    """Return the words of each call of duly in a line for a shell, without redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&;"):
            found.append([])
        else:
            found[-1].append(word)
    calls = [list(dropwhile(lambda word: re.match(r"\w+=", word), words)) for words in found]
    ends = [list(takewhile(lambda word: word not in {">", ">>"}, words)) for words in calls]
    names = [words[1:] if words[:1] == ["manage.py"] else words for words in ends]
    return [words for words in names if words[:1] == ["duly"]]


def parse_command(
    command: click.Command, words: list[str], parent: click.Context | None = None
) -> None:
    """Parse the words as click does before it calls anything."""
    name, *rest = words
    with suppress(click.exceptions.Exit), command.make_context(name, rest, parent) as context:
        left = [*context._protected_args, *context.args]
        if isinstance(command, click.Group) and left:
            inner_name, inner, left = command.resolve_command(context, left)
            assert inner
            parse_command(inner, [inner_name or "", *left], context)


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
    page = (ROOT / "docs/architecture.md").read_text().partition("## How it is tested")[0]
    named = re.findall(r"`((?:\w+/)+\w+)`", page)
    assert len(named) > 20
    there = [ROOT / ("." if name.startswith("tests/") else "src/duly") / name for name in named]
    assert [path for path in there if not (path.exists() or path.with_suffix(".py").exists())] == []


@pytest.mark.parametrize(("room", "heading"), [("store", "## The store"), ("rules", "## Rules")])
def test_the_architecture_page_names_every_file_of_a_large_room(room: str, heading: str) -> None:
    section = (
        (ROOT / "docs/architecture.md").read_text().partition(heading)[2].partition("\n## ")[0]
    )
    named = set(re.findall(r"`(\w+)…?`", section))
    files = {path.stem for path in (ROOT / "src/duly" / room).iterdir()}
    assert {file for file in files if not file.startswith("__")} - named == set()


def test_every_decision_is_in_the_list() -> None:
    listed = (ROOT / "docs/decisions/README.md").read_text()
    assert [page.name for page in PAGES if page.name[0] == "0" and page.name not in listed] == []


def test_the_parity_table_names_tests_that_are_there() -> None:
    page = (ROOT / "docs/from-django-tasks-scheduler.md").read_text()
    rows = [row.split("|")[1:-1] for row in page.splitlines() if row.startswith("| ")]
    named = [test.strip(" `") for *_, test in rows if test.strip() not in ("", "test", "---")]
    assert len(named) > 40
    missing = [
        name for name in named
        for path, _, test in [name.partition("::")]
        if not re.search(rf"def {test}\(", (ROOT / "tests" / path).read_text())
    ]  # fmt: skip
    assert missing == []
