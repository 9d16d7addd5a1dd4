"""The text of a statement, as psycopg wants it.

The ``.sql`` files of both dialects write a value as ``:name``. psycopg writes it as ``%(name)s``,
and a percent sign twice. Text in quotes and comments names no values.
"""

import re

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
    return _PIECE.sub(_rewritten, text).encode()


def _rewritten(piece: re.Match[str]) -> str:
    if piece["name"]:
        return f"%({piece['name']})s"
    return piece[0].replace("%", "%%")
