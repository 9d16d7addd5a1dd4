"""What there is to be kept: schedules are added, listed, edited, removed."""

from collections.abc import Callable, Sequence
from datetime import datetime

from duly.errors import InvalidValue, ScheduleExists
from duly.instants import from_us, to_us
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.firing import Firing, first_moment
from duly.rules import Budget, Spaced, zone_data_version
from duly.store import ledger, rows
from duly.store.database import Ask, Operation, Value
from duly.store.held import (
    Editor,
    get,
    held,
    note,
    number_of,
    skip_until,
    unknown,
    values_of,
    write_change,
)
from duly.store.protocol import Decide
from duly.store.rows import ScheduleRow


def add(plans: Sequence[Plan], numbers: Sequence[int]) -> Operation[list[StoredSchedule]]:
    """Remember new schedules; a repeated call finds its own and changes nothing."""
    [(instant,)] = yield Ask("now")
    now = from_us(instant)
    with Budget():  # one for all of them: they are added in one transaction
        added = [
            StoredSchedule(
                id=number,
                plan=plan,
                created_at=now,
                cursor=now,
                next_at=first_moment(plan, now),
                zone_data=zone_data_version(),
            )
            for plan, number in zip(plans, numbers, strict=True)
        ]
    wanted = list(dict.fromkeys(plan.name for plan in plans))
    there: dict[str, ScheduleRow] = {}
    while len(there) < len(wanted):  # again, if a name was taken and is removed meanwhile
        inserted = yield Ask("add_schedules", {"rows": rows.packed(map(_new, added))})
        if len(inserted) == len(plans):
            return added
        found = rows.schedules((yield Ask("named_schedules", {"names": wanted})))
        there = {row.name: row for row in found}
    taken = [one.plan.name for one in added if there[one.plan.name].id != one.id]
    if taken:
        names = ", ".join(f'"{name}"' for name in taken[:5])
        raise ScheduleExists(
            f"{names}: there already. A name is a schedule's identity: edit it, or choose another"
        )
    return [rows.schedule(there[plan.name]) for plan in plans]


def _new(schedule: StoredSchedule) -> dict[str, Value]:
    return rows.plan_values(schedule.plan) | {
        "id": schedule.id,
        "created_at": to_us(schedule.created_at),
        "next_at": rows.instant(schedule.next_at),
        "zone_data": schedule.zone_data,
    }


def listed(after: str, limit: int) -> Operation[list[StoredSchedule]]:
    found = yield Ask("list_schedules", {"after": after, "limit": limit})
    return [rows.schedule(row) for row in rows.schedules(found)]


def edit(name: str, change: Callable[[Plan], Plan], editor: Editor) -> Operation[StoredSchedule]:
    row, schedule, now = yield from held(name, editor)
    plan = change(schedule.plan)
    if plan.name != name:
        raise InvalidValue(f'"{name}" cannot become "{plan.name}": a name is its identity')
    retimed = _timing(plan) != _timing(schedule.plan)
    values = values_of(row) | _changed(row, schedule.plan, plan) | {"fault": None}
    if retimed and schedule.pause is not None and not schedule.pause.catch_up:
        values["cursor"] = yield from skip_until(now, schedule, row, editor.ids)
    elif schedule.fault is not None and schedule.pause is None:
        # Nothing was decided since the cursor: the new plan decides what was due, as missed.
        cursor = now if isinstance(plan.kept, Spaced) else schedule.cursor
        values["next_at"] = rows.instant(first_moment(plan, cursor))
    elif retimed and schedule.pause is None:
        yield from _left_out(schedule, row, now, editor)
        values |= {"cursor": to_us(max(now, schedule.cursor)), "awaiting": None}
        values["next_at"] = rows.instant(first_moment(plan, max(now, schedule.cursor)))
        if isinstance(plan.kept, Spaced) and schedule.awaiting is not None:
            values |= {"next_at": None, "awaiting": schedule.awaiting}
    yield from write_change(values, editor.who, _difference(schedule.plan, plan))
    return (yield from get(name))


def _changed(row: ScheduleRow, old: Plan, new: Plan) -> dict[str, Value]:
    """The columns that differ; of policies, what this version does not know stays."""
    before, after = rows.plan_values(old), rows.plan_values(new)
    changed = {key: after[key] for key in after if after[key] != before[key]}
    if "policies" in changed:
        changed["policies"] = rows.policies_over(row.policies, new.policies)
    return changed


def _left_out(
    schedule: StoredSchedule, row: ScheduleRow, now: datetime, editor: Editor
) -> Operation[None]:
    """Enter what the old plan has left out since the cursor; what it had due was fired before."""
    [facts] = yield from ledger.known([schedule], [row], now=now)
    firing = editor.decide(facts, now)
    if firing.entries:
        yield from ledger.write([firing], zone_data=schedule.zone_data, ids=editor.ids)


def _timing(plan: Plan) -> tuple[object, ...]:
    """What decides when it is due, as text: the old one may be one that cannot be read."""
    policies = plan.policies
    return plan.rule, plan.zone, policies.dst, policies.exclude, policies.start, policies.end


def remove(name: str, editor: Editor) -> Operation[None]:
    _, schedule, _ = yield from held(name, editor)
    yield from note(schedule, editor.who, "removed")
    yield Ask("remove_schedule", {"id": schedule.id})


def changes(name: str, limit: int) -> Operation[list[tuple[datetime, str, str]]]:
    number = yield from number_of(name)
    found = yield Ask("list_changes", {"schedule_id": number, "limit": limit})
    return [(from_us(at), who, what) for at, who, what in found]


def foresee(name: str, decide: Decide) -> Operation[Firing]:
    """What firing now would do: the facts are read, nothing is written."""
    found = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    if not found:
        yield from unknown(name)
    [(now,)] = yield Ask("now")
    schedule = rows.schedule(found[0])
    [facts] = yield from ledger.known([schedule], found, now=from_us(now), hold=False)
    return decide(facts, from_us(now))


def _difference(old: Plan, new: Plan) -> str:
    before, after = rows.plan_values(old), rows.plan_values(new)
    told, tells = rows.open_values(old), rows.open_values(new)
    changed = [
        f"{key}: {told[key]} → {tells[key]}"
        if told[key] != tells[key]
        else f"{key}: changed in what is hidden here"
        for key in before
        if before[key] != after[key]
    ]
    return ("; ".join(changed) or "nothing changed")[:2_000]
