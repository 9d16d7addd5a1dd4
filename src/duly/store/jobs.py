"""Operations on jobs for people and programs: enqueue, move, cancel, retry.

A key is unique for its task among unfinished jobs. A caller that uses a key locks the key's own row
first and reads the job afterwards, so two callers cannot both find it free. An operation that ends
a job does not wait for its key: see ``settling``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from duly.errors import KeyTaken, NotFound, WrongState
from duly.instants import to_us
from duly.model.job import Attempt, JobRequest, StoredJob
from duly.model.payload import check_text, decode, encode
from duly.model.states import WAITING, State
from duly.store import flows, rows
from duly.store.database import Ask, Operation, Start, Value
from duly.store.ids import CONFIRMED, Ids, all_new
from duly.store.ledger import stop
from duly.store.retrying import revive
from duly.store.rows import JobEnding
from duly.store.settling import end, stop_flow

_TRY: Final = re.compile(r"^attempt (\d+ of \d+)")
KNOWN_FOR: Final = timedelta(days=1)  # the key of an enqueue
MOST_NUMBERS: Final = 1024 * 1024  # bytes of the numbers that one enqueue has made


class NumberedCall(NamedTuple):
    """A request with the id for its job, if it gets a job of its own."""

    call: JobRequest
    number: int

    def values(self, number: int | None = None) -> dict[str, Value]:
        return rows.call_values(self.call, self.number if number is None else number, self.number)

    def key(self) -> dict[str, Value]:
        return {"task": self.call.task, "key": self.call.key, "id": self.number}


class Once(NamedTuple):
    """An idempotency key, its user, and a fingerprint of the request."""

    who: str
    key: str
    mark: str


class EndedAlready(Exception):
    """Jobs with these ids have already ended: the call is a repetition."""

    def __init__(self, numbers: frozenset[int]) -> None:
        super().__init__(numbers)
        self.numbers = numbers


def enqueue(wanted: Sequence[NumberedCall], *, again: bool = False) -> Operation[list[int]]:
    """Store jobs. ``again``: the answer to the first call was lost, so check whether it was done.

    The check comes after the insert, as a statement of its own: otherwise a job could end after
    the check and before the insert, and be inserted twice.

    The numbers were reserved in this transaction, or have been confirmed in it.
    """
    answers: dict[int, int] = {}
    plain = [one for one in wanted if one.call.key is None]
    if plain:
        calls, numbers = zip(*plain, strict=True)
        written = yield plainly(calls, numbers)
        if not again:
            all_new(written, len(plain))
        answers |= {one.number: one.number for one in plain}
    for batch in _distinct([one for one in wanted if one.call.key is not None]):
        answers |= yield from _enqueue_keyed(batch, again=again)
    if again:
        asked = {"batch": rows.packed({"id": one.number} for one in wanted)}
        ended = yield Ask("ended_already", asked)
        if ended:
            raise EndedAlready(frozenset(number for (number,) in ended))
    return [answers[one.number] for one in wanted]


def enqueue_once(wanted: Sequence[NumberedCall], once: Once) -> Operation[list[int]]:
    """Store jobs with their idempotency key, or return the jobs that were stored under it."""
    return (yield from done_once(once, lambda: enqueue(wanted)))


def done_once(once: Once, work: Start[list[int]]) -> Operation[list[int]]:
    """Run the work and store the ids of its jobs under the key, or return the ids stored before.

    The key's row is locked first: another caller with the same key waits and finds the result.
    """
    values: dict[str, Value] = {
        "who": once.who,
        "key": once.key,
        "mark": once.mark,
        "day": rows.microseconds(KNOWN_FOR),
    }
    if not (yield Ask("take_once", values)):
        [(mark, numbers)] = yield Ask("made_once", values)
        if mark != once.mark:
            raise WrongState(
                f'idempotency key "{once.key}" was used for another request within a day: choose '
                "another key"
            )
        return [int(number) for number in decode(numbers)]
    answers = yield from work()
    yield Ask("note_once", {**values, "jobs": encode(answers, what="jobs", longest=MOST_NUMBERS)})
    return answers


def plainly(
    calls: Sequence[JobRequest],
    numbers: Sequence[int],
    reservation: Mapping[str, Value] = CONFIRMED,
) -> Ask:
    """Return the statement that inserts jobs without keys; a wider one if any has a parent.

    With a ``reservation``, the statement confirms it, and makes no jobs if it is not there.
    """
    if any(call.parent is not None for call in calls):
        wanted = map(NumberedCall, calls, numbers)
        batch = rows.packed(one.values() for one in wanted)
        return Ask("enqueue_as", {"batch": batch, **reservation})
    return Ask("enqueue", {"batch": rows.packed_calls(calls, numbers), **reservation})


def _distinct(keyed: Sequence[NumberedCall]) -> list[list[NumberedCall]]:
    """Split the calls, in order, into batches in which no key occurs twice."""
    batches: list[dict[tuple[str, str | None], NumberedCall]] = []
    for one in keyed:
        key = (one.call.task, one.call.key)
        if not batches or key in batches[-1]:
            batches.append({})
        batches[-1][key] = one
    return [list(batch.values()) for batch in batches]


def _enqueue_keyed(batch: Sequence[NumberedCall], *, again: bool) -> Operation[dict[int, int]]:
    taken = yield Ask("take_keys", {"batch": rows.packed(one.key() for one in batch)})
    holders = {(task, key): number for task, key, number in taken}
    theirs = {one: holders[one.call.task, one.call.key] for one in batch}
    looked = sorted({one.number for one in batch} | set(holders.values()))
    live = yield Ask("keyed_jobs", {"batch": rows.packed({"id": n} for n in looked)})
    states = {number: State(state) for number, state in live}
    answers: dict[int, int] = {}
    if again:
        numbers = {"batch": rows.packed({"id": one.number} for one in batch)}
        answers |= dict((yield Ask("moved_already", numbers)))
    moving, fresh = _sorted_out(theirs, states, answers)
    if moving:
        moves = rows.packed(one.values(theirs[one]) for one in moving)
        moved = {number for (number,) in (yield Ask("move_jobs", {"batch": moves}))}
        answers |= {one.number: theirs[one] for one in moving if theirs[one] in moved}
        yield Ask("forget_signals_of_moved", {"batch": moves})
        # A job that was claimed between the read and the move runs on; a new job takes its key.
        fresh += [one for one in moving if theirs[one] not in moved]
    if fresh:
        yield Ask("point_keys", {"batch": rows.packed(one.key() for one in fresh)})
        written = yield plainly([one.call for one in fresh], [one.number for one in fresh])
        if not again:
            all_new(written, len(fresh))
        answers |= {one.number: one.number for one in fresh}
    return answers


def _sorted_out(
    theirs: Mapping[NumberedCall, int], states: Mapping[int, State], answers: dict[int, int]
) -> tuple[list[NumberedCall], list[NumberedCall]]:
    """Return which calls move the job that holds their key, and which get a new job."""
    moving: list[NumberedCall] = []
    fresh: list[NumberedCall] = []
    for one, holder in theirs.items():
        state = states.get(holder)
        if one.number in answers:
            continue
        if one.number in states:  # a repeated call: it was done, and its key may be another's now
            answers[one.number] = one.number
        elif state is None:
            fresh.append(one)
        elif one.call.if_exists == "error":
            raise KeyTaken(
                f'key "{one.call.key}" of task "{one.call.task}" is held by job {holder}, '
                f'which is {state}; if_exists="replace" moves it, "keep" leaves it as it is'
            )
        elif one.call.if_exists == "keep":
            answers[one.number] = holder
        elif state in WAITING:
            moving.append(one)
        else:
            fresh.append(one)
    return moving, fresh


def get(number: int) -> Operation[StoredJob]:
    found = yield from known(number)
    if found is None:
        raise NotFound(f"there is no job {number}; it may have ended and been deleted")
    return found


def known(number: int) -> Operation[StoredJob | None]:
    """Return the job, or None if there is none with that id."""
    found = yield Ask("live_job", {"id": number})
    if not found:
        found = yield Ask("ended_job", {"id": number})
    return rows.job(found[0]) if found else None


def listed(after: int, limit: int) -> Operation[list[StoredJob]]:
    found = yield Ask("list_jobs", {"after": after, "limit": limit})
    return [rows.job(row) for row in found]


def ended(state: State, since: datetime | None, limit: int) -> Operation[list[StoredJob]]:
    which = "list_failed" if state is State.FAILED else "list_history"
    start = to_us(since) if since else 0
    found = yield Ask(which, {"since": start, "limit": limit, "state": state.value})
    return [rows.job(row) for row in found]


def attempts(number: int) -> Operation[list[Attempt]]:
    """Return the attempts, numbered on across manual retries, which restart the count at 1."""
    found = yield Ask("list_attempts", {"job_id": number})
    counted: list[Attempt] = []
    before = last = 0
    for one in (rows.attempt(row) for row in found):
        before, last = before + (last if one.number <= last else 0), one.number
        reason = _TRY.sub(r"attempt \1 since it was retried", one.reason) if before else one.reason
        counted.append(replace(one, number=before + one.number, reason=reason))
    return counted


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
        elif State(state) in WAITING:
            if (yield from end({number: ending}, peeked, ids=ids)).ids:
                return State.CANCELLED
        elif (yield from stop([number], ending.reason)):
            return State.RUNNING


def _cancelled_before(number: int) -> Operation[State]:
    job = yield from get(number)
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
    job = yield from get(number)
    if job.state is not State.FAILED:
        raise WrongState(f"job {number} is {job.state}: only a failed job can be retried")
    if not (yield from revive([number], who)) and job.step is not None:
        raise WrongState(
            f"job {number} is a step of flow {job.parent}, and can only be retried together with "
            "it: when the flow has failed, and not while the flow runs or after it was cancelled"
        )
    return (yield from get(number))


def remove(number: int) -> Operation[None]:
    """Delete a job that has ended."""
    if not (yield from forget([number])):
        job = yield from get(number)
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
