r"""Secrets in texts that people read: the value goes, its name stays.

Recognised by the name before a value, in the ways in which programs write the two:

    password=hunter2    token: abc    "api_key": "abc"    {'secret': 'abc'}    --token abc
    Authorization: Basic abc    Bearer abc    postgresql://user:hunter2@host/name

It errs on the side of hiding. What has no name beside it is not recognised: this is a net below
those who do not log secrets, not a licence to log them.

The texts are whatever a task prints, a megabyte of it in one line if it likes. So nothing here can
be tried twice at one place: repetitions are possessive or short, and what begins like a secret is a
match however it goes on.
"""

import re
from typing import Final

HIDDEN: Final = "***"

_NAMES = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key",
    "accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key",
    "authorization", "credential",
)  # fmt: skip

# Looked for as they are first: that is a hundred times faster than a pattern, and most texts have
# none of them.
_HINTS = (*_NAMES, "bearer", "://")

_NAME = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token(?!s)|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|credential)[\w-]{0,40}+"  # token_value, but not max_tokens=512
)
_SCHEME = r"(?:(?:bearer|basic|digest|token|negotiate)[ \t]{1,8}+)?+"
# What closes a bracket or goes on after a comma may be a part of the value.
_BARE = (
    r"""(?:[^\s,;&"'<>()\[\]{}\\]|\\(?!["']))"""
    r"""(?:[^\s,;&"'>)\]}\\]|\\(?!["'])|[,>)\]}](?![\s"',>)\]}]|\Z))*+"""
)
_VALUE = rf"""
    (?: (?P<open>\\*+["']) {_SCHEME}
        (?: (?<=\\["']) [^"'\\]*+               # quoted within a quoted text: to the next quote
          | (?<=") [^"\\]*+(?:\\.[^"\\]*+)*+
          | (?<=') [^'\\]*+(?:\\.[^'\\]*+)*+
          | [^"'\\]*+                           # behind the name of a scheme
        )
      | \[ [^\]]*+
      | {_SCHEME}{_BARE}
    )
"""
_NAMED = re.compile(
    rf"""
      (?P<name> (?:{_NAME}|authorization) \\*+["']?+ [ \t]{{0,8}}+ (?:=>|[:=]) [ \t]{{0,8}}+ )
      {_VALUE}
    | (?P<option> (?<![\w-]) --[\w-]{{0,20}}?{_NAME} [ \t]{{1,8}}+ ) (?!-){_BARE}
    | (?P<bearer> \bbearer [ \t]{{1,8}}+ ) [\w.~+/=-]++
    | (?P<user> ://[^\s/:@?\#]*+: ) [^\s/?\#]*@
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def redacted(text: str) -> str:
    """The text, with ``***`` in the place of every value that is named like a secret."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    return _NAMED.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    if found["user"]:
        return f"{found['user']}{HIDDEN}@"
    if found["name"]:
        return f"{found['name']}{found['open'] or ''}{HIDDEN}"
    return f"{found['option'] or found['bearer']}{HIDDEN}"
