"""The jobs that keys stand for while events are reacted to, and their rows in the ledger."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from duly.instants import from_us, to_us
from duly.model.event import Event
from duly.model.fire import Cause, Outcome
from duly.model.states import WAITING, State
from duly.policy.reaction import may_touch
from duly.store.database import Row


class Revision(NamedTuple):
    """What a row of the ledger says from now on."""

    schedule_id: int
    due_at: int
    id: int
    outcome: str
    cause: str | None
    reason: str
    job_id: int | None


class Holder(NamedTuple):
    """The job that a key stands for, and the event that made it so, if that is known."""

    id: int
    state: State
    schedule_id: int | None
    fire_id: int | None
    tenant: str
    attempt: int
    event: tuple[datetime, int] | None

    def is_newer_than(self, event: Event) -> bool:
        return self.event is not None and self.event > event.place

    def is_called_off_by(self, event: Event) -> bool:
        """Only if it has not begun, and if an event asked for it: a person's word stands."""
        return (
            self.state in WAITING
            and self.attempt == 0
            and self.event is not None
            and self.event <= event.place
            and may_touch(event, self.tenant)
        )

    def revised(
        self, outcome: Outcome, reason: str, cause: Cause | None = None
    ) -> Iterator[Revision]:
        """Its row in the ledger, if it can be found."""
        if self.event is None or self.schedule_id is None or self.fire_id is None:
            return
        place = (self.schedule_id, to_us(self.event[0]), self.fire_id)
        yield Revision(*place, outcome=outcome, cause=cause, reason=reason, job_id=self.id)


def holders_in(found: Iterable[Row]) -> dict[tuple[str, str], Holder]:
    """By task and key."""
    return {
        (task, key): Holder(
            number,
            State(state),
            schedule_id,
            fire_id,
            tenant,
            attempt,
            None if event_id is None else (from_us(at), event_id),
        )
        for task, key, number, state, schedule_id, fire_id, tenant, attempt, event_id, at in found
    }
