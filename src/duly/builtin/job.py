"""The current job, as a built-in task sees it, if it runs in one."""

import logging
from datetime import datetime, timedelta

from duly.instants import to_us
from duly.model.outcome import MessageId
from duly.registry.context import ProcessGuard, current_or_none


def log() -> logging.Logger:
    """Return the log of the current job."""
    context = current_or_none()
    return logging.getLogger("duly.job") if context is None else context.log


def number() -> int | None:
    context = current_or_none()
    return None if context is None else context.job.id


def queue() -> str | None:
    context = current_or_none()
    return None if context is None else context.job.queue


def message_id() -> MessageId | None:
    """Return the id of the job's message; a try that crashed is the same try again."""
    context = current_or_none()
    if context is None:
        return None
    job = context.job
    return MessageId.of(job.id, context.attempt - job.crashes, to_us(job.created_at), job.args)


def due_at() -> datetime | None:
    context = current_or_none()
    return None if context is None else context.due_at


def timeout() -> timedelta | None:
    context = current_or_none()
    return None if context is None else context.job.terms.timeout


def guard() -> ProcessGuard | None:
    """Return a guard that kills a process group when the worker dies; None outside of a worker."""
    context = current_or_none()
    return None if context is None else context.port.guard()


def variables() -> dict[str, str]:
    """Return the facts of the job as environment variables."""
    context = current_or_none()
    if context is None:
        return {}
    facts = {
        "DULY_JOB_ID": context.job.id,
        "DULY_DUE_AT": context.due_at.isoformat(),
        "DULY_ATTEMPT": context.attempt,
        "DULY_SCHEDULE": context.fire.schedule if context.fire else None,
    }
    return {name: str(fact) for name, fact in facts.items() if fact is not None}
