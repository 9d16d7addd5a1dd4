"""Jobs, as people and programs ask for them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from duly.errors import NotFound, OutcomeUnknown, WrongState
from duly.model.flow import FlowInfo, FlowProgress, PartInfo
from duly.model.job import Attempt, Call, Job
from duly.model.job_filter import Filter
from duly.model.payload import check_text
from duly.model.states import ENDED, LIVE, State
from duly.store import flow_looks, job_search, jobs, retrying
from duly.store.database import Operation, Start
from duly.store.group_commit import GroupCommit
from duly.store.ids import KeptIds, NumbersTaken
from duly.store.jobs import EndedAlready, NumberedCall, Once
from duly.store.nouns import deeds
from duly.store.protocol import JOBS, READY, SCHEDULES, WORKERS, Failure, Page
from duly.store.retrying import BATCH
from duly.store.transactions import Transactions


class SqlJobs:
    def __init__(self, room: Transactions) -> None:
        self._room = room
        self._gathering = GroupCommit(self._enqueue_plain)

    async def enqueue(self, calls: Sequence[Call]) -> list[int]:
        if any(call.key is not None for call in calls):
            answers = await self._enqueue(calls)
        else:
            answers = await self._gathering.add(calls)
        self._room.nudge(*_topics(calls))
        return answers

    async def enqueue_once(self, calls: Sequence[Call], *, key: str, mark: str) -> list[int]:
        once = Once(self._room.who, check_text(key, "key"), check_text(mark, "mark"))
        start = self._room.numbered(
            len(calls), lambda numbers: jobs.enqueue_once(_wanted(calls, numbers), once)
        )
        answers = await self._room.insist(start)
        self._room.nudge(*_topics(calls))
        return answers

    async def _enqueue_plain(self, calls: Sequence[Call]) -> list[int]:
        """One statement, and no transaction around it; several if its answer is lost.

        It writes nothing where the database does not know that it gave out the numbers.
        """
        ids, numbers = await self._room.numbers(len(calls))
        wanted = _wanted(calls, numbers)
        try:
            written = await self._room.write_one(jobs.plainly(wanted, ids.reservation))
        except OutcomeUnknown as unknown:
            return await self._enqueue(calls, self._room.kept_from(ids, numbers), unknown=unknown)
        if len(written) == len(calls):
            return numbers
        self._room.drop(ids)
        there = {number for (number,) in written}
        missing = [one.call for one in wanted if one.number not in there]
        others = iter(await self._enqueue(missing))
        return [number if number in there else next(others) for number in numbers]

    async def _enqueue(
        self,
        calls: Sequence[Call],
        kept: KeptIds | None = None,
        *,
        unknown: OutcomeUnknown | None = None,
    ) -> list[int]:
        """Enqueue in a transaction; repeat it until it is known that each was enqueued once.

        ``kept`` are the numbers of an attempt whose outcome is ``unknown``.
        """
        enqueueing = _Enqueueing(calls, kept or self._room.kept())
        while True:
            try:
                return await self._room.insist(enqueueing.start, unknown=unknown)
            except EndedAlready as ended:
                enqueueing.ended |= ended.numbers

    async def get(self, number: int) -> Job:
        return await self._room.read(lambda: jobs.get(number))

    async def page(self, *, after: int = 0, limit: int = 100) -> list[Job]:
        return await self._room.read(lambda: jobs.listed(after, limit))

    async def ended(
        self, state: State, *, since: datetime | None = None, limit: int = 100
    ) -> list[Job]:
        return await self._room.read(lambda: jobs.ended(state, since, limit))

    async def attempts(self, number: int) -> list[Attempt]:
        return await self._room.read(lambda: jobs.attempts(number))

    async def flow(self, number: int) -> FlowInfo | None:
        return await self._room.read(lambda: flow_looks.flow(number))

    async def parts(
        self, number: int, step: int, *, after: int = -1, limit: int = 100
    ) -> list[PartInfo]:
        return await self._room.read(lambda: flow_looks.parts(number, step, after, limit))

    async def flow_progress(self, numbers: Sequence[int]) -> dict[int, FlowProgress]:
        return await self._room.read(lambda: flow_looks.progress(numbers))

    async def cancel(self, number: int, *, reason: str = "") -> State:
        start = self._room.audited(
            lambda: jobs.cancel(number, reason, ids=self._room.attempt()),
            deeds.constant("jobs.cancel", f"job:{number}", reason=reason),
        )
        return await self._ended(start)

    async def _ended(self, start: Start[State]) -> State:
        state = await self._room.write(start)
        self._room.nudge(SCHEDULES, JOBS, READY, WORKERS)
        return state

    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool:
        start = self._room.audited(
            lambda: jobs.cancel_key(task, key, reason, ids=self._room.attempt()),
            deeds.constant("jobs.cancel", f"task:{task}", key=key, reason=reason),
        )
        there = await self._room.write(start)
        self._room.nudge(JOBS, READY, WORKERS)
        return there

    async def retry(self, number: int) -> Job:
        start = self._room.audited(
            lambda: jobs.retry(number, self._room.who),
            deeds.constant("jobs.retry", f"job:{number}"),
        )
        job = await self._room.write(start)
        self._room.nudge(READY)
        return job

    async def _revive(self, numbers: Sequence[int]) -> list[int]:
        start = partial(retrying.revive, numbers, self._room.who)
        try:
            return await self._room.write(start)
        except OutcomeUnknown as unknown:
            await self._room.insist(start, unknown=unknown)
            return list(numbers)  # by now all of them are, and nobody can tell by whose hand

    async def find(self, wanted: Filter, *, after: str | None = None, limit: int = 100) -> Page:
        return await self._room.read(lambda: job_search.find(wanted, after, limit))

    async def count(self, wanted: Filter, *, at_most: int = job_search.MOST) -> int:
        return await self._room.read(lambda: job_search.count(wanted, at_most))

    async def failures(self, wanted: Filter, *, limit: int = 2_000) -> list[Failure]:
        return await self._room.read(lambda: job_search.failures(wanted, limit))

    async def schedule_names(self, numbers: Sequence[int]) -> dict[int, str]:
        return await self._room.read(lambda: job_search.schedule_names(numbers))

    async def retry_found(self, wanted: Filter, *, first: int | None = None) -> list[int]:
        left = retrying.checked(first)
        place = await self._room.read(retrying.begin)
        revived: list[int] = []
        announced = False
        while left > 0:
            ask = partial(job_search.failed_numbers, wanted, place, min(left, BATCH))
            numbers, place = await self._room.read(ask)
            if not numbers:
                break
            if not announced:
                said = deeds.deed("jobs.retry", "jobs", filter=str(wanted), first=first)
                await self._room.announce(said)
                announced = True
            done = await self._revive(numbers)
            self._room.nudge(READY)
            revived += done
            left -= len(done)
        return revived

    async def cancel_found(self, wanted: Filter, *, reason: str = "") -> list[int]:
        states = tuple(state for state in wanted.states or LIVE if state in LIVE)
        cancelled: list[int] = []
        announced = False
        async for found in self._walk(replace(wanted, states=states)):
            if not announced:
                said = deeds.deed("jobs.cancel", "jobs", filter=str(wanted), reason=reason)
                await self._room.announce(said)
                announced = True
            done = await asyncio.gather(*(self._cancel(number, reason) for number in found))
            cancelled += [
                number for number, was_there in zip(found, done, strict=True) if was_there
            ]
        return cancelled

    async def _cancel(self, number: int, reason: str) -> bool:
        """Whether it was there to be cancelled: it may have ended since it was found."""
        try:
            await self._ended(lambda: jobs.cancel(number, reason, ids=self._room.attempt()))
        except (WrongState, NotFound):
            return False
        return True

    async def remove(self, number: int) -> None:
        start = self._room.audited(
            lambda: jobs.remove(number), deeds.constant("jobs.remove", f"job:{number}")
        )
        await self._room.write(start)

    async def remove_found(self, wanted: Filter) -> list[int]:
        states = tuple(state for state in wanted.states or ENDED if state in ENDED)
        removed: list[int] = []
        announced = False
        async for found in self._walk(replace(wanted, states=states)):
            if not announced:
                await self._room.announce(deeds.deed("jobs.remove", "jobs", filter=str(wanted)))
                announced = True
            removed += await self._forget(found)
        return removed

    async def _walk(self, wanted: Filter) -> AsyncIterator[list[int]]:
        """The numbers of all that match, a batch at a time; of none, if no state is meant."""
        after: str | None = None
        while wanted.states:
            page = await self._room.read(partial(job_search.find, wanted, after, BATCH))
            if page.jobs:
                yield [job.id for job in page.jobs]
            if page.after is None:
                return
            after = page.after

    async def _forget(self, numbers: Sequence[int]) -> list[int]:
        start = partial(jobs.forget, numbers)
        try:
            return await self._room.write(start)
        except OutcomeUnknown as unknown:
            await self._room.insist(start, unknown=unknown)
            return list(numbers)  # by now all of them are, and nobody can tell by whose hand


@dataclass(slots=True)
class _Enqueueing:
    """One call of ``enqueue``, however often its transaction is run."""

    calls: Sequence[Call]
    kept: KeptIds
    ended: frozenset[int] = frozenset()  # jobs that an earlier run has made, and that have ended

    def start(self) -> Operation[list[int]]:
        wanted = _wanted(self.calls, (yield from self.kept.draw(len(self.calls))))
        left = [one for one in wanted if one.number not in self.ended]
        try:
            answers = yield from jobs.enqueue(left, again=self.kept.again)
        except NumbersTaken:
            self.kept.drop()
            raise
        found = dict(zip((one.number for one in left), answers, strict=True))
        return [found.get(one.number, one.number) for one in wanted]


def _wanted(calls: Sequence[Call], numbers: Iterable[int]) -> list[NumberedCall]:
    return [NumberedCall(call, number) for call, number in zip(calls, numbers, strict=True)]


def _topics(calls: Iterable[Call]) -> list[str]:
    """Who should wake: workers of the queues, or the dispatcher for what is due later."""
    queues = {f"{READY}:{call.queue}" for call in calls if call.run_after is None}
    later = [JOBS] if any(call.run_after is not None for call in calls) else []
    return [*sorted(queues), *later]
