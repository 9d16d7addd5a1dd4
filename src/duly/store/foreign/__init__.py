"""Writes on the caller's own connection, inside the caller's transaction."""

from duly.store.foreign.changes import Verb, Work, awrite_on, store_on, write_on
from duly.store.foreign.emit import aemit_on, emit_on
from duly.store.foreign.enqueue import aenqueue_on, enqueue_on

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
