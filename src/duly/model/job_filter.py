"""Filters for jobs: ``state:failed task:send* error~timeout since:2h "timed out"``.

The language is that of ``duly.model.filter_language``; here are the words about jobs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from duly.durations import parse_duration, show_duration
from duly.errors import InvalidValue, RuleError
from duly.model.filter_language import (
    FilterWord,
    Language,
    Name,
    Said,
    add_tag,
    check_name,
    name_of,
    once,
    one_of,
    quoted,
    text_beside,
)
from duly.model.payload import check_text
from duly.model.states import State

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
    """Read ``2h`` (two hours ago) or a moment with its zone."""
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
