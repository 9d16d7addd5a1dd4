"""Reading the ledger: what became of a schedule's moments."""

from collections.abc import Sequence
from datetime import datetime

from duly.instants import FIRST_US, LAST_US, from_us, to_us
from duly.model.fire import Cause, StoredFire
from duly.rules import Spaced
from duly.store import rows, schedule_change
from duly.store.database import Ask, Operation


def listed(
    name: str, since: datetime | None, until: datetime | None, limit: int
) -> Operation[list[StoredFire]]:
    number = yield from schedule_change.number_of(name)
    found = yield Ask(
        "list_fires",
        {
            "schedule_id": number,
            "since": to_us(since) if since else FIRST_US,
            "until": to_us(until) if until else LAST_US,
            "limit": limit,
        },
    )
    return [rows.fire(row) for row in found]


def latest(numbers: Sequence[int]) -> Operation[dict[int, StoredFire]]:
    """Of each of these schedules, the moment that was dealt with last."""
    found = [rows.fire(row) for row in (yield Ask("latest_fires", {"ids": list(numbers)}))]
    return {fire.schedule_id: fire for fire in found}


def recent(numbers: Sequence[int], limit: int) -> Operation[dict[int, list[StoredFire]]]:
    """Of each of these schedules, the last moments that were dealt with, the newest first."""
    found: dict[int, list[StoredFire]] = {number: [] for number in numbers}
    for row in (yield Ask("recent_fires", {"ids": list(numbers), "limit": limit})):
        fire = rows.fire(row)
        found[fire.schedule_id].append(fire)
    return {number: fires[:limit] for number, fires in found.items()}


def skipped_ahead(numbers: Sequence[int]) -> Operation[dict[int, frozenset[datetime]]]:
    found: dict[int, set[datetime]] = {}
    for number, moment in (yield Ask("skipped_ahead", {"ids": list(numbers)})):
        found.setdefault(number, set()).add(from_us(moment))
    return {number: frozenset(moments) for number, moments in found.items()}


def covering(name: str, moment: datetime) -> Operation[StoredFire | None]:
    """The row that accounts for a moment: its own, or the stretch of its kind that reaches over it.

    Stretches of different kinds may reach over each other: the days that a calendar leaves out lie
    between those that were missed. Which of the two a moment belongs to is what its rule says.
    """
    schedule = yield from schedule_change.get(name)
    values = {"schedule_id": schedule.id, "moment": to_us(moment)}
    found = [rows.fire(row) for row in (yield Ask("covering_fires", values))]
    own = [fire for fire in found if fire.due_at == moment]
    if own:
        return own[0]
    kept = schedule.plan.kept
    excluded = not isinstance(kept, Spaced) and kept.at_or_before(moment) != moment
    same_kind = [fire for fire in found if (fire.cause is Cause.EXCLUDED) is excluded]
    # The rule may have been another one when the moment was due.
    return next(iter(same_kind or found), None)
