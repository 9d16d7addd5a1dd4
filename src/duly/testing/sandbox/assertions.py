"""Assertions about enqueued jobs, and their messages."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from duly.app.tasks import Call, Enqueueable
from duly.errors import InvalidValue, SignatureChanged
from duly.model import job as model
from duly.model.job_filter import Filter
from duly.model.payload import Json, decode
from duly.store.store import Store

PAGE = 1_000
MOST_SHOWN = 20

Asked: TypeAlias = Call[Any] | Enqueueable[..., Any]

# The options of ``using`` that are still visible on the stored job.
_SEEN: Final = ("queue", "priority", "key", "tenant", "title", "tags")
_COUNTED: Final = (*_SEEN, "run_after")


async def found(store: Store, wanted: Filter) -> list[model.StoredJob]:
    """Return the matching jobs, alive or ended, in the order in which they were enqueued."""
    page = await store.jobs.find(wanted, limit=PAGE)
    jobs = list(page.jobs)
    while page.after is not None:
        page = await store.jobs.find(wanted, after=page.after, limit=PAGE)
        jobs += page.jobs
    return sorted(jobs, key=lambda job: (job.created_at, job.id))


def matching(
    asked: Asked, jobs: Iterable[model.StoredJob], at: datetime | None, now: datetime
) -> list[model.StoredJob]:
    """Return the jobs that match: of the task, and with the same arguments if it has any."""
    test = _test(asked, at, now)
    return [job for job in jobs if test(job)]


def missing(asked: Asked, jobs: Sequence[model.StoredJob], at: datetime | None) -> str:
    """Return the message that the call was not enqueued, with the jobs that were."""
    what = f"{_said(asked)}{_due(at)} was not enqueued"
    return f"{what}; {_listed(jobs, 'these were')}" if jobs else f"{what}; nothing was"


def unwanted(asked: Asked, jobs: Sequence[model.StoredJob], at: datetime | None) -> str:
    return f"{_said(asked)}{_due(at)} was enqueued; {_listed(jobs, 'as')}"


def _test(asked: Asked, at: datetime | None, now: datetime) -> Callable[[model.StoredJob], bool]:
    if isinstance(asked, Enqueueable):
        name = asked.name
        return lambda job: job.task == name and at in (None, job.due_at)
    if not isinstance(asked, Call):
        raise InvalidValue(f"{asked!r}: a task with its arguments, task.bind(…), or a task")
    wanted, signature = asked.asked(), asked.definition.signature
    due = at or _moment(wanted, now)
    said = [choice for choice in _SEEN if choice in asked.choices]
    values = signature.values(wanted.args)

    def test(job: model.StoredJob) -> bool:
        if job.task != wanted.task or due not in (None, job.due_at):
            return False
        if any(getattr(job, choice) != getattr(wanted, choice) for choice in said):
            return False
        try:
            return job.args == wanted.args or signature.values(job.args) == values
        except SignatureChanged:
            return False

    return test


def _moment(wanted: model.JobRequest, now: datetime) -> datetime | None:
    after = wanted.run_after
    return after if after is None or isinstance(after, datetime) else now + after


def _said(asked: Asked) -> str:
    if not isinstance(asked, Call):
        return asked.name
    wanted = asked.asked()
    said = [f"{name}={value!r}" for name, value in asked.choices.items() if name in _COUNTED]
    return _called(wanted.task, wanted.args) + (f" with {', '.join(said)}" if said else "")


def _due(at: datetime | None) -> str:
    return f" for {_shown(at)}" if at is not None else ""


def _listed(jobs: Sequence[model.StoredJob], these: str) -> str:
    lines = [
        f"  {_called(job.task, job.args)}  due {_shown(job.due_at)}, {job.state}"
        for job in jobs[:MOST_SHOWN]
    ]
    more = [f"  … and {len(jobs) - MOST_SHOWN} more"] if len(jobs) > MOST_SHOWN else []
    return "\n".join([f"{these}:", *lines, *more])


def _called(task: str, args: Json) -> str:
    given = decode(args)
    named = given.items() if isinstance(given, dict) else ()
    return f"{task}({', '.join(f'{name}={value!r}' for name, value in named)})"


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} {moment.tzname()}"
