"""``duly config``: every setting, its value and its source."""

import os
from pathlib import Path

import click

from duly.cli.app_and_store import output_option
from duly.cli.output import table
from duly.policy.redaction import json_text
from duly.settings import Settings, load
from duly.settings.settings import keys


@click.command("config")
@output_option
def config(output: str) -> None:
    """Show every setting, its value and where it comes from.

    Command-line options override DULY_… in the environment, which overrides the file, which
    overrides the default. The file is duly.toml, or [tool.duly] in pyproject.toml, here or in the
    nearest parent folder that has one; relative paths in it start at the file. Passwords are
    hidden.

    \b
      duly config                       SETTING, VALUE and FROM
      duly config -o json               as JSON, with a description of each setting
      DULY_QUEUES=mail duly config      preview the effect of a variable

    \b
    Exit codes: 0 success, 2 a configured value is invalid: the message names it and its source.
    """
    settings = load({}, os.environ, Path.cwd())
    _name_file(settings)
    click.echo(_as_json(settings) if output == "json" else _as_table(settings))


def _name_file(settings: Settings) -> None:
    where = f"here ({settings.folder}) or above"
    none = f"none: no duly.toml and no [tool.duly] in a pyproject.toml, {where}"
    click.echo(f"file: {settings.file or none}", err=True)


def _as_table(settings: Settings) -> str:
    rows = [(name, settings.shown(name), settings.origin(name)) for name in keys()]
    return table(("SETTING", "VALUE", "FROM"), rows)


def _as_json(settings: Settings) -> str:
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
