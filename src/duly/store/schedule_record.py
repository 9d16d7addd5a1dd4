"""Everything that is known about one schedule, read in one transaction."""

import json
from datetime import datetime

from duly.instants import FIRST_US, from_us, to_us
from duly.model.schedule import Plan
from duly.store import rows
from duly.store.database import Ask, Operation
from duly.store.rows import ScheduleColumns
from duly.store.schedule_change import unknown
from duly.store.values import ScheduleRecord


def schedule_record(
    name: str, until: datetime | None, limit: int, changes: int
) -> Operation[ScheduleRecord]:
    found = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    if not found:
        yield from unknown(name)
    schedule = rows.schedule(found[0])
    [(now,)] = yield Ask("now")
    last = now if until is None else to_us(until)
    stretch = {"schedule_id": schedule.id, "since": FIRST_US, "until": last, "limit": limit}
    fires = [rows.fire(row) for row in (yield Ask("list_fires", stretch))]
    jobs = [fire.job_id for fire in fires if fire.job_id is not None]
    skipped = yield Ask("skipped_ahead", {"ids": [schedule.id]})
    noted = yield Ask("list_changes", {"schedule_id": schedule.id, "limit": changes})
    return ScheduleRecord(
        now=from_us(now),
        schedule=schedule,
        skipped=frozenset(from_us(moment) for _, moment in skipped),
        fires=fires,
        runs=rows.run_times((yield Ask("runs_of", {"ids": jobs}))) if jobs else {},
        declared=(yield from _declared(name, found[0])),
        changes=[(from_us(at), who, what) for at, who, what in noted],
    )


def _declared(name: str, row: ScheduleColumns) -> Operation[tuple[str, Plan] | None]:
    """Return the app whose code declares the schedule, and the declared plan."""
    found = yield Ask("declared_plans", {"app": "", "names": [name]})
    if not found:
        return None
    [(_, app, text)] = found
    return app, rows.schedule(row._replace(**json.loads(text))).plan
