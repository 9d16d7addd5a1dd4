"""The claimer: writes outcomes and claims the next jobs, in one round trip where possible.

A worker has two claimers, so that one batch is on its way while the next one runs; the second works
only when it is woken and there is enough for both. No batch is delayed to become larger: outcomes
that gather while a batch is under way are the next batch. So a single job is claimed and finished
at once, and many jobs by the hundred.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias, TypeVar, cast

from duly.engine.claim_planner import BATCH, ClaimPlanner, QueueShelf, may_be_done
from duly.engine.outbox import ENOUGH_FOR_TWO
from duly.errors import Busy, StoreUnavailable
from duly.events import Emit, SettlementFailed, WriteRefused, ignore_event
from duly.model.states import Move
from duly.store.values import (
    CAREFUL,
    NO_FLOOR,
    ClaimRequest,
    Claims,
    FinishedAndClaimed,
    HeldJob,
    JobDone,
    Settlement,
)

SETTLEMENTS = 200  # in one transaction, which locks what waits for them
UNTIL_CALLED = timedelta(seconds=5)
SOON = timedelta(milliseconds=5)
PUT_OFF_SECONDS = 2.0
NO_REST = timedelta(0)

End = TypeVar("End", bound=JobDone | Settlement)
Write: TypeAlias = Callable[[Sequence[End]], Awaitable[object]]


class Claimer:
    def __init__(
        self,
        planner: ClaimPlanner,
        *,
        first: bool = True,
        emit: Emit = ignore_event,
        enough: Callable[[], bool] | None = None,
    ) -> None:
        self.name = "claimer" if first else "second claimer"
        self.topics: frozenset[str] = planner.topics if first else frozenset({planner.second_topic})
        self.patient: bool = not first
        self._planner = planner
        self._first = first
        self._emit = emit
        self._enough = enough or self._is_worth_it

    async def tick(self) -> timedelta:
        planner = self._planner
        planner.pulse = planner.runner.time()
        if not self._first and (planner.lost_answer or not self._enough()):
            return UNTIL_CALLED
        if planner.lost_answer:
            return await self._adopt()
        planner.busy += 1
        queues = [
            queue for queue in planner.runner.outbox.take_queues() if planner.is_limited(queue)
        ]
        planner.closed.ended(queues)
        try:
            await self._settle()
            more = await self._write_and_claim()
            if queues:
                planner.store.work.has_room(queues)
        except StoreUnavailable:
            # Jobs are compared with the store afterwards: a standby that took over may have lost
            # writes that were confirmed.
            planner.lost_answer = True
            raise
        finally:
            planner.busy -= 1
        if more or planner.runner.outbox.are_pressing:
            return NO_REST
        look = planner.closed.next_look()
        return UNTIL_CALLED if look is None else look

    def _is_worth_it(self) -> bool:
        runner = self._planner.runner
        if self._planner.busy == 0:
            return False
        settling = len(runner.outbox.settlements) >= ENOUGH_FOR_TWO
        return (
            settling
            or len(runner.outbox.done) >= ENOUGH_FOR_TWO
            or (runner.wanted - self._planner.claiming >= ENOUGH_FOR_TWO)
        )

    async def _write_and_claim(self) -> bool:
        """Write plain successes and claim; return whether there may be more jobs."""
        planner = self._planner
        claim = await planner.next_claim(
            planner.runner.wanted - planner.claiming, plain=not self._first
        )
        if claim is None:
            await self._finish_and_claim(None)
            return False
        request, place = claim
        planner.claiming += request.limit  # the other claimer need not claim these
        if self._first and planner.runner.wanted - planner.claiming >= ENOUGH_FOR_TWO:
            planner.runner.wake_second()
        sent = planner.runner.time()
        try:
            found = await self._claim(request, place)
        finally:
            planner.claiming -= request.limit
        planner.accept(found, request, place, sent=sent)
        await planner.refresh_settings()
        return bool(found.jobs) or planner.knows_of_more

    async def _claim(self, request: ClaimRequest, place: QueueShelf) -> Claims:
        settings = await self._planner.settings(place.queue)
        if settings.plain and place.shelf != CAREFUL:
            return Claims(jobs=(await self._finish_and_claim(request)).jobs)
        await self._finish_and_claim(None)
        return (
            Claims()
            if settings.paused
            else await self._claim_with_limits(replace(request, floor=NO_FLOOR))
        )

    async def _finish_and_claim(self, request: ClaimRequest | None) -> FinishedAndClaimed:
        """Write plain successes and make the claim, if there is one, in one round trip."""
        planner = self._planner
        done = planner.runner.outbox.take_done(BATCH)
        if not done and request is None:
            return FinishedAndClaimed()
        try:
            if done:
                await self._write_journal()
            answer = await self._write_done(done, request)
            done.clear()
        except BaseException as error:
            planner.lost_answer |= request is not None and may_be_done(error)
            if not done or isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
                raise
            await self._each_alone(done, self._write_done)
            return FinishedAndClaimed()
        finally:
            # These were not written. Writing them again under the same fence is harmless.
            planner.runner.outbox.done[:0] = done
        return answer

    async def _claim_with_limits(self, request: ClaimRequest) -> Claims:
        try:
            return await self._planner.store.work.claim(request)
        except BaseException as error:
            self._planner.lost_answer |= may_be_done(error)
            raise

    async def _adopt(self) -> timedelta:
        """Run jobs that were claimed by a call whose answer was lost.

        Not while the other claimer is busy: its claims would look the same.
        """
        planner = self._planner
        if planner.busy:
            return SOON
        planner.busy += 1
        try:
            worker = planner.worker
            held = [] if worker is None else await planner.store.work.claimed_by(worker)
            planner.lost_answer = False
            mine = [job for job in held if not planner.runner.has(job.id)]
            planner.take(mine, worker)
        finally:
            planner.busy -= 1
        return NO_REST

    async def _settle(self) -> None:
        """Write the settlements."""
        runner = self._planner.runner
        batch = runner.outbox.take_settlements(SETTLEMENTS, runner.time())
        if not batch:
            return
        try:
            await self._write_journal()
            await self._write_settlements(batch)
            batch.clear()
        except Busy:
            await self._each_schedule(batch)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - one of them cannot be written; find out which
            await self._each_alone(batch, self._write_settlements)
        finally:
            runner.outbox.settlements[:0] = batch

    async def _each_schedule(self, batch: list[Settlement]) -> None:
        """Write the batch schedule by schedule, because the row of one of them is locked.

        Settlements that remain in the batch were not written.
        """
        runner = self._planner.runner
        while batch:
            schedule = batch[0].job.schedule_id
            group = [one for one in batch if one.job.schedule_id == schedule]
            try:
                await self._write_settlements(group)
            except Busy:
                runner.outbox.put_off(group, runner.time() + PUT_OFF_SECONDS)
            batch[:] = [one for one in batch if one.job.schedule_id != schedule]

    async def _write_journal(self) -> None:
        """Write the journal before the outcomes: later the store would refuse it."""
        journal = self._planner.journal
        if journal is not None and journal.has_entries:
            await journal.write()

    async def _write_done(
        self, done: Sequence[JobDone], request: ClaimRequest | None = None
    ) -> FinishedAndClaimed:
        answer = await self._planner.store.work.finish_and_claim(done, request)
        self._report_refused(answer.refused, done)
        self._planner.runner.outbox.settlements += answer.unsettled
        return answer

    async def _write_settlements(self, batch: Sequence[Settlement]) -> None:
        settled = await self._planner.store.work.settle(batch)
        # A fast target has reported the outcome before its job was marked as handed off.
        out = {one.job.id for one in batch if one.verdict.move is Move.HAND_OFF}
        refused = [number for number in settled.refused if number not in out]
        self._report_refused(refused, (one.job for one in batch))

    async def _each_alone(self, batch: list[End], write: Write[End]) -> None:
        """Write one by one, so that one outcome that cannot be stored does not block the others.

        Outcomes that remain in the batch were not written.
        """
        while batch:
            try:
                await write(batch[:1])
            except StoreUnavailable:
                raise
            except Exception as reason:  # noqa: BLE001 - whatever its result is
                await self._write_bare(batch[0], reason, write)
            del batch[0]

    async def _write_bare(self, one: End, reason: Exception, write: Write[End]) -> None:
        """Write an outcome without its result or error text; give up if that fails, too."""
        number = one.id if isinstance(one, JobDone) else one.job.id
        self._emit(SettlementFailed(number, reason))
        try:
            await write([_bare(one, reason)])
        except StoreUnavailable:
            raise
        except Exception as worse:  # noqa: BLE001 - the job stays with this worker until the worker ends
            self._emit(SettlementFailed(number, worse))

    def _report_refused(self, refused: Sequence[int], written: Iterable[JobDone | HeldJob]) -> None:
        if refused:  # almost never
            fences = {one.id: one.fence for one in written}
            for number in refused:
                self._emit(WriteRefused(number, fences[number]))


def _bare(one: End, reason: Exception) -> End:
    if isinstance(one, JobDone):
        return cast(End, one._replace(result=None, keep=None))
    verdict = replace(one.verdict, error=f"what it said cannot be stored: {reason!r:.200}")
    return replace(one, result=None, verdict=verdict)
