"""systemd unit files: sections of ``Key=value``, templates, drop-ins and time spans.

Units are given as texts by file name. A drop-in is named with its folder,
``backup.timer.d/more.conf``, and adds to its unit; an empty value resets earlier values.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Final

_SHOWN_PATH: Final = re.compile(r"^# (/\S+\.(?:timer|service|conf))$", re.MULTILINE)
_SPECIFIER: Final = re.compile(r"%([A-Za-z%])")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµμ]*)\s*", re.ASCII)
_ESCAPED: Final = re.compile(r"\\x([0-9a-fA-F]{2})")

_UNITS: Final = {
    "us usec": 0.000001,
    "ms msec": 0.001,
    "s sec second seconds": 1,
    "m min minute minutes": 60,
    "h hr hour hours": 3600,
    "d day days": 86400,
    "w week weeks": 7 * 86400,
    "M month months": 30.44 * 86400,
    "y year years": 365.25 * 86400,
}
_SECONDS: Final = {name: length for names, length in _UNITS.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit with the settings of all its files, in order."""

    name: str
    settings: tuple[tuple[str, str, str], ...]  # section, key, value
    unfilled: tuple[str, ...] = ()  # specifiers such as %h whose values are unknown here

    def all(self, section: str, *keys: str) -> list[tuple[str, str]]:
        """Return the keys and values in order, without those that were reset."""
        found: list[tuple[str, str]] = []
        for section_, key, value in self.settings:
            if section_ == section and key in keys:
                found = [*found, (key, value)] if value else [p for p in found if p[0] != key]
        return found

    def values(self, section: str, key: str) -> list[str]:
        return [value for _, value in self.all(section, key)]

    def last(self, section: str, key: str) -> str | None:
        return next(reversed(self.values(section, key)), None)

    def says(self, section: str, key: str) -> bool:
        """Return whether a boolean setting is on."""
        return (self.last(section, key) or "").lower() in ("1", "yes", "y", "true", "t", "on")

    def keys(self, section: str) -> list[str]:
        named = dict.fromkeys(key for section_, key, _ in self.settings if section_ == section)
        return [key for key in named if self.values(section, key)]


def by_file_name(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts by unit file name, without their folders."""
    return {_file_name(path): text for path, text in texts.items()}


def split_shown(text: str) -> dict[str, str]:
    """Split the output of ``systemctl cat`` at the ``# /path`` above each file."""
    _, *pieces = _SHOWN_PATH.split(text)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def find_unit(name: str, files: Mapping[str, str]) -> Unit | None:
    """Return a unit, perhaps an instance of a template, with its drop-ins."""
    template = re.sub(r"@.+\.", "@.", name)
    main = next((files[known] for known in (name, template) if known in files), None)
    if main is None:
        return None
    added = [
        text
        for known in dict.fromkeys((template, name))
        for path, text in sorted(files.items())
        if path.startswith(f"{known}.d/")
    ]
    settings = [setting for text in (main, *added) for setting in _read(text)]
    known = _specifiers(name)
    unfilled = (
        found[0]
        for section, _, value in settings
        for found in _SPECIFIER.finditer(value)
        if section != "Install" and found[1] not in known
    )
    filled = (
        (section, key, _SPECIFIER.sub(_filler(key, known), value))
        for section, key, value in settings
    )
    return Unit(name, tuple(filled), tuple(dict.fromkeys(unfilled)))


def read_span(text: str) -> timedelta | None:
    """Read ``1h 30min`` or ``90`` (seconds); None for other text, and for infinity."""
    seconds, at, body = 0.0, 0, text.strip()
    while at < len(body) and (found := _SPAN.match(body, at)):
        if (found[2] or "s") not in _SECONDS:
            return None
        seconds += float(found[1]) * _SECONDS[found[2] or "s"]
        at = found.end()
    return timedelta(seconds=seconds) if body and at == len(body) and seconds < 1e10 else None


def _file_name(path: str) -> str:
    parts = PurePosixPath(path).parts
    return "/".join(parts[-2:]) if len(parts) > 1 and parts[-2].endswith(".d") else parts[-1]


def _read(text: str) -> list[tuple[str, str, str]]:
    settings, section = [], ""
    # Comments are allowed between the lines of one value.
    kept = "\n".join(line for line in text.splitlines() if line.lstrip()[:1] not in ("#", ";"))
    for line in re.sub(r"\\\n", " ", kept).splitlines():
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
        elif "=" in stripped:
            key, _, value = stripped.partition("=")
            settings.append((section, key.strip(), value.strip()))
    return settings


def _specifiers(name: str) -> dict[str, str]:
    """Return the specifiers that follow from the name of the unit."""
    whole = name.rpartition(".")[0]
    prefix, at, instance = whole.partition("@")
    known = {"%": "%", "n": name, "N": whole, "p": prefix, "P": _unescaped(prefix)}
    known["j"] = prefix.rpartition("-")[2]
    return known | ({"i": instance, "I": _unescaped(instance)} if at else {})


def _filler(key: str, known: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    """Return the substitution for specifiers; values inside command lines are escaped."""
    words = key.startswith(("Exec", "Environment"))

    def fill(found: re.Match[str]) -> str:
        text = known.get(found[1], found[0])
        return re.sub(r"([\\\s\"'])", _escape, text) if words else text

    return fill


def _escape(found: re.Match[str]) -> str:
    return "\\s" if found[1].isspace() else f"\\{found[1]}"


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text.replace("-", "/"))
