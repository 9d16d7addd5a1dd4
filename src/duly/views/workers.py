"""The workers that are alive, as far as the caller's machine can tell.

The store considers a worker alive until its lease ends. A caller on the worker's own machine can
see whether its process exists: if it does not, there is no need to wait for the end of the lease.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from duly.engine.death_watch import is_dead_here, this_process
from duly.model.worker import WorkerInfo
from duly.store.store import Store


def is_gone(worker: WorkerInfo) -> bool:
    """Return whether the worker's process is known to have ended; False if it is not known."""
    host, here = worker.profile.host, this_process()
    near = bool(here.boot) and (host.boot, host.space) == (here.boot, here.space)
    return near and host != here and is_dead_here(host)


def present(workers: Iterable[WorkerInfo]) -> list[WorkerInfo]:
    """Return the workers without those whose process is known to have ended."""
    return [worker for worker in workers if not is_gone(worker)]


MOST_NAMED = 5


async def unknown_task(store: Store, task: str) -> str | None:
    """Return why no living worker can run the task; None if one can."""
    living = await _living(store)
    known = {name for worker in living for name in worker.tasks}
    if task in known:
        return None
    if not living:
        return f'no worker is running, so nobody can say whether there is a task "{task}"'
    return f'no running worker knows the task "{task}"{_meant(task, known)}'


async def unheard_queue(store: Store, queue: str) -> str | None:
    """Return why no living worker takes jobs from the queue; None if one does."""
    living = await _living(store)
    heard = {name for worker in living for name in worker.queues}
    if queue in heard:
        return None
    if not living:
        return f'no worker is running, and so none listens to the queue "{queue}"'
    names = sorted(heard)
    more = ", …" if len(names) > MOST_NAMED else ""
    theirs = f"they listen to {', '.join(names[:MOST_NAMED])}{more}"
    return f'no worker listens to the queue "{queue}": {theirs}{_meant(queue, heard)}'


async def _living(store: Store) -> list[WorkerInfo]:
    return present(await store.work.living())


def _meant(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
