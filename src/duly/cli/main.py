"""The ``duly`` command: the list of commands, and completion for shells.

A command's module is imported when the command is called, so that ``duly --help`` is fast.
"""

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from duly import __version__
from duly.cli.app_and_store import refuse
from duly.cli.options import remote_options
from duly.cli.output import open_streams
from duly.cli.serving import take_secret
from duly.errors import DulyError

COMMANDS: Final = {
    "dev": "duly.cli.dev:dev",
    "up": "duly.cli.node:up",
    "worker": "duly.cli.node:worker",
    "scheduler": "duly.cli.node:scheduler",
    "web": "duly.cli.web:web",
    "status": "duly.cli.status:status",
    "why": "duly.cli.status:why",
    "next": "duly.cli.rules:next_moments",
    "doctor": "duly.cli.database:doctor",
    "run": "duly.cli.run:run_command",
    "schedules": "duly.cli.schedules:schedules",
    "jobs": "duly.cli.jobs:jobs",
    "queues": "duly.cli.capacity:queues",
    "limits": "duly.cli.capacity:limits",
    "workers": "duly.cli.capacity:workers",
    "events": "duly.cli.events:events",
    "plan": "duly.cli.plan:plan",
    "apply": "duly.cli.plan:apply",
    "export": "duly.cli.plan:export",
    "import": "duly.cli.importing:import_command",
    "db": "duly.cli.database:db",
    "tokens": "duly.cli.tokens:tokens",
    "alerts": "duly.cli.alerts:alerts",
    "config": "duly.cli.config:config",
    "k8s": "duly.cli.kubernetes:k8s",
    "completion": "duly.cli.main:completion",
}
# Other names that users of similar tools try.
ALIASES: Final = {"timers": "schedules"}
RUNNING: Final = ("dev", "up", "worker", "scheduler")  # commands whose process runs tasks
SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_DULY_COMPLETE"


class CommandGroup(click.Group):
    """The top-level group: imports commands lazily and suggests similar names."""

    def main(self, *args: Any, **words: Any) -> Any:  # noqa: ANN401 - click's
        take_secret()
        typed = next(iter(args), None) or words.get("args") or sys.argv[1:]
        named = next((word for word in typed if word in COMMANDS), "")
        with open_streams(shared=named in RUNNING):
            return super().main(*args, **words)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        """Run the command; print an error of duly in one line and exit with its code."""
        try:
            return super().invoke(ctx)
        except DulyError as error:
            refuse(error)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        place = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, name = place.partition(":")
        with _without_collecting():
            command: click.Command = getattr(import_module(module), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands, which are not imported, and the options."""
        about = dict(reversed(re.findall(r"duly (\S+) .*?  +(\S.*)", self.help or "")))
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        found = [CompletionItem(name, help=about.get(name)) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        asked = args[0] if args else ""
        if asked and not asked.startswith("-") and self.get_command(ctx, asked) is None:
            near = get_close_matches(asked, COMMANDS, n=1)
            meant = f'; did you mean "duly {near[0]}"?' if near else ": see duly --help"
            raise click.UsageError(f'there is no command "{asked}"{meant}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: Any) -> None:  # noqa: ANN401
        """Write nothing: the help text lists the commands in a better order."""


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Collect no garbage meanwhile: modules leave none, and it takes a tenth of a start."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:  # noqa: FBT001
    if asked:
        # By name: the libraries of databases are not imported for every command.
        versions = import_module("duly.connection").versions()
        click.echo(f"duly {__version__} ({', '.join(versions)})")
        ctx.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@remote_options
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions of duly, Python, its tables and its database libraries, and the store "
    "if one is configured.",
)
def main() -> None:
    """Schedule tasks and run background jobs, on SQLite or PostgreSQL.

    \b
    Run      duly dev [APP]         run an app and restart it when a file changes
             duly up [APP]          run the scheduler, a worker and the dashboard
             duly worker [APP]      run jobs
             duly scheduler         fire schedules
             duly web               serve the dashboard and the HTTP API
    Inspect  duly status            what needs attention, what is running, what is next
             duly why NAME          why a scheduled run or a job has the state it has
             duly next RULE         explain a rule and list its next run times
             duly doctor            check the database and its surroundings, suggest fixes
    Control  duly run TASK k=v      enqueue one job; with --wait, show its output and result
             duly schedules         list, show, add, edit, run, pause, history, …
             duly jobs              list, show, logs, retry, cancel, remove
             duly queues            list, pause, resume, set
             duly limits            concurrency and rate limits: list, set, reset
             duly workers           list, drain, resume, scale, stop
             duly events            list, show, emit, replay
    Declare  duly plan [FILE]       show what applying schedules.toml would change, and drift
             duly apply [FILE]      apply the file in one transaction
             duly export            print the current schedules, queues and limits as a file
             duly import crontab    convert a crontab (or systemd, celery-beat, apscheduler)
    Operate  duly db migrate        create or migrate the tables
             duly db check          check the schema version and overdue work
             duly tokens            access tokens for the HTTP API: list, create, revoke
             duly alerts            messages about problems: list, test
             duly config            show all settings and their sources
             duly k8s render        print manifests for Kubernetes
             duly completion        print a completion script for a shell

    For details: duly COMMAND --help.

    The commands under Inspect and Control also work against a remote duly server, with an access
    token:

    \b
      duly --url https://duly.example.com --token-file ~/.duly-token status

    \b
    Exit codes: 0 success, 1 a failure or a finding that needs attention, 2 invalid usage, 3 not
    found, 4 timed out, 5 the database cannot be reached, 6 the database has drifted from the file,
    130 interrupted while waiting for a job (Ctrl-C); the job continues.
    """


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> None:
    """Print a script that completes commands, options and choices in your shell.

    Without SHELL, the script is for the shell in $SHELL.

    \b
      duly completion bash >> ~/.bashrc
      duly completion zsh >> ~/.zshrc
      duly completion fish > ~/.config/fish/completions/duly.fish

    \b
    Exit codes: 0 success, 2 unsupported shell.
    """
    shell = shell or _own_shell()
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - one of ours
    click.echo(found(main, {}, "duly", VARIABLE).source())


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(
            f"no completion for SHELL={name or 'nothing'}; name one of {', '.join(SHELLS)}"
        )
    return name
