"""Every command, option, setting and exit code is documented, and the pages are what code says."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from duly.cli import app_and_store as store
from duly.cli.main import main
from duly.cli.plan import DRIFT
from duly.cli.run import INTERRUPTED, TIMED_OUT
from duly.events import EngineEvent
from duly.settings.settings import Settings, keys

ROOT = Path(__file__).parents[2]
COMMANDS = (ROOT / "docs/commands.md").read_text()
SETTINGS = (ROOT / "docs/settings.md").read_text()
CODES = {
    0, store.NEEDS_YOU, store.USAGE, store.MISSING, TIMED_OUT, store.UNREACHABLE, DRIFT,
    INTERRUPTED,
}  # fmt: skip


def every_command(
    group: click.Group = main, path: str = "duly"
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path} {name}")


def part(path: str) -> str:
    """What the page says of a command, without those below it."""
    _, found, rest = COMMANDS.partition(f"# {path}\n")
    assert found, f"docs/commands.md says nothing of {path}: make reference"
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_every_command_and_option_is_on_the_page_and_explains_itself() -> None:
    found = dict(every_command())
    assert len(found) > 40
    for path, command in found.items():
        assert command.help, f"{path} --help says nothing"
        if isinstance(command, click.Group):
            continue
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help, f"{path} {option.opts[0]} is not explained"
                assert all(f"`{name}`" in part(path) for name in option.opts), path


def test_every_command_of_the_front_page_is_there_and_none_is_missing() -> None:
    assert main.help is not None
    shown = set(re.findall(r"^ *(?:[A-Z]\w+ +)?duly (\w+)", main.help, re.MULTILINE))
    there = set(main.list_commands(click.Context(main)))
    assert shown == there


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_exit_code_is_explained(code: int) -> None:
    assert f"\n| {code} | " in COMMANDS
    assert main.help is not None
    assert re.search(rf"\b{code} \w", main.help.partition("Exit codes:")[2])


def test_every_command_says_what_its_exit_codes_mean() -> None:
    """Itself, or the noun above it."""
    found = dict(every_command())
    silent = [
        path
        for path, command in found.items()
        if "Exit codes" not in (command.help or "")
        and "Exit codes" not in (getattr(found.get(path.rpartition(" ")[0]), "help", "") or "")
    ]
    assert silent == []


def test_every_setting_is_on_the_page_with_its_variables_and_default() -> None:
    for name, key in keys().items():
        [row] = [line for line in SETTINGS.splitlines() if line.startswith(f"| `{name}` |")]
        assert key.about in row
        assert all(f"`{variable}`" in row for variable in key.variables)
        shown = Settings().shown(name)
        assert shown == "-" or f"`{shown}`" in row


def test_a_setting_that_can_be_typed_is_and_its_option_says_the_name() -> None:
    options = {
        name
        for command in (main, *(command for _, command in every_command()))
        for option in command.params
        for name in (*option.opts, (option.name or "").upper())
    }
    shown = {name: f"`{key.flag}`" in SETTINGS for name, key in keys().items()}
    assert shown == {name: key.flag in options for name, key in keys().items()}


def test_every_event_in_the_log_says_when_it_happens() -> None:
    """A dataclass without a docstring gets its signature as one."""
    found = [event for event in EngineEvent.__subclasses__() if event.__module__ == "duly.events"]
    assert len(found) > 30
    assert [one for one in found if (one.__doc__ or "").startswith(f"{one.__name__}(")] == []
