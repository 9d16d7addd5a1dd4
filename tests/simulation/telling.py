"""The seeds under which a missing guard shows soonest, and those under which much happens.

They are only tried first. Any change to the engine tells other stories under them, and then the
test looks for others, which takes longer. ``python -m tests.simulation.telling`` finds them anew
and writes them down.
"""

from pathlib import Path

from duly.testing.simulate import SOMETIMES, play
from tests.simulation.sabotages import SABOTAGES

FILE = Path(__file__).with_name("telling.txt")
EVENTFUL = Path(__file__).with_name("eventful.txt")
SHORT = 0.3  # minutes of chaos
MOST = 150  # stories that a missing guard may live through
MOST_STORIES = 1_000  # in which everything has to happen


def told() -> dict[str, int]:
    lines = [line.split(maxsplit=1) for line in FILE.read_text().splitlines()]
    return {guard: int(seed) for seed, guard in lines}


def shows(guard: str, seed: int) -> bool:
    """Whether a promise is broken without the guard, in the story of this seed."""
    return bool(play(seed, minutes=SHORT, sabotage=SABOTAGES[guard]).wrong)


def found(guard: str) -> int:
    """The first seed that tells."""
    return next(seed for seed in range(MOST) if shows(guard, seed))


def known_for_much() -> list[int]:
    """Stories in which, taken together, everything happens that may."""
    return [int(line) for line in EVENTFUL.read_text().splitlines()]


def eventful() -> list[int]:
    """A few of those: each time the one in which most happens that was missing."""
    missing, happened, chosen = set(SOMETIMES), dict[int, set[str]](), list[int]()
    for seed in range(MOST_STORIES):
        found = play(seed, minutes=SHORT).sometimes
        happened[seed] = {what for what, times in found.items() if times}
        missing -= happened[seed]
        if not missing:
            break
    missing = set(SOMETIMES)
    while missing:
        chosen.append(max(happened, key=lambda seed: len(happened[seed] & missing)))
        missing -= happened[chosen[-1]]
    return chosen


if __name__ == "__main__":
    FILE.write_text("".join(f"{found(guard):<4} {guard}\n" for guard in SABOTAGES))
    EVENTFUL.write_text("".join(f"{seed}\n" for seed in eventful()))
