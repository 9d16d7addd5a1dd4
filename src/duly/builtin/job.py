"""The current job, as a built-in task sees it, if it runs in one."""

import logging

from duly.registry.context import ProcessGuard, current_or_none


def log() -> logging.Logger:
    """Return the log of the current job."""
    context = current_or_none()
    return logging.getLogger("duly.job") if context is None else context.log


def number() -> int | None:
    context = current_or_none()
    return None if context is None else context.job.id


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
