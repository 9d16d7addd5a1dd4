"""SQLite files that have their tables: copies of one that was migrated once.

Making the tables takes a processor 20 ms, five times as long as opening the copy, and some thousand
tests need them. Tests of how tables are made begin with a file that is not there.
"""

import tempfile
from functools import cache
from pathlib import Path

from duly.store.connect import connect
from duly.store.migrate import migrate
from tests.infrastructure.loops import finished


def with_tables(path: Path) -> Path:
    """Write a file with the tables and without rows."""
    path.write_bytes(_image())
    return path


@cache
def _image() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "duly.db"
        finished(_make(path))
        return path.read_bytes()


async def _make(path: Path) -> None:
    tables = connect(str(path)).database
    await tables.open()
    await migrate(tables)
    await tables.close()
