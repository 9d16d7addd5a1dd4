"""Awaiting things where a fixture of the whole session needs them."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end, in a thread of its own.

    Playwright leaves its loop marked as running in ours, and asyncio then refuses to run another.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
