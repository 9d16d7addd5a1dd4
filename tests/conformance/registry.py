"""The list of checks. A check is a coroutine function; its name is the promise, as a sentence."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.conformance.world import World

Body = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of the store, to be tried on a store that is empty."""

    noun: str
    name: str
    body: Body

    def __str__(self) -> str:
        return f"{self.noun}: {self.name.replace('_', ' ')}"


REGISTERED: list[Check] = []


def check(body: Body) -> Body:
    """Add a function to the suite."""
    noun = body.__module__.rpartition(".")[2]
    REGISTERED.append(Check(noun, body.__name__, body))
    return body
