"""One fire for each due moment, in one go with its job and the schedule's next moment."""

from datetime import datetime, timedelta

from duly.model.fire import CLOCK
from duly.model.limit import Queue
from duly.model.policies import Policies
from duly.policy.firing import decide
from duly.store.values import CLOCK as SHELF
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan

MICROSECOND = timedelta(microseconds=1)


@check
async def a_due_moment_becomes_a_fire_and_a_job(world: World) -> None:
    schedule = await world.add(plan())
    world.wait(MINUTE)
    fired = await world.fire()
    equal((fired.schedules, fired.fires, fired.jobs, fired.faults), (1, 1, 1, []))
    equal((fired.lateness, fired.rest, fired.distrusted), (timedelta(0), MINUTE, False))
    [fire] = await world.fires()
    equal((fire.schedule_id, fire.due_at, fire.covers_from, fire.decided_at),
          (schedule.id, world.now, world.now, world.now))  # fmt: skip
    equal((fire.count, str(fire.outcome), fire.cause, fire.series), (1, "queued", None, CLOCK))
    job = await world.job(fire.job_id)
    equal((str(job.state), job.due_at, job.ready_at), ("ready", world.now, world.now))
    equal((job.schedule_id, job.fire_id, job.attempt), (schedule.id, fire.id, 0))


@check
async def the_schedule_then_stands_at_now_and_looks_at_the_next_moment(world: World) -> None:
    before = await world.add(plan())
    world.wait(MINUTE + timedelta(seconds=7))
    await world.fire()
    after = await world.schedule()
    equal((after.cursor, after.next_at), (world.now, START + 2 * MINUTE))
    holds(after.revision > before.revision, "the revision rises")


@check
async def nothing_is_fired_before_its_moment(world: World) -> None:
    await world.add(plan())
    world.wait(MINUTE - MICROSECOND)
    fired = await world.fire()
    equal((fired.schedules, fired.rest), (0, MICROSECOND))
    world.wait(MICROSECOND)
    equal((await world.fire()).schedules, 1)


@check
async def a_moment_is_fired_once_however_often_it_is_asked(world: World) -> None:
    await world.add(plan())
    world.wait(MINUTE)
    for _ in range(3):
        await world.fire()
    equal((len(await world.fires()), len(await world.live())), (1, 1))


@check
async def two_nodes_give_a_moment_one_fire_and_one_job(world: World) -> None:
    other = world.another_node()
    await world.add(*(plan(f"s{n}") for n in range(4)))
    for turn in range(1, 4):
        world.wait(MINUTE)
        first, second = (world, other) if turn % 2 else (other, world)
        equal((await first.fire()).schedules, 4)
        equal((await second.fire()).schedules, 0)
        for job in await world.claim(10):
            await world.end(job)
        for n in range(4):
            equal(len(await world.fires(f"s{n}")), turn)


@check
async def a_clock_that_goes_back_fires_nothing_twice(world: World) -> None:
    await world.add(plan(overlap="allow"))
    await world.fire_after(2 * MINUTE)
    world.wait(-MINUTE)
    await world.fire()
    await world.fire_after(MINUTE)
    equal([f.due_at for f in await world.fires()], [START + MINUTE, START + 2 * MINUTE])
    equal(len(await world.live()), 1)


@check
async def a_clock_that_is_not_believed_fires_nothing(world: World) -> None:
    await world.add(plan())
    world.wait(HOUR)
    seen: list[datetime] = []

    def doubt(now: datetime) -> bool:
        seen.append(now)
        return False

    fired = await world.store.ledger.fire(decide, limit=10, trust=doubt)
    equal((fired.schedules, fired.distrusted, seen), (0, True, [world.now]))
    equal(await world.fires(), [])
    equal((await world.fire()).schedules, 1, "and nothing is lost by it")


@check
async def the_most_overdue_are_fired_first_and_the_rest_waits_for_the_next_pass(
    world: World,
) -> None:
    await world.add(*(plan(f"s{n}", f"every {n}m") for n in (3, 1, 2)))
    world.wait(3 * MINUTE)
    first = await world.fire(limit=2)
    equal((first.schedules, first.lateness), (2, 2 * MINUTE))
    equal([len(await world.fires(f"s{n}")) for n in (1, 2, 3)], [2, 1, 0])
    equal(first.rest, timedelta(0), "another one is due now")
    equal((await world.fire(limit=2)).rest, MINUTE)


@check
async def nothing_is_due_in_an_empty_store(world: World) -> None:
    fired = await world.fire()
    equal((fired.schedules, fired.rest, fired.distrusted), (0, None, False))


@check
async def many_schedules_are_fired_in_one_pass(world: World) -> None:
    await world.store.schedules.add([plan(f"s{n:04}") for n in range(700)])
    world.wait(MINUTE)
    fired = await world.fire(limit=1_000)
    equal((fired.schedules, fired.fires, fired.jobs), (700, 700, 700))
    equal(len(await world.live()), 700)


@check
async def the_last_moment_is_the_last(world: World) -> None:
    await world.add(plan(end=START + 2 * MINUTE, overlap="allow"))
    await world.fire_after(MINUTE)
    fired = await world.fired_after(MINUTE)
    equal([f.due_at for f in fired], [START + 2 * MINUTE], "the end belongs to it")
    equal((await world.schedule()).next_at, None)
    equal((await world.fire()).rest, None)


@check
async def a_schedule_with_a_start_waits_for_it(world: World) -> None:
    added = await world.add(plan(start=START + timedelta(days=30)))
    holds(added.next_at and added.next_at >= START + timedelta(days=30), "the first moment")
    await world.fire_after(timedelta(days=29))
    equal(await world.fires(), [])


@check
async def a_schedule_of_one_moment_fires_once(world: World) -> None:
    moment = START + HOUR
    await world.add(plan(rule=f"{moment:%Y-%m-%d %H:%M} UTC"))
    equal([f.due_at for f in await world.fired_after(timedelta(days=3))], [moment])
    equal((await world.schedule()).next_at, None)


@check
async def jitter_moves_the_job_and_not_the_fire(world: World) -> None:
    await world.add(plan(rule="every 1h", jitter=timedelta(minutes=30), overlap="allow"))
    starts = set()
    for turn in range(1, 6):
        [fire] = await world.fired_after(HOUR)
        job = await world.job(fire.job_id)
        equal((fire.due_at, job.due_at), (START + turn * HOUR,) * 2)
        late = job.ready_at - fire.due_at
        holds(timedelta(0) <= late < timedelta(minutes=30), "within the jitter")
        equal(str(job.state), "scheduled" if late else "ready")
        starts.add(late)
    holds(len(starts) > 1, "not the same for each")


@check
async def what_is_foreseen_is_what_happens_and_changes_nothing(world: World) -> None:
    await world.add(plan(overlap="queue_one", exclude="2026-03-02 12:05:00 UTC"))
    await world.fire_after(MINUTE)
    world.wait(10 * MINUTE)
    before = (await world.schedule(), await world.fires(), await world.live())
    foreseen = await world.store.ledger.foresee("report", decide)
    equal((await world.schedule(), await world.fires(), await world.live()), before)
    await world.fire()
    happened = [f for f in await world.fires() if f.id not in {old.id for old in before[1]}]
    equal(sorted((f.due_at, f.covers_from, f.count, f.outcome, f.cause, f.reason)
                 for f in happened),
          sorted((e.due_at, e.covers_from, e.count, e.outcome, e.cause, e.reason)
                 for e in foreseen.entries))  # fmt: skip
    equal((await world.schedule()).next_at, foreseen.next_at)


@check
async def a_ledger_is_listed_newest_first_and_between_two_moments(world: World) -> None:
    await world.add(plan(overlap="allow"))
    for _ in range(5):
        await world.fire_after(MINUTE)
    listed = await world.store.ledger.fires("report", limit=2)
    equal([f.due_at for f in listed], [START + 5 * MINUTE, START + 4 * MINUTE])
    between = await world.store.ledger.fires(
        "report", since=START + 2 * MINUTE, until=START + 4 * MINUTE
    )
    equal([f.due_at for f in between], [START + 3 * MINUTE, START + 2 * MINUTE])


@check
async def a_rule_that_costs_too_much_is_a_fault_and_holds_nobody_up(world: World) -> None:
    """It was cheap when it was added; inside the stretches that it excludes it is not."""
    blocked = "(every 1s start=2026-03-02T13:00Z count=9000) lasting=1s"
    inner = f"(every 1s - {blocked}) start=2026-03-02T13:00Z end=2026-03-02T15:30Z lasting=1s"
    await world.add(plan(name="costly", rule=f"every 1s - ({blocked} | {inner})"), plan())
    world.wait(2 * HOUR)
    fired = await world.fire()
    if fired.schedules == 0:  # a costly decision ends its tick: the others are decided by the next
        fired_next = await world.fire()
        equal(fired_next.faults, [])
    [(name, reason)] = fired.faults
    equal(name, "costly")
    holds("takes too long to evaluate" in reason, reason)
    costly = await world.schedule("costly")
    equal((costly.fault, costly.cursor), (reason, START))
    holds(await world.fires(), "the other schedule has fired")


@check
async def a_fired_job_is_claimed_for_an_idle_worker_and_nobody_is_told(world: World) -> None:
    request = await world.claim_request(shelf=SHELF)
    await world.add(plan(priority=20, policies=Policies(overlap="allow")))
    await world.fire_after(MINUTE)
    world.wait(MINUTE)
    heard = world.listen()
    [claimed] = (await world.fire(offer=lambda _: request)).claimed
    [older, fire] = await world.fires()
    equal((claimed.id, claimed.worker, claimed.attempt), (fire.job_id, request.worker, 1))
    equal(str((await world.job(fire.job_id)).state), "running")
    equal(str((await world.job(older.job_id)).state), "ready")
    equal(heard, [])


@check
async def workers_are_told_of_a_fired_job_that_cannot_be_claimed_yet(world: World) -> None:
    request = await world.claim_request(shelf=SHELF)
    await world.add(plan())
    await world.store.work.set_queue(Queue(name="default", paused=True))
    world.wait(MINUTE)
    heard = world.listen()
    equal((await world.fire(offer=lambda _: request)).claimed, [])
    equal(heard, ["fired:default"])
