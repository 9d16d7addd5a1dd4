"""The text of a rule: its size limit, its zone and ``dst=`` at the end, and common errors.

The text of every rule may end with a zone and a policy for clock changes:
``30 2 * * * Europe/Berlin dst=systemd``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from duly.errors import RuleError, ZoneMissing
from duly.rules.zone import Dst, dst_policy, places_of, unknown_zone, zone_names

LONGEST = 256
_ZONE_LIKE = re.compile(r"[A-Za-z][A-Za-z_]+(/[A-Za-z][A-Za-z0-9_+-]*)+|(UTC|GMT)[+-]\d[\d:]*")


@dataclass(frozen=True)
class RuleText:
    """The parts of a rule's text; ``start`` is the position of the body, for error messages."""

    text: str
    body: str
    start: int
    zone: str | None
    dst: str
    names_zone: bool  # whether the text itself has the zone


def read(text: str, *, zone: str | None, dst: str, longest: int = LONGEST) -> RuleText:
    """Check the size and the characters of a text, and split off its zone and ``dst=``."""
    check_size(text, longest)
    zone = checked_zone(zone)
    body = text.rstrip()
    head, last = _last_word(body)
    if last.startswith("dst="):
        dst, body = last.removeprefix("dst="), head
        head, last = _last_word(body)
    try:
        dst_policy(dst, fixed=True)
    except RuleError as error:
        position = len(text.partition("dst=")[0])
        raise RuleError(error.message, text=text, position=position) from None
    named = _as_zone(last, text, len(body) - len(last)) if head else None
    if named:
        zone, body = named, head
        head, last = _last_word(body)
        if head and last in zone_names():
            raise RuleError(
                f'"{text}" has two time zones, {last} and {zone}; a rule has one',
                text=text,
                position=len(body) - len(last),
            )
    stripped = body.lstrip()
    return RuleText(text, stripped, len(body) - len(stripped), zone, dst, named is not None)


def _last_word(text: str) -> tuple[str, str]:
    head, *last = text.rsplit(None, 1)[-2:] if text.strip() else [""]
    return (head.rstrip(), last[0]) if last else ("", head)


def checked_zone(zone: str | None) -> str | None:
    """Return the canonical name of a zone, or refuse an unknown one."""
    name: str | None = getattr(zone, "key", zone)  # a ZoneInfo knows its name
    if name is None:
        return None
    if type(name) is not str:
        raise RuleError(f'zone={zone!r} is not a name such as "Europe/Berlin" or "UTC"')
    if name in zone_names():
        return name
    if name.upper() == "UTC":
        return "UTC"
    raise unknown_zone(name)


def check_size(text: str, longest: int = LONGEST) -> None:
    if not isinstance(text, str):
        raise RuleError(f"a rule is text, not {type(text).__name__}: {text!r}")
    if len(text) > longest:
        raise RuleError(
            f"a rule has at most {longest} characters; this one has {len(text)}",
            text=text[:longest],
            position=longest,
        )
    if not text.isascii():
        position = next(at for at, char in enumerate(text) if not char.isascii())
        raise RuleError(
            f'"{text[position]}" (character {position + 1} of "{text}") is not an ASCII character',
            text=text,
            position=position,
        )


def written(body: str, zone: str | None, dst: Dst) -> str:
    """Return text that parses back to the same rule."""
    tail = f" {zone}" if zone else ""
    tail += "" if dst.name == "cron" else f" dst={dst.name}"
    check_size(body + tail)  # else it could not be parsed again
    return body + tail


def zone_missing(source: RuleText, names: str) -> ZoneMissing:
    return ZoneMissing(
        f'"{source.body}" names {names}, so it needs a time zone: write '
        f'"{source.body} Europe/Berlin", or give the zone beside the rule (zone=, --zone)',
        text=source.text,
        position=source.start + len(source.body),
    )


def never_occurs(text: str) -> RuleError:
    return RuleError(
        f'"{text}" never occurs: no day between 1970 and 2199 is like that', text=text, position=0
    )


def close_to(word: str, known: Sequence[str]) -> list[str]:
    """Return the known word that was probably meant, as a list of at most one."""
    by_key = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_key, n=1, cutoff=0.6)
    if not found and 0 < len(word) <= 3:
        found = [key for key in by_key if key[0] == word[0].lower()][:1]
    return [by_key[key] for key in found]


def _as_zone(word: str, text: str, position: int) -> str | None:
    if word.upper() == "UTC":
        return "UTC"
    if word in zone_names():
        return word
    if _ZONE_LIKE.fullmatch(word) or places_of(word):
        raise unknown_zone(word, text=text, position=position)
    return None
