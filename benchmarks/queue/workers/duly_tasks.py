"""duly's tasks, for its own command: coroutines, since they wait for nothing."""

from benchmarks.queue import jobs
from duly import Duly


async def nothing() -> None:
    jobs.nothing()


async def mark(argument: int) -> None:
    jobs.mark(argument)


duly = Duly()
duly.task(nothing)
duly.task(mark)
