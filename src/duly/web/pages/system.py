"""System: checks of the database, the audit log, access tokens and settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import HTMLResponse, Response

from duly.clock import now
from duly.errors import InvalidValue
from duly.model.access import ROLES, AuditEntry, Role, Token
from duly.settings import Settings
from duly.settings.settings import keys
from duly.web.rendering import render
from duly.web.request import WebRequest, segment
from duly.web.routes import PageRouter, Values, WebServices, field_of

SYSTEM: Final = PageRouter()
ENTRIES: Final = 50  # on a page of the audit log
NEVER: Final = "never"
LEVELS: Final = {"ok": "OK", "warning": "warning", "problem": "error"}

# Labels of the retention settings; the page lists all other settings separately.
RETENTION: Final = {
    "keep_history": "Jobs that have ended",
    "keep_failed": "Jobs that have failed",
    "keep_fires": "The history of what was due",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    path: str
    name: str
    role: Role


TABS: Final = (
    Tab(path="/system", name="Doctor", role="viewer"),
    Tab(path="/system/audit", name="Audit", role="admin"),
    Tab(path="/system/tokens", name="Tokens", role="admin"),
    Tab(path="/system/settings", name="Settings", role="admin"),
)


@SYSTEM.page("/system", "system.html")
async def show_doctor(request: WebRequest) -> Values:
    found = await request.app.ask(request.app.backend.rounds.look)
    return {**_tabs(), "checkup": found, "levels": LEVELS}


@SYSTEM.page("/system/audit", "system_audit.html")
async def show_audit(request: WebRequest) -> Values:
    if not request.may("admin"):
        return _tabs()
    who, subject = request.query.get("who") or None, request.query.get("subject") or None
    found = await request.app.audit.alist(
        before=_number(request, "before"), limit=ENTRIES + 1, who=who, subject=subject
    )
    entries = found[:ENTRIES]
    older = entries[-1].number if len(found) > ENTRIES else None
    return {
        **_tabs(),
        "entries": entries,
        "who": who or "",
        "subject": subject or "",
        "newest": "before" not in request.query,
        "older": request.at("/system/audit", who=who, subject=subject, before=older)
        if older
        else "",
        "page_of": lambda entry: page_of(request, entry),
    }


@SYSTEM.page("/system/tokens", "system_tokens.html")
async def show_tokens(request: WebRequest) -> Values:
    if not request.may("admin"):
        return _tabs()
    with_revoked = request.query.get("all") == "1"
    found = await request.app.tokens.alist(revoked=with_revoked)
    return {**_tabs(), "tokens": found, "with_revoked": with_revoked, "standing": _standing}


@SYSTEM.page("/system/settings", "system_settings.html")
async def show_settings(request: WebRequest) -> Values:
    if not request.may("admin"):
        return _tabs()
    settings = request.app.backend.settings
    return {
        **_tabs(),
        "file": settings.file,
        "folder": settings.folder,
        "retention": [_line(settings, name, said) for name, said in RETENTION.items()],
        "lines": [
            _line(settings, name, key.about)
            for name, key in keys().items()
            if name not in RETENTION
        ],
    }


@SYSTEM.page("/system/tokens/new", "system_token.html", "admin")
async def ask_for_token(_: WebRequest) -> Values:
    return {"roles": ROLES}


@SYSTEM("POST /system/tokens", "admin")
async def make_token(_: WebServices, request: WebRequest, body: bytes) -> Response:
    """Create a token and return a sheet with its secret.

    The sheet is beside the page, so the secret, which is shown only once, stays until it is copied.
    """
    expires = field_of(body, "expires").strip()
    made = await request.app.tokens.acreate(
        field_of(body, "name").strip(),
        role=_role(field_of(body, "role")),
        tenant=field_of(body, "tenant").strip() or None,
        expires=None if expires in ("", NEVER) else expires,
    )
    values = {"token": made.token, "secret": made.secret}
    return HTMLResponse(render("system_token_made.html", request, values))


def page_of(request: WebRequest, entry: AuditEntry) -> str:
    """Return the URL of the page of the changed object; empty if it has none."""
    kind, _, name = entry.subject.partition(":")
    found = _PAGES.get(kind)
    return request.at(found(name)) if found and name else ""


_PAGES: Final[Mapping[str, Callable[[str], str]]] = {
    "schedule": lambda name: f"/schedules/{segment(name)}",
    "job": lambda name: f"/jobs/{segment(name)}",
    "queue": lambda _: "/capacity",
    "limit": lambda _: "/capacity",
    "worker": lambda _: "/capacity",
    "token": lambda _: "/system/tokens",
}


def _tabs() -> dict[str, object]:
    return {"tabs": TABS}


def _standing(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "valid" if token.is_valid(now()) else "expired"


def _line(settings: Settings, name: str, said: str) -> tuple[str, str, str, str]:
    return name, settings.shown(name), settings.origin(name), said


def _role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise InvalidValue(f"role={text!r}: choose one of {', '.join(ROLES)}")


def _number(request: WebRequest, name: str) -> int | None:
    text = request.query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidValue(f"{name}={text}: the number of an entry")
    return int(text)
