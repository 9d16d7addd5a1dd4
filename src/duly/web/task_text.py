r"""What tasks have said, as text: names, errors, lines of a log.

Anything may be in it. Secrets are hidden; what would command a terminal, turn the direction of what
follows or not be seen at all is shown by its number: ``⟨U+202E⟩``. The colours of a terminal become
classes where there is room for them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from markupsafe import Markup, escape

from duly.policy.redaction import redacted

# Controls but tab and newline; marks of direction; what has no width, but not what joins letters.
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb]"
)
_ESCAPE: Final = "\x1b"
# A command to a terminal: what changes colours ends with m; titles and links end with a bell.
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
_SKIPPED: Final = {"5": 1, "2": 3}  # how many numbers a colour from a palette takes


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
    """As text that shows everything that is in it but secrets."""
    return _ODD.sub(_sign, redacted(_lines(text or "")))


def sentence(text: str | None) -> str:
    """The same with a capital and an end; secrets are found before anything is changed."""
    said = shown(text).strip()
    return said[:1].upper() + said[1:] + ("" if not said or said[-1] in ".?!…" else ".")


def bare(text: str | None) -> str:
    """The same without the commands to a terminal."""
    return shown(_COMMAND.sub("", text or ""))


def as_json(value: object) -> str:
    """JSON for people. It shows everything that is in it, and can be read as JSON again."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def coloured(text: str | None) -> Markup:
    """The same, with the colours as classes."""
    text = _lines(text or "")
    if _ESCAPE not in text:
        return escape(shown(text))
    pieces = list(_pieces(text))
    plain = "".join(words for words, _ in pieces)
    if redacted(plain) != plain:  # a secret may begin in one colour and end in another
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
    """Backgrounds are left out: a page has its own, and letters are to be read on it."""
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
