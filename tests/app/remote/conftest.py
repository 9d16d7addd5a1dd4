"""What tests of a store that is elsewhere ask for."""

from tests.app.fixtures import furnished, postgres_url, url
from tests.store.conftest import sqlite_memory

__all__ = ["furnished", "postgres_url", "sqlite_memory", "url"]
