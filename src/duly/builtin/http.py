"""``http``: an HTTP request as a job.

A response with an expected status succeeds: one of ``expect``, or any 2xx. Responses that may
differ next time (5xx, 408, 425, 429) and missing responses are errors, retried as the job says; 429
and 503 may say when. Any other status fails the job for good.

A job sends the same Idempotency-Key in each attempt, so that the server can recognise a repetition.
The ``NetworkGuard`` decides which addresses may be reached, for each redirect again. Headers that
belong to the connection or to duly, and values with line breaks, are refused.
"""

import hashlib
import hmac
import json
import os
import re
import ssl
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from importlib.metadata import version
from typing import Final

from duly.builtin import job
from duly.builtin.http_exchange import (
    HttpConnection,
    HttpFailed,
    HttpRequest,
    HttpResponse,
    Target,
    asked,
    connected,
)
from duly.builtin.network_guard import NetworkGuard
from duly.clock import Timeout, boottime, now
from duly.durations import show_duration
from duly.errors import InvalidValue, Permanent, RetryAfter
from duly.model.payload import storable
from duly.registry.option_values import length_of

SIGNATURE: Final = "Duly-Signature"
AGENT: Final = f"duly/{version('duly')}"
MOST_HEADERS: Final = 100

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_NOT_IN_A_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS: Final = frozenset(
    {
        "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade",
        "keep-alive", "expect", "proxy-connection", SIGNATURE.lower(),
    }
)  # fmt: skip
# The only headers that are sent to another origin after a redirect: any other may be a secret.
_CROSS_ORIGIN: Final = frozenset(
    {"accept", "accept-language", "accept-encoding", "content-type", "user-agent"}
)
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MOST_REDIRECTS: Final = 5
KEPT: Final = 2_000  # characters of a body, in the result
KEPT_HEADERS: Final = ("content-type", "content-length", "etag", "location", "x-request-id")
LONGEST_TIMEOUT: Final = timedelta(hours=1)
LONGEST_REST: Final = timedelta(days=1)  # whatever the server asks for

_CONNECT_WITHIN: Final = 5.0  # seconds, where there is another address to try
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_PASSING: Final = (408, 425, 429)
_CHARSET = re.compile(r'charset="?([\w.:-]+)', re.ASCII)
_SHOWN: Final = 300


class HttpTask:
    """The task, with the permissions that the operator of the worker gives it."""

    def __init__(
        self,
        guard: NetworkGuard,
        *,
        secrets: Collection[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._secrets = secrets  # names of variables that requests may be signed with
        self._given_tls = tls

    async def http(
        self,
        url: str,
        method: str = "GET",
        *,
        headers: dict[str, str] | None = None,
        body: str | None = None,
        expect: list[int] | None = None,
        timeout: str = "30s",  # noqa: ASYNC109 - of the whole exchange, in words
        sign: str | None = None,
    ) -> dict[str, object]:
        secret = None if sign is None else self._secret(sign)
        request = _request(url, method=method, headers=headers or {}, body=body, secret=secret)
        patience = _patience(timeout)
        began = boottime()
        try:
            async with Timeout(patience.total_seconds()):
                answer = await self._followed(request, expect or ())
        except TimeoutError:
            said = f"{request.method} {request.target.shown}"
            raise HttpFailed(f"{said}: no answer within {show_duration(patience)}") from None
        milliseconds = round((boottime() - began) * 1_000)
        said = f"{request.method} {request.target.shown} answered {answer.status}"
        job.log().info("%s after %s ms", said, milliseconds)
        if not _is_expected(answer.status, expect or ()):
            raise _failure(said, answer, expect or ())
        return _result(answer)

    async def _followed(self, request: HttpRequest, expect: Collection[int]) -> HttpResponse:
        for _ in range(MOST_REDIRECTS + 1):
            answer = await self._answered(request)
            is_redirect = answer.status in _REDIRECTS and "location" in answer.headers
            if not is_redirect or answer.status in expect:
                return answer
            request = redirected(request, answer)
        raise Permanent(f"{request.target.shown}: more than {MOST_REDIRECTS} redirects")

    async def _answered(self, request: HttpRequest) -> HttpResponse:
        try:
            return await asked(request, await self._connected(request.target))
        except (OSError, HttpFailed) as error:
            what = str(error) or type(error).__name__
            raise HttpFailed(f"{request.method} {request.target.shown}: {what}") from error

    async def _connected(self, target: Target) -> HttpConnection:
        """Connect to the first allowed address that accepts."""
        tls = self._tls if target.scheme == "https" else None
        *others, last = await self._guard.addresses(target.host, target.port)
        for address in others:
            with suppress(OSError):
                async with Timeout(_CONNECT_WITHIN):
                    return await connected(target, address, tls=tls)
        return await connected(target, last, tls=tls)

    def _secret(self, name: str) -> str:
        """Return the secret in an environment variable that the operator has allowed.

        With any other variable, signatures could be used to guess its value.
        """
        if name not in self._secrets:
            raise Permanent(
                f'sign="{name}": the operator of the worker has not allowed to sign with it: '
                f"--allow-signing {name}"
            )
        found = os.environ.get(name)
        if not found:
            raise Permanent(
                f'sign="{name}": the worker has no environment variable of that name; set it to '
                "the secret that the other side knows"
            )
        return found

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()


def redirected(request: HttpRequest, answer: HttpResponse) -> HttpRequest:
    """Return the request that follows a redirect, or raise ``Permanent``."""
    here, there = request.target, request.target.led_to(answer.headers["location"])
    if here.scheme == "https" and there.scheme == "http":
        raise Permanent(f"{here.shown} redirects to {there.shown}: from https to http is refused")
    headers = request.headers
    if there.origin != here.origin:
        headers = for_another_origin(headers)
    if _becomes_get(request.method, answer.status):
        headers = without_content(headers)
        return HttpRequest(method="GET", target=there, headers=headers, body=None)
    return replace(request, target=there, headers=headers)


def _becomes_get(method: str, status: int) -> bool:
    """Return whether the redirected request becomes a GET, as in browsers."""
    return (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST")


def _request(
    url: str, *, method: str, headers: Mapping[str, str], body: str | None, secret: str | None
) -> HttpRequest:
    if method.upper() not in METHODS:
        raise Permanent(f'method="{method}": one of {", ".join(METHODS)}')
    target = Target.of(url)
    number = job.number()
    said = _completed(_checked(headers), body=body, key=None if number is None else str(number))
    content = b"" if body is None else body.encode()
    if secret is not None:
        said |= signature(content, secret, now())
    has_body = body is not None or method.upper() in ("POST", "PUT", "PATCH")
    return HttpRequest(
        method=method.upper(), target=target, headers=said, body=content if has_body else None
    )


def _patience(timeout: str) -> timedelta:
    try:
        return length_of("timeout", timeout, longest=LONGEST_TIMEOUT)
    except InvalidValue as error:
        raise Permanent(str(error)) from None


def _is_expected(status: int, expect: Collection[int]) -> bool:
    return status in expect if expect else 200 <= status < 300


def _failure(said: str, answer: HttpResponse, expect: Collection[int]) -> Exception:
    text = " ".join(_text(answer).split())[:_SHOWN]
    message = f"{said}: {text}" if text else said
    rest = _rest(answer.headers.get("retry-after", ""))
    if answer.status in (429, 503) and rest is not None:
        return RetryAfter(rest, message)
    if answer.status >= 500 or answer.status in _PASSING:
        return HttpFailed(message)
    wanted = ", ".join(map(str, expect)) or "2xx"
    return Permanent(f"{said}, and {wanted} was expected: {text}".removesuffix(": "))


def _rest(said: str) -> timedelta | None:
    """Parse Retry-After: seconds or a date."""
    if said.isascii() and said.isdigit():
        wait = timedelta(seconds=min(int(said[:10]), LONGEST_REST.total_seconds()))
    else:
        try:
            moment = parsedate_to_datetime(said)
        except ValueError:
            return None
        wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now()
    return min(max(wait, timedelta()), LONGEST_REST)


def _result(answer: HttpResponse) -> dict[str, object]:
    kept = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
    return {
        "status": answer.status,
        "headers": {name: storable(value[:KEPT]) for name, value in kept.items()},
        "body": _text(answer),
    }


def _text(answer: HttpResponse) -> str:
    """Decode the beginning of the body. A character has at most four bytes."""
    found = _CHARSET.search(answer.headers.get("content-type", "").lower())
    beginning = answer.body[: 4 * KEPT]
    try:
        text = beginning.decode(found[1] if found else "utf-8", errors="replace")
    except (LookupError, ValueError):  # an unknown encoding, or not one of text
        text = beginning.decode(errors="replace")
    return storable(text[:KEPT])


def _checked(said: Mapping[str, str]) -> dict[str, str]:
    if len(said) > MOST_HEADERS:
        raise Permanent(f"{len(said)} headers, and at most {MOST_HEADERS} are sent")
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


def _completed(said: Mapping[str, str], *, body: str | None, key: str | None) -> dict[str, str]:
    """Return the given headers plus the defaults for those that are missing."""
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


def for_another_origin(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in _CROSS_ORIGIN}


def without_content(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for a request without its body."""
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
