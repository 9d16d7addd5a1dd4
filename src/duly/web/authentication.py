"""Authentication of requests, and protection against cross-site requests.

A program sends an access token in the header ``Authorization``. A person signs in with one; from
then on the browser sends the secret of a session, in a cookie that scripts cannot read. The store
keeps the secret's hash until they sign out. Or a trusted proxy names the user. An application that
is mounted with ``auth=`` calls only that function: it accepts tokens of duly only if asked to.

A browser also sends its cookies when another site triggers the request. So a change needs an
``Origin`` of ours and the CSRF token, which is in a cookie and in every form of our pages.
"""

import inspect
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from duly.app.web_backend import WebBackend
from duly.clock import boottime
from duly.errors import DulyError, InvalidValue
from duly.model.access import How, Role, User, hash_of

SESSION: Final = "duly_session"
CSRF: Final = "duly_csrf"
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

AuthFunction: TypeAlias = Callable[[HTTPConnection], Awaitable[User | None] | User | None]


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user; ``ambient`` if the browser sent the credentials by itself."""

    user: User
    how: How
    ambient: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    """The networks of trusted proxies, and the headers that are believed from them.

    The headers are ``X-Forwarded-For`` (the client's address), ``X-Forwarded-Proto`` (https if the
    client used TLS) and ``header`` (the user's name). From any other address they are ignored.
    """

    networks: tuple[str, ...]
    header: str = ""  # name of the user header; if empty, users sign in with a token
    role: Role = "viewer"  # of the users that the header names

    def __post_init__(self) -> None:
        if not self.networks:
            raise InvalidValue("a trusted header needs the networks of the proxies that set it")
        User("proxy", self.role)
        self._networks()

    def user(self, connection: HTTPConnection) -> User | None:
        name = connection.headers.get(self.header, "").strip() if self.header else ""
        return User(name, self.role) if name and self._trusts(_peer(connection)) else None

    def address(self, connection: HTTPConnection) -> str:
        """Return the client's address: the last one that no trusted proxy added."""
        address = _peer(connection)
        said = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
        for one in reversed(said):
            if not self._trusts(address) or not one.strip():
                break
            address = one.strip()
        return address

    def is_secure(self, connection: HTTPConnection) -> bool:
        """Return whether the browser uses TLS with a trusted proxy."""
        said = connection.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        return said == "https" and self._trusts(_peer(connection))

    def _trusts(self, text: str) -> bool:
        try:
            address = ip_address(text)
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return any((mapped or address) in network for network in self._networks())

    def _networks(self) -> list[IPv4Network | IPv6Network]:
        return [ip_network(one) for one in self.networks]


class Authenticator:
    """Finds the user of a request.

    ``launch`` is the secret of this server start, which signs in as admin. ``host`` is the outer
    application's function, which is asked instead of everything else; with ``tokens``, access
    tokens in the header ``Authorization`` are accepted, too.
    """

    def __init__(
        self,
        backend: WebBackend,
        *,
        launch: str | None = None,
        proxy: TrustedProxy | None = None,
        host: AuthFunction | None = None,
        tokens: bool = False,
    ) -> None:
        self._backend = backend
        self._launch = launch
        self._proxy = proxy
        self._host = host
        self._tokens = tokens
        self.failed_sign_ins: FailedSignIns = FailedSignIns()

    @property
    def takes_tokens(self) -> bool:
        """True if users sign in here, and not in an outer application."""
        return self._host is None

    async def caller(self, connection: HTTPConnection) -> Caller | None:
        secret = _bearer(connection)
        if secret is not None and (self._host is None or self._tokens):
            user = await self.user_of(secret)
            if user is not None:
                return Caller(user, "token", ambient=False)
        if self._host is not None:
            found = self._host(connection)
            user = await found if inspect.isawaitable(found) else found
            if user is not None and not isinstance(user, User):
                raise TypeError(f"auth returned {user!r}: expected a duly.User, or None")
            # A browser never sends a Bearer token by itself, and another site cannot make it.
            return None if user is None else Caller(user, "http", ambient=secret is None)
        if secret is not None:
            return None
        if self._proxy is not None and (user := self._proxy.user(connection)) is not None:
            return Caller(user, "http", ambient=True)
        user = await self._user_of_session(connection)
        return None if user is None else Caller(user, "person", ambient=True)

    async def still_knows(self, connection: HTTPConnection, caller: Caller) -> bool:
        """Return whether the token or session is still valid; always true for proxies and hosts."""
        if caller.how == "http":
            return True
        secret = _bearer(connection)
        try:
            if secret is None:
                user = await self._user_of_session(connection)
            else:
                user = await self.user_of(secret)
        except DulyError:  # the store is unavailable; the stream would be empty anyway
            return True
        return user == caller.user

    async def user_of(self, secret: str) -> User | None:
        """Return the user of a token's secret, if it is valid now."""
        if self.is_launch(secret):
            return User("admin", "admin")
        token = await self._backend.token(secret) if secret else None
        return None if token is None else User(token.name, token.role, token.tenant)

    async def _user_of_session(self, connection: HTTPConnection) -> User | None:
        found = await self._backend.session(connection.cookies.get(SESSION, ""))
        if found is None:
            return None
        holder, token = found
        if self._launch is not None and holder == hash_of(self._launch):
            return User("admin", "admin")
        return None if token is None else User(token.name, token.role, token.tenant)

    def address(self, connection: HTTPConnection) -> str:
        """Return the client's address, as reported by trusted proxies."""
        return _peer(connection) if self._proxy is None else self._proxy.address(connection)

    def is_secure(self, connection: HTTPConnection) -> bool:
        """Return whether the browser uses TLS, with this server or with a trusted proxy."""
        by_proxy = self._proxy is not None and self._proxy.is_secure(connection)
        return connection.url.scheme == "https" or by_proxy

    def is_launch(self, secret: str) -> bool:
        return self._launch is not None and secrets.compare_digest(
            secret.encode(), self._launch.encode()
        )


def _bearer(connection: HTTPConnection) -> str | None:
    """Return the Bearer token of the request, if it has one."""
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def is_ours(connection: HTTPConnection) -> bool:
    """Return whether Origin or Referer is this site; false if the request has neither."""
    said = connection.headers.get("origin") or connection.headers.get("referer")
    if not said or said == "null":
        return False
    try:
        return urlsplit(said).netloc == connection.headers.get("host", "")
    except ValueError:  # not a URL
        return False


def knows_csrf(connection: HTTPConnection, said: str) -> bool:
    """Return whether the CSRF token of the form or header is the one in the cookie."""
    cookie = connection.cookies.get(CSRF, "")
    return bool(cookie) and secrets.compare_digest(cookie.encode(), said.encode())


def _peer(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else "?"


MOST_ATTEMPTS = 10
WINDOW_SECONDS = 300.0
MOST_ADDRESSES = 10_000


class FailedSignIns:
    """Limits wrong tokens in the sign-in form, by client address.

    A token of 32 random bytes cannot be guessed, but each attempt costs work. Tokens in headers are
    not counted: a program with an old token would lock out the people at the same address.
    """

    def __init__(self) -> None:
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def note(self, address: str) -> None:
        """Record a wrong token from this address."""
        times = self._failed.setdefault(address, deque(maxlen=MOST_ATTEMPTS))
        times.append(boottime())
        self._failed.move_to_end(address)
        while len(self._failed) > MOST_ADDRESSES:
            self._failed.popitem(last=False)

    def wait(self, address: str) -> int:
        """Return how many seconds wrong tokens from this address are still refused; 0 if not."""
        times = self._failed.get(address)
        if times is None or len(times) < MOST_ATTEMPTS:
            return 0
        return max(0, int(times[0] + WINDOW_SECONDS - boottime()) + 1)
