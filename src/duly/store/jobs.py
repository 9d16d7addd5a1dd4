"""Jobs: enqueueing, reading, searching, cancelling, retrying, removing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from duly.errors import NotFound, OutcomeUnknown, WrongState
from duly.model.access import AuditedAction
from duly.model.columns import read_rows
from duly.model.flow import FlowInfo, FlowProgress, PartInfo, StepInfo
from duly.model.job import JobRequest, StoredJob
from duly.model.job_filter import Filter
from duly.model.outcome import Raised, ReportAnswer, Succeeded
from duly.model.payload import check_text
from duly.model.states import ENDED, LIVE, State
from duly.store import audit, job_changes, job_search, retries
from duly.store.database import Ask, Operation, Start
from duly.store.enqueueing import (
    EndedAlready,
    Enqueueing,
    GroupCommit,
    Once,
    done_once,
    enqueue,
    numbered_calls,
    plainly,
    topics_of,
)
from duly.store.ids import KeptIds
from duly.store.job_search import Page
from duly.store.retries import BATCH
from duly.store.transactions import Transactions, ready_in
from duly.store.values import JOBS, READY, SCHEDULES, WORKERS
from duly.store.verbs import Noun, reading, reads, verb


def flow(number: int) -> Operation[FlowInfo | None]:
    """Return the steps of a flow that was opened, or None if the job is no such flow."""
    found = yield Ask("show_flow", {"flow": number})
    steps = (yield Ask("show_steps", {"flow": number})) if found else []
    columns = "id root result remaining failed opened_at ended_at"
    flow = next(iter(read_rows(FlowInfo, found, columns)), None)
    return flow and replace(flow, steps=tuple(read_rows(StepInfo, steps)))


def flow_progress(numbers: Sequence[int]) -> Operation[dict[int, FlowProgress]]:
    """Return the progress of those jobs that are flows."""
    if not numbers:
        return {}
    found = yield Ask("flows_among", {"ids": sorted(set(numbers))})
    return {number: FlowProgress(*counts) for number, *counts in found}


class JobStore(Noun):
    def __init__(self, db: Transactions) -> None:
        super().__init__(db)
        self._group_commit = GroupCommit(self._enqueue_plain)

    @verb("operator")
    async def enqueue(self, calls: Sequence[JobRequest]) -> list[int]:
        """Enqueue jobs, all or none; return their numbers in the order of the calls."""
        if any(call.key is not None for call in calls):
            answers = await self._enqueue(calls)
        else:
            answers = await self._group_commit.add(calls)
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
            len(calls),
            lambda numbers: done_once(once, lambda: enqueue(numbered_calls(calls, numbers))),
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
            written = await self._db.write_one(plainly(calls, numbers, ids.reservation))
        except OutcomeUnknown as unknown:
            return await self._enqueue(calls, self._db.kept_from(ids, numbers), unknown=unknown)
        if len(written) == len(calls):
            return numbers
        self._db.drop(ids)
        there = {number for (number,) in written}
        missing = [one.call for one in numbered_calls(calls, numbers) if one.number not in there]
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
        enqueueing = Enqueueing(calls, kept or self._db.kept())
        while True:
            try:
                return await self._db.insist(enqueueing.start, unknown=unknown)
            except EndedAlready as ended:
                enqueueing.ended |= ended.numbers

    get: Final = reading("viewer", job_search.get)
    page: Final = reading("viewer", job_search.live_jobs)
    ended: Final = reading("viewer", job_search.ended_jobs)
    attempts: Final = reading("viewer", job_search.attempts)
    count: Final = reading("viewer", job_search.count)
    failures: Final = reading("viewer", job_search.failures)
    schedule_names: Final = reading("viewer", job_search.schedule_names)
    flow: Final = reading("viewer", flow)
    flow_progress: Final = reading("viewer", flow_progress)

    @reads("viewer")
    def parts(
        self, number: int, step: int, *, after: int = -1, limit: int = 100
    ) -> Operation[list[PartInfo]]:
        """Return the jobs of a step of a flow."""
        asked = {"flow": number, "step": step, "after": after, "limit": limit}
        return [PartInfo(*row) for row in (yield Ask("show_parts", asked))]

    @verb("operator")
    async def cancel(self, number: int, *, reason: str = "") -> State:
        """Cancel a waiting job, or ask a running one to stop; return its state then."""
        return await self._ended(
            self._db.audited(
                lambda: job_changes.cancel(number, reason, ids=self._db.attempt()),
                lambda _: audit.entry("jobs.cancel", f"job:{number}", reason=reason),
            )
        )

    async def _ended(self, start: Start[State]) -> State:
        state = await self._db.write(start)
        self._db.nudge(SCHEDULES, JOBS, READY, WORKERS)
        return state

    @verb("operator")
    async def report(
        self, number: int, outcome: Succeeded | Raised, *, message: str | None = None
    ) -> ReportAnswer:
        """Settle a job that was handed to another system; a repeated report changes nothing."""
        said = type(outcome).__name__.lower()
        answer, settled = await self._db.change(
            lambda: job_changes.report(number, outcome, message, ids=self._db.attempt()),
            lambda _: audit.entry("jobs.report", f"job:{number}", outcome=said),
        )
        if settled is not None:
            self._db.nudge(*sorted(settled.tells), *ready_in(settled.freed))
        return answer

    @verb("operator")
    async def cancel_key(self, task: str, key: str, *, reason: str = "") -> bool:
        return await self._db.change(
            lambda: job_changes.cancel_key(task, key, reason, ids=self._db.attempt()),
            lambda _: audit.entry("jobs.cancel", f"task:{task}", key=key, reason=reason),
            *(JOBS, READY, WORKERS),
        )

    @verb("operator")
    async def retry(self, number: int) -> StoredJob:
        """Retry a failed job."""
        return await self._db.change(
            lambda: job_changes.retry(number, self._db.who),
            lambda _: audit.entry("jobs.retry", f"job:{number}"),
            READY,
        )

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

    @verb("operator", long=True)
    async def retry_found(self, wanted: Filter, *, first: int | None = None) -> list[int]:
        """Retry the failed jobs that match, the oldest failure first; return their numbers.

        It takes several transactions; each that is committed stays.
        """
        left = retries.checked(first)
        place = await self._db.read(retries.begin)
        revived: list[int] = []
        announced = False
        while left > 0:
            ask = partial(job_search.failed_numbers, wanted, place, min(left, BATCH))
            numbers, place = await self._db.read(ask)
            if not numbers:
                break
            if not announced:
                said = audit.entry("jobs.retry", "jobs", filter=str(wanted), first=first)
                await self._db.announce(said)
                announced = True
            done = await self._all_done(partial(retries.revive, numbers, self._db.who), numbers)
            self._db.nudge(READY)
            revived += done
            left -= len(done)
        return revived

    @verb("operator", long=True)
    async def cancel_found(self, wanted: Filter, *, reason: str = "") -> list[int]:
        """Cancel matching jobs that wait, ask running ones to stop; return their numbers."""
        states = tuple(state for state in wanted.states or LIVE if state in LIVE)
        cancelled: list[int] = []
        said = audit.entry("jobs.cancel", "jobs", filter=str(wanted), reason=reason)
        async for found in self._walk(replace(wanted, states=states), said):
            done = await asyncio.gather(*(self._cancel(number, reason) for number in found))
            cancelled += [
                number for number, was_there in zip(found, done, strict=True) if was_there
            ]
        return cancelled

    async def _cancel(self, number: int, reason: str) -> bool:
        """Return whether the job was cancelled: it may have ended since it was found."""
        try:
            await self._ended(lambda: job_changes.cancel(number, reason, ids=self._db.attempt()))
        except (WrongState, NotFound):
            return False
        return True

    @verb("operator")
    async def remove(self, number: int) -> None:
        """Delete an ended job with its attempts and logs."""
        await self._db.change(
            lambda: job_changes.remove(number),
            lambda _: audit.entry("jobs.remove", f"job:{number}"),
        )

    @verb("operator", long=True)
    async def remove_found(self, wanted: Filter) -> list[int]:
        """Delete the ended jobs that match, the last to end first; return their numbers.

        It takes several transactions; each that is committed stays.
        """
        states = tuple(state for state in wanted.states or ENDED if state in ENDED)
        removed: list[int] = []
        said = audit.entry("jobs.remove", "jobs", filter=str(wanted))
        async for found in self._walk(replace(wanted, states=states), said):
            removed += await self._all_done(partial(job_changes.forget, found), found)
        return removed

    async def _walk(self, wanted: Filter, said: AuditedAction) -> AsyncIterator[list[int]]:
        """Yield the numbers of all matching jobs in batches; nothing without a state.

        The audit entry is written before the first batch, and not if there is none.
        """
        after: str | None = None
        announced = False
        while wanted.states:
            page = await self._db.read(partial(job_search.find, wanted, after, BATCH))
            if page.jobs and not announced:
                await self._db.announce(said)
                announced = True
            if page.jobs:
                yield [job.id for job in page.jobs]
            if page.after is None:
                return
            after = page.after

    async def _all_done(self, start: Start[list[int]], numbers: Sequence[int]) -> list[int]:
        """Return the jobs that an operation on these jobs has changed."""
        try:
            return await self._db.write(start)
        except OutcomeUnknown as unknown:
            await self._db.insist(start, unknown=unknown)
            return list(numbers)  # all are done by now, and it is unknown which call did it
