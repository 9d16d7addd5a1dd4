"""How much memory a process uses, and may.

Two limits, because neither is enough. The address space can be limited by the kernel: a single
allocation beyond all measure fails as ``MemoryError``, with a traceback that shows where. But
address space is not memory: stacks, arenas and mapped files reserve it by the gigabyte and never
touch it, so the kernel's limit has some air. What is really used is looked at from outside, once a
second, and whoever is above the limit is killed.
"""

import contextlib
import os
import resource
from collections.abc import Iterator

_AIR = 256 * 1024 * 1024  # some thirty threads, of eight megabytes of stack each


def resident(pid: int | str = "self") -> int:
    """Bytes of memory in use, or 0 where nobody can say."""
    return _statm(pid)[1]


@contextlib.contextmanager
def address_space(memory: int | None) -> Iterator[None]:
    """Limit what this process may map to ``memory`` and what it has mapped without using it."""
    if memory is None:
        yield
        return
    mapped, used = _statm("self")
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = max(mapped, memory + mapped - used) + _AIR
    if before != resource.RLIM_INFINITY:
        allowed = min(allowed, before)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def shown(size: int) -> str:
    """2.1 GB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size:,} bytes"


def _statm(pid: int | str) -> tuple[int, int]:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 – once a second for every job
            mapped, used, *_ = file.read().split()
    except (OSError, ValueError):
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(mapped) * page, int(used) * page
