"""Why a flow runs or failed, step by step; and which event a waiting step waits for."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from shlex import quote

from duly.model.event import read_awaited
from duly.model.flow import FlowInfo, StepInfo, StepState
from duly.policy.why.answer import (
    Clause,
    LocalClock,
    SuggestedCommand,
    about,
    cancel_job,
    first_line,
    plural,
    show_job,
)
from duly.policy.why.evidence import JobEvidence

MOST_NAMED = 3
DONE = (StepState.SUCCEEDED, StepState.SKIPPED)


def how_far(flow: FlowInfo, *, brief: bool = False) -> str:
    """Return ``3 of 5 steps are done, 1 failed``; with ``brief``, ``3 of 5 done, 1 failed``."""
    counts = Counter(step.state for step in flow.steps)
    done, steps = sum(counts[state] for state in DONE), len(flow.steps)
    said = f"{done:,} of {plural(steps, 'step')} {'is' if done == 1 else 'are'} done"
    others = (StepState.FAILED, StepState.CANCELLED)
    whole = f"{done:,} of {steps:,} done" if brief else said
    return ", ".join([whole, *(f"{counts[one]:,} {one}" for one in others if counts[one])])


def first_failed(flow: FlowInfo) -> StepInfo | None:
    """Return the step that failed first."""
    return min(
        _failed(flow), key=lambda step: (step.ended_at or flow.opened_at, step.number), default=None
    )


def parts_done(step: StepInfo) -> int:
    """Return how many parts of a step have succeeded."""
    return step.parts - step.remaining - step.missed - step.stopped


def running_flow(found: JobEvidence, flow: FlowInfo) -> Clause:
    """``runs: 3 of 5 steps are done; transform B runs since 02:00 (4 s); load waits for it``."""
    job, clock = found.job, found.clock
    running = [step for step in flow.steps if step.state is StepState.RUNNING]
    said = [f"runs: {how_far(flow)}", *(_under_way(step, clock) for step in running[:MOST_NAMED])]
    if len(running) > MOST_NAMED:
        said.append(f"{len(running) - MOST_NAMED:,} more run")
    said += _held_up(flow, running)
    if found.stopping is not None:
        said.append(f"it was asked to stop ({found.stopping})")
    failed = first_failed(flow)
    stop = () if found.stopping is not None else (cancel_job(job.id),)
    return Clause(
        text="; ".join(said),
        evidence=() if failed is None else (_failure(failed, clock),),
        commands=(show_job(job.id), *_see_step(flow, failed), *stop),
    )


def failed_flow(found: JobEvidence, flow: FlowInfo) -> Clause:
    """Explain a failed flow: the step that failed first, its error, and other failed steps."""
    job, clock, failed = found.job, found.clock, first_failed(flow)
    others = [step for step in _failed(flow) if step is not failed]
    said = first_line(job.error) or first_line(job.reason)
    ended = () if job.ended_at is None else (f"ended {clock.near(job.ended_at)}: {how_far(flow)}",)
    again = SuggestedCommand("go on from what failed", f"duly jobs retry {job.id}", job.id)
    return Clause(
        text=f"failed: {said}".rstrip("."),
        evidence=(*ended, *(_failure(step, clock) for step in others[:MOST_NAMED])),
        commands=(show_job(job.id), *_see_step(flow, failed), again),
    )


def awaited_event(found: JobEvidence) -> Clause:
    """Explain a step that waits for an event: which event, until when, and how to emit it."""
    job, clock = found.job, found.clock
    event, key = read_awaited(job.waits_for or "")
    about_it = f" about {key}" if key else ""
    until = ""
    if job.deadline is not None:
        left = about(max(job.deadline - found.now, timedelta()))
        until = f", until {clock.near(job.deadline)} (in {left})"
    keyed = f" --key {quote(key)}" if key else ""
    answer = SuggestedCommand("answer it", f"duly events emit {quote(event)}{keyed}", job.id)
    return Clause(text=f"waits for the event {event}{about_it}{until}", commands=(answer,))


def _under_way(step: StepInfo, clock: LocalClock) -> str:
    since = step.started_at
    when = "" if since is None else f" since {clock.near(since)} ({clock.ago(since)})"
    if step.kind == "wait":
        return f"{step.name} waits for an event{when}"
    parts = f", {parts_done(step):,} of {step.parts:,} parts done"
    return f"{step.name} runs{when}{parts if step.kind == 'map' else ''}"


def _held_up(flow: FlowInfo, running: Sequence[StepInfo]) -> list[str]:
    """Name the steps that wait directly for the running ones."""
    under_way = {step.number for step in running}
    waiting = [
        step.name
        for step in flow.steps
        if step.state is StepState.WAITING and under_way.intersection(step.before)
    ]
    if not waiting:
        return []
    more = f" and {len(waiting) - MOST_NAMED:,} more" if len(waiting) > MOST_NAMED else ""
    verb = "waits" if len(waiting) == 1 else "wait"
    what = "it" if len(running) == 1 else "them"
    return [f"{', '.join(waiting[:MOST_NAMED])}{more} {verb} for {what}"]


def _failed(flow: FlowInfo) -> list[StepInfo]:
    return [step for step in flow.steps if step.state is StepState.FAILED]


def _failure(step: StepInfo, clock: LocalClock) -> str:
    when = "" if step.ended_at is None else f" {clock.near(step.ended_at)}"
    return f"step {step.name} failed{when}: {first_line(step.reason)}"


def _see_step(flow: FlowInfo, step: StepInfo | None) -> tuple[SuggestedCommand, ...]:
    """Return the command that shows a step; a mapped step is shown as a list of its jobs."""
    if step is None or step.job_id is None:
        return ()
    if step.kind == "map":
        words = f"duly jobs flow:{flow.id} task:{quote(step.task)} state:failed"
        return (SuggestedCommand("see the step", words),)
    return (SuggestedCommand("see the step", f"duly why {step.job_id}", step.job_id),)
