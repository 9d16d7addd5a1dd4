"""How things stand: was everything kept, what needs somebody, what runs, what comes next."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from duly.app.why import answer_moment
from duly.errors import NotFound
from duly.model.fire import Cause, Outcome
from duly.model.job import Job
from duly.model.states import ENDED, State
from duly.policy.why import Clock, Command, first_line, what_is_missing
from duly.policy.why.showing import plural
from duly.store.protocol import OVERDUE, NotKept, Progress, Store, Tally

WINDOW = timedelta(hours=24)
LATE = timedelta(minutes=1)  # what begins later than this is worth a word
PATIENCE = timedelta(minutes=1)  # so long a job may wait for a worker that is just starting
MOST_NEEDS = 20
MOST_RUNNING = 10
MOST_NEXT = 5
MICROSECOND = timedelta(microseconds=1)

# Moments that nobody wanted kept.
_ON_PURPOSE = (Cause.PAUSED, Cause.EXCLUDED, Cause.ASKED, Cause.MISSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something that was not kept, or cannot be, and what it needs."""

    name: str  # of the schedule, or of the task
    kind: str  # "skipped", "failed", "expired", "no worker", "signature", "overdue", "fault"
    sentence: str
    due_at: datetime | None = None
    zone: str = "UTC"
    moments: int = 1
    job_id: int | None = None
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    id: int
    name: str  # of its title, or its task
    since: datetime
    percent: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    name: str
    due_at: datetime
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The moments of the clock. Due are those that are kept, under way, or not kept."""

    kept: int = 0
    late: int = 0  # so many of the kept
    under_way: int = 0
    not_kept: int = 0
    on_purpose: int = 0  # skipped because somebody wanted it so, or called off: not counted as due

    @property
    def due(self) -> int:
        return self.kept + self.under_way + self.not_kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    now: datetime
    since: datetime
    counts: Counts
    needs: Sequence[Need] = ()
    running: Sequence[RunningJob] = ()
    running_count: int = 0
    coming: Sequence[Coming] = ()
    scheduled: bool = True  # whether there is any schedule
    unfired_since: datetime | None = None  # nobody has decided what has been due for so long

    @property
    def ok(self) -> bool:
        return not self.needs

    def headline(self, zone: str = "UTC") -> str:
        """One of four sentences."""
        clock = Clock(zone, self.now)
        if self.unfired_since is not None:
            since = f"{clock.near(self.unfired_since)} ({clock.ago(self.unfired_since)} ago)"
            return f"Nothing is running schedules: nobody has decided what was due {since}."
        if self.needs:
            count = len(self.needs)
            many = "1 promise needs you" if count == 1 else f"{count} promises need you"
            return f"{many} ({self.counts.due:,} due since {self._start(clock)}, {self._kept()})."
        if not self.scheduled:
            return "Nothing is scheduled yet."
        if not self.counts.due:
            return f"All is kept: nothing was due since {self._start(clock)}."
        ended = self.counts.kept
        under_way = f"; {self.counts.under_way:,} under way" if self.counts.under_way else ""
        return f"All {ended:,} due since {self._start(clock)} were kept{under_way}."

    def _kept(self) -> str:
        return f"{self.counts.kept:,} kept"

    def _start(self, clock: Clock) -> str:
        return f"yesterday {clock.near(self.since).split()[-1][:5]}"


async def status(store: Store) -> Status:
    progress = await store.upkeep.progress()
    since = progress.now - WINDOW
    tallies = await store.evidence.tallies(since, late=LATE)
    return Status(
        now=progress.now,
        since=since,
        counts=counted(tallies),
        needs=await _needs(store, progress, since),
        running=[await _running(store, job) for job in await _longest(store)],
        running_count=progress.running,
        coming=await _coming(store),
        scheduled=bool(await store.schedules.page(limit=1)),
        unfired_since=_unfired(progress),
    )


def counted(tallies: Iterable[Tally]) -> Counts:
    """Of each tally, whether it was kept; a job that is forgotten by now has not failed."""
    kept = late = under_way = not_kept = on_purpose = 0
    for tally in tallies:
        if tally.outcome is Outcome.SKIPPED:
            if tally.cause in _ON_PURPOSE:
                on_purpose += tally.moments
            else:
                not_kept += tally.moments
        elif tally.state in (State.FAILED, State.EXPIRED):
            not_kept += tally.moments
        elif tally.state is State.CANCELLED:
            on_purpose += tally.moments
        elif tally.state is None or tally.state in ENDED:
            kept += tally.moments
            late += tally.late
        else:
            under_way += tally.moments
    return Counts(
        kept=kept, late=late, under_way=under_way, not_kept=not_kept, on_purpose=on_purpose
    )


async def _needs(store: Store, progress: Progress, since: datetime) -> list[Need]:
    """The newest first; what stops everything before all others."""
    found = [
        *_overdue(progress),
        *await _faulty(store, progress),
        *await _waiting(store),
    ]
    broken = await store.evidence.not_kept(since, limit=MOST_NEEDS)
    found += [await _not_kept(store, one) for one in broken]
    return found + await _failed(store, since)


def _unfired(progress: Progress) -> datetime | None:
    oldest = progress.oldest_unfired
    return oldest if oldest is not None and progress.now - oldest > OVERDUE else None


def _overdue(progress: Progress) -> list[Need]:
    problem = progress.problem
    if problem is None:
        return []
    due = _unfired(progress) or progress.oldest_undispatched
    start = Command("start one", "duly up")
    return [Need(name="scheduler", kind="overdue", sentence=problem, due_at=due, commands=(start,))]


async def _faulty(store: Store, progress: Progress) -> list[Need]:
    found = []
    for name in progress.faulty[:MOST_NEEDS]:
        try:
            fault = (await store.schedules.get(name)).fault
        except NotFound:
            continue
        show = Command("see it", f"duly schedules show {name}")
        said = f"stands still: {first_line(fault)}"
        found.append(Need(name=name, kind="fault", sentence=said, commands=(show,)))
    return found


async def _waiting(store: Store) -> list[Need]:
    """Jobs that no worker can take. Those of a paused queue wait because somebody wants it."""
    living = await store.work.living()
    paused = {queue.name for queue in await store.work.queues() if queue.paused}
    found = []
    for kind in await store.evidence.waiting(patience=PATIENCE):
        many = plural(kind.jobs, "job")
        show = Command("see one", f"duly why {kind.job_id}")
        if kind.waits == "signature":
            said = f"{many} blocked, signature changed: {kind.reason}"
            commands: tuple[Command, ...] = (show,)
        else:
            missing = what_is_missing(living, task=kind.task, queue=kind.queue, needs=kind.needs)
            if missing is None or kind.queue in paused:
                continue
            why, command = missing
            said = f"{many} wait{'s' * (kind.jobs == 1)} for a worker: {why}"
            commands = (show, command) if command else (show,)
        found.append(
            Need(
                name=kind.task,
                kind="signature" if kind.waits == "signature" else "no worker",
                sentence=said,
                due_at=kind.since,
                moments=kind.jobs,
                job_id=kind.job_id,
                commands=commands,
            )
        )
    return found[:MOST_NEEDS]


async def _not_kept(store: Store, one: NotKept) -> Need:
    """The last of several, with what is known of it by now."""
    schedule = await store.schedules.get(one.schedule)
    zone = schedule.plan.shown_zone
    rows = await store.ledger.fires(
        one.schedule, since=one.due_at, until=one.due_at + MICROSECOND, limit=100
    )
    row = next((row for row in rows if row.job_id == one.job_id), None)
    answer = None if row is None else await answer_moment(store, schedule, row)
    said = answer.short if answer else one.reason
    if one.moments > 1:
        first = Clock(zone, one.due_at).near(one.first)
        said = f"{said} ({plural(one.moments, 'moment')} since {first})"
    return Need(
        name=one.schedule,
        kind="skipped" if one.cause is not None else str(one.state),
        sentence=said,
        due_at=one.due_at,
        zone=zone,
        moments=one.moments,
        job_id=one.job_id,
        commands=answer.commands if answer else (),
    )


async def _failed(store: Store, since: datetime) -> list[Need]:
    """Jobs that somebody asked for, by their task."""
    return [
        Need(
            name=one.task,
            kind="failed",
            sentence=f"{plural(one.jobs, 'job')} failed, the last: "
            f"{first_line(one.error) or one.reason}",
            due_at=one.ended_at,
            moments=one.jobs,
            job_id=one.job_id,
            commands=(
                Command("see it", f"duly why {one.job_id}"),
                Command("try again", f"duly jobs retry {one.job_id}"),
            ),
        )
        for one in await store.evidence.failed_tasks(since, limit=MOST_NEEDS)
    ]


async def _longest(store: Store) -> list[Job]:
    return await store.evidence.running(limit=MOST_RUNNING)


async def _running(store: Store, job: Job) -> RunningJob:
    note = await store.journal.note(job.id)
    mine = note if note is not None and note.attempt == job.attempt else None
    return RunningJob(
        id=job.id,
        name=job.title or job.task,
        since=job.claimed_at or job.ready_at,
        percent=None if mine is None else mine.percent,
        message="" if mine is None else first_line(mine.message),
    )


async def _coming(store: Store) -> list[Coming]:
    found = await store.evidence.coming(limit=MOST_NEXT)
    return [
        Coming(name=one.plan.name, due_at=one.next_at, zone=one.plan.shown_zone)
        for one in found
        if one.next_at is not None
    ]
