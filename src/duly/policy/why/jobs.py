"""Explain why a job is in its state: a clause for each state, to follow "was due … and"."""

from datetime import timedelta
from shlex import quote
from typing import assert_never

from duly.durations import about, show_duration
from duly.model.states import ENDED, State
from duly.policy.why.answer import (
    Clause,
    Explanation,
    JobEvidence,
    SuggestedCommand,
    cancel_job,
    first_line,
    follow_job,
    plural,
    run_it,
    show_job,
    start_node,
)
from duly.policy.why.waiting_jobs import failed_flow, how_far, running_flow, why_waiting

ON_TIME = timedelta(seconds=1)
MOST_ATTEMPTS = 3


def explain_job(found: JobEvidence) -> Explanation:
    job, clock = found.job, found.clock
    called = job.task if found.lineage is None else found.lineage.name
    named = f"job {job.id} ({job.title or called})"
    made_by = () if found.schedule is None else (f"made by the schedule {found.schedule}",)
    if not job.attempt and job.state not in ENDED and min(job.due_at, job.ready_at) > found.now:
        left = about(job.due_at - found.now)
        return Explanation(
            sentence=f"{named} is due {clock.due(job.due_at)}, in {left}.",
            lineage=found.lineage,
            evidence=made_by,
            commands=(cancel_job(job.id, what="call it off"),),
        )
    clause = clause_of(found)
    return clause._replace(evidence=(*made_by, *clause.evidence)).explained(
        f"{named} was due {clock.due(job.due_at)} and {clause.text}.", lineage=found.lineage
    )


def clause_of(found: JobEvidence) -> Clause:  # noqa: PLR0911 - one for each state
    """Return the clause for the state of a job whose moment has come."""
    match found.job.state:
        case State.SUCCEEDED:
            return _succeeded(found)
        case State.RUNNING:
            if found.job.waits == "outcome":
                return _handed_off(found)
            return _running(found) if found.flow is None else running_flow(found, found.flow)
        case State.FAILED:
            return _failed(found) if found.flow is None else failed_flow(found, found.flow)
        case State.CANCELLED:
            return _cancelled(found)
        case State.EXPIRED:
            return _expired(found)
        case State.SCHEDULED:
            return _scheduled(found)
        case State.READY | State.BLOCKED:
            waits = why_waiting(found)
            call_off = cancel_job(found.job.id, what="call it off")
            return waits._replace(
                attempts=_failed_attempts(found), commands=(*waits.commands, call_off)
            )
        case _:
            assert_never(found.job.state)


def _succeeded(found: JobEvidence) -> Clause:
    job, clock = found.job, found.clock
    # Lateness is that of the run that succeeded; earlier attempts are listed as evidence.
    started, ended = job.claimed_at or job.due_at, job.ended_at or found.now
    late = max(started - job.due_at, timedelta())
    took = f"took {about(ended - started)}"
    if late < ON_TIME:
        ran = f"ran on time ({about(late)} late, {took})"
    else:
        ran = f"ran {about(late)} late (started {clock.near(started, job.due_at)}, {took})"
    again = f", at {found.tries}" if found.attempts else ""
    # The outcome of a job that was handed to another system has no worker.
    where = "" if job.worker is None else f" on {found.runner_name}"
    return Clause(
        text=ran + again,
        evidence=(f"job {job.id}{where}" if found.flow is None else how_far(found.flow),),
        attempts=_failed_attempts(found),
        commands=(show_job(job.id),),
    )


def _running(found: JobEvidence) -> Clause:
    job, clock = found.job, found.clock
    since = job.claimed_at or found.now
    usual = "" if found.usual is None else f", usually {about(found.usual)}"
    began = f"{clock.near(since, job.due_at)} ({clock.ago(since)}{usual}), {found.tries}"
    said = f"is running since {began}, on {found.runner_name}"
    if found.is_gone:
        said = f"was running since {began}, on {found.runner_name}, which is gone"
    if found.note is not None and found.note.attempt == job.attempt:
        message = f": {first_line(found.note.message)}" if found.note.message else ""
        said += f", {found.note.percent:.0f} % done{message}"
    if found.stopping is not None:
        said += f"; it was asked to stop ({found.stopping})"
    attempts = _failed_attempts(found)
    if found.is_lost:
        start = () if found.living else (start_node(),)
        return Clause(said, (_lost(found),), attempts, (follow_job(job.id), *start))
    stop = () if found.stopping is not None else (cancel_job(job.id),)
    return Clause(said, (), attempts, (follow_job(job.id), *stop))


def _handed_off(found: JobEvidence) -> Clause:
    job, clock = found.job, found.clock
    since = job.claimed_at or found.now
    said = (
        f"was handed to {job.waits_for} {clock.near(since, job.due_at)} ({clock.ago(since)} ago, "
        f"{found.tries}), no outcome yet"
    )
    if job.deadline is not None:
        said += f", due back by {clock.near(job.deadline, since)}"
    return Clause(
        text=said,
        attempts=_failed_attempts(found),
        commands=(cancel_job(job.id, what="call it off"),),
    )


def _lost(found: JobEvidence) -> str:
    """Say how it is known that the worker is gone, and that the job will run again."""
    runner, clock = found.runner, found.clock
    then = "the job will be reclaimed and run again"
    if not found.living:
        then += " by the next worker: none is running"
    if runner is None:
        return f"its worker is gone: {then}"
    if found.is_gone and runner.lease_until > found.now:
        left = about(runner.lease_until - found.now)
        return f"the process of {runner.name} is gone; its lease ends in {left}: {then}"
    heard = f"{clock.near(runner.beat_at)} ({clock.ago(runner.beat_at)} ago)"
    return f"{runner.name} was last heard of {heard}: {then}"


def _failed(found: JobEvidence) -> Clause:
    job, clock = found.job, found.clock
    said = first_line(job.error) or job.reason
    count = max(1, len(found.attempts), job.attempt)
    when = "at its first attempt" if count == 1 else f"after {plural(count, 'attempt')}"
    ended = () if job.ended_at is None else (f"ended {clock.near(job.ended_at)}: {job.reason}",)
    return Clause(
        text=f"failed {when}: {said}".rstrip("."),
        evidence=ended,
        attempts=_failed_attempts(found),
        commands=(show_job(job.id), SuggestedCommand("try again", f"duly jobs retry {job.id}")),
    )


def _cancelled(found: JobEvidence) -> Clause:
    job, clock = found.job, found.clock
    said = job.reason if job.reason.startswith("cancelled") else f"cancelled: {job.reason}"
    at = "" if job.ended_at is None else f" ({clock.near(job.ended_at, job.due_at)})"
    steps = () if found.flow is None else (how_far(found.flow),)
    return Clause(
        text=f"was {said}{at}",
        evidence=steps,
        attempts=_failed_attempts(found),
        commands=_run_again(found),
    )


def _expired(found: JobEvidence) -> Clause:
    job, clock = found.job, found.clock
    by = ""
    if job.deadline is not None:
        within = show_duration(job.deadline - job.due_at)
        by = f' by {clock.near(job.deadline, job.due_at)} (start_within="{within}")'
    at = "" if job.ended_at is None else f", and expired {clock.near(job.ended_at, job.due_at)}"
    return Clause(
        text=f"was not started{by}{at}",
        attempts=_failed_attempts(found),
        commands=_run_again(found),
    )


def _scheduled(found: JobEvidence) -> Clause:
    job, clock = found.job, found.clock
    commands = (cancel_job(job.id, what="call it off"),)
    if job.ready_at <= found.now:
        text = "waits to be made ready: no scheduler is running"
        if found.now - job.ready_at < timedelta(seconds=5):
            text = "is being made ready"
        return Clause(text=text, commands=(start_node(), *commands))
    when = f"{clock.near(job.ready_at)} (in {about(job.ready_at - found.now)})"
    if not found.attempts:
        why = f": {job.reason}" if job.reason else ""  # of a hand-off whose target is down
        return Clause(text=f"is to start {when}{why}".rstrip("."), commands=commands)
    last = found.attempts[-1]
    why = first_line(last.error) or last.reason
    return Clause(
        text=f"is tried again {when}: {found.tries} ended with {why}".rstrip("."),
        attempts=_failed_attempts(found),
        commands=(show_job(job.id), *commands),
    )


def _failed_attempts(found: JobEvidence) -> tuple[str, ...]:
    """Return a line for each of the last failed attempts."""
    clock = found.clock
    return tuple(
        f"attempt {one.number}, {clock.near(one.started_at)} to {clock.near(one.ended_at)}: "
        f"{first_line(one.error) or one.reason}"
        for one in found.attempts[-MOST_ATTEMPTS:]
    )


def _run_again(found: JobEvidence) -> tuple[SuggestedCommand, ...]:
    job = found.job
    if found.schedule is not None:
        return (show_job(job.id), run_it(found.schedule))
    return (show_job(job.id), SuggestedCommand("run it now", f"duly run {quote(job.task)} …"))
