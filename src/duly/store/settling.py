"""How jobs end, or go back to waiting: the one place where a job leaves the hot table.

Locks first, in the order of the house (schedules, keys, jobs); then the guard: a job that is run is
held by the fence of its claim, and whoever has an older one finds nothing to write on. Then, in the
same transaction: history, the attempt's record, the key set free, the fixed delay begun, and the
next job let in that waited behind this one. The last two look at the table again, in statements of
their own, so that they see what was committed while we waited for the locks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from duly.model.states import ENDED, State
from duly.policy.firing import moment_after_end
from duly.rules import Spaced
from duly.rules.instants import from_us
from duly.store import rows
from duly.store.database import Ask, Operation, Row
from duly.store.protocol import Settled, Settlement


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
    locks = [(j.schedule_id, j.task, j.key) for j in ending]
    schedules = yield from _lock(locks)
    mine = [{"id": s.job.id, "fence": s.job.fence} for s in settlements]
    held = yield Ask("hold_jobs", {"rows": rows.packed(mine)})
    kept = {row[0]: by_id[row[0]] for row in held}
    yield from _record_attempts(kept.values(), held)
    endings = {
        number: Ending(
            s.verdict.state, s.verdict.reason, s.verdict.crashes, s.result, s.verdict.error
        )
        for number, s in kept.items()
        if s.verdict.state in ENDED
    }
    yield from _leave(endings, [row for row in held if row[0] in endings], schedules)
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
    locks = [(schedule_id, task, key) for _, _, _, schedule_id, task, key in peeked]
    schedules = yield from _lock(locks)
    held = yield Ask(holding, {"ids": list(endings)})
    yield from _leave({row[0]: endings[row[0]] for row in held}, held, schedules)
    return [row[0] for row in held]


def _lock(wanted: Iterable[tuple[int | None, str, str | None]]) -> Operation[list[Row]]:
    locks = list(wanted)
    schedules: list[Row] = []
    schedule_ids = sorted({schedule for schedule, _, _ in locks if schedule is not None})
    if schedule_ids:
        schedules = yield Ask("hold_schedules", {"ids": schedule_ids})
    keys = sorted({(task, key) for _, task, key in locks if key is not None})
    if keys:
        named = rows.packed({"task": task, "key": key} for task, key in keys)
        yield Ask("hold_keys", {"rows": named})
    return schedules


def _leave(
    endings: Mapping[int, Ending], held: Sequence[Row], schedules: Sequence[Row]
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
    keys = [{"task": row[6], "key": row[7], "id": row[0]} for row in held if row[7] is not None]
    if keys:
        yield Ask("drop_keys", {"rows": rows.packed(keys)})
    if any(row[5] is not None for row in held):
        yield from _free(schedules, held)


def _free(schedules: Sequence[Row], held: Sequence[Row]) -> Operation[None]:
    """Begin the fixed delays that waited for these ends, and free the jobs behind them."""
    delays = []
    for row in schedules:
        schedule = rows.schedule(row)
        ended = [job[0] for job in held if job[5] == schedule.id]
        if isinstance(schedule.plan.kept, Spaced) and schedule.awaiting in ended:
            paused = schedule.pause is not None
            following = moment_after_end(schedule.plan, from_us(row[-1]))
            next_at = schedule.next_at if paused else following
            delays.append(
                {
                    "id": schedule.id,
                    "job_id": schedule.awaiting,
                    "next_at": rows.instant(next_at),
                }
            )
    if delays:
        yield Ask("free_schedules", {"rows": rows.packed(delays)})
    # Also behind a schedule that was removed meanwhile.
    yield Ask("free_blocked", {"ids": sorted({job[5] for job in held if job[5] is not None})})


def _record_attempts(settlements: Iterable[Settlement], held: Sequence[Row]) -> Operation[None]:
    """An attempt that ended its job well is the job's own row; the others get one here."""
    facts = {row[0]: row for row in held}
    records = []
    for settlement in settlements:
        verdict = settlement.verdict
        if verdict.state is State.SUCCEEDED or not verdict.counts:
            continue
        number, attempt, worker, fence, claimed = facts[settlement.job.id][:5]
        records.append(
            {
                "job_id": number,
                "number": attempt,
                "worker": worker,
                "fence": fence,
                "started_at": claimed,
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
