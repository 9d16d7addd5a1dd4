r"""The templates, and how values are written in them: times, durations, states, text of tasks.

A time is shown in the zone that the reader chose; its tooltip has the full date and UTC.

Text from tasks (names, errors, log lines) may hold any characters. Secrets are hidden. Control
characters, marks of text direction and invisible characters are shown by their code point:
``⟨U+202E⟩``. ANSI colours become CSS classes in logs.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import HTTPConnection

from duly.clock import now
from duly.durations import about
from duly.model.job_filter import quoted
from duly.policy.redaction import redacted
from duly.policy.why import LocalClock
from duly.rules import local_time
from duly.version import __version__
from duly.web.request import DisplayPreferences, WebRequest, segment

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


# Control characters but tab and newline; direction marks; zero-width characters but joiners.
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb]"
)
_ESCAPE: Final = "\x1b"
# A terminal escape: a change of colours ends with m; titles and links end with a bell.
_COMMAND = re.compile(
    r"\x1b\[ (?P<numbers>[0-9;:]*+) (?P<end>m) | \x1b\[ [0-?]*+[ -/]*+[@-~] "
    r"| \x1b\] [^\x07\x1b]*+ (?:\x07|\x1b\\)? | \x1b [()][0-9A-Za-z] | \x1b [=>78cDEHMNOZ]",
    re.VERBOSE,
)
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_CHANGES: Final[dict[str, dict[str, Any]]] = {
    "1": {"bold": True},
    "2": {"faint": True},
    "4": {"underlined": True},
    "22": {"bold": False, "faint": False},
    "24": {"underlined": False},
    "39": {"colour": ""},
    **{f"{row}{at}": {"colour": name} for row in (3, 9) for at, name in enumerate(_COLOURS)},
}
_SKIPPED: Final = {"5": 1, "2": 3}  # numbers that follow 38 or 48 for a palette or RGB colour


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsiStyle:
    colour: str = ""
    bold: bool = False
    faint: bool = False
    underlined: bool = False

    @property
    def classes(self) -> str:
        said = (self.colour and f"ansi-{self.colour}", self.bold and "ansi-bold")
        more = (self.faint and "ansi-faint", self.underlined and "ansi-underlined")
        return " ".join(word for word in (*said, *more) if word)


_PLAIN: Final = AnsiStyle()


def shown(text: str | None) -> str:
    """Return the text with secrets hidden and invisible characters shown."""
    return _ODD.sub(_sign, redacted(_lines(text or "")))


def sentence(text: str | None) -> str:
    """Return ``shown(text)`` as a sentence: with a capital letter and a full stop."""
    said = shown(text).strip()
    return said[:1].upper() + said[1:] + ("" if not said or said[-1] in ".?!…" else ".")


def bare(text: str | None) -> str:
    """Return ``shown(text)`` without terminal escapes."""
    return shown(_COMMAND.sub("", text or ""))


def as_json(value: object) -> str:
    """Return indented JSON in which invisible characters are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def coloured(text: str | None) -> Markup:
    """Return the text as HTML, with ANSI colours as CSS classes."""
    text = _lines(text or "")
    if _ESCAPE not in text:
        return escape(shown(text))
    pieces = list(_pieces(text))
    plain = "".join(words for words, _ in pieces)
    if redacted(plain) != plain:  # a secret may span several colours
        return escape(shown(plain))
    return Markup("").join(_painted(words, style) for words, style in pieces)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _sign(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"


def _pieces(text: str) -> Iterator[tuple[str, AnsiStyle]]:
    style, at = _PLAIN, 0
    for found in _COMMAND.finditer(text):
        yield text[at : found.start()], style
        style = _changed(style, found["numbers"]) if found["end"] else style
        at = found.end()
    yield text[at:], style


def _painted(words: str, style: AnsiStyle) -> Markup:
    said = escape(_ODD.sub(_sign, words))
    if style == _PLAIN or not words:
        return said
    return Markup('<span class="{}">{}</span>').format(style.classes, said)


def _changed(style: AnsiStyle, numbers: str) -> AnsiStyle:
    """Apply an escape's numbers to the style; background colours are ignored."""
    said = iter(re.split("[;:]", numbers))
    for number in said:
        if number in ("38", "48"):
            for _ in range(_SKIPPED.get(next(said, ""), 0)):
                next(said, "")
        else:
            style = _with(style, number)
    return style


def _with(style: AnsiStyle, number: str) -> AnsiStyle:
    number = number.lstrip("0")
    return replace(style, **_CHANGES.get(number, {})) if number else _PLAIN
