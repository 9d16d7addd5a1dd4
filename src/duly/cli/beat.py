"""A beat_schedule in somebody's program, found by importing it as Celery itself would."""

from collections.abc import Mapping
from typing import Any

from duly.cli.store import NEEDS_YOU
from duly.cli.streams import say
from duly.errors import DulyError, InvalidValue
from duly.registry.loading import find


def beat_schedule(source: str) -> tuple[Mapping[str, Any], str | None]:
    """The schedule, and the zone that the app has."""
    if ":" not in source:
        raise InvalidValue(
            f"{source}: name the Celery app in it, as {source}:app, or the beat_schedule itself; "
            "or a database, as db.sqlite3, sqlite:///path or postgresql://…"
        )
    try:
        found = find(source)
    except DulyError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the program does when imported
        say(f"Error: {source} cannot be imported: {type(error).__name__}: {error}")
        raise SystemExit(NEEDS_YOU) from None
    if isinstance(found, Mapping):
        return found, None
    conf = getattr(found, "conf", None)
    schedule = getattr(conf, "beat_schedule", None)
    if not isinstance(schedule, Mapping):
        raise InvalidValue(
            f"{source} is neither a Celery app nor a beat_schedule but {type(found).__name__}"
        )
    # Without a word about it, Celery keeps UTC.
    return schedule, str(getattr(conf, "timezone", None) or "UTC")
