"""Parsing the text of any rule.

    30 2 * * 1-5 Europe/Berlin                 five or six fields, or @daily: a cron line
    Mon..Fri 09:00 Europe/Berlin               anything else: a calendar expression
    every 5m · spaced 10m                      a fixed rate · a fixed delay
    on invoice.paid                            when an event happens
    2026-12-24T18:00+01:00                     once
    DTSTART:20260105T090000Z RRULE:FREQ=DAILY  a recurrence
    holidays(DE-BE) · dates(2026-12-24)        days, to exclude

Modifiers may follow a rule: ``start=``, ``end=``, ``count=``, ``delay=``, ``jitter=`` with
``seed=``, ``lasting=``. Rules are joined with `` | `` and subtracted with `` - ``, from left to
right, and grouped by parentheses. ``parse`` reads what ``str`` of a rule returns.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from duly.errors import RuleError, ZoneMissing
from duly.rules.budget import Budget
from duly.rules.calendar import calendar
from duly.rules.cron import cron
from duly.rules.dates import dates, holidays
from duly.rules.event_rule import BEGINNING, parse_on
from duly.rules.interval import Spaced, every, spaced
from duly.rules.modifiers import bounded, delayed, jitter, lasting
from duly.rules.once import MOMENT, at, read_moment
from duly.rules.recurrence import rrule
from duly.rules.rule import Rule
from duly.rules.rule_text import check_size, checked_zone, read
from duly.rules.zone import dst_policy

LONGEST = 4096
DEEPEST = 16
MOST_TERMS = 16

_MODIFIER = re.compile(r"(?P<key>start|end|count|delay|jitter|seed|lasting)=(?P<value>\S*)")
_UNKNOWN_MODIFIER = re.compile(r"(?P<key>(?!dst=)[a-z_]+)=\S*")
_STUCK = re.compile(r"[|-](?:[A-Za-z(]|\*)")
_PREFIX = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S+)\s+", re.ASCII)
_DAYS = re.compile(r"(?P<kind>dates|holidays)\((?P<inside>[^()]*)\)")


def parse(
    text: str, *, zone: str | None = None, dst: str = "cron", name: str | None = None
) -> Rule | Spaced:
    """Read a rule of any kind. ``zone`` is used where the text names none, ``name`` for ``H``."""
    check_size(text, LONGEST)
    zone = checked_zone(zone)
    dst_policy(dst, fixed=True)
    try:
        with Budget():  # parsing evaluates some rules
            return _read(text, zone, dst, name)
    except RuleError as error:
        raise _moved(error, text, 0) from None


@lru_cache(maxsize=512)
def _read(text: str, zone: str | None, dst: str, name: str | None) -> Rule | Spaced:
    """Parse a text; cached, because rules are immutable."""
    found = _Parser(zone, dst, name).combination(Piece(text, 0), depth=0)
    return found.placed_in(zone) if isinstance(found, Rule) else found


@dataclass(frozen=True)
class Piece:
    """A part of the text, and where it begins in the whole."""

    text: str
    start: int

    def part(self, start: int, end: int | None = None) -> "Piece":
        return Piece(self.text[start:end], self.start + start)

    def stripped(self) -> "Piece":
        return Piece(self.text.strip(), self.start + len(self.text) - len(self.text.lstrip()))

    def error(self, message: str, suggestions: Sequence[str] = ()) -> RuleError:
        return RuleError(message, text=self.text, position=self.start, suggestions=suggestions)


@dataclass(frozen=True)
class _Parser:
    zone: str | None
    dst: str
    name: str | None

    def combination(self, piece: Piece, depth: int) -> Rule | Spaced:
        if depth > DEEPEST:
            raise piece.error(f"parentheses are at most {DEEPEST} deep")
        if piece.text.lstrip().startswith(BEGINNING):
            return self.reaction(piece)  # it has its own grammar
        first, *others = _terms(piece)
        if len(others) >= MOST_TERMS:
            raise piece.error(f"at most {MOST_TERMS} rules can be combined")
        result = self.term(first[1], depth)
        for operator, other in others:
            right = self.term(other, depth)
            try:
                result = self.joined(result, operator, right)
            except RuleError as error:
                raise other.error(error.message, error.suggestions) from None
        return result

    def reaction(self, piece: Piece) -> Rule:
        try:
            return parse_on(piece.text)
        except RuleError as error:
            raise piece.error(error.message, error.suggestions) from None

    def joined(self, left: Rule | Spaced, operator: str, right: Rule | Spaced) -> Rule | Spaced:
        if operator == "|":
            return left | right
        if isinstance(right, Rule):
            zone = left.stated_zone if isinstance(left, Rule) else None
            right = right.placed_in(zone).placed_in(self.zone)
        return left - right

    def term(self, piece: Piece, depth: int) -> Rule | Spaced:
        """Read a rule, or a combination in parentheses, with its modifiers."""
        if piece.text.startswith("("):
            close = _closing(piece)
            rule = self.combination(piece.part(1, close), depth + 1)
            return self.modified(rule, piece.part(close + 1))
        words = list(re.finditer(r"\S+", piece.text))
        while len(words) > 1 and _MODIFIER.fullmatch(words[-1][0]):
            words.pop()
        end = words[-1].end() if words else 0
        if len(words) > 1 and (unknown := _UNKNOWN_MODIFIER.fullmatch(words[-1][0])):
            raise piece.part(words[-1].start()).error(
                f"{unknown['key']}= is not known; known are start, end, count, delay, jitter, "
                "seed, lasting and dst"
            )
        begin = len("OnCalendar=") if piece.text.startswith("OnCalendar=") else 0
        parser = self
        if pasted := _PREFIX.match(piece.text):
            begin, parser = pasted.end(), replace(self, zone=checked_zone(pasted["zone"]))
        try:
            rule = parser.simple(piece.text[begin:end])
        except RuleError as error:
            raise _moved(error, piece.text, piece.start + begin) from None
        return self.modified(rule, piece.part(end))

    def simple(self, text: str) -> Rule | Spaced:  # noqa: PLR0911 - a kind of rule a line
        """Read a rule without modifiers; its kind is recognised by its first characters."""
        if not text:
            raise RuleError("an empty text is not a rule", text=text, position=0)
        kind = text.upper()
        if kind.startswith(("EVERY ", "@EVERY ")):  # the second is how Go programs write it
            step = text.partition(" ")[2].strip()
            return every(f"every {step}", zone=self.zone, dst=self.dst)
        if kind.startswith("SPACED "):
            return spaced(text)
        if text.startswith(BEGINNING):
            return parse_on(text)
        if kind.startswith(("RRULE", "DTSTART")):
            return rrule(text, zone=self.zone, dst=self.dst)
        if MOMENT.match(text):
            return at(text, zone=self.zone, dst=self.dst)
        if kind.startswith(("DATES(", "HOLIDAYS(")):
            return _days(text)
        body = read(text, zone=None, dst=self.dst).body
        if body.startswith("@") and not body[1:].isdigit():
            return cron(text, zone=self.zone, dst=self.dst, name=self.name)
        if len(body.split()) > 2 and not any(mark in body for mark in (":", "..", "~")):
            return cron(text, zone=self.zone, dst=self.dst, name=self.name)
        return self.calendar(text)

    def calendar(self, text: str) -> Rule:
        """Read a calendar expression, the last kind tried; an error lists the other kinds."""
        try:
            return calendar(text, zone=self.zone, dst=self.dst)
        except RuleError as error:
            if isinstance(error, ZoneMissing) or any(mark in text for mark in ":.~*-"):
                raise
            kinds = (
                "a rule is a cron line of 5 or 6 fields, a calendar expression such as Mon..Fri "
                '09:00, "every 5m", "spaced 5m", "on invoice.paid", a time such as '
                "2026-12-24T18:00Z, or DTSTART and RRULE"
            )
            raise RuleError(
                f"{error.message}; {kinds}",
                text=error.text,
                position=error.position,
                suggestions=error.suggestions,
            ) from None

    def modified(self, rule: Rule | Spaced, piece: Piece) -> Rule | Spaced:
        try:
            return self.changed(rule, piece)
        except RuleError as error:
            raise piece.stripped().error(error.message, error.suggestions) from None

    def changed(self, rule: Rule | Spaced, piece: Piece) -> Rule | Spaced:
        values = _values(piece)
        start, end = _moment(values, "start", piece), _moment(values, "end", piece)
        if isinstance(rule, Spaced):
            if values.keys() - {"start", "end"}:
                raise piece.error(f'"{rule}" takes start= and end=, and nothing else')
            return rule.bounded(start=start, end=end)
        if values.keys() & {"start", "end", "count"}:
            count = int(values["count"]) if "count" in values else None
            rule = bounded(rule, start=start, end=end, count=count)
        if "delay" in values:
            rule = delayed(rule, values["delay"])
        if "jitter" in values:
            rule = self.jittered(rule, values, piece)
        return lasting(rule, values["lasting"]) if "lasting" in values else rule

    def jittered(self, rule: Rule, values: dict[str, str], piece: Piece) -> Rule:
        seed = values.get("seed")
        if seed is None and self.name:
            return jitter(rule, values["jitter"], name=self.name)
        if seed is None or not re.fullmatch(r"[0-9a-f]{1,16}", seed):
            raise piece.error("jitter= is picked by a name: pass name=, or write seed= in hex")
        return replace(jitter(rule, values["jitter"], name=seed), seed=int(seed, 16))


def _values(piece: Piece) -> dict[str, str]:
    """Return the modifiers of a rule by name."""
    values: dict[str, str] = {}
    for word in piece.text.split():
        found = _MODIFIER.fullmatch(word)
        if not found:
            raise piece.error(f'"{word}" cannot follow a rule; write | or - before another one')
        if found["key"] in values:
            raise piece.error(f"{found['key']}= is there twice")
        values[found["key"]] = found["value"]
    if not re.fullmatch(r"\d{1,9}", values.get("count", "1"), re.ASCII):
        raise piece.error(f'count="{values["count"]}" is not a number')
    if "seed" in values and "jitter" not in values:
        raise piece.error("seed= goes with jitter=")
    return values


def _terms(piece: Piece) -> list[tuple[str, Piece]]:
    """Return the operands outside of parentheses, each with the operator before it."""
    terms, operator, start, depth = [], "", 0, 0
    for word in re.finditer(r"\S+", piece.text):
        if depth == 0 and word[0] in ("|", "-"):
            terms.append((operator, piece.part(start, word.start()).stripped()))
            operator, start = word[0], word.end()
        depth += word[0].count("(") - word[0].count(")")
        if depth < 0:
            raise piece.part(word.end() - 1).error('a ")" without its "("')
        if depth == 0 and _STUCK.match(word[0]):
            raise piece.part(word.start()).error(f'put a space behind the "{word[0][0]}"')
    if depth:
        raise piece.error('a "(" without its ")"')
    terms.append((operator, piece.part(start).stripped()))
    return terms


def _closing(piece: Piece) -> int:
    """Return the position of the parenthesis that closes the first one."""
    depth = 0
    for at_, char in enumerate(piece.text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at_
    raise piece.error('a "(" without its ")"')


def _days(text: str) -> Rule:
    source = read(text, zone=None, dst="cron", longest=LONGEST)
    found = _DAYS.fullmatch(source.body)
    if not found:
        raise RuleError(
            f'"{text}" is not dates(2026-12-24,2026-12-31) or holidays(DE-BE)',
            text=text,
            position=0,
        )
    if found["kind"] == "holidays":
        return holidays(found["inside"], zone=source.zone)
    return dates(*(day.strip() for day in found["inside"].split(",")), zone=source.zone)


def _moment(values: dict[str, str], key: str, piece: Piece) -> datetime | None:
    if key not in values:
        return None
    moment = read_moment(values[key])
    if moment.tzinfo is None:
        raise piece.error(f"{key}={values[key]} needs an offset: 2026-12-24T18:00+01:00, or …Z")
    return moment


def _moved(error: RuleError, text: str, start: int) -> RuleError:
    """Return the error for a longer text, in which the wrong part begins at ``start``."""
    position = (error.position or 0) + start
    return type(error)(error.message, text=text, position=position, suggestions=error.suggestions)
