"""Connections that are not ours: whoever asks has it done inside of their own transaction."""

from duly.store.foreign.changes import Verb, Work, awrite_on, write_on
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
    "write_on",
]
