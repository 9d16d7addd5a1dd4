"""What a contestant has to offer, so that all of them are measured in the same way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

Role = Literal["limit", "peer", "duly"]
Task = Literal["nothing", "mark"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contestant works for one round: a database of its own, and a folder for marks."""

    url: str  # PostgreSQL's address, or the path of SQLite's file
    folder: Path


class Producer(Protocol):
    """A caller with a connection of its own, where connections are not shared."""

    async def enqueue(self, task: Task, argument: int | None = None) -> None:
        """One job. It has survived a crash of the machine when this returns, where one can ask."""

    async def enqueue_many(self, task: Task, count: int) -> None: ...

    async def close(self) -> None: ...


class Contestant(Protocol):
    """One way to run jobs or schedules, with one setting."""

    name: ClassVar[str]
    database: ClassVar[str]  # "SQLite", or "PostgreSQL", with its version where it is measured
    role: ClassVar[Role]
    durable: ClassVar[bool]  # whether a job that is enqueued survives the machine
    once: ClassVar[bool]  # whether it is measured on the newest PostgreSQL only

    place: Place

    def __init__(self, place: Place) -> None: ...

    async def prepare(self) -> None:
        """Make the tables."""

    def worker(self) -> Sequence[str]:
        """The command of a worker process."""

    def environment(self) -> dict[str, str]:
        """What the worker is told beyond the place."""


class Queue(Contestant, Protocol):
    """A contestant for the questions about jobs."""

    bulk: ClassVar[bool]  # whether many jobs can be enqueued by one call
    slowness: ClassVar[int]  # it is asked for so many times fewer jobs, since the run is to end

    # Statements for the harness, which has a connection of its own.
    unfinished: ClassVar[str]  # a row for each job that waits or runs
    finished: ClassVar[str | None]  # the number of jobs that have ended well; None: nobody knows
    settle: ClassVar[str]  # when the queue has been filled

    async def producers(self, count: int) -> Sequence[Producer]:
        """As many callers, each to be closed."""


class Scheduler(Contestant, Protocol):
    """A contestant for the question about schedules."""

    nodes: ClassVar[int]  # how many processes may share the schedules without running them twice

    async def schedule(self) -> None:
        """Store the schedules, unless the node does it when it starts."""


def short_name(kind: type[Contestant]) -> str:
    """Return the name without the database."""
    return kind.name.removesuffix(f", {kind.database}")
