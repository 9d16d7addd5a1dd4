"""``duly config``: what is configured, and where that was said."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duly.cli.output import table
from duly.cli.store import output_option, refuse
from duly.errors import DulyError
from duly.policy.printable import json_text

if TYPE_CHECKING:
    from duly.settings import Settings


@click.command("config")
@output_option
def config(output: str) -> None:
    """Show every setting, its value and where it comes from.

    What is typed wins over DULY_… in the environment, that over the file, and that over the
    default. The file is duly.toml, or [tool.duly] in pyproject.toml, here or in the nearest folder
    above that has one; relative paths in it begin at the file. Passwords are not shown.

    \b
      duly config                       SETTING, VALUE and FROM
      duly config -o json               the same for programs, with what each is about
      DULY_QUEUES=mail duly config      what the next command would do

    \b
    Exit codes: 0 ok, 2 something that is configured cannot be: the message says what, and where.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    from duly.settings import load

    try:
        settings = load({}, os.environ, Path.cwd())
    except DulyError as error:
        refuse(error)
    _name_file(settings)
    click.echo(_as_json(settings) if output == "json" else _as_table(settings))


def _name_file(settings: "Settings") -> None:
    where = f"here ({settings.folder}) or above"
    none = f"none: no duly.toml and no [tool.duly] in a pyproject.toml, {where}"
    click.echo(f"file: {settings.file or none}", err=True)


def _as_table(settings: "Settings") -> str:
    from duly.settings.settings import keys

    rows = [(name, settings.shown(name), settings.origin(name)) for name in keys()]
    return table(("SETTING", "VALUE", "FROM"), rows)


def _as_json(settings: "Settings") -> str:
    from duly.settings.settings import keys

    shown = {
        name: {
            "value": settings.plain(name),
            "from": settings.origin(name),
            "about": key.about,
        }
        for name, key in keys().items()
    }
    file = None if settings.file is None else str(settings.file)
    return json_text({"file": file, "settings": shown})
