"""The retry policy: how many attempts a job has, and the backoff between them.

It is stored with every job, except the errors that are retried (``on=``): the worker checks those
in Python, because only it has the exception.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from duly.durations import MICROSECOND, is_bare_number, parse_duration, show_duration
from duly.errors import InvalidValue, RuleError
from duly.model.payload import Json, decode, encode

Duration: TypeAlias = str | timedelta
Backoff: TypeAlias = Literal["exponential", "linear", "constant"]
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]

LONGEST_WAIT: Final = timedelta(days=30)
MOST_ATTEMPTS: Final = 10_000
MOST_WAITS: Final = 100
# All jobs of a failing service fail at once. With this jitter their retries spread over two fifths
# of the wait, and "10s" is still about ten seconds. Full jitter, from nothing to 10s, would retry
# some of them immediately.
JITTER: Final = 0.2

_MOST_DOUBLINGS = 64  # of a microsecond: longer than any cap


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """``attempts`` includes the first; ``backoff`` may be a list of waits, whose last one repeats.

    ``cap`` bounds a growing wait, before jitter. It does not apply to a list of waits.
    """

    attempts: int
    backoff: Backoff | tuple[timedelta, ...]
    first: timedelta
    cap: timedelta
    jitter: bool
    on: Errors = field(compare=False, repr=False)

    def __init__(
        self,
        *,
        attempts: int = 3,
        backoff: Backoff | Sequence[Duration] = "exponential",
        first: Duration = "10s",
        cap: Duration = "1h",
        jitter: bool = True,
        on: Errors = Exception,
    ) -> None:
        def keep(field: str, value: object) -> None:
            object.__setattr__(self, field, value)

        keep("attempts", _attempts(attempts))
        keep("backoff", _backoff(backoff))
        keep("first", _wait(first, "first"))
        keep("cap", _wait(cap, "cap"))
        keep("jitter", _flag(jitter))
        keep("on", _errors(on))
        if isinstance(self.backoff, str) and self.first > self.cap:
            first_wait, longest = show_duration(self.first), show_duration(self.cap)
            raise InvalidValue(
                f'Retry: first="{first_wait}" is longer than cap="{longest}": '
                f'say cap="{first_wait}" or more'
            )

    def covers(self, error: Exception) -> bool:
        """Return whether the error is retried.

        If the predicate itself raises, the error is retried and gets a note about it.
        """
        if isinstance(self.on, type | tuple):
            return isinstance(error, self.on)
        try:
            return bool(self.on(error))
        except Exception as broken:  # noqa: BLE001 - the predicate is the user's function
            error.add_note(f"Retry: on= raised {type(broken).__name__}: {broken}")
            return True

    def as_json(self) -> Json:
        """Return the text that ``from_json`` reads, with every default written out.

        So a job keeps its waits even if a later version has other defaults.
        """
        table = self.backoff
        return encode(
            {
                "attempts": self.attempts,
                "backoff": table if isinstance(table, str) else [*map(show_duration, table)],
                "first": show_duration(self.first),
                "cap": show_duration(self.cap),
                "jitter": self.jitter,
            },
            what="retry",
        )

    @classmethod
    def from_json(cls, text: Json) -> "Retry":
        """Read the stored text; keys written by a newer version are ignored."""
        return _read(text)


@lru_cache(maxsize=512)
def _read(text: Json) -> Retry:
    """Read the stored text; cached, because a million jobs of ten tasks have ten texts."""
    stored = decode(text)
    if not isinstance(stored, dict):
        raise InvalidValue(f"Retry: {text[:40]} is not what as_json() makes")
    known = {field.name for field in fields(Retry)} - {"on"}
    return Retry(**{name: stored[name] for name in stored if name in known})


def delay(retry: Retry, attempt: int, dice: float) -> timedelta:
    """Return how long to wait after attempt number ``attempt`` (the first is 1) has failed.

    With jitter, ``dice`` in [0, 1) changes the wait by up to a fifth either way.
    """
    wait = _planned(retry, attempt)
    return wait * (1 - JITTER + 2 * JITTER * dice) if retry.jitter else wait


def _planned(retry: Retry, attempt: int) -> timedelta:
    first = retry.first // MICROSECOND
    match retry.backoff:
        case "exponential":
            planned = first << min(attempt - 1, _MOST_DOUBLINGS)
        case "linear":
            planned = first * attempt
        case "constant":
            planned = first
        case table:
            return table[min(attempt, len(table)) - 1]
    return min(planned, retry.cap // MICROSECOND) * MICROSECOND


def _attempts(asked: object) -> int:
    if not isinstance(asked, int) or isinstance(asked, bool):
        raise InvalidValue(f"Retry: attempts={asked!r} is not a whole number")
    if not 1 <= asked <= MOST_ATTEMPTS:
        raise InvalidValue(
            f"Retry: attempts={asked}, and it is from 1 (which never tries again) "
            f"to {MOST_ATTEMPTS:,}: the first attempt counts"
        )
    return asked


def _backoff(asked: object) -> Backoff | tuple[timedelta, ...]:
    for word in get_args(Backoff):
        if asked == word:
            found: Backoff = word
            return found
    if isinstance(asked, str | bytes) or not isinstance(asked, Sequence):
        words = ", ".join(f'"{word}"' for word in get_args(Backoff))
        raise InvalidValue(
            f'Retry: backoff={asked!r} is none of {words}, nor a list of waits: ["10s", "1m"]'
        )
    if not 1 <= len(asked) <= MOST_WAITS:
        raise InvalidValue(
            f"Retry: backoff has {len(asked)} waits, and it is from 1 to {MOST_WAITS}: "
            "the last one repeats"
        )
    return tuple(_wait(wait, f"backoff[{place}]") for place, wait in enumerate(asked))


def _wait(asked: Duration, where: str) -> timedelta:
    if is_bare_number(asked):
        raise InvalidValue(f'Retry: {where}={asked}: say "{asked}s" or "{asked}m"')
    try:
        wait = parse_duration(asked)
    except RuleError as error:
        raise InvalidValue(f"Retry: {where}: {error}") from None
    if wait < timedelta():
        raise InvalidValue(f"Retry: {where}: {asked} is less than nothing")
    if wait > LONGEST_WAIT:
        raise InvalidValue(
            f'Retry: {where}: "{asked}" is too long; the longest wait is {LONGEST_WAIT.days} days'
        )
    return wait


def _flag(asked: object) -> bool:
    if not isinstance(asked, bool):
        raise InvalidValue(f"Retry: jitter={asked!r} is neither True nor False")
    return asked


def _errors(asked: object) -> Errors:
    types = asked if isinstance(asked, tuple) else (asked,)
    if types and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in types):
        found: Errors = asked  # type: ignore[assignment]
        return found
    if callable(asked) and not isinstance(asked, type):
        return asked
    raise InvalidValue(
        f"Retry: on={asked!r} is no kind of Exception: say on=ConnectionError, "
        "on=(ConnectionError, TimeoutError), or a function that takes the error and says yes or no"
    )


# The first error fails the job. A crash of its worker is not an error: the job then runs again.
NEVER: Final = Retry(attempts=1)
