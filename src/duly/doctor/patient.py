"""Whom the doctor looks at: a store that is open, and where it is."""

from dataclasses import dataclass
from pathlib import Path

from duly.store.connect import place
from duly.store.database import Database
from duly.store.protocol import Store
from duly.store.sql_store import SqlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    url: str
    store: Store  # open, and only to be read

    @property
    def database(self) -> Database:
        """What is below the store, of one that is here."""
        assert isinstance(self.store, SqlStore)  # noqa: S101 - others are not asked for it
        return self.store.database

    @property
    def path(self) -> Path:
        """The file of an SQLite store, where it really is."""
        return Path(place(self.url)).resolve()
