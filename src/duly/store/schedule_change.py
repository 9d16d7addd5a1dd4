"""Changing a schedule: lock its row, decide what was due until now, then write the change.

Every change locks the row first, so a change and a scheduler never decide at the same time. Moments
that were due before a change are decided by the plan in force then: an edit or a pause neither
loses a moment nor adds one.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches

from duly.errors import NotFound, WrongState
from duly.instants import from_us, to_us
from duly.model.payload import check_text
from duly.model.schedule import StoredSchedule
from duly.policy.firing import LedgerEntry, skipped_by_pause
from duly.rules import zone_data_version
from duly.store import ledger, rows
from duly.store.database import Ask, Operation, Value
from duly.store.ids import Ids
from duly.store.rows import ScheduleColumns
from duly.store.values import Decide

# So many portions of settled moments are gone through before a change; a scheduler does the rest.
MOST_PORTIONS = 50
# What no change sets.
KEPT = ("created_at", "revision", "now")


@dataclass(frozen=True, slots=True)
class Editor:
    """The author of a change, the decision function for due moments, and ids for new rows."""

    who: str
    decide: Decide
    ids: Ids


def get(name: str) -> Operation[StoredSchedule]:
    check_text(name, "name")
    found = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    if not found:
        yield from unknown(name)
    return rows.schedule(found[0])


def number_of(name: str) -> Operation[int]:
    """Return the number of the schedule with this name, or of the last one that had it."""
    check_text(name, "name")
    found = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    if found:
        return found[0].id
    removed = yield Ask("removed_schedule", {"name": name})
    if not removed:
        yield from unknown(name)
    [(number,)] = removed
    return int(number)


def held(name: str, editor: Editor) -> Operation[tuple[ScheduleColumns, StoredSchedule, datetime]]:
    """Lock a schedule and decide everything that was due until now."""
    check_text(name, "name")
    named = Ask("hold_named_schedules", {"names": [name]})
    found = rows.schedules((yield named))
    if not found:
        yield from unknown(name)
    [row] = found
    now = from_us(row.now)
    portions = 0
    while row.next_at is not None and row.next_at <= to_us(now):
        portions += 1
        if portions > MOST_PORTIONS:
            raise WrongState(
                f'"{name}" was rewound, and the runs since then are still being decided: try '
                "again in a minute"
            )
        firings, faults = yield from ledger.decided([row], editor.decide, now)
        yield from ledger.write(firings, faults, zone_data=zone_data_version(), ids=editor.ids)
        [row] = rows.schedules((yield named))
    return row, rows.schedule(row), now


def unknown(name: str) -> Operation[None]:
    known = yield Ask("similar_schedules", {"start": name[:2]})
    near = get_close_matches(name, [row[0] for row in known], n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise NotFound(f'there is no schedule "{name}"{hint}')


def record(schedule: StoredSchedule, entry: LedgerEntry, number: int) -> Operation[None]:
    yield Ask("record_fires", {"rows": rows.packed([ledger.fire_values(schedule, entry, number)])})


def values_of(row: ScheduleColumns) -> dict[str, Value]:
    """Return the columns of a schedule that a change may set, as they are stored.

    Another version of duly may have written policies that this one does not know; they stay.
    """
    values: dict[str, Value] = row._asdict()
    return {name: values[name] for name in values if name not in KEPT}


def write_change(values: dict[str, Value], who: str, what: str) -> Operation[None]:
    yield Ask("change_schedule", {**values, "zone_data": zone_data_version()})
    name = values["name"]
    yield Ask(
        "record_change", {"schedule_id": values["id"], "name": name, "who": who, "what": what}
    )


def note(schedule: StoredSchedule, who: str, what: str) -> Operation[None]:
    name = schedule.plan.name
    yield Ask("record_change", {"schedule_id": schedule.id, "name": name, "who": who, "what": what})


def skip_until(
    now: datetime, schedule: StoredSchedule, row: ScheduleColumns, ids: Ids
) -> Operation[int]:
    """Record the moments that fell into a pause so far; return the cursor that follows."""
    while True:
        settled, until = frozenset[datetime](), None
        if (row.settled_until or 0) > to_us(schedule.cursor):
            settled, until = yield from ledger.settled_moments(schedule.id, schedule.cursor, now)
        for entry in skipped_by_pause(schedule, until or now, settled):
            yield from record(schedule, entry, *(yield from ids.draw(1)))
        if until is None:
            return to_us(max(now, schedule.cursor))
        schedule = replace(schedule, cursor=until)
