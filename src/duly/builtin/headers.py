"""The headers of a request: what was said, checked, and what duly says itself.

The connection and the length of the body are the client's business, and a line break in a value
would begin a header, or a request, of its own: both are refused.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Final

from duly.errors import Permanent

SIGNATURE: Final = "Duly-Signature"
AGENT: Final = f"duly/{version('duly')}"
MOST: Final = 100

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_NOT_IN_A_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS: Final = frozenset(
    {
        "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade",
        "keep-alive", "expect", "proxy-connection", SIGNATURE.lower(),
    }
)  # fmt: skip
# Who is sent elsewhere is told nothing more than this: any other header may be a key.
_FOR_EVERYBODY: Final = frozenset(
    {"accept", "accept-language", "accept-encoding", "content-type", "user-agent"}
)


def checked(said: Mapping[str, str]) -> dict[str, str]:
    if len(said) > MOST:
        raise Permanent(f"{len(said)} headers, and at most {MOST} are sent")
    for name, value in said.items():
        if not _NAME.fullmatch(name):
            raise Permanent(f"headers: {name!r} is not the name of a header")
        if name.lower() in _OURS:
            raise Permanent(f'headers: "{name}" is set by duly itself; leave it out')
        if _NOT_IN_A_VALUE.search(value):
            raise Permanent(f'headers: "{name}" holds a control character or a line break')
        if any(ord(character) > 0xFF for character in value):
            raise Permanent(f'headers: "{name}" holds what no header can: it is Latin-1 text')
    return dict(said)


def completed(said: Mapping[str, str], *, body: str | None, key: str | None) -> dict[str, str]:
    """What was said, and what is sent unless something else was."""
    known = {name.lower() for name in said}
    ours = {"User-Agent": AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}
    if body is not None:
        ours["Content-Type"] = _kind(body)
    if key is not None:
        ours["Idempotency-Key"] = key
    return {
        **{name: value for name, value in ours.items() if name.lower() not in known},
        **said,
    }


def signature(body: bytes, secret: str, at: datetime) -> dict[str, str]:
    """``t=<seconds since 1970>,v1=<hex>``: the HMAC-SHA256 of ``t``, a dot and the body."""
    moment = int(at.timestamp())
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256)
    return {SIGNATURE: f"t={moment},v1={digest.hexdigest()}"}


def for_a_stranger(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in _FOR_EVERYBODY}


def without_content(headers: Mapping[str, str]) -> dict[str, str]:
    """For a request that has no body any more."""
    return {
        name: value
        for name, value in headers.items()
        if not name.lower().startswith("content-") and name != SIGNATURE
    }


def _kind(body: str) -> str:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "text/plain; charset=utf-8"
    return "application/json"
