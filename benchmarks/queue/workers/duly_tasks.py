"""duly's tasks, for its own command: coroutines, since they wait for nothing."""

from benchmarks.queue import jobs
from duly import Duly


async def nothing() -> None:
    jobs.nothing()


async def mark(argument: int) -> None:
    jobs.mark(argument)


async def late(number: int) -> None:
    jobs.late(number)


duly = Duly()
for task in (nothing, mark, late):
    duly.task(task)

if __name__ == "__main__":
    duly.run()  # a node: the scheduler and a worker
