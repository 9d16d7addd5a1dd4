"""End jobs, or return them to waiting: the only place where a job leaves the hot table.

Locks come first: schedules, flows, jobs. Then the guard: only the fencing token of the claim can
write, and a worker with an older token finds no row. Then, in the same transaction: the history,
the record of the attempt, the release of the key, the start of the fixed delay, the job that waited
behind this one, and the next steps of its flow. These read the table again in statements of their
own, so that they see what was committed while this transaction waited for the locks.

A key is released only if no transaction holds it: the holder may run for long, and will find that
the job has ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from duly.errors import DulyError
from duly.instants import from_us
from duly.model.job import JobRequest
from duly.model.outcome import REVOKE, SEND, MessageId, Succeeded
from duly.model.payload import Json, decode, encode
from duly.model.states import ENDED, WAITING, Move, State
from duly.model.terms import Callback, Terms
from duly.policy.firing import moment_after_end
from duly.policy.verdict import Tried, judge
from duly.store import flows, limits, rows
from duly.store.database import Ask, Operation, Row
from duly.store.flows import Advanced
from duly.store.ids import CONFIRMED, Ids, all_new
from duly.store.rows import JobEnding, LockedJob, ScheduleColumns
from duly.store.values import JOBS, READY, SCHEDULES, JobDone, Settled, Settlement


def call_back(
    endings: Mapping[int, JobEnding], held: Sequence[LockedJob], *, ids: Ids
) -> Operation[list[str]]:
    """Enqueue the callback jobs of ended jobs, in the same transaction; return their queues."""
    asked = [(row, callback) for row in held if (callback := _callback(row, endings[row.id].state))]
    if not asked:
        return []
    numbers = yield from ids.draw(len(asked))
    calls = [
        rows.call_values(_following(row, callback), number, number)
        for (row, callback), number in zip(asked, numbers, strict=True)
    ]
    all_new((yield Ask("enqueue_as", {"batch": rows.packed(calls), **CONFIRMED})), len(calls))
    return [callback.queue for _, callback in asked]


def _callback(row: LockedJob, state: State) -> Callback | None:
    terms = Terms.from_json(row.terms)
    return {
        State.SUCCEEDED: terms.on_success,
        State.FAILED: terms.on_failure,
        State.EXPIRED: terms.on_failure,
        State.CANCELLED: terms.on_cancelled,
    }[state]


def _following(row: LockedJob, callback: Callback) -> JobRequest:
    return JobRequest(
        task=callback.task,
        args=encode({callback.argument: row.id}, what="the arguments of a callback"),
        queue=callback.queue,
        priority=callback.priority,
        retry=callback.retry,
        terms=Terms(timeout=callback.timeout),
        tenant=row.tenant,
        title=f"after job {row.id}",
        parent=row.id,
    )


def settle(settlements: Sequence[Settlement], *, ids: Ids) -> Operation[Settled]:
    """Write the outcomes of jobs that ran, each under the fencing token of its claim."""
    by_id = {settlement.job.id: settlement for settlement in settlements}
    touched = [s.job for s in settlements if s.opens or s.verdict.state in ENDED]
    schedules = yield from _lock(
        (job.schedule_id for job in touched),
        (job.parent for job in touched if job.step is not None),
    )
    mine = [{"id": s.job.id, "fence": s.job.fence} for s in settlements]
    held = rows.locked_jobs((yield Ask("hold_jobs", {"rows": rows.packed(mine)})))
    kept = {row.id: by_id[row.id] for row in held}
    yield from _record_attempts(kept.values(), held)
    endings = {
        number: JobEnding(
            s.verdict.state,
            s.verdict.reason,
            s.verdict.crashes,
            result=s.result,
            error=s.verdict.error,
            keep=rows.microseconds(s.keep_result),
        )
        for number, s in kept.items()
        if s.verdict.state in ENDED
    }
    ended = [row for row in held if row.id in endings]
    moved = yield from _leave(endings, ended, schedules, ids=ids)
    moved.add((yield from _go_on(endings, ended, schedules, ids=ids)))
    for row in held:
        if (plan := kept[row.id].opens) is not None:
            timeout = rows.microseconds(Terms.from_json(row.terms).timeout)
            begun = yield from flows.opened(row, plan, timeout, ids=ids)
            yield from _carry_on(begun, schedules, ids=ids)
            moved.add(begun)
            moved.tells.add(JOBS)
    out = [s for s in kept.values() if s.verdict.move is Move.HAND_OFF]
    if out:
        yield Ask("detach_jobs", {"rows": rows.packed(map(_detached, out))})
        moved.tells.add(JOBS)  # there is a deadline for the outcome
    again = [s for s in kept.values() if s.verdict.state in WAITING]
    if again:
        yield Ask("return_jobs", {"rows": rows.packed(map(_returned, again))})
        moved.tells |= {JOBS, READY}
    # A handed-off job keeps its places in limits: the work goes on elsewhere.
    freed = yield from limits.leave(
        row for row in held if kept[row.id].verdict.move is not Move.HAND_OFF
    )
    if any(row.limits is not None or row.place is not None for row in held):
        moved.tells.add(JOBS)  # a rate may open, a step may wait or have a deadline
    lost = {
        number: (s.job.fence, s.verdict.state) for number, s in by_id.items() if number not in kept
    }
    mine_already = yield from done_before(lost)
    if lost:  # an earlier run may have written them, and told nobody
        moved.tells |= {SCHEDULES, JOBS, READY}
    return Settled(
        kept=[*kept, *mine_already],
        refused=[number for number in lost if number not in mine_already],
        before=sorted(mine_already),
        freed=[*moved.queues, *freed],
        tells=frozenset(moved.tells),
    )


def unsettled(done: Iterable[JobDone]) -> Operation[list[Settlement]]:
    """Return settlements of jobs that could not be finished in passing, though still claimed.

    Their schedule was edited while they ran: its other jobs may wait for their end now.
    """
    still: list[Settlement] = []
    for one in done:
        found = [rows.job(row) for row in (yield Ask("live_job", {"id": one.id}))]
        still += [
            Settlement(
                job=job,
                verdict=judge(Tried.of(job), Succeeded(None), from_us(0), dice=0.0),
                outcome="succeeded",
                result=one.result,
                keep_result=rows.length(one.keep),
            )
            for job in found
            if job.fence == one.fence and job.state is State.RUNNING
        ]
    return still


class EndedJobs(NamedTuple):
    """The ended jobs, and the queues in which other jobs became ready because of that.

    ``tells`` are the topics to notify because of the flows that the jobs are in.
    """

    ids: list[int]
    freed: list[str]
    tells: frozenset[str] = frozenset()


def end(
    endings: Mapping[int, JobEnding],
    peeked: Sequence[Row],
    *,
    ids: Ids,
    holding: str = "hold_waiting_jobs",
) -> Operation[EndedJobs]:
    """End jobs that have not started; skip those that the statement ``holding`` cannot lock."""
    schedules = yield from _lock(
        (schedule_id for _, _, schedule_id, _, _, _ in peeked),
        (parent for *_, parent, step in peeked if step is not None),
    )
    held = rows.locked_jobs((yield Ask(holding, {"ids": list(endings)})))
    mine = {row.id: endings[row.id] for row in held}
    moved = yield from _leave(mine, held, schedules, ids=ids)
    moved.add((yield from _go_on(mine, held, schedules, ids=ids)))
    freed = yield from limits.leave(held)
    queues = [*moved.queues, *freed]
    return EndedJobs([row.id for row in held], queues, frozenset(moved.tells))


def call_off(
    endings: Mapping[int, JobEnding], peeked: Sequence[Row], *, ids: Ids
) -> Operation[EndedJobs]:
    """End jobs that were handed off, and enqueue jobs that ask their targets to drop the work."""
    told = yield Ask("handed_off_jobs", {"ids": list(endings), "task": SEND})
    ended = yield from end(endings, peeked, ids=ids, holding="hold_handed_off_jobs")
    asked = [row for row in told if row[0] in ended.ids]
    numbers = yield from ids.draw(len(asked))
    calls = [
        rows.call_values(_revoking(row), number, number)
        for row, number in zip(asked, numbers, strict=True)
    ]
    if calls:
        all_new((yield Ask("enqueue_as", {"batch": rows.packed(calls), **CONFIRMED})), len(calls))
    return ended._replace(freed=[*ended.freed, *(queue for _, queue, *_ in asked)])


def _revoking(row: Row) -> JobRequest:
    number, queue, args, attempt, crashes, tenant, created_at = row
    message = str(MessageId.of(number, attempt - crashes, created_at, args))
    said = {"target": decode(Json(args)).get("target"), "message": message}
    return JobRequest(
        task=REVOKE,
        args=encode(said, what="the arguments of a revocation"),
        queue=queue,
        tenant=tenant,
        title=f"revoke {message}",
        parent=number,
    )


def stop_flow(number: int, ending: JobEnding, *, ids: Ids) -> Operation[EndedJobs]:
    """End a flow: at once if no step runs, otherwise when the running steps have ended."""
    schedules = yield from _lock((), (number,))
    if not (yield Ask("hold_flow_jobs", {"ids": [number]})):
        return EndedJobs([], [])  # it has ended meanwhile
    stopped = yield from flows.stopped(number, ending.state, ending.reason, ids=ids)
    if stopped is None:
        return EndedJobs([number], [])
    yield from _carry_on(stopped, schedules, ids=ids)
    return EndedJobs([number], stopped.queues, frozenset(stopped.tells))


def mend_flows(limit: int, *, ids: Ids) -> Operation[EndedJobs]:
    """Repair: advance flows whose steps' jobs have ended without the flow being advanced.

    A worker of a version that does not know flows can leave them so, during a rolling deploy.
    """
    found = yield from flows.stranded(limit)
    if not found:
        return EndedJobs([], [])
    concerned = {place.flow for place, _ in found}
    schedules = yield from _lock((), concerned)
    still = yield from flows.stranded(limit)
    ended = [(place, ending) for place, ending in still if place.flow in concerned]
    advanced = yield from flows.advance(ended, ids=ids)
    yield from _carry_on(advanced, schedules, ids=ids)
    told = sorted({place.flow for place, _ in ended})
    return EndedJobs(told, advanced.queues, frozenset(advanced.tells))


def _lock(
    wanted: Iterable[int | None], flow_ids: Iterable[int | None] = ()
) -> Operation[list[ScheduleColumns]]:
    """Lock the schedules and outermost flows, and the schedules that these flows are runs of."""
    ids = {schedule for schedule in wanted if schedule is not None}
    inside = {flow for flow in flow_ids if flow is not None}
    outermost: list[int] = []
    if inside:
        outermost, theirs = yield from flows.roots(inside)
        ids |= set(theirs)
    asked = {"ids": sorted(ids)}
    held = rows.schedules((yield Ask("hold_schedules_briefly", asked))) if ids else []
    if outermost:
        yield Ask("hold_flows", {"ids": outermost})
    return held


def _go_on(
    endings: Mapping[int, JobEnding],
    held: Sequence[LockedJob],
    schedules: Sequence[ScheduleColumns],
    *,
    ids: Ids,
) -> Operation[Advanced]:
    """Advance the flows that the ended jobs are steps of."""
    steps = [(place, endings[row.id]) for row in held if (place := row.place) is not None]
    if not steps:
        return Advanced()
    advanced = yield from flows.advance(steps, ids=ids)
    yield from _carry_on(advanced, schedules, ids=ids)
    return advanced


def _carry_on(
    advanced: Advanced, schedules: Sequence[ScheduleColumns], *, ids: Ids
) -> Operation[None]:
    """End the jobs of flows that are over, and advance the flows that these are steps of."""
    over, advanced.over = advanced.over, {}
    if over:
        held = rows.locked_jobs((yield Ask("hold_flow_jobs", {"ids": list(over)})))
        endings = {row.id: _kept(row, over[row.id]) for row in held}
        advanced.add((yield from _leave(endings, held, schedules, ids=ids)))
        advanced.add((yield from _go_on(endings, held, schedules, ids=ids)))


def _kept(row: LockedJob, ending: JobEnding) -> JobEnding:
    return replace(ending, keep=rows.microseconds(Terms.from_json(row.terms).kept))


def _failure_kept(terms: str | None) -> int | None:
    return rows.microseconds(Terms.from_json(terms).keep_failed)


def _leave(
    endings: Mapping[int, JobEnding],
    held: Sequence[LockedJob],
    schedules: Sequence[ScheduleColumns],
    *,
    ids: Ids,
) -> Operation[Advanced]:
    """Move locked jobs to history and unblock the jobs that waited for them.

    Return the queues of the callback jobs, and who has something to do because of these ends. For
    most jobs that is nobody: with 200 scheduled jobs a second, schedulers and dispatchers of all
    nodes that are woken by each end take more CPU than the jobs.
    """
    if not endings:
        return Advanced()
    terms = {row.id: row.terms for row in held}
    failed = [
        _ended(number, replace(ending, keep=_failure_kept(terms[number])))
        for number, ending in endings.items()
        if ending.state is State.FAILED
    ]
    others = [
        _ended(number, ending)
        for number, ending in endings.items()
        if ending.state is not State.FAILED
    ]
    for statement, chosen in (("keep_history", others), ("keep_failed", failed)):
        if chosen:
            yield Ask(statement, {"rows": rows.packed(chosen)})
    yield Ask("forget_jobs", {"ids": list(endings)})
    yield Ask("forget_signals", {"ids": list(endings)})
    keys = [{"task": row.task, "key": row.key, "id": row.id} for row in held if row.key is not None]
    if keys:
        yield Ask("drop_keys", {"rows": rows.packed(keys)})
    followed = yield from call_back(endings, held, ids=ids)
    freed = (yield from _free(schedules, held)) if any(row.schedule_id for row in held) else set()
    return Advanced(queues=followed, tells=freed)


def _free(schedules: Sequence[ScheduleColumns], held: Sequence[LockedJob]) -> Operation[set[str]]:
    """Start the fixed delays that awaited these jobs, and unblock the jobs behind them.

    Return the topics of those that have something to do now.
    """
    ended = {row.id for row in held}
    delays = [
        {"id": row.id, "next_at": after_awaited(row)} for row in schedules if row.awaiting in ended
    ]
    if delays:
        yield Ask("free_schedules", {"rows": rows.packed(delays)})
    # Also behind a schedule that was removed meanwhile.
    ids = sorted({row.schedule_id for row in held if row.schedule_id is not None})
    unblocked = yield Ask("free_blocked", {"ids": ids})
    return ({SCHEDULES} if delays else set()) | ({JOBS, READY} if unblocked else set())


def after_awaited(row: ScheduleColumns) -> int | None:
    """Return when a schedule is due next, now that the run that it awaited has ended."""
    if row.pause is not None:
        return row.next_at
    try:
        following = moment_after_end(rows.schedule(row), from_us(row.now))
    except DulyError:
        return row.now  # a rule that cannot be read: the scheduler sets it aside, and says why
    return rows.instant(following) if following else row.next_at


def _record_attempts(
    settlements: Iterable[Settlement], held: Sequence[LockedJob]
) -> Operation[None]:
    """Record attempts that did not succeed; a successful one is recorded by the job's own row."""
    facts = {row.id: row for row in held}
    records = []
    for settlement in settlements:
        verdict = settlement.verdict
        if verdict.state in (State.SUCCEEDED, State.RUNNING) or not verdict.counts:
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


def done_before(lost: Mapping[int, tuple[int, State]]) -> Operation[set[int]]:
    """Return the jobs whose end was already written by a call whose answer was lost.

    ``lost`` has the fencing token and the intended state of each job.
    """
    found = (yield Ask("whose", {"ids": list(lost)})) if lost else []
    return {number for number, state, fence in found if (fence, state) == lost[number]}


def _ended(number: int, ending: JobEnding) -> dict[str, object]:
    return {
        "id": number,
        "state": ending.state,
        "crashes": ending.crashes,
        "reason": ending.reason,
        "result": ending.result,
        "error": ending.error,
        "keep": ending.keep,
    }


def _detached(settlement: Settlement) -> dict[str, object]:
    verdict = settlement.verdict
    return {
        "id": settlement.job.id,
        "waits": verdict.waits,
        "waits_for": verdict.waits_for,
        "reason": verdict.reason,
        "crashes": verdict.crashes,
        "timeout": rows.microseconds(verdict.within),
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
        "waits": verdict.waits,
        "waits_for": verdict.waits_for,
    }
