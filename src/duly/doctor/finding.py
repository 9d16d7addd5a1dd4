"""What one check came to: how bad it is, what was seen, and what helps."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    said: str
    fix: str = ""  # what to do, in a sentence or a command; empty if nothing is to be done
    check: str = ""  # which one it was; whoever has the check made fills it in


def fine(said: str) -> Finding:
    return Finding(level="ok", said=said)


def warning(said: str, fix: str) -> Finding:
    """Something to know: promises are kept, but slower, or not through everything."""
    return Finding(level="warning", said=said, fix=fix)


def problem(said: str, fix: str) -> Finding:
    """Something that needs somebody: a promise is not kept, or cannot be."""
    return Finding(level="problem", said=said, fix=fix)
