"""What this machine is set to."""

import os
from pathlib import Path

from duly.rules import zone_names


def machine_zone() -> str | None:
    """The zone this machine is set to: only ever offered, never assumed."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named or named.startswith("/"):
        named = str(Path(named or "/etc/localtime").resolve()).partition("/zoneinfo/")[2]
    zone = named.removeprefix("Etc/")
    return zone if zone in zone_names() else None
