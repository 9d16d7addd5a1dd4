"""Backfilling: past moments get a job, all of them in one transaction, or none.

The schedule is locked meanwhile, so that no other transaction makes jobs of its moments. A moment
that has had a job from any source is left alone: a repeated backfill adds nothing. With ``again``
it does; but then, too, a call whose answer was lost finds the rows of its own number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from duly.instants import from_us, to_us
from duly.model.fire import Backfill, LeftAlone, Outcome, StoredFire
from duly.model.schedule import StoredSchedule
from duly.policy import sentences
from duly.policy.backfill import backfilled, check_stretch, forgotten, moments_of, notes
from duly.store import ledger, rows
from duly.store.database import Ask, Operation, Value
from duly.store.schedule_changes import lock, note, unknown
from duly.store.transactions import Editor
from duly.store.values import Decide


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRun:
    """A requested backfill; its number identifies a repeated call."""

    name: str
    since: datetime
    until: datetime
    again: bool = False
    number: int = 0


def backfill(request: BackfillRun, editor: Editor) -> Operation[Backfill]:
    check_stretch(request.since, request.until)
    row, schedule, now = yield from lock(request.name, editor)
    moments = moments_of(schedule, request.since, request.until, cursor=schedule.cursor, now=now)
    fires = yield from _queued(schedule, moments)
    others = _had(fire for fire in fires if fire.series != request.number)
    jobs = [fire.job_id or 0 for fire in fires if fire.series == request.number]
    wanted = moments if request.again else _without(moments, others)
    if wanted and not jobs:  # else a repeated call: it was written, and the answer was lost
        [facts] = yield from ledger.known([schedule], [row])
        entries = backfilled(facts, wanted, now, who=editor.who)
        jobs = yield from ledger.write_manual(
            schedule, entries, series=request.number, ids=editor.ids
        )
        said = sentences.backfill(request.since, request.until, len(wanted), plan=schedule.plan)
        yield from note(schedule, editor.who, said)
    told = yield from _told(request, schedule, moments, others)
    return replace(told, jobs=tuple(jobs))


def foresee(request: BackfillRun, *, decide: Decide) -> Operation[Backfill]:
    """Return what ``backfill`` would do (dry run); due moments are decided but not written."""
    check_stretch(request.since, request.until)
    found = rows.schedules((yield Ask("named_schedules", {"names": [request.name]})))
    if not found:
        yield from unknown(request.name)
    [(instant,)] = yield Ask("now")
    schedule, now = rows.schedule(found[0]), from_us(instant)
    cursor, coming = schedule.cursor, list[LeftAlone]()
    if schedule.next_at is not None and schedule.next_at <= now:
        [facts] = yield from ledger.known([schedule], found, now=now, hold=False)
        firing = decide(facts, now)
        cursor = firing.cursor
        coming = [
            LeftAlone(entry.due_at, None, "the clock is about to queue it")
            for entry in firing.entries
            if entry.outcome is Outcome.QUEUED and request.since <= entry.due_at < request.until
        ]
    moments = moments_of(schedule, request.since, request.until, cursor=cursor, now=now)
    fires = yield from _queued(schedule, moments)
    told = yield from _told(request, schedule, moments, [*_had(fires), *coming])
    return replace(told, dry_run=True)


def _queued(schedule: StoredSchedule, moments: Sequence[datetime]) -> Operation[list[StoredFire]]:
    if not moments:
        return []
    instants = [to_us(moment) for moment in moments]
    values: dict[str, Value] = {
        "schedule_id": schedule.id,
        "first": instants[0],
        "last": instants[-1],
        "moments": instants,
    }
    return [rows.fire(row) for row in (yield Ask("queued_fires", values))]


def _had(fires: Iterable[StoredFire]) -> list[LeftAlone]:
    return [LeftAlone(fire.due_at, fire.job_id, fire.reason) for fire in fires]


def _without(moments: Iterable[datetime], known: Iterable[LeftAlone]) -> list[datetime]:
    had = {one.due_at for one in known}
    return [moment for moment in moments if moment not in had]


def _told(
    request: BackfillRun,
    schedule: StoredSchedule,
    moments: Sequence[datetime],
    known: Sequence[LeftAlone],
) -> Operation[Backfill]:
    """Return the report of a backfill; of several jobs of a moment, it names the last."""
    wanted = moments if request.again else _without(moments, known)
    left = {} if request.again else {one.due_at: one for one in known}
    oldest = yield Ask("oldest_fire", {"schedule_id": schedule.id})
    lost = forgotten(schedule, wanted, rows.fire(oldest[0]) if oldest else None)
    return Backfill(
        schedule=request.name,
        start=request.since,
        end=request.until,
        queued=tuple(wanted),
        left_alone=tuple(left[due_at] for due_at in sorted(left)),
        forgotten=tuple(lost),
        notes=notes(schedule, wanted, lost),
    )
