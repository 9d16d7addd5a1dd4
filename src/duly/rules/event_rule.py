"""Rules for events: ``on invoice.paid``.

Events make such a rule due, not the clock: every event whose name matches the pattern is one
moment. So it has no moments that could be counted, previewed or combined with other rules. Its
options are about the reaction:

    on invoice.*                                    every event below "invoice."
    on doc.changed key="doc:{doc_id}" debounce=30s  after 30 s without another event
    on class.scheduled key="class:{class_id}" run_after="-24h from starts_at" unless=class.cancelled

Names in braces, and the word after ``from``, are fields of the event.
"""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple, NoReturn

from duly.durations import parse_duration, say_duration, show_duration
from duly.errors import RuleError
from duly.rules.rule import Rule

BEGINNING: Final = "on "
LONGEST_NAME: Final = 200
EVERYTHING: Final = "*"
BELOW: Final = ".*"  # "invoice.*": everything below invoice.
ZERO: Final = timedelta(0)

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_FROM = re.compile(r"(?P<sign>[+-]?) *(?P<length>.+?) +from +(?P<field>\S+)")
_WORD = re.compile(r'\s+(?P<word>[a-z_]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^\s"]+)(?=\s|$)')
_WORDS: Final = ("key", "debounce", "run_after", "unless")


class RunAfter(NamedTuple):
    """A delay after the event or after the moment in one of its fields; negative: before it."""

    length: timedelta
    field: str | None = None

    def __str__(self) -> str:
        sign = "-" if self.length < ZERO else ""
        text = f"{sign}{show_duration(abs(self.length))}"
        return text if self.field is None else f"{text} from {self.field}"

    def explain(self) -> str:
        length = say_duration(abs(self.length)) if self.length else ""
        if self.field is None:
            return f"{length} later" if length else "at once"
        if not length:
            return f"at its {self.field}"
        return f"{length} {'before' if self.length < ZERO else 'after'} its {self.field}"


@dataclass(frozen=True, repr=False)
class On(Rule):
    """A rule that is due when an event matches the pattern."""

    pattern: str
    key: str | None = None  # of events with the same key, the last one counts
    debounce: timedelta | None = None
    run_after: RunAfter | None = None
    unless: str | None = None  # the event that cancels a reaction that has not begun
    zone: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        if self.debounce is not None and self.run_after is not None:
            raise RuleError(
                f'"{self}": debounce= is a run_after= that begins anew with every event: '
                "say one of them"
            )
        if self.debounce is not None and self.key is None:
            raise RuleError(
                f'"{self}": debounce= needs a key=: of events about different things all but the '
                f'last would be lost; say what they are about, as key="{_example(self.pattern)}", '
                'or key="all" if one reaction to all of them is meant'
            )
        if self.unless is not None:
            check_pattern(self.unless)
            if self.unless == self.pattern:
                raise RuleError(f'"{self}": what starts it would call it off: unless= is another')
            if self.key is None:
                raise RuleError(
                    f'"{self}": unless= needs a key=: it could not tell which reaction to '
                    f'withdraw; say what both events are about, as key="{_example(self.pattern)}"'
                )

    def after_us(self, instant: int) -> int | None:  # noqa: ARG002 - Rule's signature
        return None

    def at_or_before_us(self, instant: int) -> int | None:  # noqa: ARG002
        return None

    def count_us(self, after: int, until: int) -> int:  # noqa: ARG002
        return 0

    def blocked_until_us(self, instant: int) -> NoReturn:  # noqa: ARG002
        self.refuse("be taken away from another rule")

    def refuse_company(self) -> NoReturn:
        self.refuse("be combined with another rule")

    def __or__(self, other: object) -> NoReturn:
        self.refuse_company()

    def __sub__(self, other: object) -> NoReturn:
        self.refuse("leave times out")

    def refuse(self, what: str) -> NoReturn:
        raise RuleError(
            f'"{self}" cannot {what}: events make it due, and it has no times of its own'
        )

    def explain(self) -> str:
        said = f"When {_said(self.pattern)} happens"
        if self.debounce is not None:
            said += f", once it has been quiet for {say_duration(self.debounce)}"
        if self.run_after is not None:
            said += f", {self.run_after.explain()}"
        if self.unless is not None:
            said += f"; not if {_said(self.unless)} comes first"
        return f"{said}."

    def __str__(self) -> str:
        said = f"{BEGINNING}{self.pattern}"
        said += f" key={_quoted(self.key)}" if self.key is not None else ""
        said += f" debounce={show_duration(self.debounce)}" if self.debounce is not None else ""
        said += f" run_after={_word(str(self.run_after))}" if self.run_after is not None else ""
        return said + (f" unless={self.unless}" if self.unless is not None else "")


def on(
    pattern: str,
    *,
    key: str | None = None,
    debounce: str | timedelta | None = None,
    run_after: str | timedelta | None = None,
    unless: str | None = None,
) -> On:
    """Return a rule for events."""
    return On(
        pattern,
        key=_key(key),
        debounce=None if debounce is None else _length("debounce", debounce),
        run_after=None if run_after is None else read_run_after(run_after),
        unless=unless,
    )


def parse_on(text: str) -> On:
    """Parse the text of a rule for events."""
    body = text.lstrip().removeprefix(BEGINNING).strip()
    pattern = re.match(r"\S*", body)
    at, values = len(pattern[0]) if pattern else 0, dict[str, str]()
    while at < len(body):
        found = _WORD.match(body, at)
        if found is None or found["word"] not in _WORDS:
            raise _unread(text, body[at:].strip())
        if found["word"] in values:
            raise RuleError(f"{found['word']}= is there twice", text=text, position=0)
        values[found["word"]] = _unquoted(found["value"])
        at = found.end()
    return on(
        pattern[0] if pattern else "",
        key=values.get("key"),
        debounce=values.get("debounce"),
        run_after=values.get("run_after"),
        unless=values.get("unless"),
    )


def read_run_after(asked: str | timedelta) -> RunAfter:
    """``"10m"``, ``"-24h from starts_at"``."""
    found = _FROM.fullmatch(asked.strip()) if isinstance(asked, str) else None
    if found is None:
        return RunAfter(_length("run_after", asked))
    if not found["field"].isidentifier():
        raise RuleError(
            f'run_after="{asked}": "{found["field"]}" is not the name of a field; '
            'write it as "-24h from starts_at"'
        )
    length = _length("run_after", found["length"], zero=True)
    return RunAfter(-length if found["sign"] == "-" else length, found["field"])


def check_name(name: object) -> str:
    """Return the name of an event, or refuse it: words of letters, digits, _ and -, and dots."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RuleError(
            f"{name!r} is not the name of an event: words of letters, digits, _ and -, with dots "
            'between them, as "invoice.paid"'
        )
    if len(name) > LONGEST_NAME:
        raise RuleError(
            f'the event "{name[:40]}…": {len(name):,} characters, and at most {LONGEST_NAME}'
        )
    return name


def check_pattern(pattern: object) -> str:
    """Return a pattern, or refuse it: a name, ``invoice.*`` for all names below it, or ``*``."""
    if pattern == EVERYTHING:
        return EVERYTHING
    if isinstance(pattern, str) and "*" in pattern.removesuffix(BELOW):
        raise RuleError(
            f'"{pattern}": a star stands at the end, for everything below: "invoice.*", or "*"'
        )
    if isinstance(pattern, str) and pattern.endswith(BELOW):
        check_name(pattern.removesuffix(BELOW))
        return pattern
    return check_name(pattern)


def matches(pattern: str, name: str) -> bool:
    """Return whether the name of an event matches a pattern."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def _key(asked: object) -> str | None:
    if asked is not None and (not isinstance(asked, str) or not asked):
        raise RuleError(f'key={asked!r}: what the events are about, as "doc:{{doc_id}}"')
    return asked


def _length(what: str, asked: str | timedelta, *, zero: bool = False) -> timedelta:
    hint = '; before a time in the event: "-24h from starts_at"' * (what == "run_after")
    try:
        length = parse_duration(asked)
    except RuleError as error:
        raise RuleError(f"{what}: {error.message}{hint}") from None
    if length < ZERO or (length == ZERO and not zero):
        raise RuleError(f"{what}={asked!r}: a length of time above zero{hint}")
    return length


def _unread(text: str, found: str) -> RuleError:
    if re.match(r"[|-](\s|$)", found):
        return RuleError(
            f'"{text}" cannot be combined with another rule: events make it due, and it has no '
            "moments of its own",
            text=text,
            position=text.find(found),
        )
    return RuleError(
        f'"{found}" cannot follow an event; there are key="doc:{{doc_id}}", debounce=30s, '
        'run_after="-24h from starts_at" and unless=doc.deleted',
        text=text,
        position=text.find(found),
    )


def _said(pattern: str) -> str:
    if pattern == EVERYTHING:
        return "any event"
    return f'anything below "{pattern[:-1]}"' if pattern.endswith(BELOW) else pattern


def _example(pattern: str) -> str:
    word = pattern.partition(".")[0]
    return f"{word}:{{{word}_id}}" if word.isidentifier() else "about:{id}"


def _word(text: str) -> str:
    return _quoted(text) if " " in text else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
