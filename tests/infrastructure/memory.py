"""Where tests keep files: in memory, if there is plenty, so that none of them waits for a disk.

Half the time of a test with a SQLite file went into making sure that a disk keeps it. No test asks
what a loss of power leaves behind, and a killed process leaves the same in memory as on a disk.

``--basetemp`` or ``PYTEST_DEBUG_TEMPROOT`` names another place for what pytest makes.
"""

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - whoever makes a folder in it makes one of its own
PLENTY = 4 << 30  # bytes, a multiple of what all tests need


def pytest_configure() -> None:
    if plenty():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def plenty() -> bool:
    return os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free >= PLENTY
