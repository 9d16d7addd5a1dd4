"""Who workers are, that they live, and what they are told."""

from dataclasses import replace
from datetime import timedelta

from duly.errors import InvalidValue
from duly.model.outcome import Returned
from duly.model.states import State
from duly.model.worker import Host, Profile, WorkerInfo
from duly.policy.verdict import HAUNTED, POISON
from duly.store.work import Beat
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import LEASE, MARGIN, MINUTE, START, World
from tests.factories import call

SECOND = timedelta(seconds=1)
DISTINCT = Profile(
    name="the name",
    queues=("first queue", "second queue"),
    signatures={"a task": "its signature", "ä task": "another signature"},
    slots=7,
    resources={"gpu": 2, "tokens": 11},
    isolates=True,
    host=Host(boot="the boot", space="the space", pid=13, born=17),
    version="the version",
    app="the app",
)


async def _info(world: World, worker: int) -> WorkerInfo:
    return next(info for info in await world.store.work.workers() if info.id == worker)


async def _heard(world: World, worker: int) -> Beat | None:
    """What a worker hears, which is the same whether it prolongs its lease or only listens."""
    heard = await world.store.work.listen_to(worker)
    equal(await world.store.work.renew(worker, LEASE), heard)
    return heard


@check
async def a_worker_is_known_with_all_that_it_says_of_itself(world: World) -> None:
    info = await world.store.work.register(DISTINCT, lease=LEASE)
    equal(info.profile, DISTINCT)
    equal((info.started_at, info.beat_at, info.lease_until), (START, START, START + LEASE))
    equal((info.running, info.order, info.slots_ordered), (0, "run", None))
    equal(await world.store.work.workers(), [info])
    plain = replace(DISTINCT, isolates=False, resources={}, host=Host())
    equal((await world.store.work.register(plain, lease=LEASE)).profile, plain)


@check
async def a_beat_prolongs_the_lease_and_says_how_much_runs(world: World) -> None:
    worker = await world.new_worker()
    world.wait(LEASE - SECOND)
    equal(await world.store.work.renew(worker, LEASE, running=3), Beat(order="run"))
    info = await _info(world, worker)
    equal((info.lease_until, info.beat_at, info.running), (world.now + LEASE, world.now, 3))
    equal(info.started_at, START)


@check
async def whoever_only_listens_prolongs_nothing(world: World) -> None:
    worker = await world.new_worker()
    before = await _info(world, worker)
    world.wait(LEASE - SECOND)
    equal(await world.store.work.listen_to(worker), Beat(order="run"))
    equal(await _info(world, worker), before)
    world.wait(SECOND)
    equal(await world.store.work.listen_to(worker), None)


@check
async def a_lease_that_is_over_is_over_for_ever(world: World) -> None:
    expired, ended, there = [await world.new_worker() for _ in range(3)]
    await world.store.work.end_lease(ended)
    world.wait(LEASE - SECOND)
    await world.store.work.renew(there, LEASE)
    world.wait(SECOND)
    for worker in (expired, ended, 4711):
        before = await world.store.work.workers()
        equal(await world.store.work.renew(worker, LEASE), None)
        equal(await world.store.work.listen_to(worker), None)
        equal(await world.store.work.tell(worker, "stop"), 0)
        equal(await world.store.work.workers(), before)
    equal([info.id for info in await world.store.work.living()], [there])
    world.wait(-2 * SECOND)
    equal(await world.store.work.listen_to(ended), None, "whatever the clock says")


@check
async def jobs_of_a_worker_that_ended_its_lease_are_taken_back_at_once(world: World) -> None:
    await world.enqueue(call(), call())
    ending, other = await world.new_worker(), await world.new_worker()
    [job] = await world.claim(1, worker=ending)
    await world.claim(1, worker=other)
    equal((await world.take_back()).lost, 0)
    await world.store.work.end_lease(ending)
    equal((await world.take_back()).lost, 1, "without a margin")
    equal((await world.job(job.id)).state, State.READY)
    world.wait(LEASE)
    equal((await world.take_back()).lost, 0, "the others have their margin")
    world.wait(MARGIN)
    equal((await world.take_back()).lost, 1)


@check
async def an_order_reaches_the_workers_of_a_name_or_one_by_its_number(world: World) -> None:
    [a, b, other] = [await world.new_worker(name=name) for name in ("web", "web", "night")]
    tell = world.store.work.tell
    equal(await tell("web", "drain"), 2)
    equal([(await _heard(world, w)) for w in (a, b, other)],
          [Beat(order="drain"), Beat(order="drain"), Beat(order="run")])  # fmt: skip
    equal(await tell(b, "stop"), 1)
    equal([info.order for info in await world.store.work.workers()], ["drain", "stop", "run"])
    equal((await tell("nobody", "stop"), await tell(4711, "stop")), (0, 0))
    equal(await tell("web", "run"), 2)
    equal(await _heard(world, b), Beat(order="run"), "the last one counts")


@check
async def an_order_is_heard_until_there_is_another_and_slots_stay(world: World) -> None:
    worker = await world.new_worker()
    tell = world.store.work.tell
    await tell(worker, "run", slots=5)
    for _ in range(2):
        equal(await _heard(world, worker), Beat(order="run", slots=5))
    await tell(worker, "drain")
    equal(await _heard(world, worker), Beat(order="drain", slots=5), "slots were not spoken of")
    await tell(worker, "run", slots=2)
    info = await _info(world, worker)
    equal((info.order, info.slots_ordered, info.profile.slots), ("run", 2, 1))


@check
async def a_worker_that_comes_again_under_a_name_begins_without_orders(world: World) -> None:
    await world.new_worker(name="web")
    await world.store.work.tell("web", "stop", slots=0)
    again = await world.new_worker(name="web")
    equal(await _heard(world, again), Beat(order="run"))


@check
async def a_worker_hears_which_of_its_jobs_are_asked_to_end_and_why(world: World) -> None:
    await world.enqueue(*(call(title=title) for title in "abc"))
    mine, theirs = await world.new_worker(), await world.new_worker()
    first, second = await world.claim(2, worker=mine)
    [third] = await world.claim(1, worker=theirs)
    equal(await _heard(world, mine), Beat(order="run"))
    await world.store.jobs.cancel(second.id, reason="not wanted")
    await world.store.jobs.cancel(third.id)
    for _ in range(2):
        equal(await _heard(world, mine),
              Beat(order="run", signals={second.id: "cancelled: not wanted"}))  # fmt: skip
    equal(await _heard(world, theirs), Beat(order="run", signals={third.id: "cancelled"}))
    await world.end(second)
    equal(await _heard(world, mine), Beat(order="run"), "it has ended")
    equal((await world.job(first.id)).state, State.RUNNING)


@check
async def a_job_that_others_run_by_now_is_not_their_business_any_more(world: World) -> None:
    number = await world.enqueue(call())
    slow = await world.new_worker(lease=timedelta(days=1))
    [job] = await world.claim(1, worker=slow)
    await world.store.work.settle([world.settlement(job, Returned())])
    await world.claim(1)
    await world.store.jobs.cancel(number)
    equal((list(await world.signals(slow)), list(await world.signals())), ([], [number]))


@check
async def jobs_that_run_alone_are_given_up_later(world: World) -> None:
    number = await world.enqueue(call())
    for crash in range(1, HAUNTED + 1):
        worker = await world.new_worker(isolates=True)
        [job] = await world.claim(1, worker=worker)
        taken = await world.lose(job)
        equal((taken.lost, taken.poisoned), (1, int(crash == HAUNTED)), f"crash {crash}")
    equal((await world.job(number)).state, State.FAILED)


@check
async def a_job_that_crashes_a_worker_which_isolates_nothing_is_given_up_soon(world: World) -> None:
    number = await world.enqueue(call())
    for crash in range(1, POISON + 1):
        [job] = await world.claim(1, worker=await world.new_worker(isolates=crash < POISON))
        equal((await world.lose(job)).poisoned, int(crash == POISON))
    holds("3 times" in (await world.job(number)).reason, "it says how often")


@check
async def what_a_worker_held_is_known_until_it_is_settled_or_taken_back(world: World) -> None:
    await world.enqueue(call(), call(), call())
    worker = await world.new_worker()
    first, second, third = await world.claim(3, worker=worker)
    await world.end(first)
    held = await world.store.work.claimed_by(worker)
    equal([job.job for job in held], [second, third])
    world.wait(MINUTE)
    equal(len(await world.store.work.claimed_by(worker)), 2, "though its lease is over")
    await world.take_back()
    equal(await world.store.work.claimed_by(worker), [])


@check
async def a_worker_whose_task_another_app_runs_from_the_same_queue_is_refused(world: World) -> None:
    work = world.store.work
    ours = replace(DISTINCT, app="tasks:duly", queues=("a", "b"))
    theirs = replace(DISTINCT, app="billing:duly", queues=("b", "c"))
    first = await work.register(ours, lease=LEASE)
    with refused(InvalidValue, "tasks:duly"):
        await work.register(theirs, lease=LEASE)
    for harmless in (
        ours,
        replace(theirs, queues=("c",)),
        replace(theirs, signatures={"another task": "its signature", "duly.shell": ""}),
        replace(theirs, app=""),
    ):
        await work.register(harmless, lease=LEASE)
    equal(len(await work.living()), 5, "nothing of the one that was refused is kept")
    for info in await work.living():
        await work.end_lease(info.id)
    equal((await work.register(theirs, lease=LEASE)).profile, theirs)
    equal(first.profile.app, "tasks:duly")
