"""The request as pages and endpoints see it: user, path, query and display preferences.

A live page is rendered again and again after its HTTP request, so nothing here refers to one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, urlencode
from zoneinfo import available_timezones

from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection

from duly.app.web_backend import UserApp
from duly.model.access import Role, User
from duly.web.authentication import CSRF

Theme: TypeAlias = Literal["auto", "light", "dark"]

THEME: Final = "duly_theme"
ZONE: Final = "duly_zone"
OWN_ZONE: Final = "schedule"  # show each time in the zone of its schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayPreferences:
    """Theme and time zone, kept in cookies of the browser."""

    theme: Theme = "auto"
    zone: str = OWN_ZONE  # or the name of a zone

    @classmethod
    def of(cls, connection: HTTPConnection) -> "DisplayPreferences":
        theme = connection.cookies.get(THEME, "auto")
        zone = connection.cookies.get(ZONE, OWN_ZONE)
        return cls(
            theme="light" if theme == "light" else "dark" if theme == "dark" else "auto",
            zone=zone if zone in ("UTC", OWN_ZONE) or zone in available_timezones() else OWN_ZONE,
        )

    def zone_of(self, own: str | None) -> str:
        """Return the zone that a time is shown in; ``own`` is that of its schedule."""
        return (own or "UTC") if self.zone == OWN_ZONE else self.zone


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    app: UserApp
    preferences: DisplayPreferences
    root: str  # the path that the application is mounted at; empty at the top
    path: str  # below the root
    names: Mapping[str, str]  # path parameters
    query: QueryParams
    csrf: str
    is_htmx: bool = False
    is_form: bool = False
    last_event: str | None = None  # Last-Event-ID of a stream
    once: str | None = None  # Idempotency-Key

    @property
    def user(self) -> User:
        return self.app.user

    def may(self, role: Role) -> bool:
        return self.user.may(role)

    def at(self, path: str, /, **query: object) -> str:
        """Return the URL of a page: ``request.at("/jobs", filter="state:failed")``."""
        said = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{self.root}{path}{'?' if said else ''}{urlencode(said)}"

    def zone_of(self, own: str | None = None) -> str:
        """Return the zone that a time is shown in; ``own`` defaults to the app's zone."""
        return self.preferences.zone_of(own or self.app.backend.zone)

    def name(self, which: str) -> str:
        return self.names[which]


def web_request(connection: HTTPConnection, app: UserApp) -> WebRequest:
    root = connection.scope.get("root_path", "")
    path = connection.scope["path"]
    return WebRequest(
        app=app,
        preferences=DisplayPreferences.of(connection),
        root=root,
        path=path.removeprefix(root) or "/",
        names=dict(connection.path_params),
        query=connection.query_params,
        csrf=connection.cookies.get(CSRF) or connection.scope.get("duly.csrf", ""),
        last_event=connection.headers.get("last-event-id") or None,
        once=connection.headers.get("idempotency-key") or None,
        is_htmx="hx-request" in connection.headers,
        is_form=connection.headers.get("content-type", "").startswith(
            "application/x-www-form-urlencoded"
        ),
    )


def segment(text: str) -> str:
    """Quote a name as one segment of a path."""
    return quote(text, safe="")


def moment_of(text: str) -> datetime | None:
    """Parse a datetime query parameter; None if it is not one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
