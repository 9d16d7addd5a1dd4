"""Operations on schedules that people and programs ask for.

Each holds the schedule's row first, so that it and a scheduler never decide at the same time. What
was due before a change is decided before the change, by the plan that was in force: an edit or a
pause neither swallows a moment nor invents one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches

from duly.errors import InvalidValue, NotFound, ScheduleExists, WrongState
from duly.model.fire import CLOCK, Cause, Fire, Outcome
from duly.model.payload import check_text
from duly.model.policies import MOST_AT_ONCE
from duly.model.schedule import Pause, Plan, Schedule
from duly.policy.firing import (
    Entry,
    Firing,
    first_moment,
    manual,
    moment_after_end,
    shortened,
    skipped_by_pause,
)
from duly.policy.sentences import asked
from duly.rules import Spaced, zone_data_version
from duly.rules.instants import from_us, to_us
from duly.store import ledger, rows
from duly.store.database import Ask, Operation, Row, Value
from duly.store.ids import Ids
from duly.store.protocol import Decide

MOST_SKIPPED = 100


def add(plans: Sequence[Plan], numbers: Sequence[int]) -> Operation[list[Schedule]]:
    """Remember new schedules; a repeated call finds its own and changes nothing."""
    [(instant,)] = yield Ask("now")
    now = from_us(instant)
    added = [
        Schedule(
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
    there: dict[str, Row] = {}
    while len(there) < len(wanted):  # again, if a name was taken and is removed meanwhile
        inserted = yield Ask("add_schedules", {"rows": rows.packed(map(_new, added))})
        if len(inserted) == len(plans):
            return added
        there = {row[1]: row for row in (yield Ask("named_schedules", {"names": wanted}))}
    taken = [one.plan.name for one in added if there[one.plan.name][0] != one.id]
    if taken:
        names = ", ".join(f'"{name}"' for name in taken[:5])
        raise ScheduleExists(
            f"{names}: there already. A name is a schedule's identity: edit it, or choose another"
        )
    return [rows.schedule(there[plan.name]) for plan in plans]


def _new(schedule: Schedule) -> dict[str, Value]:
    return rows.plan_values(schedule.plan) | {
        "id": schedule.id,
        "created_at": to_us(schedule.created_at),
        "next_at": rows.instant(schedule.next_at),
        "zone_data": schedule.zone_data,
    }


def get(name: str) -> Operation[Schedule]:
    check_text(name, "name")
    found = yield Ask("named_schedules", {"names": [name]})
    if not found:
        yield from _unknown(name)
    return rows.schedule(found[0])


def listed(after: str, limit: int) -> Operation[list[Schedule]]:
    found = yield Ask("list_schedules", {"after": after, "limit": limit})
    return [rows.schedule(row) for row in found]


def edit(
    name: str, change: Callable[[Plan], Plan], *, who: str, decide: Decide, ids: Ids
) -> Operation[Schedule]:
    row, schedule, now = yield from _held(name, decide, ids, who=who)
    plan = change(schedule.plan)
    if plan.name != name:
        raise InvalidValue(f'"{name}" cannot become "{plan.name}": a name is its identity')
    retimed = _timing(plan) != _timing(schedule.plan)
    values = _values(row) | rows.plan_values(plan)
    if retimed and schedule.pause is not None and not schedule.pause.catch_up:
        values["cursor"] = yield from _skip_until(now, schedule, row, ids)
    elif schedule.fault is not None and schedule.pause is None:
        # Nothing was decided since the cursor: the new plan decides what was due, as missed.
        cursor = now if isinstance(plan.kept, Spaced) else schedule.cursor
        values["next_at"] = rows.instant(first_moment(plan, cursor))
    elif retimed and schedule.pause is None:
        [facts] = yield from ledger.known([schedule], [row])
        for entry in decide(facts, now).entries:  # what the old plan has left out since the cursor
            yield from _record(schedule, entry, ids)
        values |= {"cursor": to_us(max(now, schedule.cursor)), "awaiting": None}
        values["next_at"] = rows.instant(first_moment(plan, max(now, schedule.cursor)))
        if isinstance(plan.kept, Spaced) and schedule.awaiting is not None:
            values |= {"next_at": None, "awaiting": schedule.awaiting}
    yield from _change(values, who, _difference(schedule.plan, plan))
    return (yield from get(name))


def _timing(plan: Plan) -> tuple[object, ...]:
    """What decides when it is due, as text: the old one may be one that cannot be read."""
    policies = plan.policies
    return plan.rule, plan.zone, policies.dst, policies.exclude, policies.start, policies.end


def pause(name: str, wanted: Pause, *, who: str, decide: Decide, ids: Ids) -> Operation[Schedule]:
    row, schedule, now = yield from _held(name, decide, ids, who=who)
    if schedule.pause is not None:
        wanted = replace(wanted, since=schedule.pause.since)
    else:
        wanted = replace(wanted, since=now)
    if wanted.until is not None and wanted.until <= now:
        raise InvalidValue(f"until={wanted.until}: that has passed; it is {now}")
    values = _values(row) | {
        "pause": rows.pause_text(wanted),
        "next_at": rows.instant(wanted.until),
    }
    said = f"paused until {wanted.until}" if wanted.until else "paused"
    yield from _change(values, who, f"{said}: {wanted.note}" if wanted.note else said)
    return (yield from get(name))


def resume(name: str, *, who: str, decide: Decide, ids: Ids) -> Operation[Schedule]:
    row, schedule, now = yield from _held(name, decide, ids, who=who)
    if schedule.pause is None:
        return schedule
    values = _values(row) | {"pause": None}
    if schedule.pause.catch_up:
        values["next_at"] = rows.instant(_next_after(schedule, schedule.cursor, now))
    else:
        values["cursor"] = yield from _skip_until(now, schedule, row, ids)
        values["next_at"] = rows.instant(_next_after(schedule, max(now, schedule.cursor), now))
    yield from _change(values, who, "resumed")
    return (yield from get(name))


def skip_next(
    name: str, count: int, *, who: str, decide: Decide, ids: Ids
) -> Operation[list[datetime]]:
    row, schedule, now = yield from _held(name, decide, ids, who=who)
    if not 1 <= count <= MOST_SKIPPED:
        raise InvalidValue(f"count={count}: from 1 to {MOST_SKIPPED} moments can be skipped ahead")
    moments = _ahead(schedule, max(now, schedule.cursor), count)
    for moment in moments:
        entry = Entry(
            due_at=moment,
            covers_from=moment,
            count=1,
            outcome=Outcome.SKIPPED,
            cause=Cause.ASKED,
            reason=asked(who),
        )
        yield from _record(schedule, entry, ids)
    if moments:
        until = max(to_us(moments[-1]), rows.settled_until(row) or 0)
        yield Ask("settle_until", {"id": schedule.id, "settled_until": until})
        yield from _note(schedule, who, f"the next {len(moments)} skipped")
    return moments


def rewind(name: str, to: datetime, *, who: str, decide: Decide, ids: Ids) -> Operation[Schedule]:
    row, schedule, now = yield from _held(name, decide, ids, who=who)
    if isinstance(schedule.plan.kept, Spaced):
        raise WrongState(f'"{name}" has a fixed delay, and no moments to go back to')
    moment = min(to, now, schedule.cursor)
    until = max(to_us(max(schedule.cursor, now)), rows.settled_until(row) or 0)
    next_at = schedule.pause.until if schedule.pause else schedule.plan.kept.after(moment)
    values: dict[str, Value] = {
        "id": schedule.id,
        "cursor": to_us(moment),
        "next_at": rows.instant(next_at),
        "settled_until": until,  # what is in the ledger up to the old cursor, or ahead, is settled
    }
    yield from _take_back_stretches(schedule, moment, ids)
    yield Ask("rewind_schedule", values)
    yield from _note(schedule, who, f"rewound to {moment}")
    return (yield from get(name))


def _take_back_stretches(schedule: Schedule, moment: datetime, ids: Ids) -> Operation[None]:
    """Moments behind the cursor that got no job of their own are decided anew."""
    values: dict[str, Value] = {"schedule_id": schedule.id, "moment": to_us(moment)}
    found = yield Ask("stretches_behind", values)
    for fire in map(rows.fire, found):
        own = yield from _own_rows_inside(fire)
        shorter = shortened(schedule, fire, moment, own=own)
        if shorter is None:
            continue
        yield Ask("forget_fire", {"schedule_id": schedule.id, "due_at": to_us(fire.due_at)})
        for entry in shorter:
            yield from _record(schedule, entry, ids)


def _own_rows_inside(stretch: Fire) -> Operation[list[datetime]]:
    values: dict[str, Value] = {
        "schedule_id": stretch.schedule_id,
        "since": to_us(stretch.covers_from),
        "until": to_us(stretch.due_at),
        "limit": MOST_AT_ONCE,
    }
    found = [rows.fire(row) for row in (yield Ask("list_fires", values))]
    return [fire.due_at for fire in found if fire.series == CLOCK and fire.count == 1]


def run(name: str, series: int, *, who: str, decide: Decide, ids: Ids) -> Operation[Fire]:
    row, schedule, now = yield from _held(name, decide, ids, who=who)
    done = yield Ask("fire_of_series", {"schedule_id": schedule.id, "series": series})
    if done:  # a repeated call: it was written, and the answer was lost
        return rows.fire(done[0])
    [facts] = yield from ledger.known([schedule], [row])
    entry, stopping = manual(replace(facts, settled=frozenset()), now)
    yield from ledger.write_manual(schedule, entry, series=series, ids=ids)
    if stopping:
        yield from ledger.stop(stopping, "replaced by a manual run of its schedule")
    yield from _note(schedule, who, "run by hand")
    [found] = yield Ask("fire_of_series", {"schedule_id": schedule.id, "series": series})
    return rows.fire(found)


def remove(name: str, *, who: str, decide: Decide, ids: Ids) -> Operation[None]:
    _, schedule, _ = yield from _held(name, decide, ids, who=who)
    yield from _note(schedule, who, "removed")
    yield Ask("remove_schedule", {"id": schedule.id})


def changes(name: str, limit: int) -> Operation[list[tuple[datetime, str, str]]]:
    schedule = yield from get(name)
    found = yield Ask("list_changes", {"schedule_id": schedule.id, "limit": limit})
    return [(from_us(at), who, what) for at, who, what in found]


def foresee(name: str, decide: Decide) -> Operation[Firing]:
    """What firing now would do: the facts are read, nothing is written."""
    found = yield Ask("named_schedules", {"names": [name]})
    if not found:
        yield from _unknown(name)
    [(now,)] = yield Ask("now")
    [facts] = yield from ledger.known([rows.schedule(found[0])], found, hold=False)
    return decide(facts, from_us(now))


def _held(
    name: str, decide: Decide, ids: Ids, *, who: str
) -> Operation[tuple[Row, Schedule, datetime]]:
    """The schedule, locked, with everything decided that was due until now."""
    check_text(name, "name")
    check_text(who, "who")
    found = yield Ask("hold_named_schedules", {"names": [name]})
    if not found:
        yield from _unknown(name)
    now = from_us(found[0][-1])
    next_at = found[0][17]
    if next_at is not None and next_at <= to_us(now):
        firings, faults = yield from ledger.decided(found, decide, now)
        yield from ledger.write(firings, faults, zone_data=zone_data_version(), ids=ids)
        found = yield Ask("hold_named_schedules", {"names": [name]})
    return found[0], rows.schedule(found[0]), now


def _unknown(name: str) -> Operation[None]:
    known = yield Ask("similar_schedules", {"start": name[:2]})
    near = get_close_matches(name, [row[0] for row in known], n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise NotFound(f'there is no schedule "{name}"{hint}')


def _next_after(schedule: Schedule, cursor: datetime, now: datetime) -> datetime | None:
    kept = schedule.plan.kept
    if not isinstance(kept, Spaced):
        return kept.after(cursor)
    return (
        None if schedule.awaiting is not None else moment_after_end(schedule.plan, now - kept.delay)
    )


def _ahead(schedule: Schedule, after: datetime, count: int) -> list[datetime]:
    kept = schedule.plan.kept
    if isinstance(kept, Spaced):
        return [schedule.next_at] if schedule.next_at else []
    return list(kept.between(after, after + timedelta(days=366 * 30), count))


def _skip_until(now: datetime, schedule: Schedule, row: Row, ids: Ids) -> Operation[int]:
    """Account for what fell into a pause so far: the cursor that follows."""
    [facts] = yield from ledger.known([schedule], [row])
    for entry in skipped_by_pause(schedule, now, facts.settled):
        yield from _record(schedule, entry, ids)
    return to_us(max(now, schedule.cursor))


def _record(schedule: Schedule, entry: Entry, ids: Ids) -> Operation[None]:
    [number] = ids.draw(1)
    yield Ask("record_fires", {"rows": rows.packed([ledger.fire_values(schedule, entry, number)])})


def _values(row: Row) -> dict[str, Value]:
    """The columns of a schedule that a change may set, as they are."""
    return {
        "id": row[0],
        "cursor": row[16],
        "next_at": row[17],
        "settled_until": row[18],
        "pause": row[20],
        "awaiting": row[21],
        "zone_data": row[23],
        **rows.plan_values(rows.schedule(row).plan),
    }


def _change(values: dict[str, Value], who: str, what: str) -> Operation[None]:
    yield Ask("change_schedule", {**values, "zone_data": zone_data_version()})
    name = values["name"]
    yield Ask(
        "record_change", {"schedule_id": values["id"], "name": name, "who": who, "what": what}
    )


def _note(schedule: Schedule, who: str, what: str) -> Operation[None]:
    name = schedule.plan.name
    yield Ask("record_change", {"schedule_id": schedule.id, "name": name, "who": who, "what": what})


def _difference(old: Plan, new: Plan) -> str:
    before, after = rows.plan_values(old), rows.plan_values(new)
    changed = [
        f"{key}: {before[key]} → {after[key]}" for key in before if before[key] != after[key]
    ]
    return ("; ".join(changed) or "nothing changed")[:2_000]
