"""Where a worker looks for work, and what it is given there: with care, and in passing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from duly.engine.maintenance import MARGIN, judged
from duly.model.job import Claimed, JobRequest
from duly.model.limit import NamedLimit, Queue, Rate
from duly.model.outcome import Mismatched, Raised, Returned
from duly.model.states import State
from duly.policy.retry import Retry
from duly.store.values import CAREFUL, CLOCK, IDLE, LOW, NORMAL, SUSPECT
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import LEASE, MINUTE, START, World
from tests.factories import NEEDED, call, distinct_call, plan

LANE = NamedLimit(name="crm", template="crm", concurrency=5)
IN_PASSING = (NORMAL, LOW, IDLE, SUSPECT)
KINDS: dict[int, JobRequest] = {
    NORMAL: call(title="normal", priority=-49),
    LOW: call(title="low", priority=-50),
    IDLE: call(title="idle", priority=-100),
    CAREFUL: call(title="careful", priority=-100, limits=(LANE,)),
}


async def _with_care(world: World, limit: int = 10, **changes: Any) -> list[Claimed]:
    request = await world.claim_request(limit, **changes)
    return list((await world.store.work.claim(request)).jobs)


async def _in_passing(world: World, limit: int = 10, **changes: Any) -> list[Claimed]:
    return list((await world.finish_and_claim(limit, **changes)).jobs)


def _titles(jobs: list[Claimed]) -> list[str]:
    return [job.title for job in jobs]


@check
async def on_each_shelf_there_are_the_jobs_of_its_kind(world: World) -> None:
    for ask in (_with_care, _in_passing):
        await world.enqueue(*reversed(KINDS.values()), call(title="low", priority=-99))
        shelves = [(shelf, _titles(await ask(world, shelf=shelf))) for shelf in (NORMAL, LOW, IDLE)]
        equal(shelves, [(NORMAL, ["normal"]), (LOW, ["low", "low"]), (IDLE, ["idle"])])
    equal(_titles(await _with_care(world, shelf=CAREFUL)), ["careful", "careful"])


@check
async def what_has_limits_or_needs_is_not_claimed_in_passing(world: World) -> None:
    needy = call(title="needy", needs={"gpu": 1})
    await world.enqueue(KINDS[CAREFUL], needy)
    for shelf in (*IN_PASSING, CAREFUL):
        equal(await _in_passing(world, shelf=shelf), [])
    equal(_titles(await _with_care(world, shelf=CAREFUL, free={"gpu": 1})), ["needy", "careful"])


@check
async def what_crashed_with_its_worker_is_found_among_the_suspects(world: World) -> None:
    for ask in (_with_care, _in_passing):
        number = await world.enqueue(call())
        [job] = await ask(world)
        await world.lose(job)
        for shelf in (NORMAL, LOW, IDLE, CAREFUL):
            equal(await ask(world, shelf=shelf), [], "not among the innocent")
        [suspect] = await ask(world, shelf=SUSPECT)
        equal((suspect.id, suspect.attempt, suspect.crashes), (number, 2, 1))
        await world.end(suspect)


@check
async def what_had_not_begun_when_its_worker_died_is_not_a_suspect(world: World) -> None:
    number = await world.enqueue(call())
    for begun in (False, True):
        [job] = await _with_care(world)
        equal(await world.store.work.note_begin(job, begun=False), True)
        if begun:
            equal(await world.store.work.note_begin(job, begun=True), True)
        await world.store.work.end_lease(world.worker)
        world.worker = 0
        await world.store.maintenance.take_back(judged, after=0, margin=MARGIN, limit=10)
        equal(await world.store.work.note_begin(job, begun=True), False, "it is not claimed")
        found = await world.job(number)
        equal((found.state, found.attempt, found.crashes), (State.READY, int(begun), int(begun)))


@check
async def what_has_limits_is_claimed_with_care_even_after_a_crash(world: World) -> None:
    await world.enqueue(call(limits=(LANE,)))
    [job] = await _with_care(world, shelf=CAREFUL)
    await world.lose(job)
    equal(await _with_care(world, shelf=SUSPECT), [])
    equal([job.crashes for job in await _with_care(world, shelf=CAREFUL)], [1])


@check
async def a_job_that_is_moved_changes_its_shelf_too(world: World) -> None:
    await world.enqueue(call(key="k"))
    for shelf, kind in KINDS.items():
        await world.enqueue(replace(kind, key="k"))
        equal(await world.ready(), [("default", shelf)])
    await world.enqueue(call(key="k"))
    equal(await world.ready(), [("default", NORMAL)])


@check
async def jobs_of_schedules_and_those_that_are_hurried_stand_where_they_belong(
    world: World,
) -> None:
    await world.add(plan(priority=-50), plan("limited", limits=(LANE,)))
    await world.fire_after(MINUTE)
    equal(await world.ready(), [("default", LOW), ("default", CAREFUL)])
    for job in await world.live():
        await world.store.jobs.cancel(job.id)
    await world.enqueue(call(priority=-100, start_within=MINUTE, late="hurry"))
    equal(await world.ready(), [("default", IDLE)])
    world.wait(2 * MINUTE)
    equal((await world.dispatch()).hurried, 1)
    equal(await world.ready(), [("default", NORMAL)])


@check
async def whoever_waits_again_stands_where_it_belongs(world: World) -> None:
    retry = Retry(attempts=2, backoff="constant", first="1m", jitter=False).as_json()
    for kind in (KINDS[LOW], KINDS[CAREFUL]):
        await world.enqueue(replace(kind, retry=retry))
        place = await world.ready()
        await world.end(await world.begin(), Returned())
        equal(await world.ready(), place)
        await world.end(await world.begin(), Mismatched("it has two", "old"))
        await world.new_worker(signatures={"work": "new"})
        await world.free_unfit()
        equal(await world.ready(), place)
        await world.end(await world.begin(), Raised("Oops"))
        world.wait(MINUTE)
        await world.dispatch()
        equal(await world.ready(), place)
        await world.end(await world.begin())


@check
async def another_chance_forgets_the_crashes(world: World) -> None:
    number = await world.enqueue(call())
    await world.lose(await world.begin())
    await world.end(await world.begin(), Raised("Oops"))
    await world.store.jobs.retry(number)
    equal(await world.ready(), [("default", NORMAL)])


@check
async def ready_says_where_there_is_something_to_claim(world: World) -> None:
    equal(await world.ready("default", "b"), [])
    await world.enqueue(call(run_after=MINUTE), call(queue="c"))
    equal(await world.ready("default", "b"), [], "neither what is due later nor other queues")
    await world.enqueue(call(queue="b", priority=-50), *KINDS.values(), call(queue="b"))
    equal(await world.ready("default", "b"),
          [("b", NORMAL), ("b", LOW), *(("default", shelf) for shelf in KINDS)])  # fmt: skip
    equal(await world.store.work.ready([], ["work"]), [])
    [job] = await _with_care(world)
    equal(await world.ready(), [("default", shelf) for shelf in (LOW, IDLE, CAREFUL)])
    await world.lose(job)
    equal((await world.ready())[-1], ("default", SUSPECT))


@check
async def ready_names_the_tasks_where_others_wait_too(world: World) -> None:
    ready = world.store.work.ready
    await world.enqueue(call("a"), call("b"), call("a"), call("c", queue="other"))
    equal(await ready(["default", "other"], ["a", "b", "d"]), [("default", NORMAL, ())])
    await world.enqueue(call("c"), call("a", priority=-50))
    equal(await ready(["default", "other"], ["a", "b", "d"]),
          [("default", NORMAL, ("a", "b")), ("default", LOW, ())])  # fmt: skip
    equal(await ready(["default", "other"], ["e"]), [], "what waits is for others")


@check
async def among_jobs_of_others_the_most_urgent_of_each_task_is_found(world: World) -> None:
    for ask in (_with_care, _in_passing):
        await world.enqueue(
            *(call("other", priority=50) for _ in range(5)),
            *(call("a", title=f"a{p}", priority=p) for p in (0, 9, 5)),
            *(call("b", title=f"b{p}", priority=p) for p in (7, 1)),
            call("c", title="c", priority=99),
        )
        request: dict[str, Any] = {"tasks": ["a", "b", "c"], "among": ["a", "b"]}
        equal(_titles(await ask(world, 3, **request)), ["a9", "b7", "a5"])
        equal(_titles(await ask(world, 3, **request)), ["b1", "a0"])
        equal(await ask(world, 3, **request), [])
        equal(_titles(await ask(world, 9, tasks=["c"], among=["c"])), ["c"])
        for job in await world.live():
            if job.state == "ready":
                await world.store.jobs.cancel(job.id)


@check
async def among_jobs_of_others_the_limits_of_the_queue_hold_too(world: World) -> None:
    await world.enqueue(*(call("a") for _ in range(5)), call("other"))
    await world.store.work.set_queue(Queue(name="default", concurrency=2))
    request: dict[str, Any] = {"tasks": ["a"], "among": ["a"]}
    equal(await _in_passing(world, **request), [], "not in passing")
    equal(len(await _with_care(world, **request)), 2)
    await world.store.work.set_queue(Queue(name="default", paused=True))
    equal(await _with_care(world, **request), [])


@check
async def moments_of_schedules_stand_apart_from_what_is_enqueued(world: World) -> None:
    await world.enqueue(*(call(title=str(n), priority=50) for n in range(5)))
    retry = Retry(attempts=2, backoff="constant", first="1m", jitter=False).as_json()
    await world.add(plan(retry=retry))
    await world.fire_after(MINUTE)
    equal(await world.ready(), [("default", NORMAL), ("default", CLOCK)])
    [job] = await _with_care(world, shelf=CLOCK)
    holds(job.schedule_id is not None, "it is the moment")
    await world.end(job, Raised("Oops"))
    world.wait(MINUTE)
    await world.dispatch()
    equal([again.id for again in await _in_passing(world, shelf=CLOCK)], [job.id], "its retry does")


@check
async def nothing_below_the_floor_is_looked_for(world: World) -> None:
    await world.enqueue(call(title="first"), call(title="second"))
    world.wait(MINUTE)
    await world.enqueue(call(title="third"))
    [first] = await _in_passing(world, 1)
    equal(await _in_passing(world, floor=first.rank + 61_000_000), [])
    equal(_titles(await _in_passing(world, floor=first.rank + 1)), ["third"])
    equal(_titles(await _in_passing(world, floor=first.rank)), ["second"], "as high as the floor")


@check
async def the_most_urgent_come_first_and_no_more_than_asked_for(world: World) -> None:
    for ask in (_with_care, _in_passing):
        await world.enqueue(*(call(title=str(p), priority=p) for p in (0, 50, 5, 0)))
        equal(_titles(await ask(world, 3)), ["50", "5", "0"])
        equal(_titles(await ask(world, 3)), ["0"])
        equal(await ask(world, 3), [])


@check
async def only_tasks_that_are_known_and_the_queue_that_is_named_are_claimed(world: World) -> None:
    for ask in (_with_care, _in_passing):
        numbers = await world.store.jobs.enqueue([call("unknown"), call("x"), call("x", queue="b")])
        equal(await ask(world, tasks=[]), [])
        equal([job.id for job in await ask(world, tasks=["x", "y"])], [numbers[1]])
        equal([job.id for job in await ask(world, tasks=["x", "y"], queue="b")], [numbers[2]])
        for job in await world.live():
            if job.state == "ready":
                await world.store.jobs.cancel(job.id)


@check
async def only_a_worker_with_a_lease_is_given_jobs(world: World) -> None:
    await world.enqueue(call(), KINDS[CAREFUL])
    ended, expired = await world.new_worker(), await world.new_worker()
    await world.store.work.end_lease(ended)
    world.wait(LEASE)
    for worker in (ended, expired, 4711):
        for shelf in range(NORMAL, SUSPECT + 1):
            equal(await _with_care(world, worker=worker, shelf=shelf), [])
            equal(await _in_passing(world, worker=worker, shelf=shelf), [])
    equal(await world.states(), ["ready", "ready"])
    equal(
        [named_limit.running for named_limit in await world.store.limits.listed()],
        [0],
        "nor a place",
    )


@check
async def a_queue_that_is_not_plain_is_not_claimed_from_in_passing(world: World) -> None:
    await world.enqueue(call())
    for queue in (
        Queue(name="default", paused=True),
        Queue(name="default", concurrency=100),
        Queue(name="default", rate=Rate(1_000, timedelta(seconds=1))),
        Queue(name="default", fair=True),
    ):
        await world.store.work.set_queue(queue)
        equal(await _in_passing(world), [], f"{queue}")
    await world.store.work.set_queue(Queue(name="other", paused=True))
    await world.store.work.set_queue(Queue(name="default", note="as it was"))
    equal(len(await _in_passing(world)), 1)


@check
async def a_worker_is_given_the_job_with_every_column(world: World) -> None:
    wanted = replace(distinct_call(), key=None)
    plain = replace(wanted, limits=(), needs={})
    for ask, asked, shelf in ((_with_care, wanted, CAREFUL), (_in_passing, plain, NORMAL)):
        number = await world.enqueue(asked)
        [job] = await ask(world, queue="the queue", shelf=shelf, free=NEEDED)
        equal(job.job, await world.job(number))
        equal(
            (job.limits is None, job.needed, job.terms), (asked is plain, asked.needs, asked.terms)
        )
        equal(job.moment(1.5), START + timedelta(seconds=1.5))
        equal(await world.store.work.claimed_by(world.worker), [job])
        await world.end(job)


@check
async def a_job_is_given_to_one_worker_however_it_is_asked_for(world: World) -> None:
    await world.enqueue(*(call() for _ in range(8)))
    other = world.another_node()
    claimed = [
        job for node in (world, other, world, other)
        for ask in (_with_care, _in_passing) for job in await ask(node, 1)
    ]  # fmt: skip
    equal(len({job.id for job in claimed}), 8)
    mine = [job.id for job in await world.store.work.claimed_by(world.worker)]
    holds(mine == sorted(job.id for job in claimed if job.worker == world.worker), "its own")


@check
async def a_job_of_a_schedule_comes_with_its_name(world: World) -> None:
    await world.add(plan("often", overlap="allow"))
    await world.fire_after(MINUTE)
    await world.fire_after(MINUTE)
    await world.enqueue(call())
    fires = await world.fires("often")
    told = sorted((fire.id, "often", fire.due_at) for fire in fires)
    given = [
        *(await world.finish_and_claim(1)).jobs,
        *(await world.finish_and_claim(1, shelf=CLOCK)).jobs,
        *await _with_care(world, 1, shelf=CLOCK),
    ]
    equal(sorted(job.fire or () for job in given), [(), *told], "in passing, and with care")
    held = await world.store.work.claimed_by(await world.the_worker())
    equal(sorted(job.fire or () for job in held if job.fire_id), told, "asked for again")
    await world.store.schedules.remove("often")
    held = await world.store.work.claimed_by(await world.the_worker())
    gone = sorted((fire.id, None, fire.due_at) for fire in fires)
    equal(sorted(job.fire or () for job in held if job.fire_id), gone, "it is gone")
