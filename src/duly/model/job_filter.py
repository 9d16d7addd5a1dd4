"""Filters for jobs: ``state:failed task:send* error~timeout since:2h "timed out"``.

First the language, which filters of schedules share; then the words about jobs.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from duly.durations import parse_duration, show_duration
from duly.errors import InvalidValue, RuleError
from duly.model.payload import check_text
from duly.model.states import State

# A word, a colon and a value, or a text: either may be in quotes; \ escapes the next character.
_PIECE = re.compile(
    r"""
      (?: (?P<part> [a-z]+ ) ~ (?= "(?:[^"\\]|\\.)*"(?!\S) | '(?:[^'\\]|\\.)*'(?!\S) | [^"'] | \Z )
        | (?P<word> [^\s:"']+ ) : )
      (?: (?P<quoted> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )(?!\S) | (?P<bare> [^\s"']\S*+ )? )
    | (?P<text> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )(?!\S)
    | (?P<plain> [^\s"':][^\s:]*+ )(?!\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(r"([a-z]+)~(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_EXAMPLE: Final = "queue:mail"
MOST_WORDS: Final = 200


@dataclass(frozen=True, slots=True)
class FilterWord:
    """A piece of a filter: a word with its value, or a text without a word."""

    name: str | None
    value: str
    as_typed: str = field(default="", compare=False)
    quoted: bool = False
    is_part: bool = False  # said with ~, as error~timeout


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of names: each ``*`` matches any text, also an empty one."""

    text: str

    def __post_init__(self) -> None:
        if "*" not in self.text:
            raise InvalidValue(f"{self.text!r}: a pattern needs a *; without one it is a name")
        if re.search(r"\s|\A[\"']", self.text):
            raise InvalidValue(
                f"{self.text!r}: a pattern cannot contain spaces or begin with a quote: use * "
                "instead of them"
            )

    def __str__(self) -> str:
        return self.text

    def fits(self, name: str) -> bool:
        """Return whether a name matches, in linear time."""
        first, *middle, last = self.text.split("*")
        at = len(first)
        if not name.startswith(first):
            return False
        for piece in middle:
            found = name.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return name.endswith(last) and len(name) - len(last) >= at


Name: TypeAlias = str | Pattern  # a whole name, or a pattern of names
Said: TypeAlias = dict[str, Any]  # the fields of a filter so far
Meaning: TypeAlias = Callable[[Said, FilterWord], None]


@dataclass(frozen=True, slots=True)
class Language:
    """The words of a filter, each with the function that adds its value."""

    words: Mapping[str, Meaning]
    parts: Container[str] = ()  # words that match a part of a text, with : or with ~

    def read(self, text: str) -> Said:
        """Parse a filter text; raise ``InvalidValue`` that names the first unknown word."""
        return self._meant(_split(text))

    def read_arguments(self, arguments: Iterable[str]) -> Said:
        """Parse command-line arguments, which the shell has split and unquoted."""
        words: list[FilterWord] = []
        for argument in arguments:
            words += self._argument(argument)
        return self._meant(words)

    def _argument(self, argument: str) -> list[FilterWord]:
        """Read an argument as one word, or as several if a whole filter was quoted."""
        if re.search(r"\s", argument):
            try:
                words = _split(argument)
            except InvalidValue:
                words = []
            if len(words) > 1 and all(word.name in self.words for word in words):
                return words
        whole = _PIECE.fullmatch(argument)
        if whole and whole["quoted"]:
            return [_word(whole)]
        part = _PART.fullmatch(argument)
        if part and part[1] in self.words:
            return [FilterWord(part[1], part[2], argument, is_part=True)]
        name, colon, value = argument.partition(":")
        if not colon or re.search(r"\s", name):
            return [FilterWord(None, argument, argument, quoted=bool(re.search(r"\s", argument)))]
        return [FilterWord(name, value, argument)]

    def _meant(self, words: Iterable[FilterWord]) -> Said:
        said: Said = {}
        for word in words:
            if word.name is None or (word.is_part and word.name not in self.words):
                self.words["text"](said, _as_text(word))
            elif word.name not in self.words:
                raise InvalidValue(self._unknown(word))
            elif not word.value and not word.quoted:
                raise InvalidValue(f"{word.as_typed}: the value is missing, as in {_EXAMPLE}")
            elif word.is_part and word.name not in self.parts:
                instead = f"{word.name}:{quoted(word.value)}"
                raise InvalidValue(
                    f"{word.as_typed}: {word.name} does not support ~; use {instead}"
                )
            else:
                self.words[word.name](said, word)
        return said

    def _unknown(self, word: FilterWord) -> str:
        near = get_close_matches(str(word.name).lower(), self.words, n=1, cutoff=0.5)
        instead = f"did you mean {near[0]}:" if near else f"there is {', '.join(self.words)}"
        return (
            f"{word.as_typed}: a filter has no key {word.name}:; {instead}; to search for the "
            f"text: text:{quoted(word.as_typed)}"
        )


def once(thing: str) -> Meaning:
    """A word that may occur once."""

    def add(said: Said, word: FilterWord) -> None:
        name = str(word.name)
        if name in said:
            raise InvalidValue(f"{word.as_typed}: {name}: is given twice, and {thing} has one")
        said[name] = word.value

    return add


def name_of(thing: str) -> Meaning:
    """A word that may occur once and takes a name or a pattern."""
    add_once = once(thing)

    def add(said: Said, word: FilterWord) -> None:
        add_once(said, word)
        if "*" in word.value and not word.quoted:
            said[str(word.name)] = Pattern(word.value)

    return add


def one_of(names: Sequence[str], called: str) -> Meaning:
    """A word that takes some of these names, separated by commas."""

    def add(said: Said, word: FilterWord) -> None:
        field_name = f"{word.name}s"
        asked = dict.fromkeys(word.value.split(","))
        for name in asked:
            if name not in names:
                near = get_close_matches(name, names, n=1, cutoff=0.7)
                instead = f"; did you mean {near[0]}?" if near else f"; there is {', '.join(names)}"
                raise InvalidValue(f'{word.as_typed}: no {called} is called "{name}"{instead}')
        said[field_name] = tuple(dict.fromkeys((*said.get(field_name, ()), *asked)))

    return add


def add_tag(said: Said, word: FilterWord) -> None:
    said["tags"] = (*said.get("tags", ()), word.value)


def text_beside(states: Sequence[str]) -> Meaning:
    """A text to search for; a bare word that is the name of a state is refused as a likely slip."""

    def add(said: Said, word: FilterWord) -> None:
        if not word.quoted and word.name is None and word.value in states:
            raise InvalidValue(
                f"{word.value}: did you mean state:{word.value}? To search for the text: "
                f"text:{word.value}"
            )
        if word.value:
            said["texts"] = (*said.get("texts", ()), word.value)

    return add


def check_name(name: Name | None, what: str) -> None:
    check_text("" if name is None else str(name), what)


def fits(name: str, wanted: Name | None) -> bool:
    return wanted.fits(name) if isinstance(wanted, Pattern) else wanted in (None, name)


def quoted(value: Name) -> str:
    """Return the value as it is typed, in quotes where needed."""
    if isinstance(value, Pattern):
        return value.text
    if value and not re.search(r"[\s\"'\\*]", value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _split(text: str) -> list[FilterWord]:
    words, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _PIECE.match(text, at)
        if found is None:
            raise InvalidValue(
                f"{text[at : at + 60]!r}: expected key:value, as state:failed, or a text; put "
                "values with spaces or colons in quotes, and close the quotes"
            )
        words.append(_word(found))
        if len(words) > MOST_WORDS:
            raise InvalidValue(f"a filter of more than {MOST_WORDS} words: use fewer")
        at = found.end()
    return words


def _as_text(word: FilterWord) -> FilterWord:
    """Return ``a~b`` as a text, because there is no word of that name."""
    return FilterWord(None, word.as_typed, word.as_typed) if word.is_part else word


def _word(found: re.Match[str]) -> FilterWord:
    if name := found["part"] or found["word"]:
        value = _unquoted(found["quoted"]) if found["quoted"] else found["bare"] or ""
        is_quoted, is_part = bool(found["quoted"]), bool(found["part"])
        return FilterWord(name, value, found[0], quoted=is_quoted, is_part=is_part)
    if found["text"]:
        return FilterWord(None, _unquoted(found["text"]), found[0], quoted=True)
    return FilterWord(None, found["plain"], found[0])


def _unquoted(quoted: str) -> str:
    return _ESCAPED.sub(r"\1", quoted[1:-1])


LONGEST_TEXT: Final = 1_000
MOST_TEXTS: Final = 20
HIGHEST_NUMBER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on jobs; all must hold. None, or an empty tuple, matches any job."""

    states: tuple[State, ...] = ()  # one of these
    queue: Name | None = None
    task: Name | None = None
    tenant: Name | None = None
    key: Name | None = None
    schedule: str | None = None  # by its name
    flow: int | None = None  # the steps of the flow of that number
    tags: tuple[str, ...] = ()  # all of these
    error: str | None = None  # a part of the error or the reason, in any case
    texts: tuple[str, ...] = ()  # each a part of the task, title, key, reason or error
    # When the job ended, or was created if it has not ended: a moment, or a time ago.
    since: datetime | timedelta | None = None
    before: datetime | timedelta | None = None

    def __post_init__(self) -> None:
        for what in ("queue", "task", "tenant", "key", "schedule"):
            check_name(getattr(self, what), what)
        for what, text in (("error", self.error or ""), *(("text", one) for one in self.texts)):
            check_text(text, what, longest=LONGEST_TEXT)
        for tag in self.tags:
            check_text(tag, "tag")
        if self.flow is not None and not 0 < self.flow <= HIGHEST_NUMBER:
            raise InvalidValue(f"flow:{self.flow}: the number of a flow, as flow:4711")
        if len(self.texts) > MOST_TEXTS or len(self.tags) > MOST_TEXTS:
            raise InvalidValue(f"a filter of more than {MOST_TEXTS} texts or tags: use fewer")

    def __str__(self) -> str:
        """Return text that parses back to the same filter."""
        said = [f"state:{','.join(self.states)}"] if self.states else []
        for word in ("queue", "task", "tenant", "key", "schedule", "error"):
            value = getattr(self, word)
            said += [] if value is None else [f"{word}:{quoted(value)}"]
        said += [] if self.flow is None else [f"flow:{self.flow}"]
        said += [f"tag:{quoted(tag)}" for tag in self.tags]
        for word in ("since", "before"):
            value = getattr(self, word)
            said += [] if value is None else [f"{word}:{_shown(value)}"]
        return " ".join([*said, *(f"text:{quoted(text)}" for text in self.texts)])


EVERYTHING: Final = Filter()


def parse_filter(text: str) -> Filter:
    """Parse a filter; raise ``InvalidValue`` that names the first unknown word."""
    return Filter(**_LANGUAGE.read(text))


def filter_of(arguments: Iterable[str]) -> Filter:
    """Parse a filter from command-line arguments, which the shell has split and unquoted."""
    return Filter(**_LANGUAGE.read_arguments(arguments))


def _states(said: Said, word: FilterWord) -> None:
    one_of(_STATES, "state")(said, word)
    said["states"] = tuple(State(name) for name in said["states"])


def _number(said: Said, word: FilterWord) -> None:
    _once(said, word)
    value = word.value
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        raise InvalidValue(f"{word.as_typed}: {word.name}: takes the number of a job, as flow:4711")
    said[str(word.name)] = int(value)


def _moment(said: Said, word: FilterWord) -> None:
    _once(said, word)
    said[str(word.name)] = _read_moment(word)


def _read_moment(word: FilterWord) -> datetime | timedelta:
    """Read ``2h`` (two hours ago) or a time with its zone."""
    try:
        moment = datetime.fromisoformat(word.value)
    except ValueError:
        try:
            return parse_duration(word.value)
        except RuleError as error:
            raise InvalidValue(
                f"{word.as_typed}: expected a duration ago, as {word.name}:2h, or a time, as "
                f"{word.name}:2026-03-05T02:00Z: {error}"
            ) from None
    if moment.tzinfo is None:
        day = moment.isoformat(timespec="minutes")
        raise InvalidValue(
            f"{word.as_typed}: the zone is missing: write {word.name}:{day}Z for UTC"
        )
    return moment


def _shown(moment: datetime | timedelta) -> str:
    return show_duration(moment) if isinstance(moment, timedelta) else moment.isoformat()


_STATES: Final = tuple(state.value for state in State)
_once: Final = once("a job")
_name: Final = name_of("a job")
_LANGUAGE: Final = Language(
    {
        "state": _states,
        "queue": _name,
        "task": _name,
        "tenant": _name,
        "tag": add_tag,
        "key": _name,
        "schedule": _once,
        "error": _once,
        "since": _moment,
        "before": _moment,
        "flow": _number,
        "text": text_beside(_STATES),
    },
    parts=("error",),
)
WORDS: Final = tuple(_LANGUAGE.words)
