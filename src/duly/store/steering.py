"""What people do with a schedule as it is: pause, resume, skip ahead, rewind, run by hand."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from duly.errors import InvalidValue, WrongState
from duly.instants import from_us, to_us
from duly.model.fire import CLOCK, Cause, Outcome, StoredFire
from duly.model.policies import MOST_AT_ONCE, check_moment
from duly.model.schedule import Pause, StoredSchedule
from duly.policy.firing import LedgerEntry, manual, moment_after_end, shortened
from duly.policy.sentences import asked, shown_whole, skipped_moments
from duly.rules import Spaced
from duly.store import ledger, rows
from duly.store.database import Ask, Operation, Value
from duly.store.held import Editor, get, held, note, record, skip_until, values_of, write_change
from duly.store.ids import Ids

MOST_SKIPPED = 100
LATELY = 3_600_000_000


def pause(name: str, wanted: Pause, editor: Editor) -> Operation[StoredSchedule]:
    row, schedule, now = yield from held(name, editor)
    if schedule.pause is not None:
        wanted = replace(wanted, since=schedule.pause.since)
    else:
        wanted = replace(wanted, since=now)
    if wanted.catch_up and schedule.plan.reaction is not None:
        raise InvalidValue(
            f'catch_up=True: "{name}" reacts to events; what happens in the pause is in its '
            "history, and nothing is made up for: leave it out"
        )
    if wanted.until is not None and wanted.until <= now:
        until, it_is = (shown_whole(moment, schedule.plan) for moment in (wanted.until, now))
        raise InvalidValue(f"until={until}: that has passed; it is {it_is}")
    values = values_of(row) | {
        "pause": rows.pause_text(wanted),
        "next_at": rows.instant(wanted.until),
    }
    until = f" until {shown_whole(wanted.until, schedule.plan)}" if wanted.until else ""
    said = f"paused{until}"
    yield from write_change(values, editor.who, f"{said}: {wanted.note}" if wanted.note else said)
    return (yield from get(name))


def resume(name: str, editor: Editor) -> Operation[StoredSchedule]:
    row, schedule, now = yield from held(name, editor)
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
        raise InvalidValue(f"count={count}: from 1 to {MOST_SKIPPED} moments can be skipped ahead")


def skip_next(name: str, numbers: Sequence[int], editor: Editor) -> Operation[list[datetime]]:
    """Leave out as many moments as there are numbers, of those that are not left out already."""
    row, schedule, now = yield from held(name, editor)
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
        entry = LedgerEntry(
            due_at=moment,
            covers_from=moment,
            count=1,
            outcome=Outcome.SKIPPED,
            cause=Cause.ASKED,
            reason=asked(editor.who),
        )
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
    _, schedule, _ = yield from held(name, editor)
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
    row, schedule, now = yield from held(name, editor)
    spaced = isinstance(schedule.plan.kept, Spaced)
    if spaced and schedule.cursor <= now:
        raise WrongState(f'"{name}" has a fixed delay, and no moments to go back to')
    if schedule.plan.reaction is not None:
        raise WrongState(f'"{name}" reacts to events, and has no moments to go back to')
    if to > max(now, schedule.cursor):
        wanted, cursor = (shown_whole(one, schedule.plan) for one in (to, schedule.cursor))
        raise InvalidValue(f"to={wanted}: a rewind goes back, and the cursor is at {cursor}")
    moment = min(to, now, schedule.cursor)
    until = max(to_us(max(schedule.cursor, now)), row.settled_until or 0)
    next_at = schedule.pause.until if schedule.pause else _next_after(schedule, moment, now)
    values: dict[str, Value] = {
        "id": schedule.id,
        "cursor": to_us(moment),
        "next_at": rows.instant(next_at),
        "settled_until": until,  # what is in the ledger up to the old cursor, or ahead, is settled
    }
    if not spaced:
        yield from _take_back_stretches(schedule, moment, editor.ids)
    yield Ask("rewind_schedule", values)
    yield from note(schedule, editor.who, f"rewound to {shown_whole(moment, schedule.plan)}")
    return (yield from get(name))


def _take_back_stretches(schedule: StoredSchedule, moment: datetime, ids: Ids) -> Operation[None]:
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
    row, schedule, now = yield from held(name, editor)
    if (reaction := schedule.plan.reaction) is not None:
        raise WrongState(
            f'"{name}" reacts to events, and takes its arguments from them: emit '
            f"{reaction.pattern}, or enqueue {schedule.plan.task} itself"
        )
    # A call is repeated at once, or never: what it wrote is among the newest.
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
    if not isinstance(kept, Spaced):
        return kept.after(cursor)
    return (
        None if schedule.awaiting is not None else moment_after_end(schedule.plan, now - kept.delay)
    )


def _ahead(schedule: StoredSchedule, after: datetime, count: int) -> Operation[list[datetime]]:
    """Return so many moments to come that the ledger does not have yet."""
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
