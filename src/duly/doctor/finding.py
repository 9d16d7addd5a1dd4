"""The result of one check: its level, the observation, and the fix."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from duly.store.connect import place
from duly.store.database import Database
from duly.store.store import SqlStore, Store

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    said: str
    fix: str = ""  # a sentence or a command; empty if there is nothing to do
    check: str = ""  # the name of the check; filled in by the examination


def fine(said: str) -> Finding:
    return Finding(level="ok", said=said)


def warning(said: str, fix: str) -> Finding:
    """A finding that is good to know: guarantees hold, but slower or not in every case."""
    return Finding(level="warning", said=said, fix=fix)


def problem(said: str, fix: str) -> Finding:
    """A finding that needs action: a guarantee is broken, or cannot be kept."""
    return Finding(level="problem", said=said, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    url: str
    store: Store  # open, and only to be read

    @property
    def database(self) -> Database:
        """The database of the store, which must be local."""
        assert isinstance(self.store, SqlStore)  # noqa: S101 - others are not asked for it
        return self.store.database

    @property
    def path(self) -> Path:
        """The resolved path of an SQLite store's file."""
        return Path(place(self.url)).resolve()
