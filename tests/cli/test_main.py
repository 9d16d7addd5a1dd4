"""The front door: every command is named there, and none is opened before it is called."""

import subprocess
import sys

import click
import pytest

from duly.cli.main import ALIASES, COMMANDS, main


def said(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "duly", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_is_named_at_the_door(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name in (name, None)
    assert command.help
    assert f"duly {name}" in (main.help or "")


def test_other_names_lead_to_the_same_commands() -> None:
    for alias, name in ALIASES.items():
        assert main.get_command(click.Context(main), alias) is main.get_command(
            click.Context(main), name
        )


@pytest.mark.parametrize(
    "asked",
    [
        "main(['--help'], standalone_mode=False)",
        "print(main.shell_complete(click.Context(main), 's'))",
    ],
)
def test_help_and_completion_wait_for_nothing(asked: str) -> None:
    program = (
        "import sys, click\n"
        "from duly.cli.main import main\n"
        f"{asked}\n"
        "heavy = {'asyncio', 'msgspec', 'psycopg', 'sqlite3', 'tomllib', 'logging', 'duly.app'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_word_that_is_nearly_a_command_is_told_which() -> None:
    done = said("scheduels")
    assert done.returncode == 2
    assert 'there is no command "scheduels"; did you mean "duly schedules"?' in done.stderr
    assert "see duly --help" in said("xyzzy").stderr


def test_no_command_at_all_shows_what_there_is() -> None:
    done = said()
    assert "duly up [APP]" in done.stdout + done.stderr
