"""A request as pages and endpoints see it: who asks, for what, and how they like it shown.

A page that is kept up to date is made anew again and again without a request: so nothing here holds
on to one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, urlencode
from zoneinfo import available_timezones

from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection

from duly.app.acting import UserApp
from duly.model.access import Role, User
from duly.web.authentication import CSRF

Theme: TypeAlias = Literal["auto", "light", "dark"]

THEME: Final = "duly_theme"
ZONE: Final = "duly_zone"
OWN_ZONE: Final = "schedule"  # each time on the clock of its schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayPreferences:
    """How somebody likes to see things: kept in their browser."""

    theme: Theme = "auto"
    zone: str = OWN_ZONE  # or "UTC", or the name of any other

    @classmethod
    def of(cls, connection: HTTPConnection) -> "DisplayPreferences":
        theme = connection.cookies.get(THEME, "auto")
        zone = connection.cookies.get(ZONE, OWN_ZONE)
        return cls(
            theme="light" if theme == "light" else "dark" if theme == "dark" else "auto",
            zone=zone if zone in ("UTC", OWN_ZONE) or zone in available_timezones() else OWN_ZONE,
        )

    def zone_of(self, own: str | None) -> str:
        """The zone that a time is shown in; ``own`` is that of its schedule."""
        return (own or "UTC") if self.zone == OWN_ZONE else self.zone


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    app: UserApp
    preferences: DisplayPreferences
    root: str  # where the application is mounted; empty: at the top
    path: str  # below the root
    names: Mapping[str, str]  # what stands in the path
    query: QueryParams
    csrf: str
    is_htmx: bool = False
    is_form: bool = False
    last_event: str | None = None  # what a stream told last
    once: str | None = None  # the key under which it is asked once: Idempotency-Key

    @property
    def user(self) -> User:
        return self.app.user

    def may(self, role: Role) -> bool:
        return self.user.may(role)

    def at(self, path: str, /, **query: object) -> str:
        """The address of one of our pages: ``ask.at("/jobs", filter="state:failed")``."""
        said = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{self.root}{path}{'?' if said else ''}{urlencode(said)}"

    def zone_of(self, own: str | None = None) -> str:
        """The zone that a time is shown in; what has none of its own is on the app's clock."""
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
    """A name as a part of a path."""
    return quote(text, safe="")


def moment_of(text: str) -> datetime | None:
    """A moment in a query; None: it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
