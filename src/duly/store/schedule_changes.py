"""Change schedules: add, edit, pause, resume, skip, rewind, run by hand, remove.

Every change locks the row first, so a change and a scheduler never decide at the same time. Moments
that were due before a change are decided by the plan in force then: an edit or a pause neither
loses a moment nor adds one.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from duly.durations import MICROSECOND
from duly.errors import InvalidValue, NotFound, ScheduleExists, WrongState
from duly.instants import from_us, to_us
from duly.model.fire import CLOCK, Cause, Outcome, StoredFire
from duly.model.payload import check_text
from duly.model.policies import MOST_AT_ONCE, check_moment
from duly.model.schedule import Pause, Plan, StoredSchedule, runs_left
from duly.policy.decision import LedgerEntry
from duly.policy.firing import (
    first_moment,
    manual,
    missed_at_start,
    moment_after_end,
    shortened,
    skipped_by_pause,
)
from duly.policy.sentences import asked, shown_whole, skipped_moments
from duly.rules import Budget, Spaced, zone_data_version
from duly.store import ledger, rows
from duly.store.database import Ask, Operation, Value, current_time
from duly.store.ids import Ids
from duly.store.rows import ScheduleColumns
from duly.store.transactions import Editor

# So many portions of settled moments are gone through before a change; a scheduler does the rest.
MOST_PORTIONS = 50
# Columns that no change sets.
KEPT = ("created_at", "revision", "now")
MOST_SKIPPED = 100
LATELY = 3_600_000_000  # microseconds


def get(name: str) -> Operation[StoredSchedule]:
    return rows.schedule((yield from row_of(name)))


def row_of(name: str) -> Operation[ScheduleColumns]:
    """Return the row of the schedule with this name; raise ``NotFound`` if there is none."""
    check_text(name, "name")
    found = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    if not found:
        yield from unknown(name)
    return found[0]


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


def lock(name: str, editor: Editor) -> Operation[tuple[ScheduleColumns, StoredSchedule, datetime]]:
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
    about = {"schedule_id": values["id"], "name": values["name"]}
    yield Ask("record_change", {**about, "who": who, "what": what})


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


def add(
    plans: Sequence[Plan], numbers: Sequence[int], *, pause: Pause | None = None
) -> Operation[list[StoredSchedule]]:
    """Add schedules; a repeated call finds its own rows and changes nothing."""
    now = yield from current_time()
    pause = replace(pause, since=now) if pause else None
    with Budget():  # one for all of them: they are added in one transaction
        added = [
            _added(plan, number, now, pause) for plan, number in zip(plans, numbers, strict=True)
        ]
    wanted = list(dict.fromkeys(plan.name for plan in plans))
    there: dict[str, ScheduleColumns] = {}
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
            f"{names}: exists already. A schedule is identified by its name: edit it, or choose "
            "another name"
        )
    return [rows.schedule(there[plan.name]) for plan in plans]


def _added(plan: Plan, number: int, now: datetime, pause: Pause | None) -> StoredSchedule:
    cursor, next_at = now, None
    if pause is None:
        next_at = first_moment(plan, now)
        missed = missed_at_start(plan, now) if next_at is None else None
        if missed is not None:
            cursor, next_at = missed - MICROSECOND, missed
    return StoredSchedule(
        id=number,
        plan=plan,
        created_at=now,
        cursor=cursor,
        next_at=next_at,
        pause=pause,
        zone_data=zone_data_version(),
    )


def _new(schedule: StoredSchedule) -> dict[str, Value]:
    return rows.plan_values(schedule.plan) | {
        "id": schedule.id,
        "created_at": to_us(schedule.created_at),
        "cursor": to_us(schedule.cursor),
        "next_at": rows.instant(schedule.next_at),
        "pause": rows.pause_text(schedule.pause) if schedule.pause else None,
        "zone_data": schedule.zone_data,
    }


def edit(name: str, change: Callable[[Plan], Plan], editor: Editor) -> Operation[StoredSchedule]:
    row, schedule, now = yield from lock(name, editor)
    old = schedule.plan
    plan = change(old)
    if plan.name != name:
        raise InvalidValue(
            f'"{name}" cannot become "{plan.name}": a schedule is identified by its name'
        )
    runs = 0 if old.policies.max_runs is None else schedule.runs
    ends, goes_on = runs_left(plan, runs) == 0, schedule.runs_left != 0
    retimed = _timing(plan) != _timing(old) or not (ends or goes_on)
    values = values_of(row) | _changed(row, old, plan) | {"fault": None, "runs": runs}
    if retimed and schedule.pause is not None and not schedule.pause.catch_up:
        values["cursor"] = yield from skip_until(now, schedule, row, editor.ids)
    elif schedule.fault is not None and schedule.pause is None:
        # Nothing was decided since the cursor: the new plan decides what was due, as missed.
        cursor = now if isinstance(plan.kept, Spaced) else schedule.cursor
        values["next_at"] = rows.instant(first_moment(plan, cursor))
    elif retimed and schedule.pause is None:
        yield from _left_out(schedule, row, now, editor)
        values |= {"cursor": to_us(max(now, schedule.cursor)), "awaiting": None}
        following = first_moment(plan, max(now, schedule.cursor))
        values["next_at"] = rows.instant(following)
        if isinstance(plan.kept, Spaced) and schedule.awaiting is not None:
            values |= {"next_at": None, "awaiting": schedule.awaiting}
    if ends and schedule.pause is None:
        values["next_at"] = None
    if not plan.unawaited and (plan.policies, plan.rule) != (old.policies, old.rule):
        yield Ask("set_awaited", {"schedule_id": schedule.id})
    yield from write_change(values, editor.who, _difference(old, plan))
    return (yield from get(name))


def _changed(row: ScheduleColumns, old: Plan, new: Plan) -> dict[str, Value]:
    """Return the columns that differ; policies that this version does not know stay."""
    before, after = rows.plan_values(old), rows.plan_values(new)
    changed = {key: after[key] for key in after if after[key] != before[key]}
    if "policies" in changed:
        changed["policies"] = rows.policies_over(row.policies, new.policies)
    return changed


def _left_out(
    schedule: StoredSchedule, row: ScheduleColumns, now: datetime, editor: Editor
) -> Operation[None]:
    """Record the moments that the old plan skipped since the cursor."""
    [facts] = yield from ledger.known([schedule], [row], now=now)
    firing = editor.decide(facts, now)
    if firing.entries:
        yield from ledger.write([firing], zone_data=schedule.zone_data, ids=editor.ids)


def _timing(plan: Plan) -> tuple[object, ...]:
    """Return the choices that decide due moments, as text: an old plan may be unreadable."""
    policies = plan.policies
    return plan.rule, plan.zone, policies.dst, policies.exclude, policies.start, policies.end


def remove(name: str, editor: Editor) -> Operation[None]:
    _, schedule, _ = yield from lock(name, editor)
    yield from note(schedule, editor.who, "removed")
    yield Ask("remove_schedule", {"id": schedule.id})


def _difference(old: Plan, new: Plan) -> str:
    before, after = rows.plan_values(old), rows.plan_values(new)
    told, tells = rows.open_values(old), rows.open_values(new)
    changed = [
        f"{key}: {told[key]} → {tells[key]}"
        if told[key] != tells[key]
        else f"{key}: changed in a hidden part"
        for key in before
        if before[key] != after[key]
    ]
    return ("; ".join(changed) or "nothing changed")[:2_000]


def pause(name: str, wanted: Pause, editor: Editor) -> Operation[StoredSchedule]:
    row, schedule, now = yield from lock(name, editor)
    if schedule.pause is not None:
        wanted = replace(wanted, since=schedule.pause.since)
    else:
        wanted = replace(wanted, since=now)
    if wanted.catch_up and schedule.plan.reaction is not None:
        raise InvalidValue(
            f'catch_up=True: "{name}" reacts to events, and events during a pause are not caught '
            "up: leave it out"
        )
    if wanted.until is not None and wanted.until <= now:
        until, it_is = (shown_whole(moment, schedule.plan) for moment in (wanted.until, now))
        raise InvalidValue(f"until={until} is in the past; it is {it_is} now")
    values = values_of(row) | {
        "pause": rows.pause_text(wanted),
        "next_at": rows.instant(wanted.until),
    }
    until = f" until {shown_whole(wanted.until, schedule.plan)}" if wanted.until else ""
    said = f"paused{until}"
    yield from write_change(values, editor.who, f"{said}: {wanted.note}" if wanted.note else said)
    return (yield from get(name))


def resume(name: str, editor: Editor) -> Operation[StoredSchedule]:
    row, schedule, now = yield from lock(name, editor)
    if schedule.pause is None:
        return schedule
    values = values_of(row) | {"pause": None}
    if schedule.pause.catch_up:
        values["next_at"] = rows.instant(_next_after(schedule, schedule.cursor, now))
    else:
        values["cursor"] = yield from skip_until(now, schedule, row, editor.ids)
        values["next_at"] = rows.instant(_next_after(schedule, max(now, schedule.cursor), now))
    yield from write_change(values, editor.who, "resumed")
    return (yield from get(name))


def check_skipped(count: int) -> None:
    if not 1 <= count <= MOST_SKIPPED:
        raise InvalidValue(f"count={count}: 1 to {MOST_SKIPPED} upcoming runs can be skipped")


def skip_next(name: str, numbers: Sequence[int], editor: Editor) -> Operation[list[datetime]]:
    """Skip as many moments ahead as there are numbers; skipped ones do not count."""
    row, schedule, now = yield from lock(name, editor)
    mine: dict[str, Value] = {
        "schedule_id": schedule.id,
        "ids": list(numbers),
        "since": to_us(now) - LATELY,
    }
    done = yield Ask("recorded_fires", mine)
    if done:  # a repeated call: it was written, and the answer was lost
        return [from_us(moment) for (moment,) in done]
    moments = yield from _ahead(schedule, max(now, schedule.cursor), len(numbers))
    for number, moment in zip(numbers, moments, strict=False):
        said = asked(editor.who)
        entry = LedgerEntry.of_one(moment, Outcome.SKIPPED, said, cause=Cause.ASKED)
        yield from record(schedule, entry, number)
    if moments:
        until = max(to_us(moments[-1]), row.settled_until or 0)
        yield Ask("settle_until", {"id": schedule.id, "settled_until": until})
        yield from note(schedule, editor.who, skipped_moments(moments, schedule.plan))
    return moments


def unskip(name: str, editor: Editor) -> Operation[list[datetime]]:
    """Take back every moment ahead that was skipped in advance; return these moments.

    A moment behind the cursor stays skipped: nothing would fire it any more, and without its row
    it would be covered by none.
    """
    _, schedule, _ = yield from lock(name, editor)
    found = yield Ask("skipped_ahead", {"ids": [schedule.id]})
    moments = [from_us(due_at) for _, due_at in found if due_at > to_us(schedule.cursor)]
    for moment in moments:
        yield Ask("forget_fire", {"schedule_id": schedule.id, "due_at": to_us(moment)})
    if moments:
        yield from note(
            schedule, editor.who, f"took back: {skipped_moments(moments, schedule.plan)}"
        )
    return moments


def rewind(name: str, to: datetime, editor: Editor) -> Operation[StoredSchedule]:
    check_moment("to", to)
    row, schedule, now = yield from lock(name, editor)
    spaced = isinstance(schedule.plan.kept, Spaced)
    if spaced and schedule.cursor <= now:
        raise WrongState(f'"{name}" has a fixed delay, and no scheduled runs to go back to')
    if schedule.plan.reaction is not None:
        raise WrongState(f'"{name}" reacts to events, and has no scheduled runs to go back to')
    if to > max(now, schedule.cursor):
        wanted, cursor = (shown_whole(one, schedule.plan) for one in (to, schedule.cursor))
        raise InvalidValue(
            f"to={wanted}: a rewind goes back in time, and the cursor is at {cursor}"
        )
    moment = min(to, now, schedule.cursor)
    until = max(to_us(max(schedule.cursor, now)), row.settled_until or 0)
    next_at = schedule.pause.until if schedule.pause else _next_after(schedule, moment, now)
    values: dict[str, Value] = {
        "id": schedule.id,
        "cursor": to_us(moment),
        "next_at": rows.instant(next_at),
        "settled_until": until,  # ledger rows up to the old cursor, or ahead, are settled
    }
    if not spaced:
        yield from _take_back_stretches(schedule, moment, editor.ids)
    yield Ask("rewind_schedule", values)
    yield from note(schedule, editor.who, f"rewound to {shown_whole(moment, schedule.plan)}")
    return (yield from get(name))


def _take_back_stretches(schedule: StoredSchedule, moment: datetime, ids: Ids) -> Operation[None]:
    """Reopen moments after the cursor that got no job of their own."""
    values: dict[str, Value] = {"schedule_id": schedule.id, "moment": to_us(moment)}
    found = yield Ask("stretches_behind", values)
    for fire in map(rows.fire, found):
        own = yield from _own_rows_inside(fire)
        shorter = shortened(schedule, fire, moment, own=own)
        if shorter is None:
            continue
        yield Ask("forget_fire", {"schedule_id": schedule.id, "due_at": to_us(fire.due_at)})
        for entry in shorter:
            yield from record(schedule, entry, *(yield from ids.draw(1)))


def _own_rows_inside(stretch: StoredFire) -> Operation[list[datetime]]:
    values: dict[str, Value] = {
        "schedule_id": stretch.schedule_id,
        "since": to_us(stretch.covers_from),
        "until": to_us(stretch.due_at),
        "limit": MOST_AT_ONCE,
    }
    found = [rows.fire(row) for row in (yield Ask("list_fires", values))]
    return [fire.due_at for fire in found if fire.series == CLOCK and fire.count == 1]


def run(name: str, series: int, editor: Editor) -> Operation[StoredFire]:
    row, schedule, now = yield from lock(name, editor)
    if (reaction := schedule.plan.reaction) is not None:
        raise WrongState(
            f'"{name}" takes its arguments from events: emit {reaction.pattern}, or enqueue '
            f"{schedule.plan.task} itself"
        )
    # A call is repeated at once, or never: its rows are among the newest.
    since = to_us(now) - LATELY
    mine = {"schedule_id": schedule.id, "series": series, "since": since}
    done = yield Ask("fire_of_series", mine)
    if done:  # a repeated call: it was written, and the answer was lost
        return rows.fire(done[0])
    [facts] = yield from ledger.known([schedule], [row])
    entry, stopping = manual(facts, now, who=editor.who)
    yield from ledger.write_manual(schedule, [entry], series=series, ids=editor.ids)
    if stopping:
        yield from ledger.stop(stopping, "replaced by a manual run of its schedule")
    yield from note(schedule, editor.who, "run by hand")
    [found] = yield Ask("fire_of_series", mine)
    return rows.fire(found)


def _next_after(schedule: StoredSchedule, cursor: datetime, now: datetime) -> datetime | None:
    kept = schedule.plan.kept
    if schedule.runs_left == 0:
        return None
    if not isinstance(kept, Spaced):
        return kept.after(cursor)
    return None if schedule.awaiting is not None else moment_after_end(schedule, now - kept.delay)


def _ahead(schedule: StoredSchedule, after: datetime, count: int) -> Operation[list[datetime]]:
    """Return moments to come that the ledger does not have yet."""
    if schedule.runs_left == 0:
        return []
    kept = schedule.plan.kept
    end = after + timedelta(days=366 * 30)
    moments: list[datetime] = []
    until: datetime | None = after
    while until is not None and len(moments) < count:
        after = until
        settled, until = yield from ledger.settled_moments(schedule.id, after, end)
        if isinstance(kept, Spaced):
            due = schedule.next_at
            return [] if due is None or due in settled else [due]
        wanted = count - len(moments) + len(settled)
        ahead = kept.between(after, until or end, wanted)
        moments += [moment for moment in ahead if moment not in settled]
    return moments[:count]


def refresh(after: int, limit: int) -> Operation[int | None]:
    """Recompute next moments that were computed with older zone data."""
    version = zone_data_version()
    asked: dict[str, Value] = {"zone_data": version, "after": after, "limit": limit}
    stale = rows.schedules((yield Ask("stale_schedules", asked)))
    decided: list[tuple[StoredSchedule, dict[str, Any]]] = []
    for row in stale:
        with suppress(Exception):  # an unreadable schedule reports its fault when it is due
            schedule = rows.schedule(row)
            decided.append((schedule, _recomputed(schedule, row, version)))
    if decided:
        yield Ask("advance_schedules", {"rows": rows.packed(values for _, values in decided)})
    for schedule, values in decided:
        was, is_now = schedule.next_at, rows.moment(values["next_at"])
        if was != is_now:
            moved = f"the next run moved from {was} to {is_now} because of zone data {version}"
            yield from note(schedule, "zone data", moved)
    return int(stale[-1].id) if len(stale) == limit else None


def _recomputed(schedule: StoredSchedule, row: ScheduleColumns, version: str) -> dict[str, Any]:
    next_at = schedule.next_at
    if (
        next_at is not None
        and schedule.pause is None
        and not isinstance(schedule.plan.kept, Spaced)
    ):
        next_at = schedule.plan.kept.after(schedule.cursor)
    return {
        "id": schedule.id,
        "revision": schedule.revision,
        "cursor": to_us(schedule.cursor),
        "next_at": rows.instant(next_at),
        "awaiting": schedule.awaiting,
        "fault": schedule.fault,
        "pause": row.pause,
        "runs": 0,
        "zone_data": version,
    }
