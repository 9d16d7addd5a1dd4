"""Templates for names and titles over arguments: ``crm:{customer_id}``.

``str.format`` is not used, because it reads attributes and items of the arguments. Only whole
arguments are inserted, and only scalar values.
"""

import re
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Final
from uuid import UUID

from duly.errors import InvalidValue
from duly.model.payload import storable

LONGEST_TITLE: Final = 500
_SCALARS = (str, int, float, bool, type(None), Decimal, UUID, date, time, timedelta, Enum)
_BRACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def render(template: str, values: Mapping[str, object]) -> str:
    """Replace each ``{name}`` in the template; ``{{`` and ``}}`` are braces."""
    pieces = _pieces(template)
    if len(pieces) == 1:
        return pieces[0][0]
    return "".join(
        text if name is None else text + _shown(template, name, values) for text, name in pieces
    )


def render_title(template: str, values: Mapping[str, object]) -> str:
    """Render a job's title; a title that is too long is cut, not refused."""
    title = storable(render(template, values)) if template else ""
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"


def names_in(template: str) -> tuple[str, ...]:
    """Return the names in a template, each once, in their order."""
    return tuple(dict.fromkeys(name for _, name in _pieces(template) if name is not None))


def with_texts(template: str, texts: Mapping[str, str]) -> str:
    """Return the template with texts in place of some names."""
    found = []
    for text, name in _pieces(template):
        found.append(_literal(text))
        if name is not None:
            found.append(_literal(texts[name]) if name in texts else f"{{{name}}}")
    return "".join(found)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@lru_cache(maxsize=1024)
def _pieces(template: str) -> tuple[tuple[str, str | None], ...]:
    """Split into pairs of a text and the name after it; the last pair has no name."""
    pieces: list[tuple[str, str | None]] = []
    text, at = "", 0
    for found in _BRACE.finditer(template):
        text += template[at : found.start()]
        at = found.end()
        if found[0] in ("{{", "}}"):
            text += found[0][0]
        elif found[1] is not None and found[1].isidentifier():
            pieces.append((text, found[1]))
            text = ""
        else:
            raise InvalidValue(
                f'"{template}": {found[0]} is not the name of an argument; write it as '
                '{customer_id}, and a literal brace as "{{" or "}}"'
            )
    return (*pieces, (text + template[at:], None))


def _shown(template: str, name: str, values: Mapping[str, object]) -> str:
    if name not in values:
        has = ", ".join(values) or "no arguments"
        raise InvalidValue(f'"{template}": there is no argument "{name}"; there is {has}')
    value = values[name]
    if not isinstance(value, _SCALARS):
        raise InvalidValue(
            f'"{template}": "{name}" is a {type(value).__name__}: only texts, numbers, times and '
            "the like can be part of a name"
        )
    return str(value.value if isinstance(value, Enum) else value)
