r"""Text for a terminal: what others wrote is text there, and never a command.

Titles, errors, notes and log lines may hold anything: escape sequences that rename the window or
write over what was printed, carriage returns, marks that turn the direction of what follows. All
that does not print is a space, as ``str.isprintable`` says what prints. The command writes through
``printable`` (see ``duly.cli.output``), so that nothing has to be remembered where a line is made.
What has to stay one line, because a newline in it would look like a line of ours, is a
``one_line``.
"""

import json
from typing import Final

_LAYOUT: Final = "\n\t"


def printable(text: str) -> str:
    """The text, lines and tabs as they are, with spaces for all else that does not print."""
    return "".join(letter if letter.isprintable() or letter in _LAYOUT else " " for letter in text)


def one_line(text: str, *, tabs: bool = False) -> str:
    """The same in one line, with its tabs or without."""
    keep = "\t" if tabs else ""
    return "".join(letter if letter.isprintable() or letter in keep else " " for letter in text)


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON for people and programs: what does not print is escaped, so that nothing is lost."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1]
        for letter in text
    )
