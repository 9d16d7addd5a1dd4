"""Finishing what is done and taking what is next, in one go."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from duly.errors import Busy, OutcomeUnknown
from duly.model.job import Claimed
from duly.model.limit import NamedLimit, Queue
from duly.model.outcome import Succeeded
from duly.model.payload import Json, encode
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.store.database import Ask, Operation, Row, Start, T
from duly.store.ids import Ids
from duly.store.maintenance import Retention
from duly.store.store import SqlStore
from duly.store.values import CLOCK, SUSPECT, FinishedAndClaimed, JobDone
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, World
from tests.factories import call, distinct_call, plan

MICROSECOND = timedelta(microseconds=1)


def _done(job: Claimed, result: str | None = None, keep: timedelta | None = None) -> JobDone:
    return JobDone(job.id, job.fence, result, None if keep is None else keep // MICROSECOND)


async def _begun(world: World, limit: int = 1) -> Sequence[Claimed]:
    """Jobs that were enqueued and claimed in one go."""
    await world.enqueue(*(call() for _ in range(limit)))
    return (await world.finish_and_claim(limit)).jobs


def _came_to(turn: FinishedAndClaimed) -> tuple[list[int], list[int], list[int]]:
    return sorted(turn.kept), sorted(turn.refused), [job.id for job in turn.jobs]


@check
async def what_is_done_is_finished_and_the_next_is_taken(world: World) -> None:
    first, second = await world.store.jobs.enqueue([call(), call()])
    [job] = (await world.finish_and_claim(1)).jobs
    equal(job.id, first)
    world.wait(MINUTE)
    equal(
        _came_to(await world.finish_and_claim(1, _done(job, encode([1])))), ([first], [], [second])
    )
    ended = await world.job(first)
    equal((ended.state, ended.ended_at, ended.result, ended.reason),
          (State.SUCCEEDED, world.now, "[1]", "succeeded at attempt 1"))  # fmt: skip
    equal((ended.worker, ended.fence, ended.attempt), (world.worker, job.fence, 1))
    equal([job.id for job in await world.live()], [second])


@check
async def jobs_of_several_claims_are_finished_together(world: World) -> None:
    jobs = [*await _begun(world, 2)]
    for count in (3, 1):
        world.wait(timedelta(milliseconds=1))
        jobs += await _begun(world, count)
    equal(len({job.fence for job in jobs}), 3)
    numbers = [job.id for job in jobs]
    done = [_done(job, encode(job.id)) for job in reversed(jobs)]
    equal(_came_to(await world.finish_and_claim(1, *done)), (numbers, [], []))
    equal([(await world.job(n)).result for n in numbers], [str(n) for n in numbers])


@check
async def what_is_done_is_finished_where_nothing_is_to_be_taken(world: World) -> None:
    jobs = await _begun(world, 3)
    await world.enqueue(call())
    without_a_wish = await world.store.work.finish_and_claim([_done(jobs[0])])
    equal(_came_to(without_a_wish), ([jobs[0].id], [], []))
    await world.store.work.set_queue(Queue(name="default", paused=True))
    equal(_came_to(await world.finish_and_claim(5, _done(jobs[1]))), ([jobs[1].id], [], []))
    await world.store.work.end_lease(world.worker)
    equal(_came_to(await world.finish_and_claim(5, _done(jobs[2]))), ([jobs[2].id], [], []))
    equal(_came_to(await world.store.work.finish_and_claim([])), ([], [], []))


@check
async def what_was_taken_back_is_refused_and_spoils_nothing(world: World) -> None:
    [lost] = await _begun(world)
    await world.lose(lost)
    [mine] = await _begun(world)
    turn = await world.finish_and_claim(1, _done(lost, '"zombie"'), _done(mine))
    equal(_came_to(turn), ([mine.id], [lost.id], []))
    equal((await world.job(lost.id)).state, State.READY)


@check
async def a_zombie_does_not_finish_what_its_successor_runs_or_has_finished(world: World) -> None:
    [zombie] = await _begun(world)
    await world.lose(zombie)
    [successor] = (await world.finish_and_claim(1, shelf=SUSPECT)).jobs
    for _ in range(2):
        equal(
            _came_to(await world.finish_and_claim(1, _done(zombie, '"zombie"'))),
            ([], [zombie.id], []),
        )
        equal((await world.job(zombie.id)).state, State.RUNNING)
    await world.finish_and_claim(1, _done(successor, '"mine"'))
    equal(
        _came_to(await world.finish_and_claim(1, _done(zombie, '"zombie"'))), ([], [zombie.id], [])
    )
    equal((await world.job(zombie.id)).result, '"mine"')


@check
async def what_was_cancelled_by_its_worker_is_not_finished_afterwards(world: World) -> None:
    [job] = await _begun(world)
    await world.store.jobs.cancel(job.id)
    await world.lose(job)
    await world.dispatch()
    equal(_came_to(await world.finish_and_claim(1, _done(job))), ([], [job.id], []))
    equal((await world.job(job.id)).state, State.CANCELLED)


@check
async def jobs_are_finished_without_a_claim_in_one_statement_where_that_is_possible(
    world: World,
) -> None:
    [job, stale] = await _begun(world, 2)
    await world.enqueue(call())
    watched = LosingAnswers(world.database)
    node = World(SqlStore(watched), world.clock)
    done = [_done(job, "1"), _done(stale)._replace(fence=stale.fence + 1)]
    equal(_came_to(await node.store.work.finish_and_claim(done)), ([job.id], [stale.id], []))
    equal((await world.job(job.id)).result, "1")
    equal((await world.job(stale.id)).state, State.RUNNING)
    one, several = {"finish_and_claim": 1}, {"keep_plain": 1, "finish_plain": 1}
    asked = {name: count for name, count in watched.seen.items() if name in one | several}
    equal(asked, one if watched.dialect.writes_at_once else several)


@check
async def a_turn_whose_answer_was_lost_is_found_done_and_its_claim_too(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = World(SqlStore(losing), world.clock)
    first, second = await world.store.jobs.enqueue([call(), call()])
    [job] = (await node.finish_and_claim(1)).jobs
    losing.lose("finish_and_claim" if losing.dialect.writes_at_once else "finish_plain")
    with refused(OutcomeUnknown):
        await node.finish_and_claim(1, _done(job, "1"))
    before = await world.job(first)
    world.wait(MINUTE)
    equal(
        _came_to(await node.finish_and_claim(1, _done(job, "1"))), ([first], [], []), "kept, once"
    )
    equal(await world.job(first), before)
    equal([job.id for job in await world.store.work.claimed_by(node.worker)], [second])


@check
async def a_result_is_kept_for_its_time(world: World) -> None:
    forever, a_minute, never, settled = await _begun(world, 4)
    done = [_done(forever, "1"), _done(a_minute, "2", MINUTE), _done(never, "3", timedelta(0))]
    await world.finish_and_claim(1, *done)
    settlement = world.settlement(settled, Succeeded(Json("4")))
    await world.store.work.settle([replace(settlement, keep_result=MINUTE)])
    numbers = [job.id for job in (forever, a_minute, never, settled)]
    for wait, results in (
        (timedelta(0), ["1", "2", None, "4"]),
        (MINUTE - MICROSECOND, ["1", "2", None, "4"]),
        (MICROSECOND, ["1", None, None, None]),
    ):
        world.wait(wait)
        equal([(await world.job(number)).result for number in numbers], results)
        listed = {job.id: job.result for job in await world.store.jobs.ended(State.SUCCEEDED)}
        equal([listed[number] for number in numbers], results)


@check
async def a_job_that_is_finished_in_passing_keeps_every_column(world: World) -> None:
    wanted = replace(distinct_call(), key=None, limits=(), needs={},
                     terms=Terms(timeout=MINUTE, keep_result=MINUTE))  # fmt: skip
    for _ in range(3):
        await world.enqueue(wanted)
    passing, stopping, settled = (await world.finish_and_claim(3, queue="the queue")).jobs
    world.wait(MINUTE)
    await world.finish_and_claim(1, _done(passing, '"the result"'))
    await world.store.work.finish_and_claim([_done(stopping, '"the result"')])
    await world.end(settled, Succeeded(Json('"the result"')))
    wanted_end = await world.job(settled.id)
    equal(wanted_end.terms, wanted.terms)
    for one in (passing, stopping):
        found = await world.job(one.id)
        equal(replace(found, id=settled.id), wanted_end)


class AnswersOnce(LosingAnswers):
    """A database that is busy for every operation after the first."""

    async def write(self, start: Start[T], /) -> T:
        self._answer()
        return await super().write(start)

    async def write_one(self, ask: Ask, /) -> list[Row]:
        self._answer()
        return await super().write_one(ask)

    async def read(self, start: Start[T], /) -> T:
        self._answer()
        return await super().read(start)

    def _answer(self) -> None:
        self.lost += 1
        if self.lost > 1:
            raise Busy("on purpose")


@check
async def a_claim_is_looked_for_if_the_database_was_busy_right_after_it(world: World) -> None:
    [stale] = await _begun(world)
    await world.enqueue(call())
    request = await world.claim_request(1)
    store = SqlStore(AnswersOnce(world.database))
    with refused(OutcomeUnknown):
        await store.work.finish_and_claim([_done(stale)._replace(fence=stale.fence + 1)], request)
    equal(len(await world.store.work.claimed_by(world.worker)), 2)


@check
async def success_in_passing_clears_the_crashes(world: World) -> None:
    [job] = await _begun(world)
    await world.lose(job)
    [again] = (await world.finish_and_claim(1, shelf=SUSPECT)).jobs
    equal((again.attempt, again.crashes), (2, 1))
    await world.finish_and_claim(1, _done(again))
    found = await world.job(job.id)
    equal((found.crashes, found.attempt, found.reason), (0, 2, "succeeded at attempt 2"))


@check
async def only_what_nothing_waits_for_is_plain(world: World) -> None:
    named_limit = NamedLimit(name="crm", template="crm", concurrency=1)
    callback = Callback(task="after")
    await world.add(
        plan(title="of a schedule"),
        plan("parallel", title="plain", overlap="allow"),
        plan("spaced", "spaced 1m", title="a fixed delay waits for it", overlap="allow"),
    )
    await world.enqueue(
        call(title="plain"),
        call(title="plain", terms=Terms(timeout=MINUTE, keep_result=MINUTE)),
        call(title="plain", needs={"gpu": 1}),
        call(title="with a key", key="k"),
        call(title="with a limit", limits=(named_limit,)),
        call(title="on_success", terms=Terms(on_success=callback)),
        call(title="on_failure", terms=Terms(on_failure=callback)),
        call(title="on_cancelled", terms=Terms(on_cancelled=callback)),
    )
    await world.fire_after(MINUTE)
    await world.claim(20, free={"gpu": 1})
    held = await world.store.work.claimed_by(world.worker)
    equal(len(held), 11)
    equal({job.title for job in held if job.is_plain}, {"plain"})
    holds(all(job.is_plain for job in held if job.title == "plain"), "all of those")


@check
async def a_job_that_others_wait_for_since_an_edit_is_settled_instead(world: World) -> None:
    await world.add(plan(rule="every 1m", overlap="allow"))
    await world.fire_after(MINUTE)
    [first] = (await world.finish_and_claim(1, shelf=CLOCK)).jobs
    await world.store.schedules.edit(
        "report", lambda old: replace(old, policies=replace(old.policies, overlap="queue_all"))
    )
    await world.fire_after(MINUTE)
    [_, waiting] = await world.live()
    equal(waiting.state, State.BLOCKED)
    turn = await world.finish_and_claim(1, _done(first, encode([1])))
    equal(_came_to(turn), ([], [], []))
    equal((await world.store.work.settle(turn.unsettled)).kept, [first.id])
    ended = await world.job(first.id)
    equal((ended.state, ended.result, ended.reason),
          (State.SUCCEEDED, "[1]", "succeeded at attempt 1"))  # fmt: skip
    equal([(job.id, job.state) for job in await world.live()], [(waiting.id, State.READY)])
    equal(list((await world.finish_and_claim(1, _done(first))).refused), [], "again: as before")


@check
async def a_job_that_waited_before_its_schedule_may_overlap_is_not_forgotten(world: World) -> None:
    await world.add(plan(rule="every 1m", overlap="queue_all"))
    await world.fire_after(MINUTE)
    [first] = (await world.finish_and_claim(1, shelf=CLOCK)).jobs
    await world.fire_after(MINUTE)
    await world.store.schedules.edit(
        "report", lambda old: replace(old, policies=replace(old.policies, overlap="allow"))
    )
    await world.fire_after(MINUTE)
    [beside] = (await world.finish_and_claim(1, shelf=CLOCK)).jobs
    equal(beside.is_plain, False, "another job may wait for it")
    await world.end(first)
    [waiting, _] = await world.live()
    equal(waiting.state, State.BLOCKED)
    await world.end(beside)
    equal([(job.id, job.state) for job in await world.live()], [(waiting.id, State.READY)])
    await world.fire_after(MINUTE)
    after = (await world.finish_and_claim(2, shelf=CLOCK)).jobs
    equal([job.is_plain for job in after], [False, True])


@check
async def what_was_said_to_a_job_that_was_finished_in_passing_is_forgotten(world: World) -> None:
    finished, runs = await _begun(world, 2)
    for job in (finished, runs):
        await world.store.jobs.cancel(job.id)
    await world.finish_and_claim(1, _done(finished))
    equal(list(await world.signals()), [runs.id])
    world.wait(timedelta(hours=2))
    await world.store.maintenance.prune(Retention(), limit=100)
    equal([number for number, *_ in await world.write(_signals)], [], "not that one")
    equal(list(await world.signals()), [runs.id])


def _signals(_: Ids) -> Operation[list[Row]]:
    """What is left for nobody: of it there is nothing to prune a second time."""
    return (yield Ask("old_signals", {"before": 2**62, "limit": 10}))
