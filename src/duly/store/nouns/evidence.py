"""Reads that explain and count: why something happened, what needs attention, how full queues are.

The dashboard may ask once a second: each answer is bounded and found through an index.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from duly.instants import from_us, to_us
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.job import StoredJob
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.store import rows
from duly.store.database import Ask, Operation, Row
from duly.store.values import (
    LENGTHS,
    MOST_COUNTED,
    Depth,
    EndedStats,
    FailedTask,
    Happening,
    HourTally,
    NotKept,
    RunTimes,
    Tally,
    WaitingKind,
)
from duly.store.verbs import Noun, reads


class EvidenceStore(Noun):
    @reads("viewer")
    def schedule(self, number: int) -> Operation[StoredSchedule | None]:
        found = rows.schedules((yield Ask("numbered_schedule", {"id": number})))
        return rows.schedule(found[0]) if found else None

    @reads("viewer")
    def run_in_the_way(self, schedule: int, moment: datetime) -> Operation[StoredJob | None]:
        """Return the oldest job of a schedule that existed at a moment and had not ended."""
        values = {"schedule_id": schedule, "moment": to_us(moment)}
        found = yield Ask("run_in_the_way", values)
        return rows.job(found[0]) if found else None

    @reads("viewer")
    def past_runs(self, schedule: int, *, limit: int = 20) -> Operation[list[timedelta]]:
        """Return how long the last successful runs took."""
        found = yield Ask("past_runs", {"schedule_id": schedule, "limit": limit})
        return [timedelta(microseconds=length) for (length,) in found]

    @reads("viewer")
    def runs_of(self, jobs: Sequence[int]) -> Operation[dict[int, RunTimes]]:
        """Return when these jobs ran; pruned jobs are left out."""
        return rows.run_times((yield Ask("runs_of", {"ids": list(jobs)})))

    @reads("viewer")
    def run_after(self, schedule: int, moment: datetime) -> Operation[StoredFire | None]:
        """Return the first due moment after another one that got a job."""
        found = yield Ask("run_after", {"schedule_id": schedule, "moment": to_us(moment)})
        return rows.fire(found[0]) if found else None

    @reads("viewer")
    def last_decision(self, before: datetime) -> Operation[datetime | None]:
        """Return when a scheduler last decided about any schedule."""
        found = yield Ask("last_decision", {"before": to_us(before)})
        return from_us(found[0][0]) if found else None

    @reads("viewer")
    def count_ahead(self, job: int) -> Operation[int]:
        """Return how many jobs are claimed before this ready job; 10,001 means even more."""
        [(count,)] = yield Ask("count_ahead", {"id": job})
        return int(count)

    @reads("viewer")
    def running_in(self, queue: str) -> Operation[int]:
        [(count,)] = yield Ask("running_in_queue", {"queue": queue})
        return int(count)

    @reads("viewer")
    def asked_to_stop(self, job: int) -> Operation[str | None]:
        """Return the reason why a running job was asked to stop, if it was."""
        found = yield Ask("asked_to_stop", {"id": job})
        return str(found[0][0]) if found else None

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
        return [
            Tally(
                outcome=Outcome(outcome),
                cause=_cause(cause),
                state=_state(state),
                moments=moments,
                late=overdue,
            )
            for outcome, cause, state, moments, overdue in (yield Ask("count_moments", values))
        ]

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
        return [
            HourTally(
                hour=from_us(hour * HOUR),
                outcome=Outcome(outcome),
                cause=_cause(cause),
                state=_state(state),
                moments=moments,
                late=overdue,
            )
            for hour, outcome, cause, state, moments, overdue in (
                yield Ask("count_moments_by_hour", values)
            )
        ]

    @reads("viewer")
    def late_moments(
        self, since: datetime, until: datetime, *, late: timedelta, limit: int = 10
    ) -> Operation[list[StoredFire]]:
        """Return moments decided between two instants whose jobs began late, newest first."""
        values = {
            "since": to_us(since),
            "until": to_us(until),
            "late": late // timedelta(microseconds=1),
            "limit": limit,
        }
        return [rows.fire(row) for row in (yield Ask("late_moments", values))]

    @reads("viewer")
    def not_kept(self, since: datetime, *, limit: int = 100) -> Operation[list[NotKept]]:
        """Return missed moments that no policy explains and nobody acknowledged, the newest first.

        ``access.acknowledge`` identifies one by the schedule, the cause or state, and ``last``.
        """
        found = yield Ask("moments_not_kept", {"since": to_us(since), "limit": limit})
        return [
            NotKept(
                schedule=name,
                due_at=from_us(due),
                first=from_us(first),
                last=from_us(last),
                moments=moments,
                cause=_cause(cause),
                state=_state(state),
                reason=reason,
                job_id=job_id,
                error=error,
            )
            for name, due, cause, reason, job_id, state, error, moments, first, last in found
        ]

    @reads("viewer")
    def failed_tasks(self, since: datetime, *, limit: int = 100) -> Operation[list[FailedTask]]:
        """Return tasks with failed jobs that no schedule made and nobody acknowledged."""
        found = yield Ask("failed_tasks", {"since": to_us(since), "limit": limit})
        return [
            FailedTask(
                task=task,
                job_id=number,
                ended_at=from_us(ended),
                jobs=jobs,
                reason=reason,
                error=error,
            )
            for task, number, ended, reason, error, jobs in found
        ]

    @reads("viewer")
    def waiting(self, *, patience: timedelta, limit: int = 1_000) -> Operation[list[WaitingKind]]:
        """Return jobs that waited longer for a worker and are not acknowledged, oldest first."""
        values = {"patience": rows.microseconds(patience), "limit": limit}
        return [
            WaitingKind(
                queue=queue,
                task=task,
                waits=waits,
                needs=json.loads(needs) if needs else {},
                jobs=jobs,
                since=from_us(since),
                last=from_us(last),
                job_id=number,
                reason=reason,
            )
            for queue, task, waits, needs, jobs, since, number, reason, last in (
                yield Ask("waiting_kinds", values)
            )
        ]

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
        return [_happening(row) for row in reversed((yield Ask("happened", values)))]

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
    def depths(self) -> Operation[list[Depth]]:
        """Return the number of jobs in each queue that is not empty, by name."""
        most = {"most": MOST_LOOKED_AT}
        ready = yield Ask("count_ready_by_queue", {**most, "oldest": MOST_OLDEST})
        running = yield Ask("count_running_by_queue", most)
        scheduled = yield Ask("count_scheduled_by_queue", most)
        blocked = yield Ask("count_blocked_by_queue", most)
        found: dict[str, Depth] = {}
        for queue, count, oldest in ready:
            found[queue] = Depth(queue=queue, ready=count, oldest_ready_at=rows.moment(oldest))
        for queue, count in running:
            found[queue] = replace(_of(found, queue), running=count)
        for queue, count in scheduled:
            found[queue] = replace(_of(found, queue), scheduled=count)
        for queue, count, *_ in blocked:
            if count:
                found[queue] = replace(_of(found, queue), blocked=count)
        whole = _all_seen(count for _, count in scheduled) and all(
            _all_seen(row[place] for row in blocked) for place in (2, 3)
        )
        return [replace(found[queue], whole=whole) for queue in sorted(found)]


EVER = 2**63 - 1
HOUR = 3_600_000_000


def _end(until: datetime | None) -> int:
    return EVER if until is None else to_us(until)


def _cause(word: str | None) -> Cause | None:
    return None if word is None else Cause(word)


def _state(word: str) -> State | None:
    return State(word) if word else None


EVER = 2**63 - 1
MOST_LOOKED_AT = MOST_COUNTED + 1
# The job that is claimed first has mostly waited longest; a few more are examined for exceptions.
MOST_OLDEST = 1_000


def _between(since: datetime, until: datetime | None) -> dict[str, int]:
    return {"since": to_us(since), "until": EVER if until is None else to_us(until)}


def _happening(row: Row) -> Happening:
    at, kind, number, job, schedule, task, title, queue, tenant, state, reason, due = row
    return Happening(
        at=from_us(at),
        kind=kind,
        number=number,
        job_id=job,
        schedule=schedule or "",
        task=task or "",
        title=title or "",
        queue=queue or "",
        tenant=tenant or "",
        state=state,
        reason=reason,
        due_at=from_us(due),
    )


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


def _of(found: dict[str, Depth], queue: str) -> Depth:
    return found.get(queue) or Depth(queue=queue)


def _all_seen(counts: Iterable[int]) -> bool:
    return sum(counts) <= MOST_COUNTED
