"""How jobs end, or go back to waiting: the one place where a job leaves the hot table.

Locks first, in the order of the house: schedules, then jobs. Then the guard: a job that is run is
held by the fence of its claim, and whoever has an older one finds nothing to write on. A key is set
free if nobody holds it: its holder may be in the middle of somebody's long transaction, and will
find the job ended. Then, in the
same transaction: history, the attempt's record, the key set free, the fixed delay begun, and the
next job let in that waited behind this one. The last two look at the table again, in statements of
their own, so that they see what was committed while we waited for the locks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from duly.errors import DulyError
from duly.model.states import ENDED, State
from duly.policy.firing import moment_after_end
from duly.rules.instants import from_us
from duly.store import rows
from duly.store.database import Ask, Operation, Row
from duly.store.protocol import Settled, Settlement
from duly.store.rows import HeldRow, ScheduleRow


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ends, or why it waits again."""

    state: State
    reason: str
    crashes: int = 0
    result: str | None = None
    error: str | None = None


def settle(settlements: Sequence[Settlement]) -> Operation[Settled]:
    """Write what became of jobs that were run, each under its fence."""
    by_id = {settlement.job.id: settlement for settlement in settlements}
    ending = [s.job for s in settlements if s.verdict.state in ENDED]
    schedules = yield from _lock(job.schedule_id for job in ending)
    mine = [{"id": s.job.id, "fence": s.job.fence} for s in settlements]
    held = rows.held((yield Ask("hold_jobs", {"rows": rows.packed(mine)})))
    kept = {row.id: by_id[row.id] for row in held}
    yield from _record_attempts(kept.values(), held)
    endings = {
        number: Ending(
            s.verdict.state, s.verdict.reason, s.verdict.crashes, s.result, s.verdict.error
        )
        for number, s in kept.items()
        if s.verdict.state in ENDED
    }
    yield from _leave(endings, [row for row in held if row.id in endings], schedules)
    again = [s for number, s in kept.items() if number not in endings]
    if again:
        yield Ask("return_jobs", {"rows": rows.packed(map(_returned, again))})
    lost = [number for number in by_id if number not in kept]
    mine_already = (yield from _done_before(lost, by_id)) if lost else set()
    return Settled(
        kept=[*kept, *mine_already],
        refused=[number for number in lost if number not in mine_already],
    )


def end(
    endings: Mapping[int, Ending], peeked: Sequence[Row], *, holding: str = "hold_waiting_jobs"
) -> Operation[list[int]]:
    """End jobs that have not begun; those that ``holding`` finds no more are left alone."""
    schedules = yield from _lock(schedule_id for _, _, _, schedule_id, _, _ in peeked)
    held = rows.held((yield Ask(holding, {"ids": list(endings)})))
    yield from _leave({row.id: endings[row.id] for row in held}, held, schedules)
    return [row.id for row in held]


def _lock(wanted: Iterable[int | None]) -> Operation[list[ScheduleRow]]:
    ids = sorted({schedule for schedule in wanted if schedule is not None})
    return rows.schedules((yield Ask("hold_schedules", {"ids": ids}))) if ids else []


def _leave(
    endings: Mapping[int, Ending], held: Sequence[HeldRow], schedules: Sequence[ScheduleRow]
) -> Operation[None]:
    """Move jobs that are held out of the hot table, and let in who waited for them."""
    if not endings:
        return
    for statement, failed in (("keep_history", False), ("keep_failed", True)):
        chosen = [
            _ended(number, ending)
            for number, ending in endings.items()
            if (ending.state is State.FAILED) is failed
        ]
        if chosen:
            yield Ask(statement, {"rows": rows.packed(chosen)})
    yield Ask("forget_jobs", {"ids": list(endings)})
    yield Ask("forget_signals", {"ids": list(endings)})
    keys = [{"task": row.task, "key": row.key, "id": row.id} for row in held if row.key is not None]
    if keys:
        yield Ask("drop_keys", {"rows": rows.packed(keys)})
    if any(row.schedule_id is not None for row in held):
        yield from _free(schedules, held)


def _free(schedules: Sequence[ScheduleRow], held: Sequence[HeldRow]) -> Operation[None]:
    """Begin the fixed delays that waited for these ends, and free the jobs behind them."""
    ended = {row.id for row in held}
    delays = [
        {"id": row.id, "job_id": row.awaiting, "next_at": after_awaited(row)}
        for row in schedules
        if row.awaiting in ended
    ]
    if delays:
        yield Ask("free_schedules", {"rows": rows.packed(delays)})
    # Also behind a schedule that was removed meanwhile.
    ids = sorted({row.schedule_id for row in held if row.schedule_id is not None})
    yield Ask("free_blocked", {"ids": ids})


def after_awaited(row: ScheduleRow) -> int | None:
    """When a schedule is due next, now that the run it awaited has ended."""
    if row.pause is not None:
        return row.next_at
    try:
        following = moment_after_end(rows.schedule(row).plan, from_us(row.now))
    except DulyError:
        return row.now  # a rule that cannot be read: the scheduler sets it aside, and says why
    return rows.instant(following) if following else row.next_at


def _record_attempts(settlements: Iterable[Settlement], held: Sequence[HeldRow]) -> Operation[None]:
    """An attempt that ended its job well is the job's own row; the others get one here."""
    facts = {row.id: row for row in held}
    records = []
    for settlement in settlements:
        verdict = settlement.verdict
        if verdict.state is State.SUCCEEDED or not verdict.counts:
            continue
        row = facts[settlement.job.id]
        records.append(
            {
                "job_id": row.id,
                "number": row.attempt,
                "worker": row.worker,
                "fence": row.fence,
                "started_at": row.claimed_at,
                "outcome": settlement.outcome,
                "reason": verdict.reason,
                "error": verdict.error,
            }
        )
    if records:
        yield Ask("record_attempts", {"rows": rows.packed(records)})


def _done_before(lost: Sequence[int], by_id: Mapping[int, Settlement]) -> Operation[set[int]]:
    """Jobs that are not held because this very settlement was written, and its answer lost."""
    found = yield Ask("whose", {"ids": list(lost)})
    return {
        number
        for number, state, fence in found
        if fence == by_id[number].job.fence and state == by_id[number].verdict.state
    }


def _ended(number: int, ending: Ending) -> dict[str, object]:
    return {
        "id": number,
        "state": ending.state,
        "crashes": ending.crashes,
        "reason": ending.reason,
        "result": ending.result,
        "error": ending.error,
    }


def _returned(settlement: Settlement) -> dict[str, object]:
    verdict = settlement.verdict
    return {
        "id": settlement.job.id,
        "state": verdict.state,
        "ready_at": rows.instant(verdict.ready_at),
        "uncounted": 0 if verdict.counts else 1,
        "crashes": verdict.crashes,
        "reason": verdict.reason,
    }
