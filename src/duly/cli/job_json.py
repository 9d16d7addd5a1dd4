"""A job for programs: what ``-o json`` says of it."""

from typing import TYPE_CHECKING

from duly.cli.flow_tree import plain_flow
from duly.cli.formats import iso
from duly.cli.job_page import Seen, read_json
from duly.policy.redaction import hidden, hidden_call

if TYPE_CHECKING:
    from duly.model.flow import FlowProgress
    from duly.model.job import Attempt
    from duly.model.journal import ProgressNote


def plain(seen: Seen, *, whole: bool = False) -> dict[str, object]:
    """For programs; the whole of it has arguments, attempts and what it left behind."""
    job = seen.job
    told: dict[str, object] = {
        "id": job.id,
        "state": job.state.value,
        "task": job.task,
        "title": job.title,
        "queue": job.queue,
        "priority": job.priority,
        "tenant": job.tenant,
        "submitter": job.submitter,
        "key": job.key,
        "tags": list(job.tags),
        "schedule": seen.schedule,
        "attempt": job.attempt,
        "worker": seen.worker or None,
        "created_at": iso(job.created_at),
        "due_at": iso(job.due_at),
        "ready_at": iso(job.ready_at),
        "deadline": iso(job.deadline),
        "started_at": iso(job.claimed_at),
        "ended_at": iso(job.ended_at),
        "reason": job.reason,
        "parent": job.parent,
        "step": None if job.step is None else job.step + 1,
        "part": None if job.part is None else job.part + 1,
        "flow": _plain_progress(seen.progress),
    }
    if not whole:
        return told
    return told | {
        "args": hidden_call(job.task, read_json(job.args)),
        "limits": [lane.name for lane in job.limits],
        "needs": dict(job.needs),
        "attempts": [_plain_attempt(seen, attempt) for attempt in seen.attempts],
        "progress": _plain_note(seen.note),
        "result": hidden(read_json(job.result)),
        "error": job.error,
        "flow": None if seen.flow is None else plain_flow(seen.flow),
    }


def _plain_attempt(seen: Seen, attempt: "Attempt") -> dict[str, object]:
    return {
        "number": attempt.number,
        "worker": attempt.worker,
        "worker_name": None if attempt.worker is None else seen.names.get(attempt.worker),
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "error": attempt.error,
    }


def _plain_progress(flow: "FlowProgress | None") -> dict[str, object] | None:
    if flow is None:
        return None
    return {"steps": flow.steps, "remaining": flow.remaining, "failed": flow.failed}


def _plain_note(note: "ProgressNote | None") -> dict[str, object] | None:
    if note is None:
        return None
    return {"percent": note.percent, "message": note.message, "at": iso(note.at)}
