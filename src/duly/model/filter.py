"""Which jobs are meant, in words: ``state:failed queue:mail since:2h "read timed out"``.

One language wherever jobs are looked for: in Python, on the command line and in a browser. Words
say what all of them have in common; what has no word in front is text, and a part of what a job
says about itself. Text in quotes may hold spaces, and is never taken for a word.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

from duly.durations import parse_duration, show_duration
from duly.errors import InvalidValue, RuleError
from duly.model.payload import check_text
from duly.model.states import State

LONGEST_TEXT: Final = 1_000
MOST_TEXTS: Final = 20

# A word, a colon and a value, or a text: either may be in quotes, and \ takes the next as it is.
_PIECE = re.compile(
    r"""
      (?P<word> [^\s:"']+ ) : (?: (?P<quoted> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )(?!\S)
                                | (?P<bare> [^\s"']\S*+ )? )
    | (?P<text> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )(?!\S)
    | (?P<plain> [^\s"':][^\s:]*+ )(?!\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What jobs have in common. None, or nothing at all, means any."""

    states: tuple[State, ...] = ()  # one of these
    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    key: str | None = None
    schedule: str | None = None  # by its name
    tags: tuple[str, ...] = ()  # all of these
    error: str | None = None  # a part of the error or the reason, capital letters or not
    texts: tuple[str, ...] = ()  # each a part of the task, title, key, reason or error
    # When it ended, or was asked for if it has not: a moment, or so long ago.
    since: datetime | timedelta | None = None
    before: datetime | timedelta | None = None

    def __post_init__(self) -> None:
        for what in ("queue", "task", "tenant", "key", "schedule"):
            check_text(getattr(self, what) or "", what)
        for what, text in (("error", self.error or ""), *(("text", one) for one in self.texts)):
            check_text(text, what, longest=LONGEST_TEXT)
        for tag in self.tags:
            check_text(tag, "tag")
        if len(self.texts) > MOST_TEXTS or len(self.tags) > MOST_TEXTS:
            raise InvalidValue(f"a filter of more than {MOST_TEXTS} texts or tags: say fewer")

    def __str__(self) -> str:
        """Words that read back to the same filter."""
        said = [f"state:{','.join(self.states)}"] if self.states else []
        for word in ("queue", "task", "tenant", "key", "schedule", "error"):
            value = getattr(self, word)
            said += [] if value is None else [f"{word}:{_quoted(value)}"]
        said += [f"tag:{_quoted(tag)}" for tag in self.tags]
        for word in ("since", "before"):
            value = getattr(self, word)
            said += [] if value is None else [f"{word}:{_shown(value)}"]
        return " ".join([*said, *(f"text:{_quoted(text)}" for text in self.texts)])


EVERYTHING: Final = Filter()


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a filter: a word and its value; a text has no word."""

    name: str | None
    value: str
    as_typed: str = field(default="", compare=False)
    quoted: bool = False


def parse_filter(text: str) -> Filter:
    """The filter that a text means, or an ``InvalidValue`` that says which word is none."""
    return _filter(_split(text))


def filter_of(arguments: Iterable[str]) -> Filter:
    """The same of words that a shell has split, and taken the quotes from."""
    words: list[Word] = []
    for argument in arguments:
        words += _argument(argument)
    return _filter(words)


def _split(text: str) -> list[Word]:
    words, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _PIECE.match(text, at)
        if found is None:
            raise InvalidValue(
                f"{text[at : at + 60]!r}: a word and its value, as state:failed, or a text; "
                "quotes are closed, and what holds spaces or colons stands in them"
            )
        words.append(_word(found))
        at = found.end()
    return words


def _word(found: re.Match[str]) -> Word:
    if found["word"]:
        value = _unquoted(found["quoted"]) if found["quoted"] else found["bare"] or ""
        return Word(found["word"], value, found[0], quoted=bool(found["quoted"]))
    if found["text"]:
        return Word(None, _unquoted(found["text"]), found[0], quoted=True)
    return Word(None, found["plain"], found[0])


def _argument(argument: str) -> list[Word]:
    """One argument is one word; unless it was quoted as a whole, and is nothing but words."""
    if re.search(r"\s", argument):
        try:
            words = _split(argument)
        except InvalidValue:
            words = []
        if len(words) > 1 and all(word.name in _WORDS for word in words):
            return words
    name, colon, value = argument.partition(":")
    if not colon or re.search(r"\s", name):
        return [Word(None, argument, argument, quoted=bool(re.search(r"\s", argument)))]
    whole = _PIECE.fullmatch(argument)
    return [_word(whole) if whole and whole["quoted"] else Word(name, value, argument)]


def _filter(words: Iterable[Word]) -> Filter:
    said: dict[str, Any] = {}
    for word in words:
        if word.name is None:
            _add_text(said, word)
        elif word.name not in _WORDS:
            raise InvalidValue(_unknown(word))
        elif not word.value and not word.quoted:
            raise InvalidValue(f"{word.as_typed}: nothing stands behind it, as in {_EXAMPLE}")
        else:
            _WORDS[word.name](said, word)
    return Filter(**said)


def _once(said: dict[str, Any], word: Word) -> None:
    name = str(word.name)
    if name in said:
        raise InvalidValue(f"{word.as_typed}: {name}: was said before, and a job has one")
    said[name] = word.value


def _add_states(said: dict[str, Any], word: Word) -> None:
    states = said.get("states", ())
    for name in word.value.split(","):
        if name not in _STATES:
            near = get_close_matches(name, _STATES, n=1, cutoff=0.7)
            instead = f"; did you mean {near[0]}?" if near else f"; there is {', '.join(_STATES)}"
            raise InvalidValue(f'{word.as_typed}: no state is called "{name}"{instead}')
        states = (*states, State(name))
    said["states"] = tuple(dict.fromkeys(states))


def _add_tag(said: dict[str, Any], word: Word) -> None:
    said["tags"] = (*said.get("tags", ()), word.value)


def _add_text(said: dict[str, Any], word: Word) -> None:
    if not word.quoted and word.name is None and word.value in _STATES:
        raise InvalidValue(
            f"{word.value}: did you mean state:{word.value}? as a text: text:{word.value}"
        )
    if word.value:
        said["texts"] = (*said.get("texts", ()), word.value)


def _moment(said: dict[str, Any], word: Word) -> None:
    _once(said, word)
    said[str(word.name)] = _read_moment(word)


def _read_moment(word: Word) -> datetime | timedelta:
    """``2h`` is so long ago; a moment has its zone."""
    try:
        moment = datetime.fromisoformat(word.value)
    except ValueError:
        try:
            return parse_duration(word.value)
        except RuleError as error:
            raise InvalidValue(
                f"{word.as_typed}: so long ago, as {word.name}:2h, or a moment, as "
                f"{word.name}:2026-03-05T02:00Z: {error}"
            ) from None
    if moment.tzinfo is None:
        day = moment.isoformat(timespec="minutes")
        raise InvalidValue(f"{word.as_typed}: in which zone? Say {word.name}:{day}Z for UTC")
    return moment


def _unknown(word: Word) -> str:
    near = get_close_matches(str(word.name).lower(), _WORDS, n=1, cutoff=0.5)
    instead = f"did you mean {near[0]}:" if near else f"there is {', '.join(_WORDS)}"
    return (
        f"{word.as_typed}: no word of a filter is called {word.name}:; {instead}; "
        f"or is it a text, text:{_quoted(word.as_typed)}?"
    )


def _quoted(value: str) -> str:
    if value and not re.search(r"[\s\"'\\]", value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _unquoted(quoted: str) -> str:
    return _ESCAPED.sub(r"\1", quoted[1:-1])


def _shown(moment: datetime | timedelta) -> str:
    return show_duration(moment) if isinstance(moment, timedelta) else moment.isoformat()


_STATES: Final = tuple(state.value for state in State)
_EXAMPLE: Final = "queue:mail"
_WORDS: Final[Mapping[str, Callable[[dict[str, Any], Word], None]]] = {
    "state": _add_states,
    "queue": _once,
    "task": _once,
    "tenant": _once,
    "tag": _add_tag,
    "key": _once,
    "schedule": _once,
    "error": _once,
    "since": _moment,
    "before": _moment,
    "text": _add_text,
}
WORDS: Final = tuple(_WORDS)
