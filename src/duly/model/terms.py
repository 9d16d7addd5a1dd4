"""The terms of a job: timeout, retention of its result, and callbacks.

They come from the task's declaration and are stored with the job, so that the version of the code
which enqueued the job decides about its callbacks. A job with default terms stores nothing.
"""

from dataclasses import dataclass, fields
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from duly.durations import parse_duration, show_duration
from duly.errors import InvalidValue
from duly.model.payload import Json, decode, encode

KEEP_RESULT: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A task that is enqueued when a job ends; ``argument`` takes the id of that job."""

    task: str
    queue: str = "default"
    priority: int = 0
    retry: Json | None = None
    timeout: timedelta | None = None
    argument: str = "job_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """``keep_result`` None means ``KEEP_RESULT``; zero means that the result is not stored.

    A failed job is deleted after ``keep_failed``; None means after the setting of that name.
    """

    timeout: timedelta | None = None
    keep_result: timedelta | None = None
    keep_failed: timedelta | None = None
    on_success: Callback | None = None
    on_failure: Callback | None = None
    on_cancelled: Callback | None = None
    trace: str | None = None  # the W3C traceparent of the span that enqueued the job

    @property
    def kept(self) -> timedelta:
        """Return how long a result is kept."""
        return KEEP_RESULT if self.keep_result is None else self.keep_result

    @property
    def calls_back(self) -> bool:
        return bool(self.on_success or self.on_failure or self.on_cancelled)

    @property
    def are_own(self) -> bool:
        """Return whether the job has terms of its own, besides a trace."""
        return self != Terms(trace=self.trace)

    def as_json(self) -> Json | None:
        """Return only what differs from the defaults; None if nothing does."""
        return _written(self)

    @staticmethod
    def from_json(text: str | None) -> "Terms":
        """Read the stored text; keys written by a newer version are ignored."""
        return _read(text) if text else NO_TERMS


NO_TERMS: Final = Terms()


# Cached: a million jobs share a handful of terms.
@lru_cache(maxsize=4096)
def _written(terms: Terms) -> Json | None:
    asked = {
        field.name: _plain(value)
        for field in fields(terms)
        if (value := getattr(terms, field.name)) is not None
    }
    return encode(asked, what="terms") if asked else None


def _plain(value: timedelta | Callback | str) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return show_duration(value)
    plain: dict[str, object] = {
        "task": value.task,
        "queue": value.queue,
        "priority": value.priority,
        "argument": value.argument,
    }
    if value.retry is not None:
        plain["retry"] = decode(value.retry)
    if value.timeout is not None:
        plain["timeout"] = show_duration(value.timeout)
    return plain


@lru_cache(maxsize=4096)
def _read(text: str) -> Terms:
    stored = decode(Json(text))
    if not isinstance(stored, dict):
        raise InvalidValue(f"Terms: {text[:40]} is not the output of as_json()")
    known = {field.name for field in fields(Terms)}
    return Terms(
        **{
            name: value if name == "trace" else _length_or_callback(value)
            for name, value in stored.items()
            if name in known and value is not None
        }
    )


def _length_or_callback(value: Any) -> Any:  # noqa: ANN401 - JSON in, a field's type out
    if isinstance(value, str):
        return parse_duration(value)
    known = {field.name for field in fields(Callback)}
    found = {name: value[name] for name in value if name in known}
    if found.get("retry") is not None:
        found["retry"] = encode(found["retry"], what="retry")
    if found.get("timeout") is not None:
        found["timeout"] = parse_duration(found["timeout"])
    return Callback(**found)
