"""The web server of ``duly web``, also started by ``duly up`` and ``duly dev``.

It stops within a second: open streams are ended first.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import uvicorn

from duly.app.access import new_secret
from duly.app.web_backend import WebBackend
from duly.errors import InvalidValue
from duly.runtime.running import SIGNALS
from duly.web.application import LOOPBACK_NAMES, make_application
from duly.web.authentication import Authenticator, TrustedProxy
from duly.web.live import LONGEST_SECONDS, LivePages

STOP_SECONDS: Final = 1
BACKLOG: Final = 2_048
NEAR_PORTS, LAST_PORT = 20, 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The address, host names and trusted proxies of the server."""

    host: str = "127.0.0.1"
    port: int = 8400
    names: tuple[str, ...] = ()  # host names of this server, besides the local ones
    proxy: TrustedProxy | None = None
    launch: str | None = None  # a secret that signs in as admin while this server runs

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


async def serve_web(
    backend: WebBackend, options: ServerOptions, say: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    await _check(backend, options)
    launch = (options.launch or new_secret()) if options.is_local else None
    authenticator = Authenticator(backend, launch=launch, proxy=options.proxy)
    names = (*LOOPBACK_NAMES, *options.names) if options.is_local or options.names else ()
    app, live = make_application(backend, authenticator, names=names, longest=LONGEST_SECONDS)
    listening = _listen(options)
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{listening.getsockname()[1]}"
    say(f"dashboard: {address}/{f'login?token={launch}' if launch else ''}")
    config = uvicorn.Config(
        app,
        log_config=None,  # as every logger: the application's handlers, ours, or stderr
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
    """A uvicorn server that ends its streams before it stops, and exits normally on a signal."""

    def __init__(self, config: uvicorn.Config, live: LivePages, backend: WebBackend) -> None:
        super().__init__(config)
        self._live = live
        self._backend = backend

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        """Stop; on the second signal, without waiting for open requests."""
        self._live.close()
        self._backend.close()
        self.force_exit = self.should_exit
        self.should_exit = True


async def _check(backend: WebBackend, options: ServerOptions) -> None:
    """Refuse to listen on an address that other machines can reach if no user could sign in."""
    names_people = options.proxy is not None and bool(options.proxy.header)
    if options.is_local or names_people or await backend.has_tokens():
        return
    raise InvalidValue(
        f"other machines can reach {options.host}, but nobody could sign in: create a token "
        "(duly tokens create NAME --role admin), trust a proxy (--trust-header), or listen on "
        "127.0.0.1"
    )


def _listen(options: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((options.host, options.port))
    except OSError as error:
        found.close()
        free = _free_port(family, options) if error.errno == errno.EADDRINUSE else None
        other = "choose another with --port" if free is None else f"--port {free} is free"
        raise InvalidValue(
            f"cannot listen on {options.host}:{options.port}: {error.strerror}; {other}"
        ) from None
    found.listen(BACKLOG)
    found.set_inheritable(False)
    return found


def _free_port(family: socket.AddressFamily, options: ServerOptions) -> int | None:
    """Return the next port that no program listens on; None if all near ones are taken."""
    for port in range(options.port + 1, min(options.port + NEAR_PORTS, LAST_PORT) + 1):
        with socket.socket(family, socket.SOCK_STREAM) as tried, suppress(OSError):
            tried.bind((options.host, port))
            return port
    return None
