"""Sending a message: to a webhook, by e-mail, or as a ping to a dead-man's watch.

The operator chose the addresses, so a private one may be reached; a redirect to another private
address may not. A message is sent with the same key in every attempt.
"""

import asyncio
import json
import smtplib
import ssl
from datetime import timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final
from urllib.parse import urlsplit

from duly.alerts.message import json_of, text_of
from duly.builtin.http import HttpTask
from duly.builtin.http_exchange import Target
from duly.builtin.network_guard import NetworkGuard
from duly.clock import Timeout
from duly.errors import Permanent
from duly.model.alert import AlertMessage
from duly.settings.alerts import AlertSettings, Destination, filled

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
        if to.way == "webhook":
            await self._post(to, message)
        else:
            await self._mail(to, message)

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
        # In a thread: smtplib blocks. A server that never answers is left to the thread.
        async with Timeout(self._patience.total_seconds()):
            await asyncio.to_thread(self._send, to, letter)

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
