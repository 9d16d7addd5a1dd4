"""The only place that reads a clock, and the only one that waits for it.

Everything else takes the moment as an argument, so that a test can choose it.
"""

import sys
import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def boottime() -> float:
    """Seconds on a clock that nobody can set, and that goes on while the machine is suspended.

    Where there is no such clock, the monotonic one: there, a suspend looks like a jump of every
    other clock.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    else:  # noqa: RET505 – mypy knows the platform, and would call a line below it unreachable
        return time.monotonic()


async def sleep(seconds: float) -> None:
    """Wait on the running loop's own time, which may be virtual. Zero lets the others go first."""
    # Importing it takes 60 ms, which `duly next` need not pay to know what time it is.
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(seconds)
