"""Jobs, as people and programs ask for them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import msgspec

from duly.errors import NotFound, OutcomeUnknown, WrongState
from duly.instants import from_us
from duly.model.flow import FlowInfo, FlowProgress, PartInfo, StepInfo, StepState
from duly.model.job import Attempt, Call, Job
from duly.model.job_filter import Filter
from duly.model.payload import check_text
from duly.model.states import ENDED, LIVE, State
from duly.store import job_search, jobs, retrying, rows
from duly.store.database import Ask, Operation, Row, Start
from duly.store.group_commit import GroupCommit
from duly.store.ids import KeptIds, NumbersTaken
from duly.store.jobs import EndedAlready, NumberedCall, Once
from duly.store.nouns import deeds
from duly.store.retrying import BATCH
from duly.store.transactions import Transactions
from duly.store.values import JOBS, READY, SCHEDULES, WORKERS, Failure, Page
from duly.store.verbs import Noun, reads, verb


class JobStore(Noun):
    def __init__(self, room: Transactions) -> None:
        self._db = room
        self._gathering = GroupCommit(self._enqueue_plain)

    @verb("operator")
    async def enqueue(self, calls: Sequence[Call]) -> list[int]:
        """Promise to run these: all of them, or none. Their numbers, in the order of the calls."""
        if any(call.key is not None for call in calls):
            answers = await self._enqueue(calls)
        else:
            answers = await self._gathering.add(calls)
        self._db.nudge(*_topics(calls))
        return answers

    @verb("operator")
    async def enqueue_once(self, calls: Sequence[Call], *, key: str, mark: str) -> list[int]:
        """The same, under a key of whom the store acts for: asked again, the numbers again.

        ``mark`` tells what is asked: with another one, ``WrongState``. A key is known for a day.
        """
        once = Once(self._db.who, check_text(key, "key"), check_text(mark, "mark"))
        start = self._db.numbered(
            len(calls), lambda numbers: jobs.enqueue_once(_wanted(calls, numbers), once)
        )
        answers = await self._db.insist(start)
        self._db.nudge(*_topics(calls))
        return answers

    async def _enqueue_plain(self, calls: Sequence[Call]) -> list[int]:
        """One statement, and no transaction around it; several if its answer is lost.

        It writes nothing where the database does not know that it gave out the numbers.
        """
        ids, numbers = await self._db.numbers(len(calls))
        wanted = _wanted(calls, numbers)
        try:
            written = await self._db.write_one(jobs.plainly(wanted, ids.reservation))
        except OutcomeUnknown as unknown:
            return await self._enqueue(calls, self._db.kept_from(ids, numbers), unknown=unknown)
        if len(written) == len(calls):
            return numbers
        self._db.drop(ids)
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
        enqueueing = _Enqueueing(calls, kept or self._db.kept())
        while True:
            try:
                return await self._db.insist(enqueueing.start, unknown=unknown)
            except EndedAlready as ended:
                enqueueing.ended |= ended.numbers

    @reads("viewer")
    def get(self, number: int) -> Operation[Job]:
        return jobs.get(number)

    @reads("viewer")
    def page(self, *, after: int = 0, limit: int = 100) -> Operation[list[Job]]:
        """Those that have not ended."""
        return jobs.listed(after, limit)

    @reads("viewer")
    def ended(
        self, state: State, *, since: datetime | None = None, limit: int = 100
    ) -> Operation[list[Job]]:
        """Those that have: failed ones, or all the others. The newest first."""
        return jobs.ended(state, since, limit)

    @reads("viewer")
    def attempts(self, number: int) -> Operation[list[Attempt]]:
        return jobs.attempts(number)

    @reads("viewer")
    def flow(self, number: int) -> Operation[FlowInfo | None]:
        """The steps of a job that is a flow and has been opened. None: there are none."""
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
        """The jobs of a step of a flow."""
        asked = {"flow": number, "step": step, "after": after, "limit": limit}
        return [PartInfo(*row) for row in (yield Ask("show_parts", asked))]

    @reads("viewer")
    def flow_progress(self, numbers: Sequence[int]) -> Operation[dict[int, FlowProgress]]:
        """How far those of the jobs are that are flows."""
        if not numbers:
            return {}
        found = yield Ask("flows_among", {"ids": sorted(set(numbers))})
        return {number: FlowProgress(*counts) for number, *counts in found}

    @verb("operator")
    async def cancel(self, number: int, *, reason: str = "") -> State:
        """End a job that waits; ask one that runs to end. The state it is in then."""
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
    async def retry(self, number: int) -> Job:
        """Give a failed job another chance."""
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
            return list(numbers)  # by now all of them are, and nobody can tell by whose hand

    @reads("viewer")
    def find(
        self, wanted: Filter, *, after: str | None = None, limit: int = 100
    ) -> Operation[Page]:
        """Those that match, what lives first; ``after`` is what the page before gave.

        Of what lives, the highest number first, which is about the newest; of what has ended, the
        last to end. A page looks at so many jobs and no more: it may be short, or empty, and not
        the last.
        """
        return job_search.find(wanted, after, limit)

    @reads("viewer")
    def count(self, wanted: Filter, *, at_most: int = job_search.MOST) -> Operation[int]:
        """How many match; ``at_most`` means that there are as many or more."""
        return job_search.count(wanted, at_most)

    @reads("viewer")
    def failures(self, wanted: Filter, *, limit: int = 2_000) -> Operation[list[Failure]]:
        """The newest that match and have failed, of the newest that have failed at all."""
        return job_search.failures(wanted, limit)

    @reads("viewer")
    def schedule_names(self, numbers: Sequence[int]) -> Operation[dict[int, str]]:
        """What the schedules of jobs are called, by the numbers that jobs have of them."""
        return job_search.schedule_names(numbers)

    @verb("operator", long=True)
    async def retry_found(self, wanted: Filter, *, first: int | None = None) -> list[int]:
        """Give another chance to those that match and have failed, the oldest failure first.

        Not one transaction but a row of them: what is done stays done.
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
        """End those that match and wait; ask those that run to end. Which they were."""
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
        """Whether it was there to be cancelled: it may have ended since it was found."""
        try:
            await self._ended(lambda: jobs.cancel(number, reason, ids=self._db.attempt()))
        except (WrongState, NotFound):
            return False
        return True

    @verb("operator")
    async def remove(self, number: int) -> None:
        """Forget a job that has ended, with its attempts and what it said."""
        start = self._db.audited(
            lambda: jobs.remove(number), deeds.constant("jobs.remove", f"job:{number}")
        )
        await self._db.write(start)

    @verb("operator", long=True)
    async def remove_found(self, wanted: Filter) -> list[int]:
        """Forget those that match and have ended, the last to end first. Which they were.

        Not one transaction but a row of them: what is done stays done.
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
        """The numbers of all that match, a batch at a time; of none, if no state is meant."""
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
