"""Explain why a ready or blocked job does not run yet; the most useful cause comes first.

Of a flow, why it runs or failed, step by step; and which event a waiting step waits for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from shlex import quote

from duly.durations import about
from duly.model.event import read_awaited
from duly.model.flow import FlowInfo, StepInfo, StepState
from duly.model.worker import WorkerInfo
from duly.policy.why.answer import (
    Clause,
    JobEvidence,
    LocalClock,
    SuggestedCommand,
    cancel_job,
    first_line,
    plural,
    show_job,
)

MOST_NAMED = 3
MOST_COUNTED = 10_000
# Built-in tasks, and the --allow word that a worker needs to run them.
_OFF_UNLESS_ALLOWED = {
    "duly.shell": "shell",
    "duly.command": "shell",
    "duly.http": "http",
    "duly.send": "send",
    "duly.revoke": "send",
}


def why_waiting(found: JobEvidence) -> Clause:
    """Explain why a ready or blocked job does not run."""
    job = found.job
    match job.waits:
        case "limit":
            return _at_limit(found)
        case "signature":
            return Clause(
                f"is blocked, signature changed: {job.reason}",
                commands=(show_job(job.id),),
            )
        case "worker":
            return _without_worker(found) or Clause(
                "waits to be unblocked: a worker knows the task now"
            )
        case "event":
            return awaited_event(found)
        case "steps" | "outcome" | None:
            pass
    if job.state == "blocked":
        return _behind(found)
    waits = _paused(found) or _without_worker(found) or _in_line(found)
    since = max(job.ready_at, job.created_at)
    ready = f"ready since {found.clock.near(since)} ({found.clock.ago(since)})"
    return waits._replace(evidence=(ready, *waits.evidence))


def what_is_missing(
    living: Sequence[WorkerInfo], *, task: str, queue: str, needs: Mapping[str, int]
) -> tuple[str, SuggestedCommand | None] | None:
    """Return why no living worker can run a task, and a command that helps; None if one can."""
    listening = [worker for worker in living if queue in worker.queues]
    knowing = [worker for worker in living if task in worker.tasks]
    able = [worker for worker in knowing if worker in listening]
    fit = [worker for worker in able if _has(worker, needs)]
    if not living:
        word = _OFF_UNLESS_ALLOWED.get(task)
        allow = f" --allow {word}" if word else ""
        return "none is running", SuggestedCommand("start one", f"duly worker{allow}")
    if not knowing:
        return _unknown(task, living)
    if not able:
        theirs = ", ".join(sorted({name for worker in knowing for name in worker.queues}))
        text = f'no worker that knows the task listens to queue "{queue}"'
        text += f" ({_names(knowing)}: {theirs})"
        return text, SuggestedCommand("start one", f"duly worker --queues {quote(queue)}")
    if not fit:
        wanted = ", ".join(f"{name}={amount}" for name, amount in needs.items())
        return f"no worker that listens to the queue has {wanted} ({_resources(able, needs)})", None
    if all(worker.order != "run" for worker in fit):
        told = ", ".join(sorted({f"{worker.name} was told to {worker.order}" for worker in fit}))
        return told, SuggestedCommand("set it to work", f"duly workers resume {quote(fit[0].name)}")
    return None


def _without_worker(found: JobEvidence) -> Clause | None:
    job = found.job
    missing = what_is_missing(found.living, task=job.task, queue=job.queue, needs=job.needs)
    if missing is None:
        return None
    text, command = missing
    return Clause(f"waits for a worker: {text}", commands=(command,) if command else ())


def _paused(found: JobEvidence) -> Clause | None:
    queue = found.queue
    if queue is None or not queue.paused:
        return None
    note = f": {queue.note}" if queue.note else ""
    resume = SuggestedCommand("resume it", f"duly queues resume {quote(queue.name)}")
    return Clause(f'waits: queue "{queue.name}" is paused{note}', commands=(resume,))


def _in_line(found: JobEvidence) -> Clause:
    job, queue = found.job, found.queue
    full = queue is not None and queue.concurrency is not None
    if queue is not None and full and found.running_in_queue >= (queue.concurrency or 0):
        runs = _runs(found.running_in_queue, queue.concurrency)
        text = f'queue "{queue.name}" is full: {runs}'
        return Clause(f"waits: {text}{_and_ahead(found)}")
    if queue is not None and queue.rate is not None:
        text = f'queue "{queue.name}" has a rate of {queue.rate}'
        return Clause(f"waits: {text}{_and_ahead(found)}")
    able = [one for one in found.living if job.task in one.tasks and job.queue in one.queues]
    slots = sum(worker.slots for worker in able)
    if able and sum(worker.running for worker in able) >= slots:
        text = f"waits for a free slot: all {slots} of {_names(able)} are taken"
        return Clause(text + _and_ahead(found), commands=_more_slots(able))
    if found.ahead:
        return Clause(f"waits: {_ahead(found)}")
    return Clause("is ready: a worker will begin it any moment")


def _at_limit(found: JobEvidence) -> Clause:
    limit, name = found.limit, found.job.waits_for or ""
    if limit is None:
        return Clause(f"waits: {found.job.reason}")
    commands = (SuggestedCommand("widen it", f"duly limits set {quote(name)} --concurrency …"),)
    line = f"{plural(limit.waiting, 'job')} wait{'s' * (limit.waiting == 1)} there"
    if limit.concurrency is not None and limit.running >= limit.concurrency:
        runs = _runs(limit.running, limit.concurrency)
        return Clause(f'waits: limit "{name}" is full: {runs}, {line}', commands=commands)
    if limit.rate is not None:
        return Clause(f'waits: limit "{name}" has a rate of {limit.rate}, {line}')
    return Clause(f'waits at limit "{name}": {line}', commands=commands)


def _behind(found: JobEvidence) -> Clause:
    before = found.behind
    if before is None:
        return Clause(found.job.reason or "is blocked")
    due = found.clock.near(before.due_at, found.job.due_at)
    commands = (SuggestedCommand("see that", f"duly why {before.id}"),)
    return Clause(
        f"waits for the run of {due} (job {before.id}), which is {before.state}", commands=commands
    )


def _runs(running: int, most: int | None) -> str:
    return f"{running} of {most} run{'s' * (running == 1)}"


def _and_ahead(found: JobEvidence) -> str:
    return f", and {_ahead(found)}" if found.ahead else ""


def _ahead(found: JobEvidence) -> str:
    job, count = found.job, found.ahead
    many = f"more than {MOST_COUNTED:,} jobs" if count > MOST_COUNTED else plural(count, "job")
    verb = "is" if count == 1 else "are"
    return f'{many} {verb} before it in queue "{job.queue}" (its priority is {job.priority})'


def _unknown(task: str, living: Iterable[WorkerInfo]) -> tuple[str, SuggestedCommand | None]:
    word = _OFF_UNLESS_ALLOWED.get(task)
    if word is None:
        return f'no running worker knows the task "{task}"{_renamed(task, living)}', None
    return f"no running worker allows {word}", SuggestedCommand(
        "allow it", f"duly up --allow {word}"
    )


def _renamed(task: str, living: Iterable[WorkerInfo]) -> str:
    known = sorted({name for worker in living for name in worker.tasks})
    near = get_close_matches(task, known, n=1)
    if not near:
        return ""
    return f'; did you rename it to "{near[0]}"? add aliases=("{task}",)'


def _resources(able: Sequence[WorkerInfo], needs: Mapping[str, int]) -> str:
    return ", ".join(
        f"{worker.name} has "
        + ", ".join(f"{name}={worker.profile.resources.get(name, 0)}" for name in needs)
        for worker in able[:MOST_NAMED]
    )


def _has(worker: WorkerInfo, needs: Mapping[str, int]) -> bool:
    return all(worker.profile.resources.get(name, 0) >= amount for name, amount in needs.items())


def _more_slots(able: Sequence[WorkerInfo]) -> tuple[SuggestedCommand, ...]:
    name, slots = able[0].name, able[0].slots
    return (SuggestedCommand("make room", f"duly workers scale {quote(name)} {slots * 2}"),)


def _names(workers: Sequence[WorkerInfo]) -> str:
    names = sorted({worker.name for worker in workers})
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


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
