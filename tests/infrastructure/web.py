"""A web side under test: the application itself, on a store of its own, and people with tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.testclient import TestClient

from duly import Duly
from duly.app.web_backend import WebBackend
from duly.model.access import Role
from duly.web import Authenticator, make_application
from duly.web.authentication import AuthFunction, TrustedProxy
from tests.infrastructure.tables import with_tables

ORIGIN = "http://testserver"


@dataclass(frozen=True, slots=True)
class Site:
    """``app`` declares what is there; ``client`` asks as nobody, unless it says who."""

    app: Duly
    client: TestClient

    def token(self, name: str, role: Role, tenant: str | None = None) -> str:
        return self.app.tokens.create(name, role=role, tenant=tenant).secret

    def bearer(self, name: str, role: Role, tenant: str | None = None) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token(name, role, tenant)}"}

    def sign_in(self, name: str, role: Role) -> dict[str, str]:
        """As a browser does it: the headers that a page of ours sends."""
        secret = self.token(name, role)
        self.client.get("/login")
        csrf = self.client.cookies["duly_csrf"]
        form = {"token": secret, "csrf": csrf}
        answer = self.client.post(
            "/login", data=form, headers={"origin": ORIGIN}, follow_redirects=False
        )
        assert answer.status_code == 303, answer.text
        return {"origin": ORIGIN, "x-csrf-token": csrf}


@contextmanager
def site(
    app: Duly,
    *,
    launch: str | None = None,
    proxy: TrustedProxy | None = None,
    host: AuthFunction | None = None,
) -> Iterator[Site]:
    backend = WebBackend(app._lazy, app.registry, zone=app.zone)
    authenticator = Authenticator(backend, launch=launch, proxy=proxy, host=host)
    application, _ = make_application(backend, authenticator, longest=2)
    with TestClient(application, base_url=ORIGIN) as client:
        yield Site(app, client)
    app.close()


@contextmanager
def site_at(path: Path) -> Iterator[Site]:
    if not path.exists():
        with_tables(path)
    with site(Duly(str(path))) as found:
        yield found
