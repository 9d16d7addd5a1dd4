"""Moments that have passed are run when somebody asks: each once, in one go, beside the clock."""

from datetime import datetime, timedelta
from typing import Any, get_args

from duly.errors import InvalidValue, NotFound, WrongState
from duly.model.fire import CLOCK, Backfill, StoredFire
from duly.model.policies import Missed, Overlap
from duly.store.maintenance import Retention
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import distinct_plan, plan

DAY = timedelta(days=1)
AFTER = START + MINUTE  # which is a moment of "every 1h" itself
IN_LINE: tuple[Overlap, ...] = tuple(o for o in get_args(Overlap) if o != "allow")


async def backfilled(world: World, since: datetime, until: datetime, **words: Any) -> Backfill:
    return await world.by("ada").schedules.backfill("report", since=since, until=until, **words)


async def asked_for(world: World, name: str = "report") -> list[StoredFire]:
    """What was not the clock's, oldest first."""
    return [fire for fire in await world.fires(name) if fire.series != CLOCK]


async def skipped_by_a_pause(world: World, hours: int, **policies: Any) -> list[datetime]:
    """A schedule that was due each hour and fired nothing: its moments."""
    await world.add(plan(rule="every 1h", **policies))
    await world.by("ada").schedules.pause("report")
    world.wait(hours * HOUR)
    await world.by("ada").schedules.resume("report")
    return [START + n * HOUR for n in range(1, hours + 1)]


@check
async def each_moment_that_got_no_job_gets_one(world: World) -> None:
    moments = await skipped_by_a_pause(world, 3, overlap="allow")
    done = await backfilled(world, AFTER, world.now)
    equal((done.queued, done.left_alone), (tuple(moments[:2]), ()))
    fires = await asked_for(world)
    equal([fire.due_at for fire in fires], moments[:2])
    equal({(str(f.outcome), str(f.cause), f.reason, f.count) for f in fires},
          {("queued", "asked", "backfilled by ada", 1)})  # fmt: skip
    equal(len({fire.series for fire in fires}), 1, "one series for all of them")
    equal(tuple(fire.job_id for fire in fires), done.jobs)
    for fire in fires:
        job = await world.job(fire.job_id)
        equal((job.due_at, job.fire_id, str(job.state)), (fire.due_at, fire.id, "ready"))
    [clock] = [fire for fire in await world.fires() if fire.series == CLOCK]
    equal((str(clock.outcome), clock.count), ("skipped", 3), "what the clock did stays")


@check
async def the_start_is_part_of_it_and_the_end_is_not(world: World) -> None:
    moments = await skipped_by_a_pause(world, 4)
    equal((await backfilled(world, moments[1], moments[3])).queued, tuple(moments[1:3]))


@check
async def its_jobs_are_what_the_schedule_says(world: World) -> None:
    wanted = distinct_plan(START + DAY)
    await world.add(wanted)
    done = await world.by("ada").schedules.backfill(
        wanted.name, since=START - 2 * HOUR, until=START - HOUR
    )
    [moment], [number] = done.queued, done.jobs
    job = await world.job(number)
    for field in ("task", "args", "queue", "priority", "tenant", "submitter", "title", "tags",
                  "limits", "needs", "terms"):  # fmt: skip
        equal(getattr(job, field), getattr(wanted, field), field)
    equal((job.due_at, job.deadline, job.ready_at), (moment, None, START))


@check
async def moments_are_those_of_the_rule_as_it_is_now(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    await world.store.schedules.edit(
        "report",
        lambda _: plan(rule="0 2 * * *", zone="Europe/Berlin", exclude="dates(2026-02-27)"),
    )
    done = await backfilled(world, START - 5 * DAY, START)
    equal(
        [f"{moment:%d %H:%M}" for moment in done.queued],
        ["26 01:00", "28 01:00", "01 01:00", "02 01:00"],
    )
    equal(done.forgotten, (), "it did not exist then")


@check
async def what_has_had_a_job_is_left_alone(world: World) -> None:
    await world.add(plan(rule="every 1h", overlap="allow"))
    [kept] = await world.fired_after(HOUR)
    await world.store.schedules.pause("report")
    world.wait(2 * HOUR)
    await world.store.schedules.resume("report")
    done = await backfilled(world, AFTER, world.now)
    equal(done.queued, (START + 2 * HOUR,))
    equal([(one.due_at, one.job_id) for one in done.left_alone], [(kept.due_at, kept.job_id)])


@check
async def what_was_merged_into_another_run_has_had_no_job(world: World) -> None:
    await world.add(plan(rule="every 1h", missed=Missed("latest")))
    await world.fire_after(4 * HOUR)
    done = await backfilled(world, AFTER, world.now)
    equal(done.queued, tuple(START + n * HOUR for n in (1, 2, 3)))


@check
async def what_is_due_and_not_decided_yet_is_the_clocks_first(world: World) -> None:
    await world.add(plan(rule="every 1h", overlap="allow", missed=Missed("all", at_most=1)))
    world.wait(3 * HOUR + MINUTE)
    foreseen = await backfilled(world, AFTER, world.now, dry_run=True)
    done = await backfilled(world, AFTER, world.now)
    for one in (foreseen, done):
        equal(one.queued, (START + HOUR, START + 2 * HOUR))
        equal([left.due_at for left in one.left_alone], [START + 3 * HOUR])
    equal(len(await world.live()), 3)


@check
async def they_run_one_after_the_other_behind_the_run_that_is_there(world: World) -> None:
    for overlap in IN_LINE:
        name = f"of {overlap}"
        await world.add(plan(name, "every 1h", overlap=overlap))
        clock = await world.store.schedules.run(name)
        done = await world.by("ada").schedules.backfill(name, since=START - 3 * HOUR, until=START)
        order = []
        for _ in range(4):
            [job] = await world.claim(10)
            order.append(job.id)
            await world.end(job)
        equal(order, [clock.job_id, *done.jobs], overlap)
        equal(await world.claim(10), [])


@check
async def a_schedule_that_allows_its_runs_to_overlap_starts_all_at_once(world: World) -> None:
    await world.add(plan(rule="every 1h", overlap="allow"))
    await backfilled(world, START - 3 * HOUR, START)
    equal(len(await world.claim(10)), 3)


@check
async def no_later_moment_takes_the_place_of_one_that_was_asked_for(world: World) -> None:
    for overlap in ("queue_one", "replace", "queue_all", "skip"):
        name = f"of {overlap}"
        await world.add(plan(name, "every 1h", overlap=overlap))
        now = world.now
        done = await world.store.schedules.backfill(name, since=now - 3 * HOUR, until=now)
        running = await world.begin()
        for _ in range(2):
            await world.fire_after(HOUR)
        equal(await world.signals(), {}, f"{overlap}: nobody is asked to stop")
        order = [running.id]
        await world.end(running)
        while claimed := await world.claim(10):
            [job] = claimed
            order.append(job.id)
            await world.end(job)
        equal(tuple(order[:3]), done.jobs, overlap)
        outcomes = [str(fire.outcome) for fire in await asked_for(world, name)]
        equal(outcomes, ["queued"] * 3, overlap)
        kept = {"queue_one": 1, "replace": 1, "queue_all": 2, "skip": 0}[overlap]
        equal(len(order), 3 + kept, overlap)
        await world.store.schedules.remove(name)


@check
async def they_run_however_late_they_are(world: World) -> None:
    for late in ("skip", "hurry"):
        name = f"which {late}"
        await world.add(plan(name, "every 1h", start_within=MINUTE, late=late, priority=3))
        await world.store.schedules.backfill(name, since=START - 2 * HOUR, until=START)
    world.wait(DAY)
    equal((await world.dispatch()).expired, 0)
    equal({(job.deadline, job.priority) for job in await world.live()}, {(None, 3)})


@check
async def what_is_ahead_of_the_clock_is_refused(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    with refused(InvalidValue, saying="only past times can be backfilled"):
        await backfilled(world, START, START + timedelta(microseconds=1))
    await world.store.schedules.pause("report")
    world.wait(3 * HOUR)
    for dry_run in (True, False):
        with refused(WrongState, saying="it is paused, and 2026-03-02 13:00:00+00:00 is decided"):
            await backfilled(world, START - 2 * HOUR, world.now, dry_run=dry_run)
    equal(await world.live(), [])
    equal(len((await backfilled(world, START - 2 * HOUR, START + HOUR)).queued), 3)


@check
async def what_cannot_be_is_refused_in_words(world: World) -> None:
    await world.add(plan(rule="every 1s"), plan("spaced", rule="spaced 10m"))
    naive = START.replace(tzinfo=None)
    for since, until, saying in (
        (START - HOUR, naive, "naive"),
        (START, START, "end is not included"),
        (START, START - HOUR, "end is not included"),
        (START - 3 * HOUR, START, "there are 10,800 due times, and at most 10,000"),
        (START - 3 * HOUR, START, "first with end=2026-03-02 11:46:40+00:00"),
    ):
        for dry_run in (True, False):
            with refused(InvalidValue, saying=saying):
                await backfilled(world, since, until, dry_run=dry_run)
    with refused(WrongState, saying="has a fixed delay"):
        await world.store.schedules.backfill("spaced", since=START - HOUR, until=START)
    with refused(NotFound, saying='did you mean "report"?'):
        await world.store.schedules.backfill("reprot", since=START - HOUR, until=START)
    equal((await world.live(), await world.fires()), ([], []))


@check
async def who_asked_for_what_is_noted(world: World) -> None:
    moments = await skipped_by_a_pause(world, 3)
    world.wait(MINUTE)
    before = len(await world.store.schedules.changes("report"))
    for _ in range(2):
        await backfilled(world, AFTER, moments[2])
    [(at, who, what), *rest] = await world.store.schedules.changes("report")
    said = "backfilled Mon 2026-03-02 12:01 UTC to Mon 2026-03-02 15:00 UTC, 2 runs"
    equal((at, who, what, len(rest)), (world.now, "ada", said, before))


@check
async def what_the_ledger_has_forgotten_is_told(world: World) -> None:
    await world.add(plan(rule="0 2 * * *", zone="UTC", overlap="allow"))
    for _ in range(6):
        await world.fire_after(DAY)
    while await world.store.maintenance.prune(Retention(fires=3 * DAY), limit=100):
        pass
    known = [fire.due_at for fire in await world.fires()]
    lost = [START + timedelta(days=n, hours=-10) for n in range(1, 7)]
    lost = [moment for moment in lost if moment < known[0]]
    holds(known and lost, "some are forgotten, and some are not")
    for dry_run in (True, False):
        done = await backfilled(world, START - DAY, world.now, dry_run=dry_run)
        equal((list(done.forgotten), [one.due_at for one in done.left_alone]), (lost, known))
        equal(list(done.queued), [START - timedelta(hours=10), *lost])
        holds(f"the history of {len(lost)} of them" in done.notes[0], "it is said")


@check
async def a_skipped_moment_that_was_asked_for_needs_nobody_any_more(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    await world.fire_after(HOUR)
    running = await world.begin()
    await world.fire_after(HOUR)
    await world.fire_after(HOUR)
    [bad] = await world.store.activity.not_kept(START)
    equal((bad.due_at, bad.moments, str(bad.cause)), (START + 3 * HOUR, 2, "overlap"))
    await world.end(running)
    world.wait(MINUTE)
    await backfilled(world, START + 3 * HOUR, world.now)
    [bad] = await world.store.activity.not_kept(START)
    equal((bad.due_at, bad.moments), (START + 2 * HOUR, 1))
    await backfilled(world, AFTER, world.now)
    equal(await world.store.activity.not_kept(START), [])
