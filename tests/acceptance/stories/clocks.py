"""Clocks are wrong: those of nodes an hour apart, and one that somebody sets while it is used."""

import random
import struct
from pathlib import Path

from tests.acceptance.fleet import Fleet, Impossible
from tests.acceptance.report import Report
from tests.acceptance.stories.kills import AFTER_A_KILL, Weather, storm

HOUR = 3_600.0
WRONG = (-HOUR, -30.0, 30.0, HOUR)
# How far the only clock of a SQLite file is set, forth and back.
STEPS = (0.0, 45.0)


async def clocks_disagree(url: str, folder: Path, *, weather: Weather) -> Report:
    """Each node has a clock of its own, and one of them jumps two hours forth and back.

    The database's clock decides, so nobody notices.
    """
    if not url.startswith("postgresql:"):
        raise Impossible("nodes on one SQLite file share the clock of their machine")
    clocks = [wrong_clock(folder, name, seconds) for name, seconds in enumerate(WRONG)]

    def blow(_: Fleet) -> None:
        set_clock(clocks[0], random.choice([-2, 2]) * HOUR)

    return await storm(url, folder, weather=weather, blow=blow, most=AFTER_A_KILL, clocks=clocks)


async def the_clock_steps(url: str, folder: Path, *, weather: Weather) -> Report:
    """The clock that all nodes share is set forth and back: no lease ends of it, and no run."""
    if url.startswith("postgresql:"):
        raise Impossible("the clock of the server is this machine's, and others use it")
    clock = wrong_clock(folder, 0, STEPS[0])

    def blow(_: Fleet) -> None:
        [wrong] = struct.unpack("d", clock.read_bytes())
        set_clock(clock, STEPS[0] if wrong else STEPS[1])

    report = await storm(url, folder, weather=weather, blow=blow, most=None, clocks=[clock])
    begun = [(line.schedule, line.due) for line in Fleet(url, folder / "witness").lines("begin")]
    again = len(begun) - len(set(begun))
    report.say(f"{again} runs repeated")
    report.must(not again, "a job ran again, though no node was lost")
    return report


def wrong_clock(folder: Path, name: int, seconds: float) -> Path:
    file = folder / f"clock {name}"
    file.write_bytes(struct.pack("d", seconds))
    return file


def set_clock(file: Path, seconds: float) -> None:
    """Set it in place: nodes have the file mapped."""
    with file.open("r+b") as opened:
        opened.write(struct.pack("d", seconds))
