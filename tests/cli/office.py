"""An app whose tasks have something to say, and take arguments of many types."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from duly import Duly, Retry
from duly.clock import sleep
from tests.app.shop import is_up

duly = Duly()


class Colour(StrEnum):
    RED = "red"


@dataclass
class Box:
    size: int
    label: str = ""


@duly.task
def keep(box: dict[str, object], password: str = "", note: str = "") -> None:
    """Take something that should not be seen."""


@duly.task
async def recite(sign: str) -> str:
    """Say something, and something more once it is let go."""
    duly.current().log.info("the first line")
    duly.current().progress(50, "half of it")
    while not is_up(f"{sign}.go"):
        await sleep(0.02)
    duly.current().log.info("the last line")
    return sign


@duly.task
def typed(  # noqa: PLR0913 - a parameter of each type
    text: str,
    *,
    n: int = 0,
    part: float = 0.0,
    day: date | None = None,
    yes: bool = False,
    rows: list[int] | None = None,
    box: Box | None = None,
    either: int | str = "",
    maybe: str | None = None,
    colour: Colour = Colour.RED,
    bare: Any = None,  # noqa: ANN401 - one of any type
) -> list[object]:
    return [text, n, part, day, yes, rows, box, either, maybe, colour, bare]


@duly.task
def many(**rest: int) -> dict[str, int]:
    return rest


@duly.task(retry=None)
def spoil(text: str) -> None:
    raise ValueError(text)


@duly.task(retry=Retry(attempts=2, backoff=["1h"], jitter=False))
def falter() -> None:
    raise ValueError("nobody answers")
