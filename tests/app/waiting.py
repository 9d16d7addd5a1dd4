"""Waiting for the world, a little at a time, and not for ever."""

import threading
from collections.abc import Callable
from time import monotonic

from duly.clock import sleep

PATIENCE = 15.0
_NEVER = threading.Event()


def eventually(condition: Callable[[], object], what: str, *, within: float = PATIENCE) -> None:
    end = monotonic() + within
    while not condition():
        assert monotonic() < end, f"waited in vain for {what}"
        _NEVER.wait(0.02)


async def happened(condition: Callable[[], object], what: str) -> None:
    """The same, for code on a loop."""
    end = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < end, f"waited in vain for {what}"
        await sleep(0.02)
