"""The claimer: writes what is over, and claims what comes next.

Both in one go where the store can. A worker has two of them, so that one batch is on its way while
the next one runs; the second one only works when it is called, and there is enough for both.
Nothing is waited for to make a batch larger: what gathers while a batch is under way is the next
batch, so a single job is claimed and finished at once, and a flood by the hundred.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias, TypeVar, cast

from duly.engine.claim_planner import BATCH, ClaimPlanner, QueueShelf
from duly.engine.outbox import ENOUGH_FOR_TWO
from duly.errors import Busy, OutcomeUnknown, StoreUnavailable
from duly.events import Emit, SettlementFailed, WriteRefused, ignore_event
from duly.store.values import CAREFUL, NO_FLOOR, Claims, JobDone, Settlement, Turn, Wish

POLL = timedelta(milliseconds=500)
SETTLEMENTS = 200  # in one transaction, which locks what waits for them
UNTIL_CALLED = timedelta(seconds=5)
SOON = timedelta(milliseconds=5)
PUT_OFF_SECONDS = 2.0
NO_REST = timedelta(0)

End = TypeVar("End", bound=JobDone | Settlement)
Write: TypeAlias = Callable[[Sequence[End]], Awaitable[None]]


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
        self.topics = planner.topics if first else frozenset({planner.second_topic})
        self.patient = not first
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
            more = await self._turn()
            if queues:
                planner.store.work.has_room(queues)
        except StoreUnavailable:
            # Also to see whether the store still knows what it has confirmed: a standby that took
            # over may not.
            planner.lost_answer = True
            raise
        finally:
            planner.busy -= 1
        if more or planner.runner.outbox.are_pressing:
            return NO_REST
        look = planner.closed.next_look()
        return POLL if look is None else min(POLL, look)

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

    async def _turn(self) -> bool:
        """Finish and claim: whether there may be more."""
        planner = self._planner
        asked = await planner.ask(planner.runner.wanted - planner.claiming, plain=not self._first)
        if asked is None:
            await self._written(None)
            return False
        wish, place = asked
        planner.claiming += wish.limit  # nobody else needs to claim these
        if self._first and planner.runner.wanted - planner.claiming >= ENOUGH_FOR_TWO:
            planner.runner.wake_second()
        try:
            found = await self._brought(wish, place)
        finally:
            planner.claiming -= wish.limit
        planner.came(found, wish, place)
        return bool(found.jobs) or planner.knows_of_more

    async def _brought(self, wish: Wish, place: QueueShelf) -> Claims:
        settings = await self._planner.settings(place.queue)
        if settings.plain and place.shelf != CAREFUL:
            return Claims(jobs=(await self._written(wish)).jobs)
        await self._written(None)
        return Claims() if settings.paused else await self._claimed(replace(wish, floor=NO_FLOOR))

    async def _written(self, wish: Wish | None) -> Turn:
        """Write what is done, and take what is wished."""
        planner = self._planner
        done = planner.runner.outbox.take_done(BATCH)
        if not done and wish is None:
            return Turn()
        try:
            if done:
                await self._last_words()
            turn = await planner.store.work.turn(done, wish)
            self._refused(turn.refused, {one.id: one.fence for one in done})
            done.clear()
        except BaseException as error:
            planner.lost_answer |= wish is not None and _may_be_done(error)
            if not done or isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
                raise
            await self._each_alone(done, self._finished)
            return Turn()
        finally:
            planner.runner.outbox.done[:0] = (
                done  # not written, or it is written again under its fence
            )
        return turn

    async def _claimed(self, wish: Wish) -> Claims:
        try:
            return await self._planner.store.work.claim(wish)
        except BaseException as error:
            self._planner.lost_answer |= _may_be_done(error)
            raise

    async def _adopt(self) -> timedelta:
        """Take what was claimed though the answer was lost.

        Alone: what the other claimer has under way looks just the same.
        """
        planner = self._planner
        if planner.busy:
            return SOON
        planner.busy += 1
        try:
            worker = planner.worker
            held = [] if worker is None else await planner.store.work.held(worker)
            planner.lost_answer = False
            mine = [job for job in held if not planner.runner.has(job.id)]
            planner.take(mine, worker)
        finally:
            planner.busy -= 1
        return NO_REST

    async def _settle(self) -> None:
        """Write what did not simply succeed."""
        runner = self._planner.runner
        batch = runner.outbox.take_settlements(SETTLEMENTS, runner.time())
        if not batch:
            return
        try:
            await self._last_words()
            await self._settled(batch)
            batch.clear()
        except Busy:
            await self._each_schedule(batch)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - one of them cannot be written, and which?
            await self._each_alone(batch, self._settled)
        finally:
            runner.outbox.settlements[:0] = batch

    async def _each_schedule(self, batch: list[Settlement]) -> None:
        """Somebody holds one of their schedules: the others do not wait for that.

        What is left in the batch was not written.
        """
        runner = self._planner.runner
        while batch:
            schedule = batch[0].job.schedule_id
            group = [one for one in batch if one.job.schedule_id == schedule]
            try:
                await self._settled(group)
            except Busy:
                runner.outbox.put_off(group, runner.time() + PUT_OFF_SECONDS)
            batch[:] = [one for one in batch if one.job.schedule_id != schedule]

    async def _last_words(self) -> None:
        """What jobs have said is written before their end: afterwards nobody would take it."""
        journal = self._planner.journal
        if journal is not None and journal.has_words:
            await journal.write()

    async def _finished(self, done: Sequence[JobDone]) -> None:
        turn = await self._planner.store.work.turn(done, None)
        self._refused(turn.refused, {one.id: one.fence for one in done})

    async def _settled(self, batch: Sequence[Settlement]) -> None:
        settled = await self._planner.store.work.settle(batch)
        self._refused(settled.refused, {one.job.id: one.job.fence for one in batch})

    async def _each_alone(self, batch: list[End], write: Write[End]) -> None:
        """One job must not keep ninety-nine from ending; and it must not run for ever itself.

        What is left in the batch was not written.
        """
        while batch:
            try:
                await write(batch[:1])
            except StoreUnavailable:
                raise
            except Exception as reason:  # noqa: BLE001 - whatever its result is
                await self._speechless(batch[0], reason, write)
            del batch[0]

    async def _speechless(self, one: End, reason: Exception, write: Write[End]) -> None:
        """Written without what cannot be stored; and if that cannot be either, it is let go."""
        number = one.id if isinstance(one, JobDone) else one.job.id
        self._emit(SettlementFailed(number, reason))
        try:
            await write([_without_words(one, reason)])
        except StoreUnavailable:
            raise
        except Exception as worse:  # noqa: BLE001 - it stays with this worker until that ends
            self._emit(SettlementFailed(number, worse))

    def _refused(self, refused: Sequence[int], fences: dict[int, int]) -> None:
        for number in refused:
            self._emit(WriteRefused(number, fences[number]))


def _may_be_done(error: BaseException) -> bool:
    """Whether what was asked may have been done all the same."""
    return isinstance(error, OutcomeUnknown) or not isinstance(error, StoreUnavailable)


def _without_words(one: End, reason: Exception) -> End:
    if isinstance(one, JobDone):
        return cast(End, one._replace(result=None, keep=None))
    verdict = replace(one.verdict, error=f"what it said cannot be stored: {reason!r:.200}")
    return replace(one, result=None, verdict=verdict)
