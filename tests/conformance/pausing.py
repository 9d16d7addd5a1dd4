"""A paused schedule fires nothing, and every moment that falls into the pause is accounted for."""

from datetime import timedelta

from duly.errors import InvalidValue
from duly.model.limit import Queue
from duly.model.policies import Missed
from duly.model.schedule import Pause
from duly.store.values import READY, SCHEDULES
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan


@check
async def a_paused_schedule_fires_nothing_and_has_no_next_moment(world: World) -> None:
    await world.add(plan())
    paused = await world.by("ann").schedules.pause("report", note="stocktaking")
    equal(paused.next_at, None)
    pause = paused.pause
    equal(pause and (pause.since, pause.until, pause.by, pause.note, pause.catch_up),
          (START, None, "ann", "stocktaking", False))  # fmt: skip
    world.wait(HOUR)
    equal((await world.fire()).rest, None)
    equal(await world.fires(), [])


@check
async def a_change_by_a_person_wakes_the_services_that_it_concerns(world: World) -> None:
    await world.add(plan())
    heard = world.listen()
    await world.store.schedules.pause("report")
    equal(heard, [SCHEDULES])
    await world.store.limits.set("crm", concurrency=2, rate=None)
    equal(heard, [SCHEDULES, READY])


@check
async def what_fell_into_a_pause_is_one_row_when_it_is_resumed(world: World) -> None:
    await world.add(plan())
    await world.by("ann").schedules.pause("report", note="stocktaking")
    world.wait(HOUR)
    resumed = await world.store.schedules.resume("report")
    equal((resumed.pause, resumed.next_at), (None, world.now + MINUTE))
    [row] = await world.fires()
    equal((row.covers_from, row.due_at, row.count, str(row.cause)),
          (START + MINUTE, START + HOUR, 60, "paused"))  # fmt: skip
    holds("ann" in row.reason and "stocktaking" in row.reason, "it says who and why")
    equal([str(f.outcome) for f in await world.fired_after(MINUTE)], ["queued"])


@check
async def a_pause_without_moments_leaves_no_row(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    await world.store.schedules.pause("report")
    world.wait(MINUTE)
    resumed = await world.store.schedules.resume("report")
    equal((await world.fires(), resumed.next_at), ([], START + HOUR))


@check
async def what_was_due_before_a_pause_is_fired_before_it(world: World) -> None:
    await world.add(plan())
    world.wait(MINUTE)
    await world.store.schedules.pause("report")
    equal([(f.due_at, str(f.outcome)) for f in await world.fires()], [(world.now, "queued")])


@check
async def a_pause_with_an_end_ends_by_itself(world: World) -> None:
    await world.add(plan())
    paused = await world.store.schedules.pause("report", until=START + HOUR)
    equal(paused.next_at, START + HOUR)
    world.wait(HOUR - MINUTE)
    equal((await world.fire()).schedules, 0)
    await world.fire_after(2 * MINUTE)
    equal([(f.due_at - START, f.count, str(f.outcome)) for f in await world.fires()],
          [(HOUR, 60, "skipped"), (HOUR + MINUTE, 1, "queued")])  # fmt: skip
    after = await world.schedule()
    equal((after.pause, after.next_at), (None, world.now + MINUTE))


@check
async def a_pause_that_ended_during_an_outage_covers_only_its_own_moments(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.pause("report", until=START + HOUR)
    await world.fire_after(3 * HOUR)
    found = [(f.due_at - START, f.count, str(f.outcome)) for f in await world.fires()]
    equal(found, [(HOUR, 60, "skipped"), (3 * HOUR - MINUTE, 119, "merged"),
                  (3 * HOUR, 1, "queued")])  # fmt: skip


@check
async def a_pause_may_be_caught_up_with(world: World) -> None:
    await world.add(plan(missed=Missed("all", at_most=3), overlap="allow"))
    await world.store.schedules.pause("report", catch_up=True)
    world.wait(5 * MINUTE)
    await world.store.schedules.resume("report")
    await world.fire()
    equal([(f.due_at - START, f.count, str(f.outcome)) for f in await world.fires()],
          [(2 * MINUTE, 2, "skipped"), (3 * MINUTE, 1, "queued"), (4 * MINUTE, 1, "queued"),
           (5 * MINUTE, 1, "queued")])  # fmt: skip


@check
async def a_pause_with_an_end_may_be_caught_up_with(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.pause("report", until=START + 5 * MINUTE, catch_up=True)
    await world.fire_after(5 * MINUTE)
    equal([(f.due_at - START, f.count, str(f.outcome)) for f in await world.fires()],
          [(4 * MINUTE, 4, "merged"), (5 * MINUTE, 1, "queued")])  # fmt: skip


@check
async def a_pause_cannot_end_in_the_past(world: World) -> None:
    await world.add(plan())
    with refused(InvalidValue, "is in the past"):
        await world.store.schedules.pause("report", until=START)
    equal((await world.schedule()).pause, None)


@check
async def pausing_again_changes_the_end_and_keeps_the_beginning(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.pause("report")
    world.wait(MINUTE)
    again = await world.store.schedules.pause("report", until=START + HOUR, note="longer")
    equal(again.pause and (again.pause.since, again.pause.until), (START, START + HOUR))
    await world.fire_after(HOUR)
    equal([f.count for f in await world.fires() if f.cause == "paused"], [60])


@check
async def resuming_what_is_not_paused_changes_nothing(world: World) -> None:
    before = await world.add(plan())
    equal(await world.store.schedules.resume("report"), before)


@check
async def what_was_skipped_in_advance_is_not_counted_among_the_paused(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.skip_next("report", count=2)
    await world.store.schedules.pause("report")
    world.wait(5 * MINUTE)
    await world.store.schedules.resume("report")
    equal([(f.due_at - START, f.count, str(f.cause)) for f in await world.fires()],
          [(MINUTE, 1, "asked"), (2 * MINUTE, 1, "asked"), (5 * MINUTE, 3, "paused")])  # fmt: skip


@check
async def a_skipped_moment_that_is_taken_back_is_fired(world: World) -> None:
    await world.add(plan(overlap="allow"))
    moments = await world.store.schedules.skip_next("report", count=2)
    world.wait(MINUTE)
    await world.fire()
    equal(await world.by("ada").schedules.unskip("report"), moments[1:], "one has passed")
    equal(await world.store.schedules.unskip("report"), [], "nothing is left to take back")
    await world.fire_after(MINUTE)
    equal([(f.due_at - START, str(f.outcome)) for f in await world.fires()],
          [(MINUTE, "skipped"), (2 * MINUTE, "queued")])  # fmt: skip
    [(_, who, what), *_] = await world.store.schedules.changes("report")
    equal((who, what.startswith("took back: skipped Mon 2026-03-02")), ("ada", True), what)


@check
async def a_moment_that_is_left_out_and_paused_is_accounted_for(world: World) -> None:
    await world.add(plan(rule="every 1h", exclude="2026-03-02 14:00 UTC"))
    await world.store.schedules.pause("report")
    world.wait(3 * HOUR)
    await world.store.schedules.resume("report")
    rows = await world.fires()
    equal([(row.due_at - START, row.count, str(row.cause)) for row in rows],
          [(2 * HOUR, 1, "excluded"), (3 * HOUR, 2, "paused")])  # fmt: skip
    for hour, row in ((1, rows[1]), (2, rows[0]), (3, rows[1])):
        equal(await world.store.ledger.covering("report", START + hour * HOUR), row)


@check
async def a_schedule_that_is_rewound_during_a_pause_still_ends_its_pause(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.pause("report", until=START + HOUR)
    world.wait(MINUTE)
    rewound = await world.store.schedules.rewind("report", to=START)
    equal(rewound.next_at, START + HOUR)


@check
async def a_schedule_can_be_run_by_hand_while_it_is_paused(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.pause("report")
    fire = await world.store.schedules.run("report")
    equal(str(fire.outcome), "queued")
    holds((await world.schedule()).pause, "it stays paused")


@check
async def a_manual_run_does_not_stand_for_the_moment_at_which_it_was_made(world: World) -> None:
    await world.add(plan(overlap="allow"))
    await world.store.schedules.skip_next("report")
    await world.store.schedules.pause("report", catch_up=True)
    world.wait(5 * MINUTE)
    await world.store.schedules.run("report")
    equal(await world.store.ledger.covering("report", world.now), None)
    await world.store.schedules.resume("report")
    await world.fire()
    covering = await world.store.ledger.covering("report", world.now)
    equal(covering and (covering.series, str(covering.outcome)), (0, "queued"))


@check
async def a_paused_queue_holds_back_its_jobs_and_no_schedule(world: World) -> None:
    await world.add(plan())
    await world.store.work.set_queue(Queue(name="default", paused=True, note="moving house"))
    await world.fire_after(MINUTE)
    equal(await world.states(), ["ready"])
    equal(await world.claim(10), [])
    equal(await world.store.work.queues(),
          [Queue(name="default", paused=True, note="moving house")])  # fmt: skip
    await world.store.work.set_queue(Queue(name="default"))
    equal(len(await world.claim(10)), 1)


@check
async def a_long_pause_costs_one_row(world: World) -> None:
    await world.add(plan(rule="every 1s"))
    await world.store.schedules.pause("report")
    world.wait(timedelta(days=365))
    await world.store.schedules.resume("report")
    equal([f.count for f in await world.fires()], [365 * 86_400])


@check
async def a_schedule_may_be_added_paused(world: World) -> None:
    [added] = await world.by("ann").schedules.add([plan(rule="spaced 10m")], paused=True)
    equal((added.next_at, added.pause), (None, Pause(since=START, by="ann")))
    equal(await world.schedule(), added)
    await world.fire_after(HOUR)
    equal(await world.fires(), [])
    equal((await world.store.schedules.resume("report")).next_at, world.now)
