"""systemd's notification protocol, for units with ``Type=notify`` and ``WatchdogSec=``.

systemd asks for notifications with environment variables; without them nothing is sent. Child
processes inherit the variables, and systemd ignores their messages (``NotifyAccess=main``).
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duly.clock import sleep


def notify(*facts: str) -> None:
    """Send facts such as ``READY=1`` to systemd, if it asks for them."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address  # @: an abstract socket
    with (
        contextlib.suppress(OSError),  # systemd notices a service that says nothing
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line,
    ):
        line.settimeout(0)
        line.sendto("\n".join(facts).encode(), name)


@asynccontextmanager
async def notified(is_open: asyncio.Event) -> AsyncIterator[None]:
    """Tell systemd when ``is_open`` is set, that the event loop is alive, and that it stops."""
    telling = asyncio.create_task(_tell(is_open), name="systemd")
    try:
        yield
    finally:
        notify("STOPPING=1")
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell(is_open: asyncio.Event) -> None:
    await asyncio.gather(_tell_ready(is_open), _tell_alive())


async def _tell_ready(is_open: asyncio.Event) -> None:
    await is_open.wait()
    notify("READY=1")


async def _tell_alive() -> None:
    """Also while the database is unavailable: a restart would not bring it back."""
    while (seconds := watchdog_seconds()) is not None:
        notify("WATCHDOG=1")
        await sleep(seconds / 2)


def watchdog_seconds() -> float | None:
    """Return the time after which systemd restarts a silent process; None if it never does."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # meant for the parent
    said = os.environ.get("WATCHDOG_USEC", "")
    return int(said) / 1_000_000 if said.isdecimal() and int(said) else None
