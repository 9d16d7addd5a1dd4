"""The templates, and how times, durations and states are written in them.

A time is shown in the zone that the reader chose; its tooltip has the full date and UTC.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import HTTPConnection

from duly.clock import now
from duly.model.job_filter import quoted
from duly.policy.redaction import redacted
from duly.policy.why import LocalClock, about
from duly.rules import local_time
from duly.version import __version__
from duly.web.request import DisplayPreferences, WebRequest, segment
from duly.web.task_text import as_json, coloured, sentence, shown

# Each state has a shape besides its colour, for readers who cannot tell colours apart.
SHAPES: Final = {
    "succeeded": "●", "running": "◐", "ready": "○", "scheduled": "◷", "blocked": "◫",
    "failed": "✕", "cancelled": "⊘", "expired": "⌛", "queued": "●", "merged": "⊕", "skipped": "▲",
    "late": "◒", "overdue": "▲", "in progress": "◐", "paused": "❚❚", "none": "·",
    "working": "●", "draining": "◒", "stopping": "◌", "stopping now": "◌", "gone": "✕",
    "OK": "●", "warning": "▲", "error": "✕", "valid": "●", "revoked": "⊘",
}  # fmt: skip


def render(template: str, request: WebRequest, values: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(_common(request), **values)


def render_main(template: str, request: WebRequest, values: Mapping[str, Any]) -> str:
    """Render the live parts of a page: its block ``main`` and the banner."""
    found = _environment().get_template(template)
    common = {**_common(request), **values}
    banner = _environment().get_template("banner.html").render(common)
    main = "".join(found.blocks["main"](found.new_context(common)))
    return f'<hx-partial hx-target="#banner" hx-swap="innerHTML">{banner}</hx-partial>{main}'


def render_bare(template: str, request: HTTPConnection, **values: object) -> str:
    """Render a page without user data, for a client that is not signed in or not allowed."""
    root = request.scope.get("root_path", "")
    preferences = DisplayPreferences.of(request)
    return (
        _environment()
        .get_template(template)
        .render(
            at=lambda path: f"{root}{path}", preferences=preferences, version=__version__, **values
        )
    )


def when(request: WebRequest, moment: datetime | None, zone: str | None = None) -> str:
    """Return a time in short form, with the full time as tooltip."""
    if moment is None:
        return Markup('<span class="none">–</span>')
    clock = LocalClock(request.zone_of(zone), now())
    text = clock.near(moment.replace(microsecond=0))
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment.isoformat(), _whole(moment, clock.zone), text
    )


def countdown(request: WebRequest, moment: datetime | None, zone: str | None = None) -> str:
    """Return ``in 3 min`` or ``12 s ago``, with the full time as tooltip."""
    if moment is None:
        return Markup('<span class="none">–</span>')
    away = moment - now()
    span = _coarse(abs(away))
    text = (
        "now" if not span else f"in {about(span)}" if away > timedelta() else f"{about(span)} ago"
    )
    return Markup('<time class="away" datetime="{}" title="{}">{}</time>').format(
        moment.isoformat(), _whole(moment, request.zone_of(zone)), text
    )


def elapsed(moment: datetime) -> str:
    """Return how long ago something started: ``4 min``."""
    return about(max(_coarse(now() - moment), timedelta(seconds=1)))


def length(span: timedelta | None) -> str:
    return Markup('<span class="none">–</span>') if span is None else escape(about(span))


def state(name: str) -> str:
    """Return a state as a word and a shape."""
    return Markup('<span class="state {}"><i aria-hidden="true">{}</i>{}</span>').format(
        name.replace(" ", "-"), SHAPES.get(name, "·"), name
    )


def pretty(text: str | None) -> str:
    """Return JSON indented, other text unchanged; secrets are hidden in both."""
    try:
        return redacted(as_json(json.loads(text or "null")))
    except ValueError:
        return shown(text)


def _common(request: WebRequest) -> dict[str, Any]:
    return {
        "request": request,
        "preferences": request.preferences,
        "at": request.at,
        "may": request.may,
        "user": request.user,
        "version": __version__,
        "when": lambda *args: when(request, *args),
        "countdown": lambda *args: countdown(request, *args),
        "on_the_clock": lambda moment, zone: _on_the_clock(moment, request.zone_of(zone)),
    }


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("duly.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "length": length,
        "state": state,
        "pretty": pretty,
        "segment": segment,
        "shown": shown,
        "sentence": sentence,
        "coloured": coloured,
        "filtered": quoted,
        "count": lambda number: f"{number:,}",
        "size": len,
    }
    found.globals |= {"elapsed": elapsed, "SHAPES": SHAPES}
    # A block that is rendered alone does not see the imports of its page.
    macros = found.get_template("macros.html").module
    found.globals |= {
        name: getattr(macros, name)
        for name in ("act", "sheet", "empty", "nothing_scheduled", "schedule_tabs", "table")
    }
    return found


def _whole(moment: datetime, zone: str) -> str:
    return f"{_on_the_clock(moment, zone)} · {moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _on_the_clock(moment: datetime, zone: str) -> str:
    return f"{local_time(moment, zone):%a %Y-%m-%d %H:%M:%S} {zone}"


def _coarse(span: timedelta) -> timedelta:
    """Cut to whole seconds: a page that updates every second shows no fractions."""
    return timedelta(seconds=int(span.total_seconds()))
