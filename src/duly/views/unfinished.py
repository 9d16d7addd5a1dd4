"""What is said to somebody who waits for a job: where it is, and whether anybody will take it."""

from datetime import timedelta
from shlex import quote

from duly.durations import show_duration
from duly.model.job import Job
from duly.model.states import State
from duly.policy.why import what_is_missing
from duly.store.store import Store
from duly.views.workers import present


async def unfinished(store: Store, job: Job, *, waited: timedelta | None) -> str:
    """To whoever waits no longer."""
    after = f" after {show_duration(waited)}" if waited else ""
    said = f"job {job.id} ({job.title or job.task}) is {job.state}{after}"
    hindered = await hindrance(store, job)
    if hindered is not None:
        return f"{said}: {hindered}"
    because = f": {job.reason}" if job.reason else ""
    return f"{said}{because}; it goes on without you"


async def hindrance(store: Store, job: Job) -> str | None:
    """Why nobody will begin it, and what to type; None: somebody will, or has."""
    if job.state is not State.READY and job.waits != "worker":
        return None
    queues = await store.work.queues()
    if any(queue.paused for queue in queues if queue.name == job.queue):
        resume = f"duly queues resume {quote(job.queue)}"
        return f'it waits: queue "{job.queue}" is paused; resume it: {resume}'
    living = present(await store.work.living())
    missing = what_is_missing(living, task=job.task, queue=job.queue, needs=job.needs)
    if missing is None:
        return None
    text, command = missing
    remedy = f"; {command.what}: {command.line}" if command else ""
    return f"it waits for a worker: {text}{remedy}"
