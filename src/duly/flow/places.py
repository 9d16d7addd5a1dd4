"""Where in the arguments of a step the stand-ins are: whole, or inside of lists and dicts.

What is found is a path to each, and what is left is plain: null in every such place.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TypeAlias

from duly.errors import InvalidValue
from duly.flow.stand_in import StandIn
from duly.model.payload import DEEPEST

Path: TypeAlias = tuple[str | int, ...]


def stand_ins_in(value: object, path: Path) -> Iterator[tuple[Path, StandIn]]:
    """Each with the way to it. An ``InvalidValue`` names a place that nothing can be put into."""
    if isinstance(value, StandIn):
        yield path, value
    elif len(path) > DEEPEST:
        return  # whoever writes it as JSON refuses it
    elif isinstance(value, dict):
        yield from _in_dict(value, path)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from stand_ins_in(item, (*path, at))
    elif is_dataclass(value):
        _refuse_in_fields(value, path)


def emptied(value: object) -> object:
    """The same, with None for every stand-in."""
    match value:
        case StandIn():
            return None
        case dict():
            return {key: emptied(item) for key, item in value.items()}
        case list() | tuple():
            return [emptied(item) for item in value]
        case _:
            return value


def shown_path(path: Path) -> str:
    """``rows[0].name``, as people write it."""
    first, *rest = path
    return f"{first}{''.join(f'[{at}]' if isinstance(at, int) else f'.{at}' for at in rest)}"


def _in_dict(value: dict[object, object], path: Path) -> Iterator[tuple[Path, StandIn]]:
    for key, item in value.items():
        for found in stand_ins_in(item, (*path, str(key))):
            if not isinstance(key, str):
                raise InvalidValue(
                    f"`{shown_path(path)}` has {found[1]!r} under the key {key!r}: what is filled "
                    "in later is under a text"
                )
            yield found


def _refuse_in_fields(value: object, path: Path) -> None:
    held = vars(value) if hasattr(value, "__dict__") else {}
    for field in fields(value):  # type: ignore[arg-type]  # whoever calls this has looked
        found = held.get(field.name, getattr(value, field.name, None))
        for _, stand_in in stand_ins_in(found, (*path, field.name)):
            raise InvalidValue(
                f"`{shown_path(path)}` is a {type(value).__name__} with {stand_in!r} inside: what "
                "is filled in later is an argument, or in a list or dict: write a task that takes "
                "it, and makes one"
            )
