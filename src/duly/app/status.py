"""How things stand: was everything kept, what needs somebody, what runs, what comes next."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from duly.app.needs import Need, needs, unfired
from duly.app.upcoming import upcoming
from duly.model.fire import Cause, Outcome
from duly.model.job import Job
from duly.model.states import ENDED, State
from duly.policy.why import Clock, first_line
from duly.store.protocol import Store, Tally

__all__ = ["Coming", "Counts", "Need", "RunningJob", "Status", "counted", "status"]

WINDOW = timedelta(hours=24)
LATE = timedelta(minutes=1)  # what begins later than this is worth a word
MOST_RUNNING = 10
MOST_NEXT = 5

# Moments that nobody wanted kept.
_ON_PURPOSE = (Cause.PAUSED, Cause.EXCLUDED, Cause.ASKED, Cause.MISSED)


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
            return f"{many} ({self._of_all(clock)})."
        if not self.scheduled:
            return "Nothing is scheduled yet."
        if not self.counts.due:
            return f"All is kept: nothing was due since {self._start(clock)}."
        if self.counts.not_kept:
            some = f"{self.counts.kept:,} of {self.counts.due:,} due since {self._start(clock)}"
            return f"{some} were kept, and nothing else needs you."
        ended = self.counts.kept
        under_way = f"; {self.counts.under_way:,} under way" if self.counts.under_way else ""
        return f"All {ended:,} due since {self._start(clock)} were kept{under_way}."

    def _of_all(self, clock: Clock) -> str:
        """What somebody runs by hand, or has promised, needs them and was not due by a schedule."""
        if not self.counts.due:
            return f"no schedule was due since {self._start(clock)}"
        due, kept = self.counts.due, self.counts.kept
        return f"{due:,} due since {self._start(clock)}, {kept:,} kept"

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
        needs=await needs(store, progress, since),
        running=[await _running(store, job) for job in await _longest(store)],
        running_count=progress.running,
        coming=await _coming(store),
        scheduled=bool(await store.schedules.page(limit=1)),
        unfired_since=unfired(progress),
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
    """Some more are asked for than are shown: those that are skipped in advance come later."""
    found = await upcoming(store, await store.evidence.coming(limit=MOST_NEXT * 10))
    next_ones = [
        Coming(name=one.plan.name, due_at=one.next_at, zone=one.plan.shown_zone)
        for one in found
        if one.next_at is not None
    ]
    return sorted(next_ones, key=lambda one: (one.due_at, one.name))[:MOST_NEXT]
