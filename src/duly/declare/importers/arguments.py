"""Arguments for a task: by name, and only what JSON and TOML can say."""

from collections.abc import Mapping, Sequence

from duly.declare.notation import value
from duly.errors import DulyError
from duly.model.payload import encode


def carried(
    args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[dict[str, object], list[str]]:
    """What can be written, and a sentence for each thing that cannot."""
    written: dict[str, object] = {}
    problems = []
    if args:
        problems.append(
            f"its arguments {_shown(args)} have no names: write args = {{ name = … }} with those "
            "of the task's parameters"
        )
    for name, found in kwargs.items():
        try:
            encode({str(name): found})
            value(found)
        except DulyError:
            problems.append(f"the argument {name} = {_shown(found)} cannot be written in TOML")
        else:
            written[str(name)] = found
    return written, problems


def _shown(found: object) -> str:
    shown = repr(found)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
