"""What a schedule is to start, as it is typed: a task with its arguments, or a command.

Where an app is at hand it says whether there is such a task, and what its arguments are. Elsewhere
they are taken for what they look like.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

import click

from duly.cli.find_app import app_of, has_app, imported
from duly.cli.store import settled
from duly.errors import NotFound

OURS = "duly."  # tasks of our own begin so, and are in no app


class Start(NamedTuple):
    called: str  # unless somebody says otherwise
    task: str
    args: Mapping[str, object]
    unchecked: bool = False  # no app at hand has it
    unknown: NotFound | None = None  # what the app at hand says, which has no such task


def start_of(task: str | None, arguments: Sequence[str], command: Sequence[str]) -> Start:
    from duly.app.typed_schedules import COMMAND

    if (task is None) == (not command):
        raise click.UsageError("say what to run: --task NAME KEY=VALUE…, or -- and a command")
    if task is not None:
        return _task(task, arguments)
    if arguments:
        raise click.UsageError(f'"{arguments[0]}": the arguments of a command stand behind the --')
    return Start(PurePath(command[0]).name, COMMAND, {"argv": list(command)})


def _task(task: str, pairs: Sequence[str]) -> Start:
    settings = settled()
    if task.startswith(OURS) or not has_app(settings):
        return Start(task, task, _untyped(pairs), unchecked=True)
    try:
        return Start(task, task, _typed(task, pairs))
    except NotFound as unknown:
        return Start(task, task, _untyped(pairs), unchecked=True, unknown=unknown)


def _typed(task: str, pairs: Sequence[str]) -> Mapping[str, object]:
    from duly.cli.inputs import read_arguments
    from duly.model.payload import decode

    settings = settled()
    registry = imported(app_of(settings, "schedules add"), settings)
    definition = registry.get(task)
    call = registry.call(definition, (), read_arguments(definition, pairs))
    args: Mapping[str, object] = decode(call.args)
    return args


def _untyped(pairs: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise click.UsageError(f'"{pair}": an argument of a task is written as KEY=VALUE')
        if key in found:
            raise click.UsageError(f'"{key}" is said twice')
        found[key] = _value(value)
    return found


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text
