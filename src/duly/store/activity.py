"""Reads that explain and count what happened: reasons, problems, depths of queues.

The dashboard may ask once a second: each answer is bounded and found through an index.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from duly.instants import from_us, to_us
from duly.model.columns import read_rows
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.job import StoredJob, Waits
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.values import RunTimes
from duly.store.verbs import Noun, reading, reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The number of due moments with the same outcome."""

    outcome: Outcome
    cause: Cause | None
    state: State | None  # of the job that stands for them; None: there is none, or none any more
    moments: int
    late: int = 0  # so many of them were kept, and late


@dataclass(frozen=True, slots=True, kw_only=True)
class HourTally(Tally):
    """The number of due moments with the same outcome within an hour."""

    hour: datetime  # its beginning, a whole hour of UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept:
    """Due times of a schedule that were missed for the same reason: the last, and how many."""

    schedule: str
    due_at: datetime
    first: datetime
    last: datetime  # when the last of it happened: was decided, or ended
    moments: int
    cause: Cause | None
    state: State | None
    reason: str
    job_id: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTask:
    """Failed jobs of a task that no schedule made: the last, and how many."""

    task: str
    job_id: int
    ended_at: datetime
    jobs: int
    reason: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingKind:
    """Jobs that wait for the same kind of worker."""

    queue: str
    task: str
    jobs: int
    since: datetime
    last: datetime  # since when the last of them waits
    job_id: int  # one of them
    waits: Waits | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


HappeningKind = Literal["moment", "began", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A decided moment, a started job or an ended job."""

    at: datetime
    kind: HappeningKind
    number: int  # of the fire, or of the job
    job_id: int | None
    schedule: str  # its name; empty: there is none, or none any more
    task: str
    title: str
    queue: str
    tenant: str
    state: str  # of the job, or the outcome of the moment
    reason: str
    due_at: datetime

    @property
    def id(self) -> str:
        """The timestamp and the number, as ``1700000000000000-42``."""
        return f"{to_us(self.at)}-{self.number}"


# Lengths are counted between these, in microseconds: 1, 2, 5, 10, … ms, and 5,000 s or more.
LENGTHS: tuple[int, ...] = tuple(step * 10**digits for digits in range(3, 10) for step in (1, 2, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedStats:
    """The jobs that ended in a queue within a period, with histograms of durations.

    Of each histogram, the first number counts durations below the first of ``LENGTHS``, and each
    other one those that reached one more of them.
    """

    start: datetime
    queue: str
    succeeded: int
    failed: int
    others: int
    waiting: Sequence[int]
    running: Sequence[int]
    lateness: Sequence[int]  # of scheduled jobs


# So many jobs are counted of a queue; one more says that there are even more.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The number of jobs in a queue; a number above ``MOST_COUNTED`` means more than that.

    Of the ended jobs of all queues, the last ``MOST_COUNTED`` are counted, and as many failed ones.
    """

    queue: str
    ready: int = 0
    scheduled: int = 0
    blocked: int = 0
    running: int = 0
    oldest_ready_at: datetime | None = None  # of the jobs that are claimed first
    whole: bool = True  # else there are so many that some scheduled or blocked were not counted
    succeeded: int = 0
    cancelled: int = 0
    expired: int = 0
    failed: int = 0
    ended_whole: bool = True  # else some that ended, but did not fail, were not counted
    failed_whole: bool = True


def schedule(number: int) -> Operation[StoredSchedule | None]:
    found = rows.schedules((yield Ask("numbered_schedule", {"id": number})))
    return rows.schedule(found[0]) if found else None


def run_in_the_way(schedule: int, moment: datetime) -> Operation[StoredJob | None]:
    """Return the oldest job of a schedule that existed at a moment and had not ended."""
    values = {"schedule_id": schedule, "moment": to_us(moment)}
    return next(map(rows.job, (yield Ask("run_in_the_way", values))), None)


def past_runs(schedule: int, *, limit: int = 20) -> Operation[list[timedelta]]:
    """Return how long the last successful runs took."""
    found = yield Ask("past_runs", {"schedule_id": schedule, "limit": limit})
    return [timedelta(microseconds=length) for (length,) in found]


def runs_of(jobs: Sequence[int]) -> Operation[dict[int, RunTimes]]:
    """Return when these jobs ran; pruned jobs are left out."""
    return rows.run_times((yield Ask("runs_of", {"ids": list(jobs)})))


def count_ahead(job: int) -> Operation[int]:
    """Return how many jobs are claimed before this ready job; 10,001 means even more."""
    [(count,)] = yield Ask("count_ahead", {"id": job})
    return int(count)


def running_in(queue: str) -> Operation[int]:
    [(count,)] = yield Ask("running_in_queue", {"queue": queue})
    return int(count)


def asked_to_stop(job: int) -> Operation[str | None]:
    """Return the reason why a running job was asked to stop, if it was."""
    found = yield Ask("asked_to_stop", {"id": job})
    return str(found[0][0]) if found else None


class ActivityStore(Noun):
    schedule: Final = reading("viewer", schedule)
    run_in_the_way: Final = reading("viewer", run_in_the_way)
    past_runs: Final = reading("viewer", past_runs)
    runs_of: Final = reading("viewer", runs_of)

    @reads("viewer")
    def run_after(self, schedule: int, moment: datetime) -> Operation[StoredFire | None]:
        """Return the first due moment after another one that got a job."""
        found = yield Ask("run_after", {"schedule_id": schedule, "moment": to_us(moment)})
        return next(map(rows.fire, found), None)

    @reads("viewer")
    def last_decision(self, before: datetime) -> Operation[datetime | None]:
        """Return when a scheduler last decided about any schedule."""
        found = yield Ask("last_decision", {"before": to_us(before)})
        return from_us(found[0][0]) if found else None

    count_ahead: Final = reading("viewer", count_ahead)
    running_in: Final = reading("viewer", running_in)
    asked_to_stop: Final = reading("viewer", asked_to_stop)

    @reads("viewer")
    def tallies(
        self, since: datetime, *, until: datetime | None = None, late: timedelta
    ) -> Operation[list[Tally]]:
        """Count the due moments decided since then and before ``until``, by outcome.

        A moment counts as late if its job began more than ``late`` after it.
        """
        values = {
            "since": to_us(since),
            "until": EVER,
            "first": to_us(since),
            "last": _end(until),
            "late": rows.microseconds(late),
        }
        return read_rows(Tally, (yield Ask("count_moments", values)))

    @reads("viewer")
    def hour_tallies(
        self, since: datetime, *, until: datetime, due_since: datetime, late: timedelta
    ) -> Operation[list[HourTally]]:
        """Count the moments decided between two instants by outcome and hour of due time."""
        values = {
            "since": to_us(since),
            "until": to_us(until),
            "first": to_us(due_since),
            "last": EVER,
            "late": rows.microseconds(late),
        }
        found = yield Ask("count_moments_by_hour", values)
        return read_rows(HourTally, found, "hour outcome cause state moments late")

    @reads("viewer")
    def late_moments(
        self, since: datetime, until: datetime, *, late: timedelta, limit: int = 10
    ) -> Operation[list[StoredFire]]:
        """Return moments decided between two instants whose jobs began late, newest first."""
        values = {
            "since": to_us(since),
            "until": to_us(until),
            "late": rows.microseconds(late),
            "limit": limit,
        }
        return [rows.fire(row) for row in (yield Ask("late_moments", values))]

    @reads("viewer")
    def not_kept(self, since: datetime, *, limit: int = 100) -> Operation[list[NotKept]]:
        """Return missed moments that no policy explains and nobody acknowledged, the newest first.

        ``access.acknowledge`` identifies one by the schedule, the cause or state, and ``last``.
        """
        found = yield Ask("moments_not_kept", {"since": to_us(since), "limit": limit})
        columns = "schedule due_at cause reason job_id state error moments first last"
        return read_rows(NotKept, found, columns)

    @reads("viewer")
    def failed_tasks(self, since: datetime, *, limit: int = 100) -> Operation[list[FailedTask]]:
        """Return tasks with failed jobs that no schedule made and nobody acknowledged."""
        found = yield Ask("failed_tasks", {"since": to_us(since), "limit": limit})
        return read_rows(FailedTask, found, "task job_id ended_at reason error jobs")

    @reads("viewer")
    def waiting(self, *, patience: timedelta, limit: int = 1_000) -> Operation[list[WaitingKind]]:
        """Return jobs that waited longer for a worker and are not acknowledged, oldest first."""
        values = {"patience": rows.microseconds(patience), "limit": limit}
        columns = "queue task waits needs jobs since job_id reason last"
        return read_rows(WaitingKind, (yield Ask("waiting_kinds", values)), columns)

    @reads("viewer")
    def running(self, *, limit: int = 10) -> Operation[list[StoredJob]]:
        """Return the running jobs, those that run longest first."""
        return [rows.job(row) for row in (yield Ask("running_jobs", {"limit": limit}))]

    @reads("viewer")
    def awaiting(self, *, limit: int = 10) -> Operation[list[StoredJob]]:
        """Return the steps that wait for an event, those with the earliest deadline first."""
        return [rows.job(row) for row in (yield Ask("awaiting_jobs", {"limit": limit}))]

    @reads("viewer")
    def due_before(
        self, before: datetime, *, limit: int = 1_000
    ) -> Operation[list[StoredSchedule]]:
        """Return the schedules that are due before then, those that are overdue first."""
        found = yield Ask("schedules_due_before", {"before": to_us(before), "limit": limit})
        return [rows.schedule(row) for row in rows.schedules(found)]

    @reads("viewer")
    def happened(
        self, since: datetime, *, until: datetime | None = None, limit: int = 1_000
    ) -> Operation[list[Happening]]:
        """Return the last decided moments, started jobs and ended jobs, in order of time.

        A row may become visible later than its own timestamp says.
        """
        values = {**_between(since, until), "limit": limit}
        return read_rows(Happening, reversed((yield Ask("happened", values))))

    @reads("viewer")
    def count_happened(self, since: datetime, *, until: datetime | None = None) -> Operation[int]:
        [(count,)] = yield Ask("count_happened", _between(since, until))
        return int(count)

    @reads("viewer")
    def minutes(
        self, since: datetime, until: datetime, *, step: timedelta = timedelta(minutes=1)
    ) -> Operation[list[EndedStats]]:
        """Count the ended jobs by queue and by periods of this length, aligned to 1970."""
        width = rows.microseconds(step) or 1
        found = yield Ask("ended_by_step", {**_between(since, until), "step": width})
        counters: dict[tuple[int, str], _Counter] = {}
        for place, queue, state, *lengths, count in found:
            counters.setdefault((place, queue), _Counter()).add(state, lengths, count)
        return [
            counter.as_ended(from_us(place * width), queue)
            for (place, queue), counter in sorted(counters.items())
        ]

    @reads("viewer")
    def depths(self, *, ended: bool = False) -> Operation[list[Depth]]:
        """Return the number of jobs in each queue that is not empty, by name.

        With ``ended``, also of those that have ended, which are in many more queues.
        """
        most = {"most": MOST_LOOKED_AT}
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        ready = yield Ask("count_ready_by_queue", {**most, "oldest": MOST_OLDEST})
        for queue, count, oldest in ready:
            found[queue] = {"ready": count, "oldest_ready_at": rows.moment(oldest)}
        for queue, count in (yield Ask("count_running_by_queue", most)):
            found[queue]["running"] = count
        scheduled = yield Ask("count_scheduled_by_queue", most)
        for queue, count in scheduled:
            found[queue]["scheduled"] = count
        blocked = yield Ask("count_blocked_by_queue", most)
        for queue, count, *_ in blocked:
            if count:
                found[queue]["blocked"] = count
        whole = _all_seen(count for _, count in scheduled) and all(
            _all_seen(row[place] for row in blocked) for place in (2, 3)
        )
        counts = (yield Ask("count_ended_by_queue", most)) if ended else []
        for queue, state, count in counts:
            found[queue][state] = count
        ended_whole, failed_whole = (
            _all_seen(count for _, state, count in counts if (state == State.FAILED) is failed)
            for failed in (False, True)
        )
        seen: dict[str, Any] = {
            "whole": whole,
            "ended_whole": ended_whole,
            "failed_whole": failed_whole,
        }
        return [Depth(queue=queue, **found[queue], **seen) for queue in sorted(found)]


EVER = 2**63 - 1


def _end(until: datetime | None) -> int:
    return EVER if until is None else to_us(until)


MOST_LOOKED_AT = MOST_COUNTED + 1
# The job that is claimed first has mostly waited longest; a few more are examined for exceptions.
MOST_OLDEST = 1_000


def _between(since: datetime, until: datetime | None) -> dict[str, int]:
    return {"since": to_us(since), "until": _end(until)}


def _no_lengths() -> list[int]:
    return [0] * (len(LENGTHS) + 1)


@dataclass(slots=True)
class _Counter:
    """Counts of the jobs that ended in a queue within a period, as their rows come in."""

    states: dict[str, int] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=_no_lengths)
    running: list[int] = field(default_factory=_no_lengths)
    lateness: list[int] = field(default_factory=_no_lengths)

    def add(self, state: str, lengths: Sequence[int | None], count: int) -> None:
        self.states[state] = self.states.get(state, 0) + count
        histograms = (self.waiting, self.running, self.lateness)
        for counts, place in zip(histograms, lengths, strict=True):
            if place is not None:
                counts[min(max(place, 0), len(LENGTHS))] += count

    def as_ended(self, start: datetime, queue: str) -> EndedStats:
        succeeded = self.states.get(State.SUCCEEDED, 0)
        failed = self.states.get(State.FAILED, 0)
        return EndedStats(
            start=start,
            queue=queue,
            succeeded=succeeded,
            failed=failed,
            others=sum(self.states.values()) - succeeded - failed,
            waiting=tuple(self.waiting),
            running=tuple(self.running),
            lateness=tuple(self.lateness),
        )


def _all_seen(counts: Iterable[int]) -> bool:
    return sum(counts) <= MOST_COUNTED
