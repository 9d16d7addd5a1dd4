"""Reading what explains things: who was in the way, who decided when, what is not kept."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from duly.instants import from_us, to_us
from duly.model.fire import Cause, Outcome, StoredFire
from duly.model.job import Job
from duly.model.schedule import StoredSchedule
from duly.model.states import State
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.protocol import FailedTask, HourTally, NotKept, RunTimes, Tally, WaitingKind

EVER = 2**63 - 1
HOUR = 3_600_000_000


def schedule(number: int) -> Operation[StoredSchedule | None]:
    found = rows.schedules((yield Ask("numbered_schedule", {"id": number})))
    return rows.schedule(found[0]) if found else None


def run_in_the_way(number: int, moment: datetime) -> Operation[Job | None]:
    values = {"schedule_id": number, "moment": to_us(moment)}
    found = yield Ask("run_in_the_way", values)
    return rows.job(found[0]) if found else None


def past_runs(number: int, limit: int) -> Operation[list[timedelta]]:
    found = yield Ask("past_runs", {"schedule_id": number, "limit": limit})
    return [timedelta(microseconds=length) for (length,) in found]


def runs_of(jobs: Sequence[int]) -> Operation[dict[int, RunTimes]]:
    found = yield Ask("runs_of", {"ids": list(jobs)})
    return {
        number: RunTimes(
            state=State(state),
            first_at=rows.moment(first),
            started_at=rows.moment(started),
            ended_at=rows.moment(ended),
        )
        for number, state, first, started, ended in found
    }


def run_after(number: int, moment: datetime) -> Operation[StoredFire | None]:
    found = yield Ask("run_after", {"schedule_id": number, "moment": to_us(moment)})
    return rows.fire(found[0]) if found else None


def last_decision(before: datetime) -> Operation[datetime | None]:
    found = yield Ask("last_decision", {"before": to_us(before)})
    return from_us(found[0][0]) if found else None


def count_ahead(job: int) -> Operation[int]:
    [(count,)] = yield Ask("count_ahead", {"id": job})
    return int(count)


def running_in(queue: str) -> Operation[int]:
    [(count,)] = yield Ask("running_in_queue", {"queue": queue})
    return int(count)


def asked_to_stop(job: int) -> Operation[str | None]:
    found = yield Ask("asked_to_stop", {"id": job})
    return str(found[0][0]) if found else None


def tallies(since: datetime, until: datetime | None, late: timedelta) -> Operation[list[Tally]]:
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


def hour_tallies(
    since: datetime, until: datetime, *, due_since: datetime, late: timedelta
) -> Operation[list[HourTally]]:
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


def late_moments(
    since: datetime, until: datetime, *, late: timedelta, limit: int
) -> Operation[list[StoredFire]]:
    values = {
        "since": to_us(since),
        "until": to_us(until),
        "late": late // timedelta(microseconds=1),
        "limit": limit,
    }
    return [rows.fire(row) for row in (yield Ask("late_moments", values))]


def not_kept(since: datetime, limit: int) -> Operation[list[NotKept]]:
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


def failed_tasks(since: datetime, limit: int) -> Operation[list[FailedTask]]:
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


def waiting(patience: timedelta, limit: int) -> Operation[list[WaitingKind]]:
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


def running(limit: int) -> Operation[list[Job]]:
    return [rows.job(row) for row in (yield Ask("running_jobs", {"limit": limit}))]


def awaiting(limit: int) -> Operation[list[Job]]:
    return [rows.job(row) for row in (yield Ask("awaiting_jobs", {"limit": limit}))]


def due_before(before: datetime, limit: int) -> Operation[list[StoredSchedule]]:
    found = yield Ask("schedules_due_before", {"before": to_us(before), "limit": limit})
    return [rows.schedule(row) for row in rows.schedules(found)]


def _end(until: datetime | None) -> int:
    return EVER if until is None else to_us(until)


def _cause(word: str | None) -> Cause | None:
    return None if word is None else Cause(word)


def _state(word: str) -> State | None:
    return State(word) if word else None
