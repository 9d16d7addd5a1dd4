"""``send``: hands the work of a job to another system, and ``revoke``: asks it to drop the work.

The message is sent when the job runs, with an id by which a second copy can be recognised. After
the system has confirmed it, the job runs on without a worker until its outcome is reported, or it
has succeeded, if nobody will report. While the system cannot be reached, the job is tried again and
again without losing an attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol

from duly.builtin import job
from duly.clock import now
from duly.errors import Permanent
from duly.model.outcome import HandedOff, MessageId, Postponed

SHORTEST_WAIT: Final = timedelta(seconds=5)
LONGEST_WAIT: Final = timedelta(minutes=1)


class TargetDown(Exception):
    """The target could not be reached, or did not confirm: nothing was sent, or perhaps it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """The work of one try of a job."""

    id: MessageId
    task: str  # the task, actor, function, subject or stream over there
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of the target's own, as queue


class HandOffTarget(Protocol):
    """A system that jobs are handed to."""

    @property
    def reports(self) -> bool:
        """Return whether the outcome will be reported."""
        ...

    @property
    def outcome_within(self) -> timedelta: ...

    @property
    def for_queues(self) -> tuple[str, ...]:
        """Return the queues whose jobs are sent here if they name no target."""
        ...

    async def send(self, message: OutgoingMessage) -> None:
        """Send a message, and return when it is confirmed; ``TargetDown`` if it cannot be."""
        ...

    async def revoke(self, message: MessageId) -> bool:
        """Ask the target to drop a message; return whether it can."""
        ...

    def __str__(self) -> str:
        """``main (celery)``."""
        ...


class SendTask:
    """The tasks, with the targets that the operator of the worker has set up."""

    def __init__(self, targets: Mapping[str, HandOffTarget]) -> None:
        self._targets = targets
        self._by_queue = {queue: one for one in targets.values() for queue in one.for_queues}

    async def send(
        self,
        task: str,
        *,
        target: str | None = None,
        args: list[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - the result is any JSON
        there = self._target(target)
        message = OutgoingMessage(
            id=_message_id(), task=task, args=args or [], kwargs=kwargs or {}, options=options or {}
        )
        try:
            await there.send(message)
        except TargetDown as error:
            return Postponed(f"{there} cannot be reached: {error}", _wait())
        job.log().info("sent %s to %s as %s", task, there, message.id)
        if not there.reports:
            return {"target": str(there), "message": str(message.id)}
        return HandedOff(str(there), job.timeout() or there.outcome_within)

    async def revoke(self, target: str | None, message: str) -> str:
        there, found = self._target(target), MessageId.read(message)
        if found is None:
            raise Permanent(f'message="{message}": it is not the id of a message that duly sent')
        try:
            asked = await there.revoke(found)
        except TargetDown as error:
            return f"{there} cannot be reached: {error}"
        return f"{there} was asked to drop it" if asked else f"{there} cannot drop a message"

    def _target(self, name: str | None) -> HandOffTarget:
        queue = job.queue() or ""
        found = self._by_queue.get(queue) if name is None else self._targets.get(name)
        if found is None:
            there = ", ".join(sorted(self._targets)) or "none"
            asked = (
                f'it names no target, and no target of the worker has for_queues = ["{queue}"]'
                if name is None
                else f'target="{name}": the settings of the worker have no [targets.{name}]'
            )
            raise Permanent(f"{asked}; there are: {there}")
        return found


def _message_id() -> MessageId:
    found = job.message_id()
    if found is None:
        raise Permanent("a hand-off is the work of a job: enqueue it")
    return found


def _wait() -> timedelta:
    """Return how long to wait: longer for a job that has waited longer, up to a minute."""
    due = job.due_at()
    waited = timedelta() if due is None else now() - due
    return min(max(waited / 4, SHORTEST_WAIT), LONGEST_WAIT)
