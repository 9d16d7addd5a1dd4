"""A database's clock that jumps, and the services of a node that does not believe it.

The services are the engine's own. The node's steady clock is separate from the database's, which
can be set.
"""

from datetime import timedelta

from duly.engine.maintenance import DELETING, Dispatcher, Pruner, Reactor, Reaper
from duly.engine.scheduler import Scheduler
from duly.engine.timekeeper import Timekeeper
from duly.model.event import Emitted
from duly.model.states import State
from duly.store.maintenance import Retention
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, LEASE, MINUTE, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
YEAR = timedelta(days=365)
RETENTION = Retention(history=timedelta(days=1), fires=timedelta(days=1), failed=timedelta(days=1))


class Node:
    """The services of a node, which has looked at the database's clock once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seconds = 1_000.0
        store = world.store
        self.timekeeper = keeper = Timekeeper(store, steady=self.steady)
        self.scheduler = Scheduler(store, timekeeper=keeper, steady=self.steady)
        self.dispatcher = Dispatcher(store, timekeeper=keeper, steady=self.steady)
        self.reactor = Reactor(store, timekeeper=keeper)
        self.reaper = Reaper(store, timekeeper=keeper)
        self.pruner = Pruner(store, timekeeper=keeper, retention=RETENTION)

    @classmethod
    async def started(cls, world: World) -> "Node":
        node = cls(world)
        await node.timekeeper.tick()
        return node

    def steady(self) -> float:
        return self._seconds

    async def live(self, length: timedelta) -> None:
        """Let time pass on both clocks."""
        self._world.wait(length)
        self._seconds += length.total_seconds()
        await self.timekeeper.tick()

    async def watch(self, length: timedelta = DELETING.watched) -> None:
        """The same, in steps that nobody could take for a jump."""
        for _ in range(length // MINUTE):
            await self.live(MINUTE)


@check
async def a_clock_that_is_set_forward_takes_no_job_from_a_worker_that_lives(world: World) -> None:
    node = await Node.started(world)
    worker = await world.new_worker()
    number = await world.enqueue(call())
    await world.claim(worker=worker)
    world.wait(MINUTE)
    await node.reaper.tick()
    equal((await world.job(number)).state, State.RUNNING)
    equal(await world.store.work.listen_to(worker), None)  # it is told, and has time to stop
    await node.live(LEASE - SECOND)
    await node.reaper.tick()
    equal((await world.job(number)).state, State.RUNNING)
    await node.live(LEASE)
    await node.reaper.tick()
    equal((await world.job(number)).state, State.READY)


@check
async def a_step_of_the_clock_that_outlasts_a_lease_is_enough(world: World) -> None:
    node = await Node.started(world)
    worker = await world.new_worker()
    number = await world.enqueue(call())
    await world.claim(worker=worker)
    world.wait(LEASE + 3 * SECOND)
    await node.reaper.tick()
    equal((await world.job(number)).state, State.RUNNING)


@check
async def what_a_dead_worker_held_is_taken_back_whatever_the_clock_says(world: World) -> None:
    node = await Node.started(world)
    dead, alive = await world.new_worker(), await world.new_worker()
    lost, kept = await world.enqueue(call()), await world.enqueue(call())
    await world.claim(worker=dead)
    await world.claim(worker=alive)
    world.wait(HOUR)
    await world.store.work.end_lease(dead)
    await node.reaper.tick()
    equal((await world.job(lost)).state, State.READY)
    equal((await world.job(kept)).state, State.RUNNING)


@check
async def a_clock_that_is_a_year_ahead_for_a_moment_makes_nothing_ready_or_late(
    world: World,
) -> None:
    node = await Node.started(world)
    later = await world.enqueue(call(run_after=timedelta(days=30)))
    late = await world.enqueue(call(run_after=HOUR, start_within=HOUR))
    world.wait(YEAR)
    equal(await node.dispatcher.tick(), SECOND)
    for number in (later, late):
        equal((await world.job(number)).state, State.SCHEDULED)
    world.wait(-YEAR)
    await node.live(MINUTE)
    await node.live(HOUR)
    await node.dispatcher.tick()
    equal((await world.job(late)).state, State.READY)
    equal((await world.job(later)).state, State.SCHEDULED)


@check
async def what_was_asked_to_end_ends_although_the_clock_is_not_believed(world: World) -> None:
    node = await Node.started(world)
    await world.add(plan(rule="every 1h", overlap="allow"))
    await world.fire_after(HOUR)
    node = await Node.started(world)
    job = await world.begin()
    await world.store.jobs.cancel(job.id, reason="enough")
    await world.lose(job)
    world.wait(YEAR)
    await node.dispatcher.tick()
    equal((await world.job(job.id)).state, State.CANCELLED)


@check
async def a_clock_that_is_a_year_ahead_for_a_moment_deletes_nothing(world: World) -> None:
    number = await world.enqueue(call())
    await world.end(await world.begin())
    await world.add(plan())
    await world.fire_after(MINUTE)
    node = await Node.started(world)
    await node.watch()
    world.wait(YEAR)
    for _ in range(3):
        await node.pruner.tick()
        await node.live(MINUTE)
    world.wait(-YEAR)
    equal((await world.job(number)).state, State.SUCCEEDED)
    equal(len(await world.fires()), 1)


@check
async def a_pruner_watches_the_clock_before_it_deletes(world: World) -> None:
    number = await world.enqueue(call())
    await world.end(await world.begin())
    world.wait(timedelta(days=3))
    node = await Node.started(world)
    await node.pruner.tick()
    equal((await world.job(number)).state, State.SUCCEEDED)
    await node.watch()
    while await node.pruner.tick() == timedelta(0):
        pass
    holds(not await world.store.jobs.ended(State.SUCCEEDED), "what is old went")


@check
async def no_event_is_reacted_to_by_a_clock_that_is_not_believed(world: World) -> None:
    node = await Node.started(world)
    await world.add(plan(rule="on doc.changed", start_within=HOUR))
    await world.store.events.emit([Emitted(name="doc.changed")])
    world.wait(YEAR)
    await node.reactor.tick()
    equal(await world.fires(), [])
    world.wait(-YEAR)
    await node.live(MINUTE)
    await node.live(MINUTE)
    await node.reactor.tick()
    equal([fire.outcome for fire in await world.fires()], ["queued"])


@check
async def jobs_wait_for_workers_that_only_a_wrong_clock_has_ended(world: World) -> None:
    node = await Node.started(world)
    await world.new_worker()
    number = await world.enqueue(call())
    world.wait(HOUR)
    await node.live(2 * SECOND)
    node.dispatcher._swept = float("-inf")
    await node.dispatcher.tick()
    equal((await world.job(number)).state, State.READY)


@check
async def a_clock_that_is_two_hours_ahead_for_a_minute_silences_no_schedule(world: World) -> None:
    await world.add(plan(rule="every 1m"))
    node = await Node.started(world)
    await node.scheduler.tick()
    world.wait(2 * HOUR)
    for _ in range(60):
        await node.live(SECOND)
        await node.scheduler.tick()
    world.wait(-2 * HOUR)
    cursor = (await world.schedule()).cursor
    holds(cursor <= world.now, "the cursor is where it was")
    for _ in range(60):
        await node.live(SECOND)
        await node.scheduler.tick()
    equal(len(await world.fires()), 2)  # both minutes that have passed
    holds((await world.schedule()).cursor > cursor, "it goes on")
