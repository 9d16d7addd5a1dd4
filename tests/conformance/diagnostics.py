"""What a store stands on can be read: its clock, who is expected to work, who left jobs behind."""

from duly.model.policies import Missed
from duly.rules import zone_data_version
from duly.store.diagnostics import Orphans, WantedTask
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, LEASE, MINUTE, START, World
from tests.factories import call, plan


@check
async def the_stores_clock_can_be_read(world: World) -> None:
    equal(await world.store.diagnostics.now(), START)
    world.wait(HOUR)
    equal(await world.store.diagnostics.now(), START + HOUR)


@check
async def the_newest_writing_is_a_schedulers_or_a_workers(world: World) -> None:
    newest = world.store.diagnostics.newest
    await world.add(plan())
    equal(await newest(), None, "to add a schedule is a person's work")
    number = await world.new_worker()
    equal(await newest(), START)
    world.wait(LEASE / 2)
    await world.store.work.renew(number, LEASE)
    equal(await newest(), START + LEASE / 2)
    await world.fire_after(MINUTE)
    equal(await newest(), world.now)


@check
async def the_database_says_how_it_is_set_up(world: World) -> None:
    settings = await world.store.diagnostics.settings()
    holds("sqlite_version" in settings or "server_version_num" in settings, str(settings))


@check
async def every_next_moment_is_counted_by_its_zone_data(world: World) -> None:
    equal(dict(await world.store.diagnostics.zone_data()), {})
    await world.add(plan(), plan("other", "every 1h"))
    equal(dict(await world.store.diagnostics.zone_data()), {zone_data_version(): 2})


@check
async def a_task_is_wanted_by_jobs_that_have_not_begun_and_schedules_that_go_on(
    world: World,
) -> None:
    await world.add(
        plan(needs={"gpu": 1}),
        plan("paused", task="other"),
        plan("over", "2020-01-01 12:00 UTC", task="past", missed=Missed("skip")),
    )
    await world.store.schedules.pause("paused")
    await world.enqueue(call("send"), call("send", run_after=HOUR), call(queue="mail"))
    await world.enqueue(call())
    await world.begin()
    await world.fire()
    equal(
        await world.store.diagnostics.wanted(),
        [
            WantedTask(task="send", queue="default", jobs=2),
            WantedTask(task="work", queue="mail", jobs=1),
            WantedTask(task="work", queue="default", schedules=1, needs={"gpu": 1}),
        ],
    )
    equal(len(await world.store.diagnostics.wanted(limit=1)), 1)


@check
async def those_who_live_can_be_read_without_writing(world: World) -> None:
    await world.new_worker(name="anna")
    world.wait(LEASE)
    await world.new_worker(name="berta")
    living = await world.store.diagnostics.living()
    equal([worker.name for worker in living], ["berta"])
    equal(living, await world.store.work.living())


@check
async def jobs_are_orphans_when_the_lease_of_their_worker_has_ended(world: World) -> None:
    anna, berta = await world.new_worker(name="anna"), await world.new_worker(name="berta")
    await world.enqueue(call(), call(), call())
    await world.claim(2, worker=anna)
    await world.claim(1, worker=berta)
    equal(await world.store.diagnostics.orphans(), [])
    dying = Orphans(worker=anna, name="anna", jobs=2, ended_at=START + LEASE)
    equal(await world.store.diagnostics.orphans(dead=[anna, 4711]), [dying], "somebody saw it die")
    await world.store.work.end_lease(berta)
    ended = Orphans(worker=berta, name="berta", jobs=1, ended_at=None)
    equal(await world.store.diagnostics.orphans(), [ended])
    world.wait(LEASE)
    lapsed = Orphans(worker=anna, name="anna", jobs=2, ended_at=START + LEASE)
    equal(await world.store.diagnostics.orphans(), [lapsed, ended])
    await world.take_back()
    equal(await world.store.diagnostics.orphans(), [lapsed], "its margin is not over")
