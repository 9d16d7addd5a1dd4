"""The web side as a server of its own: ``duly web``, alone or beside ``duly up`` and ``duly dev``.

It stops within a second when it is told to, whoever looks on: their streams are ended first.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import uvicorn

from duly.app.access import new_secret
from duly.app.acting import WebBackend
from duly.errors import InvalidValue
from duly.runtime.running import SIGNALS
from duly.web.application import make_application
from duly.web.authentication import Authenticator, TrustedProxy
from duly.web.live import LONGEST_SECONDS, LivePages
from duly.web.security_headers import LOOPBACK_NAMES

STOP_SECONDS: Final = 1
BACKLOG: Final = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where to listen, and whom to believe."""

    host: str = "127.0.0.1"
    port: int = 8400
    names: tuple[str, ...] = ()  # of this server, where it is reached by others than the loopback's
    proxy: TrustedProxy | None = None
    launch: str | None = None  # a secret that opens everything as long as this server runs

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


async def serve_web(
    backend: WebBackend, serving: ServerOptions, say: Callable[[str], None]
) -> None:
    """Until SIGTERM or Ctrl-C."""
    await _check(backend, serving)
    launch = (serving.launch or new_secret()) if serving.is_local else None
    authenticator = Authenticator(backend, launch=launch, proxy=serving.proxy)
    names = (*LOOPBACK_NAMES, *serving.names) if serving.is_local or serving.names else ()
    app, live = make_application(backend, authenticator, names=names, longest=LONGEST_SECONDS)
    listening = _listen(serving)
    host = f"[{serving.host}]" if ":" in serving.host else serving.host
    address = f"http://{host}:{listening.getsockname()[1]}"
    say(f"dashboard: {address}/{f'login?token={launch}' if launch else ''}")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=STOP_SECONDS,
        proxy_headers=False,
    )
    try:
        await _Server(config, live, backend).serve(sockets=[listening])
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """One that ends its streams before it waits for them, and to be told to stop is no failure."""

    def __init__(self, config: uvicorn.Config, live: LivePages, backend: WebBackend) -> None:
        super().__init__(config)
        self._live = live
        self._backend = backend

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._hear)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _hear(self) -> None:
        """The second time, nobody is waited for."""
        self._live.close()
        self._backend.close()
        self.force_exit = self.should_exit
        self.should_exit = True


async def _check(backend: WebBackend, serving: ServerOptions) -> None:
    """What can be reached from elsewhere is opened by a token or by a proxy, or not at all."""
    names_people = serving.proxy is not None and bool(serving.proxy.header)
    if serving.is_local or names_people or await backend.has_tokens():
        return
    raise InvalidValue(
        f"{serving.host} can be reached from elsewhere, and nobody could sign in: make a token "
        "first (duly tokens create NAME --role admin), trust a proxy (--trust-header), "
        "or listen on 127.0.0.1"
    )


def _listen(serving: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((serving.host, serving.port))
    except OSError as error:
        found.close()
        raise InvalidValue(
            f"{serving.host}:{serving.port} cannot be listened on: {error.strerror}; "
            "choose another with --port, or --port 0 for any that is free"
        ) from None
    found.listen(BACKLOG)
    found.set_inheritable(False)
    return found
