"""A job on a terminal: its row in a list, everything about it, and the steps of its flow."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from duly.cli.formats import NOTHING, Listing, View
from duly.cli.output import lined_up, roughly, table
from duly.durations import about
from duly.policy.redaction import json_text, one_line, shortened
from duly.policy.why import first_line
from duly.views.flow import FlowView, StepView
from duly.views.job import JobDetail, JobView

LONGEST_CELL: Final = 70
LONGEST_ERROR: Final = 4_000
MOST_STEPS: Final = 200
MOST_NAMED: Final = 3
LONGEST_REASON: Final = 100
DEEPEST: Final = 12
COLOURS: Final = {"failed": "red", "running": "cyan", "expired": "yellow", "cancelled": "yellow"}


def job_text(job: JobDetail, view: View) -> str:
    """Return all details of a job, in sections; empty sections are left out."""
    sections = {
        "STEPS": flow_text(job.flow) if job.flow else "",
        "ARGUMENTS": _arguments(job.args),
        "ABOUT": _about(job, view),
        "LIMITS": _limits(job),
        "WHERE": _where(job),
        "ATTEMPTS": _attempts(job, view),
        "ERROR": _indented(_tail(job.error)) if job.error and not job.attempts else "",
        "RESULT": _indented(json_text(job.result, indent=2)) if job.result is not None else "",
    }
    told = [f"{heading}\n{body}" for heading, body in sections.items() if body]
    return "\n\n".join([one_line(job.why.sentence), *told])


JOBS: Listing[JobView] = Listing(
    columns={
        "ID": "id",
        "STATE": "state",
        "TASK": "task",
        "TITLE": lambda job, _: _short(job.title),
        "QUEUE": "queue",
        "DUE": "due_at",
        "AGE/TOOK": lambda job, _: _length(job.length),
        "REASON": lambda job, view: job.summary if view.output == "wide" else _short(job.summary),
    },
    wide={"TENANT": "tenant", "KEY": "key", "ATTEMPT": "attempt", "WORKER": "worker"},
    name=lambda job: str(job.id),
    nothing="no job matches",
    colour=lambda job: COLOURS.get(job.state.value),
)


def _arguments(args: object) -> str:
    if not isinstance(args, dict):
        return _indented(str(args))
    return _pairs((name, json_text(value)) for name, value in args.items())


def _about(job: JobDetail, view: View) -> str:
    return _pairs(
        (
            ("task", job.task),
            ("queue", job.queue),
            ("priority", str(job.priority) if job.priority else ""),
            ("tenant", job.tenant),
            ("submitter", job.submitter),
            ("key", job.key or ""),
            ("tags", ", ".join(job.tags)),
            ("is", "" if job.lineage is None else str(job.lineage)),
            ("comes from", f"job {job.parent}" if job.parent and job.step is None else ""),
            ("schedule", job.schedule or ("removed" if job.schedule_removed else "")),
            ("enqueued", _was(job.created_at, view)),
            ("due", _when(job.due_at, view)),
            ("until" if job.awaits else "start by", _when(job.deadline, view)),
            ("started", _was(job.started_at, view)),
            ("ended", _was(job.ended_at, view)),
            ("took", _length(job.length) if job.ended_at and job.length is not None else ""),
        )
    )


def _limits(job: JobDetail) -> str:
    limits = ((limit.name, str(limit)) for limit in job.limits)
    needs = ((name, f"needs {amount}") for name, amount in job.needs.items())
    callbacks = ((occasion, str(callback)) for occasion, callback in job.callbacks)
    return _pairs([*limits, *needs, ("timeout", job.timeout or ""), *callbacks])


def _where(job: JobDetail) -> str:
    process = f", process {job.process}" if job.process else ""
    done = f"{job.progress.percent:.0f} % {job.progress.message}" if job.progress else ""
    return _pairs(
        (
            ("worker", f"{job.worker}{process}" if job.worker else ""),
            ("handed to" if job.waits == "outcome" else "waits for", job.waits_for or ""),
            ("progress", done.rstrip()),
            ("reported", job.progress.reported if job.progress else ""),
        )
    )


def _attempts(job: JobDetail, view: View) -> str:
    """Return a table of the attempts, and below it their errors."""
    rows = [
        (
            str(one.number),
            view.moment(one.started_at),
            _length(one.length),
            one.worker or NOTHING,
            one.outcome,
            one_line(one.reason, tabs=True),
        )
        for one in job.executions
    ]
    if not rows:
        return ""
    listed = table(("NUMBER", "STARTED", "TOOK", "WORKER", "OUTCOME", "REASON"), rows)
    errors = (
        f"error of attempt {one.number}:\n{_indented(_tail(one.error))}"
        for one in job.attempts
        if one.error
    )
    return "\n\n".join(_indented(part) for part in (listed, *errors))


def flow_text(flow: FlowView) -> str:
    """Return the first steps of a flow, one per line, indented after a fork.

    The position of a step shows what it depends on; where it cannot, its line names the steps.
    """
    depths = depths_of([step.before for step in flow.items])
    shown = flow.items[:MOST_STEPS]
    lines = [f"  {line}" for line in lined_up([_step(flow, step, depths) for step in shown])]
    left = len(flow.items) - len(shown)
    if left:
        lines.append(f"  … and {left:,} more: duly jobs flow:{flow.id}, or -o json")
    return "\n".join(lines)


def depths_of(before: Sequence[Sequence[int]]) -> list[int]:
    """Return the indentation level of each step, given its dependencies (numbered from 1).

    A chain keeps its level. Steps after a fork are one level deeper; a join goes one level back.
    """
    behind = [0] * (len(before) + 1)
    for numbers in before:
        for number in numbers:
            behind[number] += 1
    depths: list[int] = []
    for numbers in before:
        if not numbers:
            depths.append(0)
        elif len(numbers) == 1:
            depths.append(min(depths[numbers[0] - 1] + (behind[numbers[0]] > 1), DEEPEST))
        else:
            depths.append(max(min(depths[number - 1] for number in numbers) - 1, 0))
    return depths


def _step(flow: FlowView, step: StepView, depths: Sequence[int]) -> tuple[str, ...]:
    jobs = NOTHING
    if step.job_id is not None:
        jobs = f"flow:{flow.id} task:{step.task}" if step.is_map else f"job {step.job_id}"
    return (
        one_line(f"{'  ' * depths[step.number - 1]}{step.mark} {step.name}"),
        step.word,
        step.progress,
        NOTHING if step.length is None else about(step.length),
        jobs,
        one_line(_remark(flow, step, depths)),
    )


def _remark(flow: FlowView, step: StepView, depths: Sequence[int]) -> str:
    """Return dependencies that the position does not show, condition, awaited event, failure."""
    said = []
    if not _is_seen(step, depths):
        names = flow.names(step.before[:MOST_NAMED])
        more = len(step.before) - MOST_NAMED
        said.append(f"after {', '.join(names)}{f' and {more:,} more' if more > 0 else ''}")
    if step.when != "all_succeeded":
        said.append(f"when {step.when.replace('_', ' ').removeprefix('when ')}")
    if step.awaits is not None:
        said.append(f"{step.awaits.event}{f', {step.awaits.key}' if step.awaits.key else ''}")
    if step.word in ("failed", "cancelled"):
        said.append(first_line(step.reason)[:LONGEST_REASON])
    return "; ".join(filter(None, said))


def _is_seen(step: StepView, depths: Sequence[int]) -> bool:
    """Return whether the position of a step shows its dependencies.

    It does if there are none, or one that is the line above or the step it is indented under.
    """
    if not step.before:
        return True
    if len(step.before) > 1:
        return False
    at = step.number - 1
    above = next((one for one in range(at - 1, -1, -1) if depths[one] < depths[at]), None)
    return step.before[0] - 1 in (at - 1, above)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return aligned lines of names and values; names without a value are left out."""
    said = [(name, one_line(value, tabs=True)) for name, value in pairs if value]
    width = max((len(name) for name, _ in said), default=0)
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in said)


def _when(moment: datetime | None, view: View) -> str:
    return "" if moment is None else f"{view.moment(moment)}, {view.left(moment)}"


def _was(moment: datetime | None, view: View) -> str:
    return "" if moment is None else f"{view.moment(moment)}, {view.passed(moment)}"


def _tail(text: str | None) -> str:
    """Shorten an error to its end, which is its most useful part."""
    whole = (text or "").rstrip()
    return whole if len(whole) <= LONGEST_ERROR else f"…{whole[-LONGEST_ERROR:]}"


def _indented(text: str) -> str:
    return "\n".join(f"  {one_line(line, tabs=True)}".rstrip() for line in text.split("\n"))


def _short(text: str) -> str:
    return shortened(text.partition("\n")[0], LONGEST_CELL)


def _length(length: timedelta | None) -> str:
    if length is None:
        return NOTHING
    if length < timedelta(seconds=10):
        seconds = max(length.total_seconds(), 0)
        return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    return roughly(length)
