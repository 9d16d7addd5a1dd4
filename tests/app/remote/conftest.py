"""What tests of a store that is elsewhere ask for."""

from tests.app.fixtures import furnished, postgres_url, url
from tests.cli.test_schedules import empty
from tests.store.conftest import sqlite_memory

__all__ = ["empty", "furnished", "postgres_url", "sqlite_memory", "url"]
