"""Sending a message: to a webhook, by e-mail, by Apprise, or as a ping to a dead-man's watch.

The operator chose the addresses, so a private one may be reached; a redirect to another private
address may not. A message is sent with the same key in every attempt.
"""

import asyncio
import json
import logging
import smtplib
import ssl
from collections.abc import Callable, Sequence
from datetime import timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final
from urllib.parse import urlsplit

from duly.builtin.http import HttpTask
from duly.builtin.http_exchange import Target
from duly.builtin.network_guard import NetworkGuard
from duly.clock import Timeout
from duly.errors import Permanent
from duly.model.alert import AlertContent, AlertMessage, Problem
from duly.policy.redaction import one_line, redacted
from duly.settings.tables import AlertSettings, Destination, filled

MOST_SHOWN: Final = 20
MOST_IN_TITLE: Final = 3


def content_of(name: str, firing: Sequence[Problem], resolved: Sequence[Problem]) -> AlertContent:
    """Return the content of one message about these problems; of very many, the first ones."""
    shown, over = firing[:MOST_SHOWN], resolved[:MOST_SHOWN]
    return AlertContent(
        title=_title(name, firing, resolved),
        firing=tuple(shown),
        resolved=tuple(over),
        more=len(firing) - len(shown) + len(resolved) - len(over),
    )


def _title(name: str, firing: Sequence[Problem], resolved: Sequence[Problem]) -> str:
    if firing:
        count = "1 problem" if len(firing) == 1 else f"{len(firing)} problems"
        return f"[{name}] {count}: {_named(firing)}"
    return f"[{name}] resolved: {_named(resolved)}"


def _named(problems: Sequence[Problem]) -> str:
    names = [f"{one.name} ({one.kind})" for one in problems[:MOST_IN_TITLE]]
    return one_line(", ".join(names)) + ", …" * (len(problems) > MOST_IN_TITLE)


def text_of(content: AlertContent, *, url: str = "") -> str:
    """Return the text of a message for people."""
    if content.text:
        return content.text
    lines = [content.title, ""]
    for one in content.firing:
        lines.append(f"▲ {one_line(one.name)} ({one.kind}): {one_line(one.sentence)}")
        link = f"{url.rstrip('/')}/jobs/{one.job_id}" if url and one.job_id else ""
        lines += [f"    {line}" for line in (one.command, link) if line]
    lines += [f"✓ resolved: {one_line(one.name)} ({one.kind})" for one in content.resolved]
    if content.more:
        lines.append(f"… and {content.more:,} more: duly status")
    return "\n".join(lines) + "\n"


def json_of(message: AlertMessage, *, url: str = "") -> dict[str, object]:
    """Return the body of a webhook request."""
    content = message.content
    return {
        "id": message.key,
        "at": message.made_at.isoformat(),
        "title": content.title,
        "text": text_of(content, url=url),
        "firing": [_plain(one) for one in content.firing],
        "resolved": [_plain(one) for one in content.resolved],
        "more": content.more,
    }


def _plain(problem: Problem) -> dict[str, object]:
    return {
        "kind": problem.kind,
        "subject": problem.subject,
        "name": problem.name,
        "sentence": problem.sentence,
        "since": problem.since.isoformat(),
        "count": problem.count,
        "job_id": problem.job_id,
        "command": problem.command,
    }


PATIENCE: Final = timedelta(seconds=10)  # for one attempt
PING: Final = "ping:"  # before the name of a schedule: the destination of its pings
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class Courier:
    """Sends messages to the destinations of the settings."""

    def __init__(self, settings: AlertSettings, *, patience: timedelta = PATIENCE) -> None:
        self._settings = settings
        self._patience = patience

    @property
    def destinations(self) -> list[str]:
        """The names of all destinations, in the outbox."""
        names = [one.name for one in self._settings.to]
        return names + [f"{PING}{schedule}" for schedule in self._settings.pings]

    async def deliver(self, message: AlertMessage) -> None:
        """Send a message once; raise what went wrong."""
        if message.destination.startswith(PING):
            url = filled(self._settings.pings[message.destination.removeprefix(PING)])
            path = "/fail" if message.content.outcome == "failed" else ""
            await self.ping(f"{url.rstrip('/')}{path}", message.content.text, key=message.key)
            return
        [to] = [one for one in self._settings.to if one.name == message.destination]
        await {"webhook": self._post, "email": self._mail, "apprise": self._notify}[to.way](
            to, message
        )

    async def ping(self, url: str, text: str = "", *, key: str = "") -> None:
        """Tell a dead-man's watch that something has happened."""
        headers = {"Idempotency-Key": key} if key else {}
        await self._request(url, body=text, headers=headers)

    async def _post(self, to: Destination, message: AlertMessage) -> None:
        body = json.dumps(json_of(message, url=self._settings.url), ensure_ascii=False)
        headers = {name: filled(value) for name, value in to.headers.items()}
        headers = {"Content-Type": "application/json", "Idempotency-Key": message.key, **headers}
        await self._request(filled(to.url), body=body, headers=headers, sign=to.sign)

    async def _request(
        self, url: str, *, body: str, headers: dict[str, str], sign: str = ""
    ) -> None:
        guard = NetworkGuard([Target.of(url).host])
        client = HttpTask(guard, secrets=(sign,) if sign else ())
        await client.http(
            url,
            "POST",
            headers=headers,
            body=body,
            timeout=f"{self._patience.total_seconds():g}s",
            sign=sign or None,
        )

    async def _mail(self, to: Destination, message: AlertMessage) -> None:
        letter = EmailMessage()
        letter["Subject"] = message.content.title
        letter["From"] = to.sender
        letter["To"] = ", ".join(to.recipients)
        letter["Date"] = format_datetime(message.made_at)
        host = to.sender.rpartition("@")[2].strip(" >") or "duly"
        letter["Message-ID"] = f"<{message.key}@{host}>"
        letter.set_content(text_of(message.content, url=self._settings.url))
        await self._in_thread(self._send, to, letter)

    async def _notify(self, to: Destination, message: AlertMessage) -> None:
        text = text_of(message.content, url=self._settings.url)
        await self._in_thread(_notify, filled(to.url), message.content.title, text)

    async def _in_thread(self, send: Callable[..., None], *words: object) -> None:
        """Send by a library that blocks. A server that never answers is left to the thread."""
        async with Timeout(self._patience.total_seconds()):
            await asyncio.to_thread(send, *words)

    def _send(self, to: Destination, letter: EmailMessage) -> None:
        parts = urlsplit(filled(to.url))
        host, seconds = parts.hostname or "", self._patience.total_seconds()
        tls = ssl.create_default_context()
        if parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                host, parts.port or 465, timeout=seconds, context=tls
            )
        else:
            server = smtplib.SMTP(host, parts.port or 25, timeout=seconds)
        with server:
            server.ehlo()
            secure = parts.scheme == "smtps"
            if not secure and server.has_extn("starttls"):
                server.starttls(context=tls)
                secure = True
            if to.user:
                if not secure and host not in _LOOPBACK:
                    raise Permanent(f"{host} offers no TLS: the password is not sent to it")
                server.login(filled(to.user), filled(to.password))
            server.send_message(letter)


def _notify(url: str, title: str, text: str) -> None:
    """Send by Apprise; raise with the reason that it logs."""
    try:
        import apprise  # noqa: PLC0415 - an extra
    except ImportError:
        raise Permanent('Apprise is not installed here: pip install "duly[apprise]"') from None
    service = apprise.Apprise.instantiate(url)  # which sends in this thread; Apprise() keeps a pool
    if service is None:
        raise Permanent("the address is none that Apprise knows")
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as said:  # type: ignore[no-untyped-call]
        if not service.notify(title=title, body=text):
            raise ConnectionError(redacted(said.getvalue()) or "Apprise gave no reason")
