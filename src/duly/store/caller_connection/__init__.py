"""Writes on the caller's own connection, inside the caller's transaction."""

from duly.store.caller_connection.writes import (
    Verb,
    Work,
    aemit_on,
    aenqueue_on,
    awrite_on,
    emit_on,
    enqueue_on,
    store_on,
    write_on,
)

__all__ = [
    "Verb",
    "Work",
    "aemit_on",
    "aenqueue_on",
    "awrite_on",
    "emit_on",
    "enqueue_on",
    "store_on",
    "write_on",
]
