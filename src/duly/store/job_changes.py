"""Changes of single jobs: cancel, retry, remove; and report the outcome of a handed-off job.

A report comes from the system to which the job was handed. It settles the job like the outcome that
a worker writes, under the fencing token that the job has now. It may come before the worker has
noted that the message was sent: the note is refused then. Reports may be repeated and may come
late; those change nothing, and are answered. Only the success of an earlier try counts, also while
the job waits for its next try: the work is done. So does that of a message whose confirm was lost,
or whose worker died before it noted that it was sent, while the job waits to send it again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from duly.durations import SECOND, show_duration
from duly.errors import InvalidValue, WrongState
from duly.instants import to_us
from duly.model.job import StoredJob
from duly.model.outcome import SEND, MessageId, Raised, ReportAnswer, Succeeded
from duly.model.payload import check_text
from duly.model.states import ENDED, WAITING, State
from duly.policy.redaction import redacted, redacted_for
from duly.policy.verdict import Tried, judge
from duly.store import flows, job_search, retries, rows
from duly.store.database import Ask, Operation, current_time
from duly.store.ids import Ids
from duly.store.job_endings import EndedJobs, call_off, end, settle, stop_flow
from duly.store.ledger import stop
from duly.store.rows import JobEnding
from duly.store.values import Settled, Settlement


def cancel(number: int, reason: str, *, ids: Ids) -> Operation[State]:
    """Cancel a waiting job; ask a running one to end. A cancelled job stays as it is."""
    check_text(reason, "reason")
    ending = JobEnding(State.CANCELLED, f"cancelled: {reason}" if reason else "cancelled")
    while True:  # until the job does not change between read and write
        peeked = yield Ask("peek_jobs", {"ids": [number]})
        if not peeked:
            return (yield from _cancelled_before(number))
        [(_, state, _, waits, _, _)] = peeked
        if waits == "steps":
            if (yield from stop_flow(number, ending, ids=ids)).ids:
                return State.RUNNING
        elif waits == "outcome":
            if (yield from call_off({number: ending}, peeked, ids=ids)).ids:
                return State.CANCELLED
        elif State(state) in WAITING:
            if (yield from end({number: ending}, peeked, ids=ids)).ids:
                return State.CANCELLED
        elif (yield from stop([number], ending.reason)):
            return State.RUNNING


def _cancelled_before(number: int) -> Operation[State]:
    job = yield from job_search.get(number)
    if job.state is not State.CANCELLED:
        raise WrongState(f"job {number} has ended: it is {job.state}")
    return job.state


def cancel_key(task: str, key: str, reason: str, *, ids: Ids) -> Operation[bool]:
    check_text(task, "task")
    check_text(key, "key")
    held = yield Ask("hold_keys", {"rows": rows.packed([{"task": task, "key": key}])})
    if not held:
        return False
    [(number,)] = yield Ask("key_holder", {"task": task, "key": key})
    peeked = yield Ask("peek_jobs", {"ids": [number]})
    if not peeked:
        return False
    yield from cancel(number, reason, ids=ids)
    return True


def retry(number: int, who: str) -> Operation[StoredJob]:
    """Retry a failed job, behind the jobs of its schedule that have not ended.

    A step is retried with its flow, from the failed steps on; succeeded steps are not run again.
    """
    job = yield from job_search.get(number)
    if job.state is not State.FAILED:
        raise WrongState(f"job {number} is {job.state}: only a failed job can be retried")
    if not (yield from retries.revive([number], who)) and job.step is not None:
        raise WrongState(
            f"job {number} is a step of flow {job.parent}, and can only be retried together with "
            "it: when the flow has failed, and not while the flow runs or after it was cancelled"
        )
    return (yield from job_search.get(number))


def remove(number: int) -> Operation[None]:
    """Delete a job that has ended."""
    if not (yield from forget([number])):
        job = yield from job_search.get(number)
        raise WrongState(f"job {number} is {job.state}: cancel it first")


def forget(numbers: Sequence[int]) -> Operation[list[int]]:
    """Delete ended jobs with their attempts, logs and flows; return the ids of deleted jobs."""
    ids = list(numbers)
    gone = [
        *(yield Ask("remove_history", {"ids": ids})),
        *(yield Ask("remove_failed", {"ids": ids})),
    ]
    ended = {number for (number,) in gone}
    if ended:
        for traces in ("remove_attempts", "remove_log", "remove_notes"):
            yield Ask(traces, {"ids": sorted(ended)})
        steps = yield from flows.forget(sorted(ended))
        if steps:
            yield from forget(steps)
    return [number for number in numbers if number in ended]


def report(
    number: int, outcome: Succeeded | Raised, message: str | None, *, ids: Ids
) -> Operation[tuple[ReportAnswer, Settled | EndedJobs | None]]:
    """Settle a job that was handed off; ``message`` is the id of the message with its work."""
    sent = None if message is None else MessageId.read(message)
    if message is not None and sent is None:
        raise InvalidValue(f'message="{message}": it is not the id of a message that duly sent')
    while True:  # until the job does not change between read and write
        job = yield from job_search.get(number)
        why = _refusal(job, outcome, sent)
        if why:
            return ReportAnswer(id=number, state=job.state, counted=False, why=why), None
        settlement = _settlement(job, outcome, (yield from current_time()))
        answer = ReportAnswer(id=number, state=settlement.verdict.state, counted=True)
        if job.state in WAITING:
            ended = yield from _end_waiting(settlement, ids=ids)
            if ended.ids:
                return answer, ended
            continue
        settled = yield from settle([settlement], ids=ids)
        if number in settled.kept and number not in settled.before:
            return answer, settled


def _end_waiting(settlement: Settlement, *, ids: Ids) -> Operation[EndedJobs]:
    """End a job whose earlier try has succeeded before its next try."""
    number, verdict = settlement.job.id, settlement.verdict
    keep = rows.microseconds(settlement.keep_result)
    ending = JobEnding(verdict.state, verdict.reason, result=settlement.result, keep=keep)
    peeked = yield Ask("peek_jobs", {"ids": [number]})
    return (yield from end({number: ending}, peeked, ids=ids))


def overdue(numbers: Sequence[int], now: datetime, *, ids: Ids) -> Operation[Settled | None]:
    """Fail the attempts of jobs whose target did not report in time."""
    settlements = []
    for number in numbers:
        job = yield from job_search.known(number)
        if job is None or job.waits != "outcome" or job.deadline is None or job.deadline >= now:
            continue
        length = job.deadline - (job.claimed_at or job.deadline)
        waited = show_duration(max(round(length / SECOND), 1) * SECOND)
        silent = Raised("", f"{job.waits_for}: no outcome within {waited}")
        settlements.append(_settlement(job, silent, now))
    return (yield from settle(settlements, ids=ids)) if settlements else None


def _refusal(job: StoredJob, outcome: Succeeded | Raised, sent: MessageId | None) -> str:
    """Return why a report changes nothing; empty if it counts. ``WrongState`` if it is a mistake.

    A success of an earlier try counts, because the work is done. A failure does not: the later try
    may succeed.
    """
    if sent is not None and (sent.job, sent.created_at) != (job.id, to_us(job.created_at)):
        return f"message {sent} is not of job {job.id}: another database sent it"
    if sent is not None and sent.digest != MessageId.of(0, 0, 0, job.args).digest:
        return f"message {sent} is not of job {job.id}: it has other arguments since then"
    if job.state in ENDED:
        return f"job {job.id} has ended: it is {job.state}"
    tries = job.attempt - job.crashes
    if job.state in WAITING and not (
        isinstance(outcome, Succeeded)
        and job.task == SEND
        and sent is not None
        and job.fence  # else no worker has sent anything
        and sent.attempt <= tries + 1  # the next one, if its confirm or its worker was lost
    ):
        return f"job {job.id} is {job.state}: {job.reason or 'it has not been sent'}"
    if job.state is State.RUNNING and job.waits != "outcome" and job.task != SEND:
        raise WrongState(f"job {job.id} was not handed off: a worker of duly runs it")
    if sent is not None and sent.attempt != tries and isinstance(outcome, Raised):
        return f"job {job.id} is at try {tries}, and this is the failure of try {sent.attempt}"
    return ""


def _settlement(job: StoredJob, outcome: Succeeded | Raised, now: datetime) -> Settlement:
    result = None
    if isinstance(outcome, Raised):
        message, trace = (
            redacted_for(job.args, redacted(text)) for text in (outcome.message, outcome.traceback)
        )
        outcome = replace(outcome, message=message, traceback=trace)
    else:
        result = outcome.result if job.terms.kept else None
    # Not random, so that the operation can be repeated; different for each job.
    dice = (job.id * 0x9E3779B1 + job.attempt) % 2**32 / 2**32
    return Settlement(
        job=job,
        verdict=judge(Tried.of(job), outcome, now, dice=dice),
        outcome=type(outcome).__name__.lower(),
        result=result,
        keep_result=job.terms.kept if result is not None else None,
    )
