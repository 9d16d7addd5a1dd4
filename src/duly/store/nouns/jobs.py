"""Jobs: enqueueing, reading, searching, cancelling, retrying, removing."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import msgspec

from duly.errors import NotFound, OutcomeUnknown, WrongState
from duly.instants import from_us
from duly.model.flow import FlowInfo, FlowProgress, PartInfo, StepInfo, StepState
from duly.model.job import Attempt, JobRequest, StoredJob
from duly.model.job_filter import Filter
from duly.model.payload import check_text
from duly.model.states import ENDED, LIVE, State
from duly.store import job_search, jobs, retrying, rows
from duly.store.database import Ask, Operation, Row, Start
from duly.store.group_commit import GroupCommit
from duly.store.ids import KeptIds, NumbersTaken
from duly.store.jobs import EndedAlready, NumberedCall, Once
from duly.store.nouns import audited_actions as deeds
from duly.store.retrying import BATCH
from duly.store.transactions import Transactions
from duly.store.values import JOBS, READY, SCHEDULES, WORKERS, Failure, Page
from duly.store.verbs import Noun, reads, verb


class JobStore(Noun):
    def __init__(self, room: Transactions) -> None:
        self._db = room
        self._gathering = GroupCommit(self._enqueue_plain)

    @verb("operator")
    async def enqueue(self, calls: Sequence[JobRequest]) -> list[int]:
        """Enqueue jobs, all or none; return their numbers in the order of the calls."""
        if any(call.key is not None for call in calls):
            answers = await self._enqueue(calls)
        else:
            answers = await self._gathering.add(calls)
        self._db.nudge(*topics_of(calls))
        return answers

    @verb("operator")
    async def enqueue_once(self, calls: Sequence[JobRequest], *, key: str, mark: str) -> list[int]:
        """Enqueue under an idempotency key of the actor; asked again, return the same numbers.

        ``mark`` is a digest of the request: another one under the same key is ``WrongState``. A key
        is kept for a day.
        """
        once = Once(self._db.who, check_text(key, "key"), check_text(mark, "mark"))
        start = self._db.numbered(
            len(calls), lambda numbers: jobs.enqueue_once(_wanted(calls, numbers), once)
        )
        answers = await self._db.insist(start)
        self._db.nudge(*topics_of(calls))
        return answers

    async def _enqueue_plain(self, calls: Sequence[JobRequest]) -> list[int]:
        """Enqueue with one statement outside a transaction; with several if its answer is lost.

        The statement writes nothing if the database does not know that it gave out the numbers.
        """
        ids, numbers = await self._db.numbers(len(calls))
        try:
            written = await self._db.write_one(jobs.plainly(calls, numbers, ids.reservation))
        except OutcomeUnknown as unknown:
            return await self._enqueue(calls, self._db.kept_from(ids, numbers), unknown=unknown)
        if len(written) == len(calls):
            return numbers
        self._db.drop(ids)
        there = {number for (number,) in written}
        missing = [one.call for one in _wanted(calls, numbers) if one.number not in there]
        others = iter(await self._enqueue(missing))
        return [number if number in there else next(others) for number in numbers]

    async def _enqueue(
        self,
        calls: Sequence[JobRequest],
        kept: KeptIds | None = None,
        *,
        unknown: OutcomeUnknown | None = None,
    ) -> list[int]:
        """Enqueue in a transaction; repeat it until it is known that each job was enqueued once.

        ``kept`` are the numbers of an attempt whose outcome is ``unknown``.
        """
        enqueueing = _Enqueueing(calls, kept or self._db.kept())
        while True:
            try:
                return await self._db.insist(enqueueing.start, unknown=unknown)
            except EndedAlready as ended:
                enqueueing.ended |= ended.numbers

    @reads("viewer")
    def get(self, number: int) -> Operation[StoredJob]:
        return jobs.get(number)

    @reads("viewer")
    def page(self, *, after: int = 0, limit: int = 100) -> Operation[list[StoredJob]]:
        """Return jobs that have not ended."""
        return jobs.listed(after, limit)

    @reads("viewer")
    def ended(
        self, state: State, *, since: datetime | None = None, limit: int = 100
    ) -> Operation[list[StoredJob]]:
        """Return ended jobs, the newest first: the failed ones, or all others."""
        return jobs.ended(state, since, limit)

    @reads("viewer")
    def attempts(self, number: int) -> Operation[list[Attempt]]:
        return jobs.attempts(number)

    @reads("viewer")
    def flow(self, number: int) -> Operation[FlowInfo | None]:
        """Return the steps of a flow that was opened, or None if the job is no such flow."""
        found = yield Ask("show_flow", {"flow": number})
        if not found:
            return None
        [(_, root, result, remaining, failed, opened_at, ended_at)] = found
        return FlowInfo(
            id=number,
            root=root,
            result=result,
            remaining=remaining,
            failed=failed,
            opened_at=from_us(opened_at),
            ended_at=rows.moment(ended_at),
            steps=tuple(map(_step, (yield Ask("show_steps", {"flow": number})))),
        )

    @reads("viewer")
    def parts(
        self, number: int, step: int, *, after: int = -1, limit: int = 100
    ) -> Operation[list[PartInfo]]:
        """Return the jobs of a step of a flow."""
        asked = {"flow": number, "step": step, "after": after, "limit": limit}
        return [PartInfo(*row) for row in (yield Ask("show_parts", asked))]

    @reads("viewer")
    def flow_progress(self, numbers: Sequence[int]) -> Operation[dict[int, FlowProgress]]:
        """Return the progress of those jobs that are flows."""
        if not numbers:
            return {}
        found = yield Ask("flows_among", {"ids": sorted(set(numbers))})
        return {number: FlowProgress(*counts) for number, *counts in found}

    @verb("operator")
    async def cancel(self, number: int, *, reason: str = "") -> State:
        """Cancel a waiting job, or ask a running one to stop; return its state then."""
        start = self._db.audited(
            lambda: jobs.cancel(number, reason, ids=self._db.attempt()),
            deeds.constant("jobs.cancel", f"job:{number}", reason=reason),
        )
        return await self._ended(start)

    async def _ended(self, start: Start[State]) -> State:
        state = await self._db.write(start)
        self._db.nudge(SCHEDULES, JOBS, READY, WORKERS)
        return state

    @verb("operator")
    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool:
        start = self._db.audited(
            lambda: jobs.cancel_key(task, key, reason, ids=self._db.attempt()),
            deeds.constant("jobs.cancel", f"task:{task}", key=key, reason=reason),
        )
        there = await self._db.write(start)
        self._db.nudge(JOBS, READY, WORKERS)
        return there

    @verb("operator")
    async def retry(self, number: int) -> StoredJob:
        """Retry a failed job."""
        start = self._db.audited(
            lambda: jobs.retry(number, self._db.who),
            deeds.constant("jobs.retry", f"job:{number}"),
        )
        job = await self._db.write(start)
        self._db.nudge(READY)
        return job

    async def _revive(self, numbers: Sequence[int]) -> list[int]:
        start = partial(retrying.revive, numbers, self._db.who)
        try:
            return await self._db.write(start)
        except OutcomeUnknown as unknown:
            await self._db.insist(start, unknown=unknown)
            return list(numbers)  # all are done by now, and it is unknown which call did it

    @reads("viewer")
    def find(
        self, wanted: Filter, *, after: str | None = None, limit: int = 100
    ) -> Operation[Page]:
        """Return matching jobs, live ones first; ``after`` is the previous page's cursor.

        Live jobs are in descending order of number, which is about the newest first; ended ones,
        the last to end first. A page examines a bounded number of jobs: it may be short or empty
        without being the last.
        """
        return job_search.find(wanted, after, limit)

    @reads("viewer")
    def count(self, wanted: Filter, *, at_most: int = job_search.MOST) -> Operation[int]:
        """Count the jobs that match; ``at_most`` means as many or more."""
        return job_search.count(wanted, at_most)

    @reads("viewer")
    def failures(self, wanted: Filter, *, limit: int = 2_000) -> Operation[list[Failure]]:
        """Return the newest failures that match, among the newest failures of all."""
        return job_search.failures(wanted, limit)

    @reads("viewer")
    def schedule_names(self, numbers: Sequence[int]) -> Operation[dict[int, str]]:
        """Return the names of schedules by their numbers."""
        return job_search.schedule_names(numbers)

    @verb("operator", long=True)
    async def retry_found(self, wanted: Filter, *, first: int | None = None) -> list[int]:
        """Retry the failed jobs that match, the oldest failure first; return their numbers.

        It takes several transactions; each that is committed stays.
        """
        left = retrying.checked(first)
        place = await self._db.read(retrying.begin)
        revived: list[int] = []
        announced = False
        while left > 0:
            ask = partial(job_search.failed_numbers, wanted, place, min(left, BATCH))
            numbers, place = await self._db.read(ask)
            if not numbers:
                break
            if not announced:
                said = deeds.deed("jobs.retry", "jobs", filter=str(wanted), first=first)
                await self._db.announce(said)
                announced = True
            done = await self._revive(numbers)
            self._db.nudge(READY)
            revived += done
            left -= len(done)
        return revived

    @verb("operator", long=True)
    async def cancel_found(self, wanted: Filter, *, reason: str = "") -> list[int]:
        """Cancel matching jobs that wait, ask running ones to stop; return their numbers."""
        states = tuple(state for state in wanted.states or LIVE if state in LIVE)
        cancelled: list[int] = []
        announced = False
        async for found in self._walk(replace(wanted, states=states)):
            if not announced:
                said = deeds.deed("jobs.cancel", "jobs", filter=str(wanted), reason=reason)
                await self._db.announce(said)
                announced = True
            done = await asyncio.gather(*(self._cancel(number, reason) for number in found))
            cancelled += [
                number for number, was_there in zip(found, done, strict=True) if was_there
            ]
        return cancelled

    async def _cancel(self, number: int, reason: str) -> bool:
        """Return whether the job was cancelled: it may have ended since it was found."""
        try:
            await self._ended(lambda: jobs.cancel(number, reason, ids=self._db.attempt()))
        except (WrongState, NotFound):
            return False
        return True

    @verb("operator")
    async def remove(self, number: int) -> None:
        """Delete an ended job with its attempts and logs."""
        start = self._db.audited(
            lambda: jobs.remove(number), deeds.constant("jobs.remove", f"job:{number}")
        )
        await self._db.write(start)

    @verb("operator", long=True)
    async def remove_found(self, wanted: Filter) -> list[int]:
        """Delete the ended jobs that match, the last to end first; return their numbers.

        It takes several transactions; each that is committed stays.
        """
        states = tuple(state for state in wanted.states or ENDED if state in ENDED)
        removed: list[int] = []
        announced = False
        async for found in self._walk(replace(wanted, states=states)):
            if not announced:
                await self._db.announce(deeds.deed("jobs.remove", "jobs", filter=str(wanted)))
                announced = True
            removed += await self._forget(found)
        return removed

    async def _walk(self, wanted: Filter) -> AsyncIterator[list[int]]:
        """Yield the numbers of all matching jobs in batches; nothing without a state."""
        after: str | None = None
        while wanted.states:
            page = await self._db.read(partial(job_search.find, wanted, after, BATCH))
            if page.jobs:
                yield [job.id for job in page.jobs]
            if page.after is None:
                return
            after = page.after

    async def _forget(self, numbers: Sequence[int]) -> list[int]:
        start = partial(jobs.forget, numbers)
        try:
            return await self._db.write(start)
        except OutcomeUnknown as unknown:
            await self._db.insist(start, unknown=unknown)
            return list(numbers)  # all are done by now, and it is unknown which call did it


@dataclass(slots=True)
class _Enqueueing:
    """One call of ``enqueue``, however often its transaction is run."""

    calls: Sequence[JobRequest]
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


def _wanted(calls: Sequence[JobRequest], numbers: Iterable[int]) -> list[NumberedCall]:
    return [NumberedCall(call, number) for call, number in zip(calls, numbers, strict=True)]


def topics_of(calls: Iterable[JobRequest]) -> list[str]:
    """Return the topics to nudge: workers of the queues, or the dispatcher for jobs due later."""
    queues = {f"{READY}:{call.queue}" for call in calls if call.run_after is None}
    later = [JOBS] if any(call.run_after is not None for call in calls) else []
    return [*sorted(queues), *later]


_NUMBERS = msgspec.json.Decoder(tuple[int, ...])


def _step(row: Row) -> StepInfo:
    (
        number, name, task, kind, before, when, if_failed, state, parts, remaining, missed, stopped,
        reason, started_at, ended_at, job_id,
    ) = row  # fmt: skip
    return StepInfo(
        number=number,
        name=name,
        task=task,
        kind=kind,
        before=_NUMBERS.decode(before),
        when=when,
        if_failed=if_failed,
        state=StepState(state),
        parts=parts,
        remaining=remaining,
        missed=missed,
        stopped=stopped,
        reason=reason,
        started_at=rows.moment(started_at),
        ended_at=rows.moment(ended_at),
        job_id=job_id,
    )
