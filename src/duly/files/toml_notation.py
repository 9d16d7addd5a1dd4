"""TOML notation of keys, strings, lists and tables, on one line each.

Messages show values in it too, so that they can be pasted into the file.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta

from duly.errors import InvalidValue
from duly.policy.redaction import hidden, redacted, shortened

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f"} | {
    "\r": "\\r"
}
_QUOTED = re.compile(r'["\\]')
_MINUTE = timedelta(minutes=1)


def table(*keys: str) -> str:
    """``[schedules.backup]``, ``[limits."crm:{customer_id}"]``."""
    return f"[{'.'.join(key(name) for name in keys)}]"


def key(name: str) -> str:
    return name if _BARE.fullmatch(name) else string(name)


def string(text: str) -> str:
    """Return a string in double quotes, or in single quotes if that avoids backslashes.

    Characters that do not print are escaped, for TOML and for terminals.
    """
    if _QUOTED.search(text) and text.isprintable() and "'" not in text:
        return f"'{text}'"
    return f'"{"".join(map(_escaped, text))}"'


def toml_value(found: object) -> str:  # noqa: PLR0911 - a kind of value a line
    """Return a value in TOML; None is refused, because TOML has no null."""
    match found:
        case bool():
            return "true" if found else "false"
        case int():
            return str(found)
        case float():
            return repr(found)
        case str():
            return string(found)
        case datetime():
            return _moment(found)
        case date() | time():
            return found.isoformat()
        case Mapping():
            inside = ", ".join(f"{key(name)} = {toml_value(item)}" for name, item in found.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(toml_value(item) for item in found)}]"
        case _:
            raise InvalidValue(f"{found!r}: TOML has no {type(found).__name__}")


def shown(found: object) -> str:
    """Return a value for a message: in TOML, without secrets, shortened."""
    return shortened(shown_whole(found))


def shown_whole(found: object) -> str:
    """Return a value in TOML without secrets, at any length; ``nothing`` for None."""
    safe = hidden(found)
    try:
        return "nothing" if found is None else redacted(toml_value(safe))
    except InvalidValue:
        return redacted(repr(safe))


def _moment(moment: datetime) -> str:
    offset = moment.utcoffset()
    # Historic offsets have seconds, which TOML does not allow.
    in_minutes = offset is None or not offset % _MINUTE
    return (moment if in_minutes else moment.astimezone(UTC)).isoformat()


def _escaped(letter: str) -> str:
    if (known := _ESCAPES.get(letter)) is not None:
        return known
    if letter.isprintable():
        return letter
    number = ord(letter)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
