"""Input of commands: task arguments, times, and files up to a size limit.

A task argument is typed as ``to=ada n=3 when=2026-03-05 rows=[1,2]`` and parsed by the type of its
parameter: ``str`` takes the text unchanged; other types take JSON if the text looks like JSON, and
otherwise whatever the type makes of the text.
"""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from duly.errors import InvalidValue, NotFound
from duly.registry import codecs
from duly.registry.annotations import resolved
from duly.registry.definition import Definition
from duly.registry.parameters import Parameters, in_python, misfit

_JSON_BEGINS = frozenset('{["-0123456789')
_JSON_HOLDS = frozenset("{[")
_JSON_WORDS = frozenset(("true", "false", "null"))


def read_arguments(definition: Definition, typed: Iterable[str]) -> dict[str, object]:
    """Return the arguments by name; raise ``InvalidValue`` naming the one that does not fit."""
    parameters = definition.signature.parameters
    given: dict[str, str] = {}
    for one in typed:
        name, value = _parted(one, parameters)
        if name in given:
            raise InvalidValue(f"{one}: {name}= was given before")
        given[name] = value
    types = _types(parameters)
    rest = types.get(parameters.extra or "", Any)
    return {
        name: _read(definition.name, name, text, types.get(name, rest))
        for name, text in given.items()
    }


def read_untyped(text: str) -> object:
    """Parse a value of unknown type: JSON if it is JSON, else the text."""
    return _read("", "", text, Any)


def _parted(typed: str, parameters: Parameters) -> tuple[str, str]:
    name, equals, value = typed.partition("=")
    if not equals:
        example = next(iter(parameters.names), "name")
        raise InvalidValue(f'"{typed}": arguments need names: {example}={typed}')
    if name not in parameters.known and parameters.extra is None:
        near = get_close_matches(name, parameters.known, n=1)
        there = f"; did you mean {near[0]}=?" if near else f"; the task is {parameters}"
        raise InvalidValue(f'{parameters.task} has no parameter "{name}"{there}')
    return name, value


def _types(parameters: Parameters) -> Mapping[str, Any]:
    try:
        return resolved(parameters.function, parameters.annotations)
    except NameError as error:
        raise InvalidValue(f"{parameters.task}: an annotation cannot be read: {error}") from None


def _read(task: str, name: str, text: str, kind: Any) -> object:  # noqa: ANN401 - a type, as annotations have
    if kind is str:
        return text
    refused: InvalidValue | None = None
    if text[:1] in _JSON_BEGINS or text in _JSON_WORDS:
        try:
            return msgspec.convert(json.loads(text), kind, dec_hook=codecs.read)
        except msgspec.ValidationError as error:
            refused = misfit(task, error, argument=name)
        except json.JSONDecodeError as error:
            near = f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}"
            refused = InvalidValue(f"{task}: {name}={text}: that is not JSON: {near}")
        except ValueError:
            pass  # a number with too many digits
    # The text may only look like JSON: a date, a postal code.
    try:
        return msgspec.convert(text, kind, strict=False, dec_hook=codecs.read)
    except msgspec.ValidationError as error:
        if refused is not None and text[0] in _JSON_HOLDS:
            raise refused from None
        raise InvalidValue(f"{task}: {name}={text}: {_in_python(str(error), kind)}") from None


def _in_python(why: str, kind: Any) -> str:  # noqa: ANN401 - a type, as annotations have
    called = getattr(kind, "__name__", str(kind))
    plainly = why.startswith(f"Expected `{called}`, got `str`")
    return f"that is no {called}" if plainly else in_python(why)


MOST_BYTES = 10_000_000


class BoundedReader:
    """Reads files and streams, with one size limit for all of them together."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._left = most

    def file(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                return self.stream(file, str(path))
        except FileNotFoundError:
            raise NotFound(f"there is no file {path}") from None
        except OSError as error:
            raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None

    def stream(self, stream: BinaryIO, place: str) -> bytes:
        data = stream.read(self._left + 1)
        if len(data) > self._left:
            raise InvalidValue(
                f"{place} has more than {self._most // 1_000_000} MB: leave out everything but "
                "schedules, or import it in parts"
            )
        self._left -= len(data)
        return data
