r"""Redaction: hide the values of secrets in text and arguments; their names stay.

A secret is recognised by the name before its value, in the forms in which programs write the two:

    password=hunter2    token: abc    "api_key": "abc"    {'secret': 'abc'}    --token abc
    Authorization: Basic abc    Bearer abc    Cookie: a=b; c=d    postgresql://user:hunter2@host/name

When in doubt, the value is hidden. A secret without a name beside it is not recognised: this is a
safety net, not permission to log secrets. The values of a job's arguments with such names are
known, and are hidden wherever the job prints them again.

A task may print a megabyte in one line, so matching must not backtrack: repetitions are possessive
or short, and text that begins like a secret matches however it goes on. A group that is repeated
possessively may fail only at its first character: where it fails later, Python before 3.11.5 keeps
the characters read so far.

The built-in tasks have known places for secrets: unusual headers, the body, the environment of a
program. These are always hidden, whatever their names are.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

HIDDEN: Final = "***"
SHORTEST_SECRET: Final = 6  # shorter ones would hide words

# A plain search for these comes first: it is a hundred times faster than the pattern, and most
# texts have none of them. Every name below contains one of them.
_HINTS = (
    "pass", "pwd", "secret", "token", "key", "credential", "cookie", "auth", "aws_session",
    "sessionid", "session_id", "session-id", "pin", "otp", "jwt", "dsn", "bearer", "://",
)  # fmt: skip

# Words that mean a secret in any name: DB_PASSWORD, token_value.
_LONG = (
    r"(?:pass(?:word|wd|phrase|code|key)|pwd|secret|token(?!s)|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|credential|cookie|x[_-]auth|aws_session|session[_-]?id)"
    r"[\w-]{0,40}+"
)
# Short words occur inside other words, so they must be a separate part of the name: db_pass and
# userPin, but not compass or author. A key needs a word before it: signing_key, but not key or
# public_key.
_SHORT = (
    r"(?:(?<![a-z0-9])(?:pass|pin|otp|jwt|o?auth|dsn)"
    r"|(?-i:(?<=[a-z0-9])(?:Pass|Pin|PIN|Otp|OTP|Jwt|JWT|O?Auth|Dsn|DSN)))"
    r"(?:[_-]?(?:code|value|header|hash|string))?"
)
_KEY = (
    r"(?:(?<=[a-z0-9][_-])(?<!idempotency[_-])(?<!public[_-])(?<!primary[_-])(?<!foreign[_-])keys?"
    r"|(?-i:(?<=[a-z0-9])Keys?(?![a-z])))"
    r"(?:[_-][\w-]{0,40}+)?"
)
_NAME = rf"(?:{_LONG}|{_SHORT}|{_KEY})"
_SCHEME = r"(?>(?:(?:bearer|basic|digest|token|negotiate)[ \t]{1,8}+)?)"
# A closing bracket or a comma belongs to the value where the value goes on behind it. The lazy loop
# cannot backtrack: the end of the text ends a value too.
_BARE = (
    r"""(?:[^\s,;&"'<>()\[\]{}\\]|\\(?!["']))"""
    r""".*?(?=[\s;&"']|\\["']|[,>)\]}](?:[\s"',>)\]}]|\Z)|\Z)"""
)
_VALUE = rf"""
    (?: (?P<open>\\*+["']) {_SCHEME}
        (?: (?<=\\["']) [^"'\\]*+               # quoted within a quoted text: to the next quote
          | (?<=") [^"\\]*+(?:\\.?[^"\\]*+)*+
          | (?<=') [^'\\]*+(?:\\.?[^'\\]*+)*+
          | [^"'\\]*+                           # behind the name of a scheme
        )
      | \[ [^\]]*+
      | {_SCHEME}{_BARE}
    )
"""
_IS = r"""\\*+["']?+ [ \t]{0,8}+ (?:=>|[:=]) [ \t]{0,8}+"""
_NUMBER = r"""\d{1,20}+ (?:\.\d{1,20}+)? (?:[\s,;&"'>)\]}] | \Z)"""
_NAMED = re.compile(
    rf"""
      (?P<cookie> cookie \\*+["']?+ [ \t]{{0,8}}+ : [ \t]{{0,8}}+ (?>(?:\\*+["'])?) ) [^\r\n"'\\]++
    | (?P<name>
        (?: (?:{_NAME}|authorization) {_IS}
          | tokens {_IS} (?!{_NUMBER})  # of a list of them, but not of max_tokens=512
        )
      ) {_VALUE}
    | (?P<option> (?<![\w-]) --[\w-]{{0,20}}?{_NAME} [ \t]{{1,8}}+ ) (?!-){_BARE}
    | (?P<bearer> \bbearer [ \t]{{1,8}}+ ) [\w.~+/=-]++
    | (?P<user> ://[^\s/:@?\#]*+: ) [^\s/?\#]*@
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)

# The headers of a request that are not hidden, because they never hold secrets.
_HARMLESS = frozenset({
    "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control",
    "content-encoding", "content-language", "content-type", "pragma", "prefer", "user-agent",
})  # fmt: skip
_AUTHORITY = re.compile(r"://([^/?#]*)")
_PORT = re.compile(r"(?:\[[^\[\]@]*\]|[^\[\]:@]*)(?::\d*)?", re.ASCII)


def redacted(text: str) -> str:
    """Replace every value that has the name of a secret with ``***``."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    return _NAMED.sub(_hidden, text)


def redacted_for(args: str, text: str) -> str:
    """Redact the output of a job, which may repeat its arguments: ``wrong key sk_live_42``."""
    for secret in _secrets_of(args):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return redacted(text)


@lru_cache(maxsize=256)  # all output of a job has the same arguments
def _secrets_of(args: str) -> tuple[str, ...]:
    """Return the values of arguments with the names of secrets; short values are left out."""
    lowered = args.lower()
    if not any(hint in lowered for hint in _HINTS):
        return ()
    try:
        return tuple(sorted(set(_secretive(json.loads(args))), key=len, reverse=True))
    except (ValueError, RecursionError):
        return ()


def _secretive(value: object, *, named: bool = False) -> Iterator[str]:
    match value:
        case Mapping():
            for name, inner in value.items():
                yield from _secretive(inner, named=named or is_secretive(str(name)))
        case list():
            for inner in value:
                yield from _secretive(inner, named=named)
        case str() if named and len(value) >= SHORTEST_SECRET:
            yield value


def hidden(value: Any) -> Any:  # noqa: ANN401 - JSON is any of its types
    """Return the value without secrets: fields with the name of one, and secrets inside texts."""
    match value:
        case Mapping():
            return {
                name: HIDDEN if _is_secret(str(name), inner) else hidden(inner)
                for name, inner in value.items()
            }
        case list() | tuple():
            return _hidden_items(value)
        case str():
            return redacted(value)
        case _:
            return value


def hidden_call(task: str, args: Any) -> Any:  # noqa: ANN401 - JSON, of a table as a rule
    """Return the arguments of a task without secrets."""
    carriers = _CARRIERS.get(task)
    if carriers is None or not isinstance(args, Mapping):
        return hidden(args)
    return {
        name: carriers[name](value) if name in carriers and value else hidden({name: value})[name]
        for name, value in args.items()
    }


def hidden_json(task: str, args: str) -> str:
    """Return the stored arguments of a task, JSON text, without secrets."""
    try:
        found = json.loads(args)
    except (ValueError, RecursionError):
        return redacted(args)
    return json.dumps(hidden_call(task, found), ensure_ascii=False, separators=(",", ":"))


def hidden_url(url: str) -> str:
    """Return the URL without its query, which may hold keys, and without user and password.

    If user and password cannot be told from the host, because of an unquoted character, only the
    scheme is left.
    """
    found = _AUTHORITY.search(url)
    if found is None:
        return redacted(url)
    user, _, host = found[1].rpartition("@")
    if not _PORT.fullmatch(host) or "@" in user:
        return f"{url[: found.start(1)]}{HIDDEN}"
    said, query, _ = url[found.end() :].partition("?")
    return (
        f"{url[: found.start(1)]}{f'{HIDDEN}@' if user else ''}{host}"
        f"{said.partition('#')[0]}{f'?{HIDDEN}' if query else ''}"
    )


def is_secretive(name: str, value: str = "it") -> bool:
    """Return whether the name is one that secrets have."""
    return redacted(f"{name}={value}") != f"{name}={value}"


def _is_secret(name: str, value: object) -> bool:
    """Return whether the field is a secret: ``max_tokens`` with a number is not."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_secretive(name, str(value) if is_number else "it")


def _hidden(found: re.Match[str]) -> str:
    if found["user"]:
        return f"{found['user']}{HIDDEN}@"
    if found["name"]:
        return f"{found['name']}{found['open'] or ''}{HIDDEN}"
    return f"{found['cookie'] or found['option'] or found['bearer']}{HIDDEN}"


def _hidden_items(items: Sequence[Any]) -> list[Any]:
    """Hide secrets in the words of a command, the word after ``--token`` as well."""
    shown: list[Any] = []
    is_named = False
    for item in items:
        is_word = isinstance(item, str) and not item.startswith("-")
        shown.append(HIDDEN if is_named and is_word else hidden(item))
        is_named = isinstance(item, str) and item.startswith("-") and is_secretive(item)
    return shown


def _hidden_headers(headers: object) -> object:
    if not isinstance(headers, Mapping):
        return HIDDEN
    return {
        name: hidden(value) if str(name).lower() in _HARMLESS else HIDDEN
        for name, value in headers.items()
    }


def _hidden_values(values: object) -> object:
    return dict.fromkeys(values, HIDDEN) if isinstance(values, Mapping) else HIDDEN


def _hidden_text(_: object) -> object:
    return HIDDEN


def _hidden_address(url: object) -> object:
    return hidden_url(url) if isinstance(url, str) else HIDDEN


_OF_A_PROGRAM: Final = {"env": _hidden_values, "stdin": _hidden_text}
_CARRIERS: Final[Mapping[str, Mapping[str, Callable[[object], object]]]] = {
    "duly.http": {"url": _hidden_address, "headers": _hidden_headers, "body": _hidden_text},
    "duly.shell": _OF_A_PROGRAM,
    "duly.command": _OF_A_PROGRAM,
}


_LAYOUT: Final = "\n\t"


def printable(text: str) -> str:
    """Replace characters that do not print with spaces; keep newlines and tabs."""
    return "".join(letter if letter.isprintable() or letter in _LAYOUT else " " for letter in text)


def one_line(text: str, *, tabs: bool = False) -> str:
    """Replace characters that do not print, newlines included; tabs only if ``tabs`` is False."""
    keep = "\t" if tabs else ""
    return "".join(letter if letter.isprintable() or letter in keep else " " for letter in text)


def some(names: Sequence[str], most: int) -> str:
    """Return the first names, with an ellipsis if there are more than ``most``."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def shortened(text: str, longest: int = 60) -> str:
    """Return the text, cut at so many characters with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON in which characters that do not print are escaped, so that nothing is lost."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1]
        for letter in text
    )
