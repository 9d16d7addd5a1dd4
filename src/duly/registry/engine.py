"""Engines: systems outside of duly that run the jobs of a task, as Dask or Kubernetes.

The job keeps its lease in duly. Its worker holds a coroutine that starts the remote job, waits for
it and reads its outcome. A remote job is found by its key, so that the worker after a lost one
waits for the same remote job instead of starting a second.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineJob:
    """One try of a job, for an engine.

    ``request`` is everything that ``duly.engines.program`` needs to run it. ``heard`` takes each
    line that the remote job has written, and ``note`` a sentence of the engine itself.
    """

    key: str  # the same for each worker that comes to this try
    family: str  # the beginning of the keys of all tries of this job
    task: str
    module: str  # declares the task
    request: str
    timeout: timedelta | None
    grace: timedelta
    heard: Callable[[str], None] = field(repr=False)
    note: Callable[[str], None] = field(repr=False)


class Engine(Protocol):
    async def run(self, job: EngineJob) -> str:
        """Start the remote job, or find the one with this key; return what its program reported.

        End remote jobs of the same family with other keys first: a job has at most one. Raise
        ``EngineUnavailable`` if the engine does not answer; it is then called again.
        """
        ...

    async def cancel(self, job: EngineJob) -> None:
        """End the remote job, if there is one, and return when it has ended."""
        ...
