"""The seeds under which a missing guard shows soonest: ``python -m tests.simulation.telling``.

They are only tried first. Any change to the engine tells other stories under them, and then the
test looks for another one, which takes longer; this finds them anew and writes them down.
"""

from pathlib import Path

from tests.simulation import play
from tests.simulation.sabotages import SABOTAGES

FILE = Path(__file__).with_name("telling.txt")
SHORT = 0.3  # minutes of chaos
MOST = 150  # stories that a missing guard may live through


def told() -> dict[str, int]:
    lines = [line.split(maxsplit=1) for line in FILE.read_text().splitlines()]
    return {guard: int(seed) for seed, guard in lines}


def shows(guard: str, seed: int) -> bool:
    """Whether a promise is broken without the guard, in the story of this seed."""
    return bool(play(seed, minutes=SHORT, sabotage=SABOTAGES[guard]).wrong)


def found(guard: str) -> int:
    """The first seed that tells."""
    return next(seed for seed in range(MOST) if shows(guard, seed))


if __name__ == "__main__":
    FILE.write_text("".join(f"{found(guard):<4} {guard}\n" for guard in SABOTAGES))
