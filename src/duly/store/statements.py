"""The statements of a dialect, read from its ``.sql`` files.

A file holds statements, each below a line ``-- name: …`` and the reason for its shape. A block
below ``-- part: …`` is a piece of text that statements of the same dialect include as ``{name}``.
A text between ``/*[flag]`` and ``[flag]*/`` is there only if the dialect has that feature, and with
``!flag`` only if it does not.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files

from duly.store.database import Dialect

_HEAD = re.compile(r"^-- (name|part): (\w+)\s*$", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")
_FEATURE = re.compile(r"/\*\[(!?)(\w+)\](.*?)\[\1\2\]\*/", re.DOTALL)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


@cache
def statements(dialect: Dialect) -> Mapping[str, str]:
    """Every statement of the dialect, by name, ready to be sent."""
    folder = files("duly.store").joinpath(dialect.name, "sql")
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        blocks = _HEAD.split(file.read_text(encoding="utf-8"))[1:]
        for kind, name, text in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
            if name in found[kind]:
                raise ValueError(f"{file.name}: there are two statements named {name}")
            found[kind][name] = _COMMENT.sub("", text).strip().rstrip(";")
    return {
        name: with_features(_with_parts(text, found["part"]), dialect)
        for name, text in found["name"].items()
    }


def _with_parts(text: str, parts: Mapping[str, str]) -> str:
    """The text with its parts in it, and their parts in them."""
    while (whole := _PART.sub(lambda part: parts[part[1]], text)) != text:
        text = whole
    return text


def with_features(text: str, dialect: Dialect) -> str:
    """The text as it is for this dialect: ``/*[partitions] … [partitions]*/`` stays or goes."""
    known = {field.name for field in fields(dialect)}

    def choose(found: re.Match[str]) -> str:
        absent, feature, inside = found.groups()
        if feature not in known:
            raise ValueError(f"{feature} is not a feature; there are: {', '.join(sorted(known))}")
        return inside.strip() if getattr(dialect, feature) is not bool(absent) else ""

    return _FEATURE.sub(choose, text)
