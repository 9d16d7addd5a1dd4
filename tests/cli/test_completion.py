"""A shell that was told how completes our commands and options."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from duly.cli import main
from duly.cli.main import COMMANDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_DULY_COMPLETE={shell}_complete" in done.stdout
    assert CliRunner().invoke(main, ["completion"], env={"SHELL": f"/bin/{shell}"}).stdout == (
        done.stdout
    )


def test_an_unknown_shell_is_told_which_there_are() -> None:
    refused = CliRunner().invoke(main, ["completion"], env={"SHELL": "/bin/tcsh"})
    assert refused.exit_code == 2
    assert "no completion for SHELL=tcsh; name one of bash, zsh, fish" in refused.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="NO BASH: install it")
def test_bash_completes_commands_and_choices(tmp_path: Path) -> None:
    """As bash does it: the script's function is called with the words typed so far."""
    script = tmp_path / "completion"
    script.write_text(CliRunner().invoke(main, ["completion", "bash"]).stdout)
    (tmp_path / "duly").write_text(f'#!/bin/sh\nexec {sys.executable} -m duly "$@"\n')
    (tmp_path / "duly").chmod(0o755)
    ask = (
        f"source {script}; COMP_WORDS=(duly sch); COMP_CWORD=1; _duly_completion duly; "
        'echo "${COMPREPLY[@]}"; COMPREPLY=(); COMP_WORDS=(duly jobs list -o j); COMP_CWORD=4; '
        '_duly_completion duly; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["scheduler schedules", "json jsonl"]


def test_each_command_is_completed_with_what_it_does() -> None:
    found = {one.value: one.help for one in main.shell_complete(click.Context(main), "")}
    assert {*found} == {*COMMANDS}
    assert found["jobs"] == "list, show, logs, retry, cancel, remove"
    assert all(found.values())
