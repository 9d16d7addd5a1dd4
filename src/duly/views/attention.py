"""Items that need attention: missed or failed runs, and jobs that cannot run.

Acknowledged items are left out until something new happens. That no scheduler is running cannot be
acknowledged: it is a condition that lasts, not an event.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duly.durations import MICROSECOND
from duly.engine.death_watch import present
from duly.errors import NotFound
from duly.instants import EPOCH
from duly.model.access import Matter
from duly.model.schedule import StoredSchedule
from duly.model.worker import WorkerInfo
from duly.policy.redaction import redacted
from duly.policy.why import LocalClock, SuggestedCommand, first_line, what_is_missing
from duly.policy.why.answer import plural, start_node
from duly.store.activity import NotKept, WaitingKind
from duly.store.maintenance import OVERDUE, StoreProgress
from duly.store.store import Store
from duly.views.overdue import OverdueRuns
from duly.views.schedule_detail import Removed, removed_schedules
from duly.views.why import answer_moment, redacted_commands, silent_until

PATIENCE = timedelta(minutes=1)  # a worker may be just starting
MOST_NEEDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """An item that needs attention, and the commands that help. Secrets are hidden."""

    name: str  # of the schedule, or of the task
    # "skipped", "failed", "expired", "no worker", "signature", "overdue", "fault", "ahead" or
    # "removed"
    kind: str
    sentence: str
    due_at: datetime | None = None
    zone: str | None = None  # of its schedule, if it is of one
    moments: int = 1
    job_id: int | None = None
    commands: tuple[SuggestedCommand, ...] = ()
    matter: Matter | None = None  # for ``store.access.acknowledge``; None if not possible
    reacts: bool = False  # an event made it due: it cannot be run without one

    @property
    def schedule(self) -> str | None:
        """The schedule's name if a schedule needs attention, else None."""
        return self.name if self.matter and self.matter.subject.startswith("schedule:") else None

    @property
    def job_to_see(self) -> int | None:
        """The item's own job, or else the job that blocked it."""
        return self.job_id or next((one.job_id for one in self.commands if one.job_id), None)

    @property
    def job_to_stop(self) -> int | None:
        """The job that blocks it and is still running."""
        return next((one.job_id for one in self.commands if one.what == "stop it"), None)

    @property
    def moment_word(self) -> str:
        """The word that labels ``due_at``: since, of, ended or due."""
        if self.kind in ("no worker", "signature"):
            return "since"
        if self.reacts:
            return "of"
        return "ended" if self.kind == "failed" and self.schedule is None else "due"


async def needs(
    store: Store,
    progress: StoreProgress,
    overdue: OverdueRuns | None,
    *,
    since: datetime,
    zone: str | None = None,
) -> list[Need]:
    """Return the items that need attention: first those that stop everything, then newest first."""
    found = await conditions(store, progress, overdue, zone=zone)
    broken = await store.activity.not_kept(since, limit=MOST_NEEDS)
    found += [await explained(store, one, zone) for one in broken]
    return found + await failed_tasks(store, since)


async def conditions(
    store: Store, progress: StoreProgress, overdue: OverdueRuns | None, *, zone: str | None = None
) -> list[Need]:
    """Return the items that last: nothing is fired, or jobs cannot run."""
    living = await store.work.living()
    found = [
        *_overdue(progress, overdue),
        *await _of_schedules(store, progress, LocalClock(zone or "UTC", progress.now)),
        *await _left_behind(store, living),
        *await without_worker(store, living),
    ]
    return [_redacted(need) for need in found]


def _redacted(need: Need) -> Need:
    commands = redacted_commands(need.commands)
    return replace(need, sentence=redacted(need.sentence), commands=commands)


async def without_worker(store: Store, living: Sequence[WorkerInfo]) -> list[Need]:
    """Return jobs that no worker can take.

    Jobs of paused queues are left out: the pause is intended.
    """
    living = present(living)
    paused = {queue.name for queue in await store.work.queues() if queue.paused}
    waiting = await store.activity.waiting(patience=PATIENCE)
    found = (_waiting(kind, living, paused) for kind in waiting)
    return [need for need in found if need is not None][:MOST_NEEDS]


def _waiting(
    kind: WaitingKind, living: Sequence[WorkerInfo], paused: Collection[str]
) -> Need | None:
    many, word = plural(kind.jobs, "job"), "signature"
    commands: tuple[SuggestedCommand, ...] = (
        SuggestedCommand("see one", f"duly why {kind.job_id}"),
    )
    said = f"{many} blocked, signature changed: {kind.reason}"
    if kind.waits != "signature":
        missing = what_is_missing(living, task=kind.task, queue=kind.queue, needs=kind.needs)
        if missing is None or kind.queue in paused:
            return None
        why, command = missing
        word, said = "no worker", f"{many} wait{'s' * (kind.jobs == 1)} for a worker: {why}"
        commands = (*commands, command) if command else commands
    return Need(
        name=kind.task,
        kind=word,
        sentence=said,
        due_at=kind.since,
        moments=kind.jobs,
        job_id=kind.job_id,
        commands=commands,
        matter=Matter(subject=f"task:{kind.task}", kind=word, until=kind.last),
    )


def _overdue(progress: StoreProgress, overdue: OverdueRuns | None) -> list[Need]:
    start = (start_node(),)
    if overdue is not None:
        said, since = f"{overdue.counted} overdue and not fired yet", overdue.since
        return [Need(name="scheduler", kind="overdue", sentence=said, due_at=since, commands=start)]
    due = progress.oldest_undispatched
    if due is None or progress.now - due <= OVERDUE:
        return []
    said = "a job is due and not ready yet: no scheduler is running"
    return [Need(name="scheduler", kind="overdue", sentence=said, due_at=due, commands=start)]


async def _of_schedules(store: Store, progress: StoreProgress, clock: LocalClock) -> list[Need]:
    """Return schedules that cannot be fired, were left ahead by a wrong clock, or were removed."""
    gone = await removed_schedules(store)
    if not (progress.faulty or progress.ahead or gone):
        return []
    known = [one.matter for one in await store.access.acknowledged()]
    found: list[Need] = []
    for kind, names in (("fault", progress.faulty), ("ahead", progress.ahead)):
        needs: list[Need] = []
        for name in names:
            with suppress(NotFound):  # removed a moment ago
                need = _silent(kind, await store.schedules.get(name), progress.now)
                needs += [need] if need.matter not in known else []
            if len(needs) == MOST_NEEDS:
                break
        found += needs
    removed = [_removed(one, clock) for one in gone]
    return found + [need for need in removed if need.matter not in known][:MOST_NEEDS]


def _silent(kind: str, schedule: StoredSchedule, now: datetime) -> Need:
    """Return the item for a schedule that fires nothing; it is acknowledged up to its cursor."""
    name = schedule.plan.name
    matter = Matter(subject=f"schedule:{name}", kind=kind, until=schedule.cursor)
    if kind == "ahead":
        said, commands = silent_until(schedule, now)
    else:
        said = f"cannot be fired: {first_line(schedule.fault)}"
        commands = (SuggestedCommand("see it", f"duly schedules show {name}"),)
    return Need(name=name, kind=kind, sentence=said, commands=commands, matter=matter)


def _removed(one: Removed, clock: LocalClock) -> Need:
    """Return the item for a schedule that is declared in code but was removed from the store."""
    until = one.at or EPOCH
    return Need(
        name=one.name,
        kind="removed",
        sentence=one.sentence(clock),
        commands=(one.command,),
        matter=Matter(subject=f"schedule:{one.name}", kind="removed", until=until),
    )


async def _left_behind(store: Store, believed: Sequence[WorkerInfo]) -> list[Need]:
    """Return the jobs of dead workers if no worker is alive to take them back."""
    if present(believed):
        return []
    dead = [one.id for one in believed]
    return [
        Need(
            name=one.name or f"worker {one.worker}",
            kind="no worker",
            sentence=f"is gone, and {plural(one.jobs, 'job')} with it: none is running that could "
            f"take {'it' if one.jobs == 1 else 'them'} back",
            moments=one.jobs,
            commands=(start_node(),),
        )
        for one in await store.diagnostics.orphans(dead=dead, limit=MOST_NEEDS)
    ]


async def explained(store: Store, one: NotKept, zone: str | None) -> Need:
    """Return the item for the last of several failed or missed runs, with its explanation."""
    schedule = await store.schedules.get(one.schedule)
    zone = zone or schedule.plan.shown_zone
    rows = await store.ledger.fires(
        one.schedule, since=one.due_at, until=one.due_at + MICROSECOND, limit=100
    )
    row = next((row for row in rows if row.job_id == one.job_id), None)
    answer = None if row is None else await answer_moment(store, schedule, row, zone=zone)
    said = answer.short if answer else one.reason
    if one.moments > 1:
        first = LocalClock(zone, one.due_at).near(one.first)
        said = f"{said} ({plural(one.moments, 'run')} since {first})"
    need = Need(
        name=one.schedule,
        kind="skipped" if one.cause is not None else str(one.state),
        sentence=said,
        due_at=one.due_at,
        zone=zone,
        moments=one.moments,
        job_id=one.job_id,
        commands=answer.commands if answer else (),
        matter=Matter(
            subject=f"schedule:{one.schedule}", kind=str(one.cause or one.state), until=one.last
        ),
        reacts=schedule.plan.reaction is not None,
    )
    return _redacted(need)


async def failed_tasks(store: Store, since: datetime, *, limit: int = MOST_NEEDS) -> list[Need]:
    """Return failed jobs that were not enqueued by a schedule, grouped by task."""
    found = [
        Need(
            name=one.task,
            kind="failed",
            sentence=f"{plural(one.jobs, 'job')} failed, the last: "
            f"{first_line(one.error) or one.reason}",
            due_at=one.ended_at,
            moments=one.jobs,
            job_id=one.job_id,
            commands=(
                SuggestedCommand("see it", f"duly why {one.job_id}"),
                SuggestedCommand("try again", f"duly jobs retry {one.job_id}"),
            ),
            matter=Matter(subject=f"task:{one.task}", kind="failed", until=one.ended_at),
        )
        for one in await store.activity.failed_tasks(since, limit=limit)
    ]
    return [_redacted(need) for need in found]
