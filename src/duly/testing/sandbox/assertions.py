"""Assertions about enqueued jobs, and time travel from one due moment to the next."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from duly.app.tasks import Call, Enqueueable
from duly.durations import parse_duration
from duly.errors import InvalidValue, RuleError, SignatureChanged
from duly.model import job as model
from duly.model.job_filter import Filter
from duly.model.payload import Json, decode
from duly.model.policies import check_moment
from duly.policy.firing import decide
from duly.store.store import Store
from duly.testing.clock import VirtualClock
from duly.views.fires import Fire, fires, made_by_events

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


BATCH = 1_000
MOST_MOMENTS = 100_000
NO_REST = timedelta(0)


async def travel(store: Store, clock: VirtualClock, end: datetime) -> list[Fire]:
    """Advance the clock with a scheduler that is never late; return the new fires, oldest first."""
    before = set(await _ledger(store))
    await _pass(store, clock, end)
    after = await _ledger(store)
    decided = [fire for number, fire in after.items() if number not in before]
    return sorted(decided, key=lambda fire: (fire.due_at, fire.id))


async def history(store: Store, schedule: str) -> list[Fire]:
    """Return the ledger of a schedule, oldest first."""
    found = await store.ledger.fires(schedule, limit=MOST_MOMENTS)
    return fires(found, schedule, reacts=await made_by_events(store, found))[::-1]


def moment_of(what: str, given: datetime | str) -> datetime:
    """Parse a time: a datetime or its ISO text."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidValue(
            f'{what}="{given}": a time with its zone, as "2027-01-03T23:00+01:00"'
        ) from None
    check_moment(what, moment)
    return moment


def end_of(what: str, given: str | timedelta | datetime, now: datetime) -> datetime:
    """Parse an end: a datetime, its ISO text, or a duration from now."""
    if isinstance(given, datetime) or (isinstance(given, str) and given[4:5] == "-"):
        return moment_of(what, given)
    try:
        return now + parse_duration(given)
    except RuleError as error:
        raise InvalidValue(f"{what}: {error}") from None


async def _pass(store: Store, clock: VirtualClock, end: datetime) -> None:
    soon = timedelta.resolution
    for _ in range(MOST_MOMENTS):
        rest, did_something = await _keep_up(store)
        if rest is not None and rest <= NO_REST:
            # There is more; or it is due and not to be done yet: a job is not late at its deadline.
            rest, soon = (NO_REST, soon) if did_something else (soon, soon * 2)
        if rest is None or clock.now() + rest > end:
            clock.set(end)
            return
        clock.advance(rest)
    raise InvalidValue(
        f"{end} is too far: {MOST_MOMENTS:,} runs were due before, and it is {clock.now()}"
    )


async def _keep_up(store: Store) -> tuple[timedelta | None, bool]:
    """Do all that is due now; return the time until the next is due, and whether anything was."""
    fired = await store.ledger.fire(decide, limit=BATCH, trust=lambda _: True)
    seen = await store.events.react(limit=BATCH)
    answered = await store.maintenance.answer(limit=BATCH)
    moved = await store.maintenance.dispatch(limit=BATCH)
    rests = [rest for rest in (fired.rest, moved.rest) if rest is not None]
    if seen.more or answered == BATCH:
        rests.append(NO_REST)
    did = bool(fired.schedules or seen.events or answered)
    did |= bool(moved.ready or moved.hurried or moved.expired)
    return min(rests, default=None), did


async def _ledger(store: Store) -> dict[int, Fire]:
    """Return all fires of all schedules, by number."""
    found: dict[int, Fire] = {}
    schedules = await store.schedules.page(limit=BATCH)
    while schedules:
        for schedule in schedules:
            name = schedule.plan.name
            found |= {fire.id: fire for fire in await history(store, name)}
        schedules = await store.schedules.page(after=schedules[-1].plan.name, limit=BATCH)
    return found
