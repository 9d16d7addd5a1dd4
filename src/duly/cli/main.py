"""The command's front door: which commands there are, and what every one of them shares.

A command is imported when it is called: who asks for help need not wait for all of them.
"""

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from duly import __version__
from duly.cli.options import elsewhere_options
from duly.cli.output import open_streams
from duly.cli.serving import take_secret

COMMANDS: Final = {
    "dev": "duly.cli.dev:dev",
    "up": "duly.cli.up:up",
    "worker": "duly.cli.worker:worker",
    "scheduler": "duly.cli.up:scheduler",
    "web": "duly.cli.web:web",
    "status": "duly.cli.status:status",
    "why": "duly.cli.why:why",
    "next": "duly.cli.rules:next_moments",
    "doctor": "duly.cli.doctor:doctor",
    "run": "duly.cli.run:run_command",
    "schedules": "duly.cli.schedules:schedules",
    "jobs": "duly.cli.jobs:jobs",
    "queues": "duly.cli.queues:queues",
    "limits": "duly.cli.limits:limits",
    "workers": "duly.cli.workers:workers",
    "events": "duly.cli.events:events",
    "plan": "duly.cli.plan:plan",
    "apply": "duly.cli.plan:apply",
    "export": "duly.cli.plan:export",
    "import": "duly.cli.importing:import_command",
    "db": "duly.cli.database:db",
    "tokens": "duly.cli.tokens:tokens",
    "config": "duly.cli.config:config",
    "completion": "duly.cli.main:completion",
}
# Other names, for hands that have learnt others.
ALIASES: Final = {"timers": "schedules"}
RUNNING: Final = ("dev", "up", "worker", "scheduler")  # tasks, in their own process or a child's


class CommandGroup(click.Group):
    def main(self, *args: Any, **words: Any) -> Any:  # noqa: ANN401 - click's
        take_secret()
        typed = next(iter(args), None) or words.get("args") or sys.argv[1:]
        named = next((word for word in typed if word in COMMANDS), "")
        with open_streams(shared=named in RUNNING):
            return super().main(*args, **words)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        place = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

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
        """They are in the text above, in the order in which they are needed."""


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@elsewhere_options
@click.version_option(__version__, "-V", "--version", message="duly %(version)s")
def main() -> None:
    """Time-based work, duly done.

    \b
    Start    duly dev [APP]         run an app while you write it
             duly up [APP]          fire schedules and run jobs
             duly worker [APP]      run jobs
             duly scheduler         fire schedules
             duly web               the dashboard, and the HTTP API
    Ask      duly status            was everything kept, what needs you, what is next
             duly why NAME          what became of a schedule's moment, or of a job
             duly next RULE         when a rule is due, in words and in moments
             duly doctor            what is wrong around the store, and what helps
    Do       duly run TASK k=v      have a task run, and wait for it
             duly schedules         what runs when: list, show, add, edit, run, pause, history, …
             duly jobs              list, show, logs, retry, cancel, remove
             duly queues            lines of jobs: list, pause, resume, set
             duly limits            how much at once and how often: list, set, reset
             duly workers           who runs jobs: list, drain, resume, scale, stop
             duly events            what happened, and starts work: list, show, emit, replay
    Declare  duly plan [FILE]       what applying schedules.toml would do, and what has drifted
             duly apply [FILE]      do it, all or nothing
             duly export            what is there, as such a file
             duly import crontab    … or systemd, celery-beat, apscheduler, as such a file
    Keep     duly db migrate        make the tables, or bring them up to date
             duly db check          whether they fit, and what is due and not done
             duly tokens            who may use the HTTP side: list, create, revoke
             duly config            what is set, and where that comes from
             duly completion        what a shell needs to complete all this

    Each command explains itself: duly COMMAND --help.

    What asks and what does also works from afar, through the HTTP side of a duly, with a token:

    \b
      duly --url https://duly.example.com --token-file ~/.duly-token status

    \b
    Exit codes: 0 ok, 1 something failed or needs you, 2 something in the command line is wrong,
    3 what was named is not there, 4 it took too long, 5 the store cannot be reached,
    6 what is there has drifted from its file, 130 you did not wait for a job any longer (Ctrl-C).
    """  # noqa: D301 - \b is click's mark for lines to be left as they are


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

    shell = shell or _own_shell()
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - one of ours
    click.echo(found(main, {}, "duly", VARIABLE).source())


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"SHELL={name or 'nothing'}: name one of {', '.join(SHELLS)}")
    return name
