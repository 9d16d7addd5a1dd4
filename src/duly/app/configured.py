"""What is configured for this process, where nobody types anything: environment, file, defaults.

Read when it is first needed, and again when the environment or the folder is another one.
"""

import os
from functools import lru_cache
from pathlib import Path

from duly.settings import Settings, load
from duly.store.protocol import Retention

_PREFIX = "DULY_"


def configured() -> Settings:
    said = sorted(item for item in os.environ.items() if item[0].startswith(_PREFIX))
    return _read(tuple(said), Path.cwd())


def retention_of(settings: Settings) -> Retention:
    return Retention(
        history=settings.keep_history, fires=settings.keep_fires, failed=settings.keep_failed
    )


@lru_cache(maxsize=8)
def _read(said: tuple[tuple[str, str], ...], folder: Path) -> Settings:
    return load({}, dict(said), folder)
