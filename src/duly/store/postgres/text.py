"""Convert the text of a statement to the parameter style of psycopg or another driver.

The ``.sql`` files of both dialects write a value as ``:name``. psycopg writes it as ``%(name)s``,
and a percent sign twice. Text in quotes and comments names no values.
"""

import re
from collections.abc import Callable

_PIECE = re.compile(
    r"""
      (?P<kept>
          \b[eE]'(?:[^'\\]|\\.|'')*'         # a string in which \' does not end it
        | '(?:[^']|'')*'                     # a string
        | "(?:[^"]|"")*"                     # a name
        | \$(?P<tag>(?:[a-zA-Z_]\w*)?)\$.*?\$(?P=tag)\$    # the body of a function
        | --[^\n]*
        | /\*.*?\*/
        | ::                                 # a cast
      )
    | :(?P<name>[a-zA-Z_]\w*)
    | %
    """,
    re.VERBOSE | re.DOTALL,
)


def for_psycopg(text: str) -> bytes:
    return with_places(text, lambda name: f"%({name})s", percent="%%").encode()


def with_places(text: str, place: Callable[[str], str], *, percent: str) -> str:
    """Return the text with every value and every percent sign replaced by the driver's form."""

    def rewritten(piece: re.Match[str]) -> str:
        return place(piece["name"]) if piece["name"] else piece[0].replace("%", percent)

    return _PIECE.sub(rewritten, text)
