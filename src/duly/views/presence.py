"""Who is there, as far as whoever asks can see.

A store believes in a worker until its lease ends. Whoever asks on the worker's own machine can see
whether its process is there: if it is not, nobody has to wait for the lease to say so.
"""

from collections.abc import Iterable

from duly.engine.death_watch import is_dead_here, this_process
from duly.model.worker import WorkerInfo


def is_gone(worker: WorkerInfo) -> bool:
    """Whether it is known that the worker's process has ended; False, if nothing is known."""
    host, here = worker.profile.host, this_process()
    near = bool(here.boot) and (host.boot, host.space) == (here.boot, here.space)
    return near and host != here and is_dead_here(host)


def present(workers: Iterable[WorkerInfo]) -> list[WorkerInfo]:
    """Without those that are known to be gone."""
    return [worker for worker in workers if not is_gone(worker)]
