"""Enqueue jobs: each once, however often a call is repeated whose answer was lost.

A key is unique for its task among unfinished jobs. A caller that uses a key locks the key's own row
first and reads the job afterwards, so two callers cannot both find it free. An operation that ends
a job does not wait for its key: see ``job_endings``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from duly.errors import KeyTaken, StoreUnavailable, WrongState
from duly.model.job import JobRequest
from duly.model.payload import decode, encode
from duly.model.states import WAITING, State
from duly.store import rows
from duly.store.database import Ask, Operation, Start, Value
from duly.store.ids import CONFIRMED, KeptIds, NumbersTaken, all_new
from duly.store.values import JOBS, READY

KNOWN_FOR: Final = timedelta(days=1)  # the key of an enqueue
MOST_NUMBERS: Final = 1024 * 1024  # bytes of the numbers that one enqueue has made
MOST_TOGETHER = 5_000  # jobs of one statement

# The requested jobs, and the future that receives their ids when they are written.
Asked: TypeAlias = tuple[Sequence[JobRequest], "asyncio.Future[list[int]]"]


def topics_of(calls: Iterable[JobRequest]) -> list[str]:
    """Return the topics to nudge: workers of the queues, or the dispatcher for jobs due later."""
    queues = {f"{READY}:{call.queue}" for call in calls if call.run_after is None}
    later = [JOBS] if any(call.run_after is not None for call in calls) else []
    return [*sorted(queues), *later]


class GroupCommit:
    def __init__(self, write: Callable[[Sequence[JobRequest]], Awaitable[list[int]]]) -> None:
        self._write = write
        self._waiting: list[Asked] = []
        self._writing = False
        self._rest: asyncio.Task[None] | None = None

    async def add(self, calls: Sequence[JobRequest]) -> list[int]:
        """Return the numbers of the jobs when they are written, or raise the reason why not."""
        if self._writing:
            written: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
            self._waiting.append((calls, written))
            return await written
        self._writing = True
        try:
            return await self._write(calls)
        finally:
            if self._waiting:
                self._rest = asyncio.get_running_loop().create_task(self._work())
            else:
                self._writing = False

    async def _work(self) -> None:
        try:
            while batch := self._next():
                await self._together(batch)
        finally:
            self._writing = False

    def _next(self) -> list[Asked]:
        """Return as many calls as fit into one statement; cancelled ones are left out."""
        batch: list[Asked] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0][0]) <= MOST_TOGETHER):
            calls, written = self._waiting.pop(0)
            if not written.done():
                batch.append((calls, written))
                count += len(calls)
        return batch

    async def _together(self, batch: Sequence[Asked]) -> None:
        try:
            numbers = iter(await self._write([call for calls, _ in batch for call in calls]))
        except StoreUnavailable as error:
            for _, written in batch:  # no single call caused it: each alone would fail too
                _refuse(written, error)
        except Exception as error:  # noqa: BLE001 - it belongs to who asked
            if len(batch) == 1:
                _refuse(batch[0][1], error)
                return
            # One of the calls may have caused it, and the others must not fail with it.
            for one in batch:
                await self._together([one])
        else:
            for calls, written in batch:
                mine = list(islice(numbers, len(calls)))
                if not written.done():
                    written.set_result(mine)


def _refuse(written: "asyncio.Future[list[int]]", error: Exception) -> None:
    if not written.done():
        written.set_exception(error)


class NumberedCall(NamedTuple):
    """A request with the id for its job, if it gets a job of its own."""

    call: JobRequest
    number: int

    def values(self, number: int | None = None) -> dict[str, Value]:
        return rows.call_values(self.call, self.number if number is None else number, self.number)

    def key(self) -> dict[str, Value]:
        return {"task": self.call.task, "key": self.call.key, "id": self.number}


def numbered_calls(calls: Sequence[JobRequest], numbers: Iterable[int]) -> list[NumberedCall]:
    return [NumberedCall(call, number) for call, number in zip(calls, numbers, strict=True)]


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


@dataclass(slots=True)
class Enqueueing:
    """One call of ``enqueue``, however often its transaction is run."""

    calls: Sequence[JobRequest]
    kept: KeptIds
    ended: frozenset[int] = frozenset()  # jobs that an earlier run has made, and that have ended

    def start(self) -> Operation[list[int]]:
        wanted = numbered_calls(self.calls, (yield from self.kept.draw(len(self.calls))))
        left = [one for one in wanted if one.number not in self.ended]
        try:
            answers = yield from enqueue(left, again=self.kept.again)
        except NumbersTaken:
            self.kept.drop()
            raise
        found = dict(zip((one.number for one in left), answers, strict=True))
        return [found.get(one.number, one.number) for one in wanted]


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
    """Return the statement that inserts jobs; a wider one if any has a parent.

    With a ``reservation``, the statement confirms it, and makes no jobs if it is not there.
    """
    if any(call.parent is not None for call in calls):
        wanted = map(NumberedCall, calls, numbers)
        batch = rows.packed(one.values() for one in wanted)
        return Ask("enqueue_as", {"batch": batch, **reservation})
    if len(calls) == 1:
        return Ask("enqueue_one", {**rows.one_call(calls[0], numbers[0]), **reservation})
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
