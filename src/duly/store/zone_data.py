"""Next moments follow the zone data: worked out anew when a newer release arrives.

Upward only: a node never recomputes what newer data gave, so two releases in one cluster do not
undo each other's work.
"""

from contextlib import suppress

from duly.instants import to_us
from duly.model.schedule import StoredSchedule
from duly.rules import Spaced, zone_data_version
from duly.store import rows
from duly.store.database import Ask, Operation, Value
from duly.store.rows import ScheduleRow


def refresh(after: int, limit: int) -> Operation[int | None]:
    """Work next moments out anew that were computed with older zone data."""
    version = zone_data_version()
    asked: dict[str, Value] = {"zone_data": version, "after": after, "limit": limit}
    stale = rows.schedules((yield Ask("stale_schedules", asked)))
    decided = []
    for row in stale:
        with suppress(Exception):  # what cannot be read says so itself when it is due
            decided.append(_recomputed(rows.schedule(row), row, version))
    if decided:
        yield Ask("advance_schedules", {"rows": rows.packed(values for values, _ in decided)})
    for _, moved in decided:
        if moved:
            yield Ask("record_change", moved)
    return int(stale[-1].id) if len(stale) == limit else None


def _recomputed(
    schedule: StoredSchedule, row: ScheduleRow, version: str
) -> tuple[dict[str, object], dict[str, Value] | None]:
    next_at = schedule.next_at
    if (
        next_at is not None
        and schedule.pause is None
        and not isinstance(schedule.plan.kept, Spaced)
    ):
        next_at = schedule.plan.kept.after(schedule.cursor)
    values: dict[str, object] = {
        "id": schedule.id,
        "revision": schedule.revision,
        "cursor": to_us(schedule.cursor),
        "next_at": rows.instant(next_at),
        "awaiting": schedule.awaiting,
        "fault": schedule.fault,
        "pause": row.pause,
        "zone_data": version,
    }
    if next_at == schedule.next_at:
        return values, None
    said = f"the next moment moved from {schedule.next_at} to {next_at} by zone data {version}"
    who = "zone data"
    return values, {
        "schedule_id": schedule.id,
        "name": schedule.plan.name,
        "who": who,
        "what": said,
    }
