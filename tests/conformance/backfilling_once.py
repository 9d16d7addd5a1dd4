"""A backfill is done as a whole or not at all, and once, whatever becomes of the answer."""

import asyncio

from duly.model.fire import MOST_BACKFILLED, Backfill
from duly.policy.firing import decide
from duly.store.backfill import BackfillRun, backfill
from duly.store.database import Operation
from duly.store.ids import Ids
from duly.store.store import SqlStore
from duly.store.transactions import Editor
from tests.conformance.backfilling import (
    AFTER,
    DAY,
    asked_for,
    backfilled,
    skipped_by_a_pause,
)
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import START, World
from tests.factories import plan


@check
async def repeated_it_adds_nothing_and_again_it_runs_them_all(world: World) -> None:
    moments = await skipped_by_a_pause(world, 3, overlap="allow")
    await backfilled(world, AFTER, moments[2])
    done = await backfilled(world, AFTER, moments[2])
    equal((done.queued, len(done.left_alone), done.jobs), ((), 2, ()))
    equal(len(await asked_for(world)), 2)
    again = await backfilled(world, AFTER, moments[2], again=True)
    equal((again.queued, again.left_alone), (tuple(moments[:2]), ()))
    equal([fire.due_at for fire in await asked_for(world)], sorted(moments[:2] * 2))


@check
async def of_many_who_ask_at_once_one_does_it(world: World) -> None:
    moments = await skipped_by_a_pause(world, 8, overlap="allow")
    nodes = [world.another_node() for _ in range(4)]
    done = await asyncio.gather(*(backfilled(n, AFTER, world.now) for n in nodes))
    equal(sorted(len(one.queued) for one in done), [0, 0, 0, 7])
    equal([fire.due_at for fire in await asked_for(world)], moments[:7])


@check
async def thousands_are_backfilled_at_once(world: World) -> None:
    many = 2_500
    holds(many < MOST_BACKFILLED, "it may be")
    await world.add(plan(rule="0 2 * * *", zone="UTC"))
    done = await backfilled(world, START - many * DAY, START)
    equal((len(done.queued), len(await asked_for(world))), (many, many))
    equal(await world.states(), ["ready", *["blocked"] * (many - 1)])
    equal(
        [job.due_at for job in sorted(await world.live(), key=lambda job: job.id)],
        list(done.queued),
    )


@check
async def a_dry_run_tells_the_same_and_does_nothing(world: World) -> None:
    moments = await skipped_by_a_pause(world, 4)
    await backfilled(world, AFTER, moments[1])
    before = (
        await world.fires(),
        await world.live(),
        await world.store.schedules.changes("report"),
    )
    missing = await backfilled(world, AFTER, moments[3], dry_run=True)
    foreseen = await backfilled(world, AFTER, moments[3], dry_run=True, again=True)
    equal((len(missing.queued), len(foreseen.queued)), (2, 3))
    equal({(one.dry_run, one.jobs) for one in (missing, foreseen)}, {(True, ())})
    after = (await world.fires(), await world.live(), await world.store.schedules.changes("report"))
    equal(after, before)
    done = await backfilled(world, AFTER, moments[3], again=True)
    equal(
        (done.queued, done.left_alone, done.notes),
        (foreseen.queued, foreseen.left_alone, foreseen.notes),
    )


@check
async def one_that_is_torn_anywhere_has_done_nothing(world: World) -> None:
    moments = await skipped_by_a_pause(world, 3)
    wanted = BackfillRun(name="report", since=AFTER, until=world.now, number=4_711)
    before = (await world.fires(), await world.store.schedules.changes("report"))
    for statement in ("record_fires", "add_fired_jobs", "record_change", "oldest_fire"):

        def torn(ids: Ids, statement: str = statement) -> Operation[Backfill]:
            return _torn(backfill(wanted, Editor("ada", decide, ids)), before=statement)

        with refused(_Torn):
            await world.write(torn)
        equal((await world.fires(), await world.store.schedules.changes("report")), before)
        equal(await world.live(), [])
    equal((await backfilled(world, AFTER, world.now)).queued, tuple(moments[:2]))


@check
async def one_whose_answer_was_lost_is_done_once(world: World) -> None:
    moments = await skipped_by_a_pause(world, 3, overlap="allow")
    for again in (False, True):
        losing = LosingAnswers(world.database)
        node = World(SqlStore(losing), world.clock)
        losing.lose("queued_fires", times=3)
        done = await backfilled(node, AFTER, moments[2], again=again)
        equal((losing.lost, done.queued, len(done.jobs)), (3, tuple(moments[:2]), 2))
    fires = await asked_for(world)
    equal([fire.due_at for fire in fires], sorted(moments[:2] * 2))
    equal(len({fire.series for fire in fires}), 2)
    backfills = [c for c in await world.store.schedules.changes("report") if "backfilled" in c[2]]
    equal(len(backfills), 2)


class _Torn(Exception):
    """What happens to a transaction when the process dies in it."""


def _torn(operation: Operation[Backfill], before: str) -> Operation[Backfill]:
    ask = next(operation)
    while ask.statement != before:
        ask = operation.send((yield ask))
    raise _Torn
