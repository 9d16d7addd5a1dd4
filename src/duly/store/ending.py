"""How a job ends, for whoever moves it out of the hot table."""

from dataclasses import dataclass

from duly.model.states import State


@dataclass(frozen=True, slots=True)
class Ending:
    state: State
    reason: str
    crashes: int = 0
    result: str | None = None
    error: str | None = None
    keep: int | None = None  # how long the result is kept, in microseconds
