"""Options that several commands share.

Most options are settings: their help is the setting's, and an option that is not given falls back
to ``DULY_…``, ``duly.toml`` and the default.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# Options whose setting has another name.
_NAMES: Final = {"store": "url"}
# Environment variables that an option before the command sets. The second of --url is
# duly.connection.SAID_BY_OPERATOR, which overrides the URL in the app's code.
_VARIABLES: Final = {
    "url": ("DULY_URL", "DULY_STORE_OF_COMMAND"),
    "token_file": ("DULY_TOKEN_FILE",),
}

app_argument: Final = click.argument("app", required=False, metavar="[APP]")
app_option: Final = click.option(
    "--app",
    metavar="APP",
    help="The app: tasks.py, shop.tasks or shop.tasks:duly. Default: DULY_APP, app in duly.toml, "
    "or tasks.py here.",
)


class WholeNumber(click.IntRange):
    """An integer option whose error names the allowed range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        try:
            int(value)
        except ValueError:
            most = "" if self.max is None else f" to {self.max:,}"
            self.fail(f'"{value}" is not a whole number from {self.min}{most}', param, ctx)
        return super().convert(value, param, ctx)


def count_option(
    about: str, *, most: int, default: int, names: tuple[str, str] = ("-n", "--count")
) -> Callable[[F], F]:
    """Return the option that says how many, from 1 to ``most``."""
    kind = WholeNumber(1, most)
    return click.option(*names, type=kind, default=default, show_default=True, help=about)


def page_options(most: int) -> Callable[[F], F]:
    """Return the options of a list that is shown page by page, of ``most`` entries at once."""
    limit = count_option("How many to show.", most=most, default=50, names=("-n", "--limit"))
    after = click.option(
        "--after", metavar="CURSOR", help="Continue a list: the cursor that it printed."
    )
    return lambda command: limit(after(command))


def remote_options(command: F) -> F:
    """Add the options before the command that name a remote duly server and its token."""
    url = click.option(
        "--url",
        metavar="URL",
        expose_value=False,
        callback=_set_variables,
        help="https://… of a remote duly server that the command talks to. Default: DULY_URL.",
    )
    token_file = click.option(
        "--token-file",
        metavar="FILE",
        expose_value=False,
        callback=_set_variables,
        help="File whose first line is the access token. Default: DULY_TOKEN_FILE.",
    )
    return url(token_file(command))


def _set_variables(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Set the option's environment variables while the command runs."""
    if value is None:
        return
    if option.name == "url" and not value.startswith(("https://", "http://")):
        raise click.BadParameter(
            "expected https://… of a duly server; a database is named by --store after the command"
        )
    context.with_resource(_environment(dict.fromkeys(_VARIABLES[str(option.name)], value)))


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
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


def setting_option(
    name: str, metavar: str | None = None, *flags: str, **words: Any
) -> "Callable[[F], F]":
    """Return the option of a setting; its help is the setting's text and default."""
    from duly.settings.settings import Settings, keys

    default = Settings().shown(name)
    is_switch = isinstance(getattr(Settings(), name), bool)
    about = keys()[name].about + ("" if is_switch or default == "-" else f" Default: {default}.")
    return click.option(
        *(flags or (f"--{name.replace('_', '-')}",)), metavar=metavar, help=about, **words
    )


def serving_options(command: F) -> F:
    """Add the options of every command that runs an app."""
    return with_options(
        command,
        click.option(
            "--store",
            metavar="URL",
            help="Database: a SQLite file or postgresql://… Default: the app's.",
        ),
        setting_option("allow", "shell,http"),
        setting_option("allow_networks", "10.1.0.0/16,…"),
        setting_option("allow_signing", "HOOK_SECRET,…"),
        setting_option("log_level", "LEVEL"),
        setting_option("log_format", "FORMAT"),
        setting_option("verbose", None, "-v", "--verbose", is_flag=True, default=None),
    )


def working_options(command: F) -> F:
    """Add the options of every command that runs jobs."""
    return with_options(
        command,
        setting_option("queues", "A,B"),
        setting_option("concurrency", "N"),
        click.option(
            "--children",
            type=WholeNumber(1),
            metavar="N",
            help='Child processes for tasks with executor="process". Default: one per core.',
        ),
        click.option(
            "--resources",
            metavar="gpu=1,mem=8",
            help="Resources that this worker offers to tasks with needs=.",
        ),
        click.option(
            "--name",
            default="",
            help="Name shown for this worker. Default: host name and process id.",
        ),
        setting_option("lease", "TIME"),
        setting_option("stop_timeout", "TIME"),
        click.option(
            "--recycle-jobs",
            type=WholeNumber(1),
            metavar="N",
            help="Replace a child process after this many jobs.",
        ),
        click.option(
            "--recycle-memory",
            metavar="500MB",
            help="Replace a child process that uses more memory than this.",
        ),
    )


def web_options(command: F) -> F:
    """Add the options that say where the web server listens."""
    return with_options(command, setting_option("host", "ADDRESS"), setting_option("port", "PORT"))


def dashboard_options(command: F) -> F:
    """Add the web server's options, and the one that switches it off."""
    return setting_option("web", None, "--web/--no-web", default=None)(web_options(command))


def with_options(command: F, *options: Any) -> F:
    """Add the options to a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def split_settings(words: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the given options into settings, by setting name, and the others that have a value."""
    from duly.settings.settings import keys

    named = {_NAMES.get(word, word): value for word, value in words.items()}
    settings = {word: value for word, value in named.items() if word in keys()}
    rest = {word: value for word, value in named.items() if word not in keys()}
    return settings, {word: value for word, value in rest.items() if value is not None}


def as_arguments(words: Mapping[str, Any]) -> list[str]:
    """Return the options as command-line arguments for another process, without ``--store``.

    A database URL may hold a password, and anybody on the machine can read a command line. The
    other process reads it from its environment: see ``serving.begin``.
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
