"""What a story came to, and which promises did not survive it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(slots=True)
class Report:
    """``broken`` holds on any machine; ``slow`` is judged where nobody else is at work."""

    said: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)

    def must(self, promise: object, otherwise: str) -> None:
        if not promise:
            self.broken.append(otherwise)

    def within(self, seconds: float, most: float, what: str) -> None:
        """Something that has to happen, and soon."""
        self.say(f"{what} {seconds:.2f} s")
        if seconds > most:
            self.slow.append(f"{what}: {seconds:.2f} s, not {most:g} s")

    def __str__(self) -> str:
        return "; ".join(self.said)


def percentile(lengths: Sequence[timedelta], share: float) -> float:
    """In seconds."""
    ordered = sorted(lengths)
    return ordered[int(share * (len(ordered) - 1))].total_seconds() if ordered else 0.0
