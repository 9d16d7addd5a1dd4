"""The options of the commands that run an app, and what of them was typed.

Most of them are settings: what is not typed is said by DULY_…, by duly.toml, or is the default.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# What is typed is called as its setting, but for these.
_NAMES: Final = {"store": "url"}
_SETTINGS: Final = (
    "store", "allow", "allow_networks", "allow_signing", "log_level", "verbose",
    "queues", "concurrency", "lease", "stop_timeout", "processes", "host", "port", "web",
    "hosts", "trust_header", "trust_networks", "trust_role",
)  # fmt: skip


class WholeNumber(click.IntRange):
    """A number within bounds; who types something else is told which there are."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        try:
            int(value)
        except ValueError:
            most = "" if self.max is None else f" to {self.max:,}"
            self.fail(f'"{value}" is no whole number from {self.min}{most}', param, ctx)
        return super().convert(value, param, ctx)


def _go_elsewhere(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """What is typed before the command counts for it as if it were configured, and before that."""
    if value is None:
        return
    if option.name == "url" and not value.startswith(("https://", "http://")):
        raise click.BadParameter("https://… of a duly; a database is --store, behind the command")
    variables = _ELSEWHERE[str(option.name)]
    context.with_resource(_said(dict.fromkeys(variables, value)))


@contextmanager
def _said(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# The second is duly.app.SAID_BY_OPERATOR: whatever address the code has.
_ELSEWHERE: Final = {
    "url": ("DULY_URL", "DULY_STORE_OF_COMMAND"),
    "token_file": ("DULY_TOKEN_FILE",),
}


def elsewhere_options(command: F) -> F:
    """Where the store is that every command is about, if it is behind another duly."""
    for option in reversed((
        click.option(
            "--url",
            metavar="URL",
            expose_value=False,
            callback=_go_elsewhere,
            help="https://… of a duly elsewhere, for the command; else DULY_URL.",
        ),
        click.option(
            "--token-file",
            metavar="FILE",
            expose_value=False,
            callback=_go_elsewhere,
            help="The token it asks for: the first line of FILE; else DULY_TOKEN_FILE.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


app_argument = click.argument("app", required=False, metavar="[APP]")
app_option = click.option(
    "--app",
    metavar="APP",
    help="Where the tasks are: tasks.py, shop.tasks, shop.tasks:duly; else DULY_APP, app in "
    "duly.toml, or tasks.py here.",
)


def serving_options(command: F) -> F:
    """Where an app keeps its jobs, what it may run, and how much it says."""
    for option in reversed((
        click.option(
            "--store", metavar="URL", help="Where jobs are kept; by default where APP says."
        ),
        click.option(
            "--allow",
            metavar="shell,http",
            help="Tasks of duly's own that may run here: shell (and commands), http.",
        ),
        click.option(
            "--allow-networks",
            metavar="10.1.0.0/16,…",
            help="Private networks and hosts that http may reach.",
        ),
        click.option(
            "--allow-signing",
            metavar="HOOK_SECRET,…",
            help="Environment variables that http may sign requests with.",
        ),
        click.option(
            "--log-level", metavar="LEVEL", help="debug, info (the default), warning or error."
        ),
        click.option("-v", "--verbose", is_flag=True, default=None, help="A line for every job."),
    )):  # fmt: skip
        command = option(command)
    return command


def working_options(command: F) -> F:
    """How a worker works."""
    for option in reversed((
        click.option(
            "--queues", metavar="A,B", help='Which lines of jobs it listens to; else "default".'
        ),
        click.option(
            "--concurrency",
            metavar="N",
            help="How many jobs run at once, in each process; else 10.",
        ),
        click.option(
            "--children",
            type=WholeNumber(1),
            metavar="N",
            help='Processes for tasks with executor="process"; as many as there are cores.',
        ),
        click.option("--resources", metavar="gpu=1,mem=8", help="What tasks may need."),
        click.option(
            "--name", default="", help="For people; by default the host and process number."
        ),
        click.option(
            "--lease",
            metavar="TIME",
            help="After so long without a word, its jobs are given to others; else 15s.",
        ),
        click.option(
            "--stop-timeout",
            metavar="TIME",
            help="Stop jobs that still run so long after the first signal; else 25s.",
        ),
        click.option(
            "--recycle-jobs",
            type=WholeNumber(1),
            metavar="N",
            help="Replace a child after so many.",
        ),
        click.option(
            "--recycle-memory", metavar="500MB", help="Replace a child that has grown so large."
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def web_options(command: F) -> F:
    """Where the web side listens."""
    for option in reversed((
        click.option("--host", metavar="ADDRESS", help="Where it listens; else 127.0.0.1."),
        click.option("--port", metavar="PORT", help="0 is any that is free; else 8400."),
    )):  # fmt: skip
        command = option(command)
    return command


def beside_options(command: F) -> F:
    """Whether there is a web side, and where it listens."""
    switch = click.option("--web/--no-web", default=None, help="With the dashboard, or without.")
    return switch(web_options(command))


def parted(words: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was typed: the settings by their names, and the rest of it."""
    settings = {_NAMES.get(word, word): words[word] for word in _SETTINGS if word in words}
    rest = {word: value for word, value in words.items() if word not in _SETTINGS}
    return settings, {word: value for word, value in rest.items() if value is not None}


def typed(words: Mapping[str, Any]) -> list[str]:
    """What was typed for us, to be typed for another process.

    But for the store: it may hold a password, and what is typed can be read by anybody on the
    machine. The other process finds it in its environment: see ``serving.obey``.
    """
    said = []
    for word, value in words.items():
        if word == "store":
            continue
        option = f"--{word.replace('_', '-')}"
        match value:
            case False if word == "web":
                said.append("--no-web")
            case None | False | "":
                pass
            case True:
                said.append(option)
            case _:
                said += [option, str(value)]
    return said
