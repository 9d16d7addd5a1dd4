"""What keeps things moving, and what is forgotten when its time is over."""

from datetime import timedelta

from duly.errors import NotFound
from duly.model.outcome import Raised
from duly.model.policies import Missed
from duly.model.states import State
from duly.model.terms import Terms
from duly.policy.retry import Retry
from duly.store.database import Ask, Operation
from duly.store.ids import Ids
from duly.store.maintenance import Retention
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

DAY = timedelta(days=1)
WEEK = 7 * DAY
RETENTION = Retention(history=2 * DAY, fires=4 * DAY, failed=6 * DAY)
RETRY = Retry(attempts=2, backoff="constant", first="1m", jitter=False).as_json()


@check
async def due_jobs_are_dispatched_the_oldest_first_as_many_as_asked(world: World) -> None:
    numbers = await world.store.jobs.enqueue([call(run_after=n * MINUTE) for n in (3, 1, 2)])
    world.wait(3 * MINUTE)
    equal((await world.store.maintenance.dispatch(limit=2)).ready, 2)
    equal([str((await world.job(n)).state) for n in numbers], ["scheduled", "ready", "ready"])
    done = await world.store.maintenance.dispatch(limit=2)
    equal((done.ready, done.rest), (1, None))


@check
async def an_idle_dispatcher_may_rest_for_ever(world: World) -> None:
    done = await world.dispatch()
    equal((done.ready, done.hurried, done.expired, done.rest), (0, 0, 0, None))


@check
async def progress_says_what_is_due_and_not_done(world: World) -> None:
    await world.add(plan())
    await world.enqueue(call(), call(), call(run_after=MINUTE), call(run_after=HOUR))
    await world.begin()
    idle = await world.store.maintenance.progress()
    equal((idle.now, idle.oldest_unfired, idle.oldest_undispatched, idle.ready, idle.running),
          (START, None, None, 1, 1))  # fmt: skip
    equal(idle.unfired_for, timedelta(0))
    world.wait(5 * MINUTE)
    late = await world.store.maintenance.progress()
    equal((late.oldest_unfired, late.oldest_undispatched), (START + MINUTE,) * 2)
    equal(late.unfired_for, 4 * MINUTE)
    await world.fire()
    await world.dispatch()
    healed = await world.store.maintenance.progress()
    equal((healed.oldest_unfired, healed.oldest_undispatched, healed.ready), (None, None, 3))


@check
async def history_is_kept_for_its_time_and_failed_jobs_for_longer(world: World) -> None:
    good, bad = await world.store.jobs.enqueue([call(), call()])
    first, second = await world.claim(2)
    await world.end(first)
    await world.end(second, Raised("Oops"))
    world.wait(2 * DAY)
    await world.store.maintenance.prune(RETENTION, limit=100)
    equal([(await world.job(n)).id for n in (good, bad)], [good, bad], "not a day too early")
    world.wait(2 * DAY)
    holds(await world.store.maintenance.prune(RETENTION, limit=100), "something went")
    with refused(NotFound, "been deleted"):
        await world.job(good)
    equal((await world.job(bad)).id, bad)
    equal(len(await world.store.jobs.attempts(bad)), 1)
    world.wait(4 * DAY)
    await world.store.maintenance.prune(RETENTION, limit=100)
    with refused(NotFound):
        await world.job(bad)
    equal(await world.store.jobs.attempts(bad), [])


@check
async def a_task_says_how_long_its_failed_jobs_are_kept(world: World) -> None:
    short, long = (call(terms=Terms(keep_failed=days * DAY)) for days in (1, 30))
    [brief, lasting] = await world.store.jobs.enqueue([short, long])
    for job in await world.claim(2):
        await world.end(job, Raised("Oops"))
    world.wait(DAY - MINUTE)
    await world.store.maintenance.prune(RETENTION, limit=100)
    equal((await world.job(brief)).state, State.FAILED, "not a minute too early")
    world.wait(2 * MINUTE)
    await world.store.maintenance.prune(RETENTION, limit=100)
    with refused(NotFound):
        await world.job(brief)
    equal(await world.store.jobs.attempts(brief), [], "its traceback is gone, too")
    world.wait(28 * DAY)
    await world.store.maintenance.prune(RETENTION, limit=100)
    equal((await world.job(lasting)).state, State.FAILED, "longer than the setting says")
    world.wait(2 * DAY)
    await world.store.maintenance.prune(RETENTION, limit=100)
    with refused(NotFound):
        await world.job(lasting)


@check
async def the_ledger_is_kept_for_its_time(world: World) -> None:
    await world.add(plan(rule="every 24h", overlap="allow"))
    for _ in range(10):
        await world.fire_after(DAY)
        while await world.store.maintenance.prune(RETENTION, limit=100) >= 100:
            pass
    kept = [world.now - fire.due_at for fire in await world.fires()]
    young = {12 * HOUR + n * DAY for n in range(4)}  # it is noon, and they are due at midnight
    holds(young <= set(kept), "what is young enough is there")
    holds(max(kept) < 6 * DAY, "what is too old is gone, give or take a day")
    equal((await world.fire()).fires, 0, "what was forgotten does not come back")


@check
async def what_is_kept_for_less_than_a_day_goes_on_the_same_day(world: World) -> None:
    brief = Retention(history=10 * MINUTE, fires=10 * MINUTE, failed=10 * MINUTE)
    await world.add(plan(overlap="allow"))
    for _ in range(30):
        await world.fire_after(MINUTE)
        for job in await world.claim(1):
            await world.end(job)
        while await world.store.maintenance.prune(brief, limit=2) >= 2:
            pass
    old = world.now - 10 * MINUTE
    fires = await world.fires()
    ended = [job.ended_at for job in await world.store.jobs.ended(State.SUCCEEDED, limit=100)]
    equal([len(fires), len(ended)], [11, 11], "those of the last ten minutes")
    oldest = min([fire.decided_at for fire in fires] + [at for at in ended if at])
    holds(oldest >= old, "nothing older is there")


@check
async def a_moment_of_long_ago_that_was_decided_today_is_kept_for_its_time(world: World) -> None:
    await world.add(plan(rule="every 24h", missed=Missed("all", at_most=10)))
    await world.fire_after(30 * DAY)
    await world.store.maintenance.prune(RETENTION, limit=100)
    equal([fire.count for fire in await world.fires()], [20, *[1] * 10])


@check
async def what_lives_is_never_forgotten(world: World) -> None:
    await world.add(plan(rule="every 8736h"))
    await world.enqueue(call(run_after=60 * DAY), call(), call(retry=RETRY))
    before = await world.live()
    world.wait(40 * DAY)
    await world.store.maintenance.prune(RETENTION, limit=100)
    equal(await world.live(), before)
    equal((await world.schedule()).plan.name, "report")


@check
async def pruning_is_done_in_pieces(world: World) -> None:
    await world.enqueue(*(call() for _ in range(5)))
    for job in await world.claim(5):
        await world.end(job, Raised("Oops"))
    world.wait(2 * WEEK)
    holds(await world.store.maintenance.prune(RETENTION, limit=2) >= 2, "as many as the limit")
    while await world.store.maintenance.prune(RETENTION, limit=2) >= 2:
        pass
    with refused(NotFound):
        await world.job(1)
    equal(await world.store.maintenance.prune(RETENTION, limit=2), 0)


@check
async def workers_that_are_gone_are_forgotten(world: World) -> None:
    await world.new_worker()
    world.wait(DAY)
    alive = await world.new_worker()
    await world.store.maintenance.prune(RETENTION, limit=100)
    equal([worker.id for worker in await world.store.work.workers()], [alive])


@check
async def a_worker_whose_jobs_were_not_taken_back_is_not_forgotten(world: World) -> None:
    await world.enqueue(call())
    worker = await world.new_worker()
    await world.claim(1, worker=worker)
    world.wait(DAY)
    await world.store.maintenance.prune(RETENTION, limit=100)
    equal((await world.take_back()).lost, 1)


@check
async def the_net_finds_nothing_where_all_is_well(world: World) -> None:
    await world.add(plan(overlap="queue_all"), plan("delay", "spaced 10m"))
    await world.fire()
    for _ in range(3):
        await world.fire_after(MINUTE)
    equal(await world.store.maintenance.sweep(limit=100), 0)
    await world.claim(1)
    equal(await world.store.maintenance.sweep(limit=100), 0)


@check
async def what_waits_behind_nothing_is_found_by_the_net(world: World) -> None:
    await world.add(plan(overlap="queue_all"))
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)
    await _vanish(world, (await world.begin()).id)
    equal(await world.states(), ["blocked"])
    equal(await world.store.maintenance.sweep(limit=100), 1)
    equal(await world.states(), ["ready"])
    equal(await world.store.maintenance.sweep(limit=100), 0)


@check
async def a_delay_that_waits_for_nothing_is_found_by_the_net(world: World) -> None:
    await world.add(plan(rule="spaced 10m"))
    await world.fire()
    await _vanish(world, (await world.begin()).id)
    equal(await world.store.maintenance.sweep(limit=100), 1)
    found = await world.schedule()
    equal((found.awaiting, found.next_at), (None, world.now + 10 * MINUTE))


async def _vanish(world: World, number: int) -> None:
    """Take a job away behind the back of everybody who waits for it."""

    def vanish(_: Ids) -> Operation[None]:
        yield Ask("forget_jobs", {"ids": [number]})

    await world.write(vanish)
