"""What one check came to: how bad it is, what was seen, and what helps."""

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
    fix: str = ""  # what to do, in a sentence or a command; empty if nothing is to be done
    check: str = ""  # which one it was; whoever has the check made fills it in


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
        """The file of an SQLite store, where it really is."""
        return Path(place(self.url)).resolve()
