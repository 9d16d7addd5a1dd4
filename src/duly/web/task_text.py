r"""Text from tasks, made safe to show: names, errors, log lines.

The text may hold any characters. Secrets are hidden. Control characters, marks of text direction
and invisible characters are shown by their code point: ``⟨U+202E⟩``. ANSI colours become CSS
classes in logs.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from markupsafe import Markup, escape

from duly.policy.redaction import redacted

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
