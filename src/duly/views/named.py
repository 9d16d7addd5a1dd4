"""What somebody means by a name: a schedule; or one that was removed, or a task, which is said."""

from shlex import quote

from duly.errors import NotFound
from duly.model.filter import Filter
from duly.model.schedule import Schedule
from duly.policy.why import Clock
from duly.store.protocol import Store
from duly.views.upcoming import upcoming_one


async def schedule_named(store: Store, name: str) -> Schedule:
    """The schedule, with the next moment that nobody has skipped."""
    try:
        return await upcoming_one(store, await store.schedules.get(name))
    except NotFound as unknown:
        raise await _what_it_is(store, name) or unknown from None


async def _what_it_is(store: Store, name: str) -> NotFound | None:
    """Why no schedule has the name, if that is known."""
    try:
        changes = await store.schedules.changes(name, limit=1)
    except NotFound:
        changes = []
    if changes:
        [(at, who, _)] = changes
        by = f" by {who}" if who else ""
        when = Clock("UTC", at).whole(at)
        return NotFound(f'there is no schedule "{name}" any more: it was removed {when}{by}')
    known = any(name in worker.tasks for worker in await store.work.living())
    if known or await store.jobs.count(Filter(task=name), at_most=1):
        jobs = f"duly jobs {quote(f'task:{name}')}"
        return NotFound(f'there is no schedule "{name}"; it is a task: {jobs}')
    return None
