"""A job as somebody sees it who wants to know what became of it.

Arguments and results are shown with what is named like a secret hidden.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duly.cli.flow_tree import flow_tree
from duly.cli.formats import NOTHING, View
from duly.cli.output import roughly, table
from duly.model.job import is_built_in
from duly.policy.printable import json_text, one_line
from duly.policy.redaction import hidden, hidden_call

if TYPE_CHECKING:
    from duly.model.flow import FlowProgress
    from duly.model.job import Attempt, Job
    from duly.model.journal import ProgressNote
    from duly.model.worker import WorkerInfo
    from duly.policy.why import Lineage
    from duly.views.flow_page import FlowSeen

LONGEST_ERROR: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A job, and what is known beside it."""

    job: "Job"
    runs_on: "WorkerInfo | None" = None
    schedule: str | None = None
    attempts: "Sequence[Attempt]" = ()  # those that did not end it well
    names: Mapping[int, str] = field(default_factory=dict)  # of workers that are remembered
    note: "ProgressNote | None" = None
    progress: "FlowProgress | None" = None  # of a flow
    flow: "FlowSeen | None" = None  # … and its steps
    lineage: "Lineage | None" = None  # the flow that it is a step of

    @property
    def worker(self) -> str:
        """Who runs it or ran it last: by name, as long as that is known."""
        if self.job.worker is None:
            return ""
        return self.runs_on.name if self.runs_on else str(self.job.worker)


def length_of(job: "Job", now: datetime) -> str:
    """How long it took, if it has ended; how long it has run; or how long it has waited."""
    if job.ended_at is not None:
        return NOTHING if job.claimed_at is None else _length(job.ended_at - job.claimed_at)
    began = job.claimed_at if job.state.value == "running" else None
    return _length(now - (began or job.created_at))


def page(seen: Seen, view: View) -> str:
    """Everything about a job, in sections; those that would be empty are left out."""
    job = seen.job
    sections = {
        "STEPS": flow_tree(seen.flow) if seen.flow else "",
        "ARGUMENTS": _arguments(job),
        "ABOUT": _about(seen, view),
        "LIMITS": _limits(job),
        "WHERE": _where(seen),
        "ATTEMPTS": _attempts(seen, view),
        "ERROR": _indented(_tail(job.error)) if job.error and not seen.attempts else "",
        "RESULT": _indented(_pretty(job.result)) if job.result is not None else "",
    }
    told = [f"{heading}\n{body}" for heading, body in sections.items() if body]
    return "\n\n".join([one_line(sentence(seen, view)), *told])


def sentence(seen: Seen, view: View) -> str:
    """What became of it, in one line."""
    job = seen.job
    first, second = (job.title, job.task) if is_built_in(job.task) else (job.task, job.title)
    name = f"job {job.id}, {f'{first} ({second})' if job.title else job.task}"
    because = _because(job)
    match job.state.value:
        case "scheduled":
            return f"{name}, is scheduled for {_when(job.ready_at, view)}{because}"
        case "ready":
            return f'{name}, waits for a worker of queue "{job.queue}"{because}'
        case "blocked":
            return f"{name}, is blocked{because}"
        case "running":
            return f"{name}, has run for {length_of(job, view.now)}{_how_far(seen)}"
        case "succeeded":
            took = f"after {length_of(job, view.now)}, at attempt {job.attempt}"
            return f"{name}, succeeded {view.passed(job.ended_at)}, {took}"
        case ended:
            return f"{name}, {ended} {view.passed(job.ended_at)}{because}"


def read_json(text: str | None) -> Any:  # noqa: ANN401 - JSON is any of its types
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _how_far(seen: Seen) -> str:
    if seen.flow is not None:
        return f": {seen.flow.told}"
    far = f", {seen.note.percent:.0f} %" if seen.note else ""
    return f" on {seen.worker or 'a worker'}, attempt {seen.job.attempt}{far}"


def _because(job: "Job") -> str:
    """Why, without a word that the sentence has already."""
    why = job.reason.removeprefix(job.state.value).removeprefix(": ")
    return f": {why}" if why else ""


def _arguments(job: "Job") -> str:
    args = hidden_call(job.task, read_json(job.args))
    if not isinstance(args, dict):
        return _indented(str(args))
    return _pairs((name, json_text(value)) for name, value in args.items())


def _about(seen: Seen, view: View) -> str:
    job = seen.job
    return _pairs(
        (
            ("queue", job.queue),
            ("priority", str(job.priority) if job.priority else ""),
            ("tenant", job.tenant),
            ("submitter", job.submitter),
            ("key", job.key or ""),
            ("tags", ", ".join(job.tags)),
            ("is", "" if seen.lineage is None else str(seen.lineage)),
            ("comes from", f"job {job.parent}" if job.parent and job.step is None else ""),
            ("schedule", seen.schedule or ("" if job.schedule_id is None else "one that is gone")),
            ("asked for", _was(job.created_at, view)),
            ("due", _when(job.due_at, view)),
            ("until" if job.waits == "event" else "start by", _when(job.deadline, view)),
            ("started", _was(job.claimed_at, view)),
            ("ended", _was(job.ended_at, view)),
            ("took", length_of(job, view.now).replace(NOTHING, "") if job.ended_at else ""),
        )
    )


def _limits(job: "Job") -> str:
    lanes = ((lane.name, _lane(lane.concurrency, lane.rate)) for lane in job.limits)
    needs = ((name, f"needs {amount}") for name, amount in job.needs.items())
    timeout = job.terms.timeout
    return _pairs([*lanes, *needs, ("timeout", "" if timeout is None else _length(timeout))])


def _lane(concurrency: int | None, rate: object) -> str:
    numbers = ("" if concurrency is None else f"{concurrency} at once", str(rate or ""))
    return ", ".join(filter(None, numbers))


def _where(seen: Seen) -> str:
    job, note = seen.job, seen.note
    host = seen.runs_on.profile.host.pid if seen.runs_on else None
    worker = f"{seen.worker}{f', process {host}' if host else ''}" if seen.worker else ""
    far = f"{note.percent:.0f} % {note.message}".rstrip() if note else ""
    return _pairs((("worker", worker), ("waits for", job.waits_for or ""), ("progress", far)))


def _attempts(seen: Seen, view: View) -> str:
    """A line for each, and below the last one what it left behind."""
    rows: list[tuple[str, ...]] = [
        (
            str(attempt.number),
            view.moment(attempt.started_at),
            _length(attempt.ended_at - attempt.started_at),
            _name(seen, attempt.worker),
            attempt.outcome,
            one_line(attempt.reason, tabs=True),
        )
        for attempt in seen.attempts
    ]
    rows += _good_attempt(seen, view)
    if not rows:
        return ""
    listed = table(("NUMBER", "STARTED", "TOOK", "WORKER", "OUTCOME", "REASON"), rows)
    errors = (
        f"error of attempt {attempt.number}:\n{_indented(_tail(attempt.error))}"
        for attempt in seen.attempts
        if attempt.error
    )
    return "\n\n".join(_indented(part) for part in (listed, *errors))


def _good_attempt(seen: Seen, view: View) -> list[tuple[str, ...]]:
    """The one that ended the job well, or still may."""
    job, state = seen.job, seen.job.state.value
    if job.claimed_at is None or seen.flow or state not in ("succeeded", "running"):
        return []
    began, took = view.moment(job.claimed_at), length_of(job, view.now)
    number = max([job.attempt, *(one.number + 1 for one in seen.attempts)])
    return [(str(number), began, took, _name(seen, job.worker), state, "")]


def _name(seen: Seen, worker: int | None) -> str:
    return NOTHING if worker is None else seen.names.get(worker, str(worker))


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values below each other; those without a value are left out."""
    said = [(name, one_line(value, tabs=True)) for name, value in pairs if value]
    width = max((len(name) for name, _ in said), default=0)
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in said)


def _pretty(text: str) -> str:
    return json_text(hidden(read_json(text)), indent=2)


def _when(moment: datetime | None, view: View) -> str:
    return "" if moment is None else f"{view.moment(moment)}, {view.left(moment)}"


def _was(moment: datetime | None, view: View) -> str:
    return "" if moment is None else f"{view.moment(moment)}, {view.passed(moment)}"


def _tail(text: str | None) -> str:
    """The end of an error is what says most."""
    whole = (text or "").rstrip()
    return whole if len(whole) <= LONGEST_ERROR else f"…{whole[-LONGEST_ERROR:]}"


def _indented(text: str) -> str:
    return "\n".join(f"  {one_line(line, tabs=True)}".rstrip() for line in text.split("\n"))


def _length(length: timedelta) -> str:
    if length < timedelta(seconds=10):
        seconds = max(length.total_seconds(), 0)
        return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    return roughly(length)
