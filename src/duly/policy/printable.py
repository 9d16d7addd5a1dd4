"""Text that is safe to print on a terminal.

Titles, errors, notes and log lines may hold anything: escape sequences that rename the window or
overwrite output, carriage returns, marks that change the writing direction. Every character that
``str.isprintable`` refuses becomes a space. The command writes all its output through
``printable`` (see ``duly.cli.output``). ``one_line`` is for text in which a newline would look
like a line of duly's own.
"""

import json
from typing import Final

_LAYOUT: Final = "\n\t"


def printable(text: str) -> str:
    """Replace characters that do not print with spaces; keep newlines and tabs."""
    return "".join(letter if letter.isprintable() or letter in _LAYOUT else " " for letter in text)


def one_line(text: str, *, tabs: bool = False) -> str:
    """Replace characters that do not print, newlines included; tabs only if ``tabs`` is False."""
    keep = "\t" if tabs else ""
    return "".join(letter if letter.isprintable() or letter in keep else " " for letter in text)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON in which characters that do not print are escaped, so that nothing is lost."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1]
        for letter in text
    )
