"""Tasks for an engine: each run leaves its process number in a file."""

import logging
import os
from datetime import date
from pathlib import Path
from threading import Event

from duly import Context, Duly, Permanent, Retry
from duly.clock import sleep
from duly.engines import Dask

duly = Duly()
engine = Dask(os.environ.get("DULY_TEST_DASK", "tcp://127.0.0.1:1"))
QUICK = Retry(first="10ms")
PAUSE = Event()  # which nobody sets


def began(sign: str) -> int:
    """Note that a run has begun; return how many have."""
    with Path(sign).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return len(runs(sign))


def runs(sign: str) -> list[int]:
    """The process numbers of the runs so far."""
    path = Path(sign)
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def let_go(sign: str) -> None:
    Path(f"{sign}.go").touch()


@duly.task(engine=engine, takes_context=True)
def add_days(context: Context, day: date, days: int = 1) -> dict[str, object]:
    print("counting", flush=True)  # noqa: T201 - a task may
    logging.getLogger("calendar").warning("careful")
    context.progress(50, "half")
    ordinal = day.toordinal() + days
    return {"day": date.fromordinal(ordinal), "attempt": context.attempt, "parent": os.getppid()}


@duly.task(engine=engine, retry=QUICK)
def fail_first(sign: str) -> int:
    count = began(sign)
    if count == 1:
        raise ValueError("the first time")
    return count


@duly.task(engine=engine)
async def give_up() -> None:
    await sleep(0)
    raise Permanent("there is no point")


@duly.task(engine=engine, timeout="5s", retry=None, grace="500ms")
def run_long(sign: str) -> None:
    began(sign)
    while True:
        try:
            PAUSE.wait(60)
        except TimeoutError:
            Path(f"{sign}.asked").touch()


@duly.task(engine=engine, grace="500ms")
def hold(sign: str) -> str:
    """Run until the file exists."""
    print("holding", flush=True)  # noqa: T201 - a task may
    began(sign)
    while not Path(f"{sign}.go").exists():
        PAUSE.wait(0.02)
    return "held"
