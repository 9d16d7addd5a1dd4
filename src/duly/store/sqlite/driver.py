"""The SQLite that duly uses: the interpreter's own, or pysqlite3 where it is installed and newer.

Two SQLite libraries must not have one file open in one process: POSIX drops all locks of a process
on a file as soon as any descriptor of the file is closed. So everything in duly that opens the
store's file imports ``sqlite3`` from here, and a caller's connection must be of the same library.
"""

from typing import TYPE_CHECKING

__all__ = ["LIBRARY", "sqlite3"]

if TYPE_CHECKING:
    import sqlite3
else:
    import sqlite3 as standard

    try:
        from pysqlite3 import dbapi2 as packaged
    except ImportError:
        packaged = standard
    sqlite3 = max(standard, packaged, key=lambda library: library.sqlite_version_info)

LIBRARY = sqlite3.__name__.partition(".")[0]
