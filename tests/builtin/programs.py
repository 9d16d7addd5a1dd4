"""Programs that tests start: whether they live, and what they have left as their numbers."""

import os
from pathlib import Path

from tests.engine.workshop import until


def is_alive(number: int) -> bool:
    """Not counting who is dead, and only not waited for."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


async def number_in(file: Path) -> int:
    """What a program has written into a file: its process, mostly."""
    await until(lambda: text_in(file).endswith("\n"))
    return int(text_in(file))


def text_in(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def is_dead(number: int, *, within: float = 10.0) -> None:
    assert number != os.getpid()
    await until(lambda: not is_alive(number), within=within)
