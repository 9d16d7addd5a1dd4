"""``duly completion``: what a shell needs to complete our commands and options."""

import os
from pathlib import Path

import click

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_DULY_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> None:
    """Print a script that makes the shell complete commands, options and choices.

    Without SHELL, for the one that $SHELL names.

    \b
      duly completion bash >> ~/.bashrc
      duly completion zsh >> ~/.zshrc
      duly completion fish > ~/.config/fish/completions/duly.fish

    \b
    Exit codes: 0 ok, 2 there is no script for the shell.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    from click.shell_completion import get_completion_class

    from duly.cli.main import main

    shell = shell or _own_shell()
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - one of ours
    click.echo(found(main, {}, "duly", VARIABLE).source())


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"SHELL={name or 'nothing'}: name one of {', '.join(SHELLS)}")
    return name
