"""Schedules are remembered, found, listed and forgotten."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from duly.errors import InvalidValue, NotFound, ScheduleExists, WrongState
from duly.model.policies import Missed
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan


@check
async def a_new_schedule_is_due_at_its_first_moment_and_not_before_it_was_made(
    world: World,
) -> None:
    added = await world.add(plan(rule="every 1h"))
    equal(added, await world.schedule(), "what add answers is what is kept")
    equal((added.created_at, added.cursor), (START, START))
    equal(added.next_at, START + HOUR)
    equal((added.pause, added.awaiting, added.fault), (None, None, None))


@check
async def a_moment_that_is_now_belongs_to_the_past_of_a_new_schedule(world: World) -> None:
    world.clock.set(datetime(2026, 3, 2, 13, tzinfo=UTC))
    added = await world.add(plan(rule="0 * * * *", zone="UTC"))
    equal(added.next_at, world.now + HOUR)


@check
async def a_name_is_given_once(world: World) -> None:
    await world.add(plan("a"))
    with refused(ScheduleExists, '"a"'):
        await world.add(plan("a"))


@check
async def schedules_are_added_all_or_none(world: World) -> None:
    await world.add(plan("b"))
    with refused(ScheduleExists, '"b"'):
        await world.add(plan("a"), plan("b"), plan("c"))
    equal([found.plan.name for found in await world.store.schedules.page()], ["b"])
    with refused(ScheduleExists, '"d"'):
        await world.add(plan("d"), plan("d"))


@check
async def schedules_are_answered_in_the_order_in_which_they_were_given(world: World) -> None:
    added = await world.store.schedules.add([plan("b"), plan("c"), plan("a")])
    equal([schedule.plan.name for schedule in added], ["b", "c", "a"])


@check
async def an_unknown_name_is_refused_by_naming_one_that_is_like_it(world: World) -> None:
    await world.add(plan("nightly-report"))
    with refused(NotFound, 'did you mean "nightly-report"?'):
        await world.schedule("nightly-repotr")
    with refused(NotFound, '"x"'):
        await world.store.schedules.pause("x")


@check
async def schedules_are_listed_by_name_a_page_at_a_time(world: World) -> None:
    names = ["B", "a", "b", "c", "Ä", "é", "z"]
    await world.add(*(plan(name) for name in names))
    listed: list[str] = []
    while page := await world.store.schedules.page(after=listed[-1] if listed else "", limit=2):
        holds(len(page) <= 2, "a page is as long as was asked")
        listed += [schedule.plan.name for schedule in page]
    equal(listed, sorted(names), "in the order of their letters' numbers, each once")


@check
async def a_removed_schedule_fires_no_more_and_its_jobs_live_on(world: World) -> None:
    await world.add(plan())
    await world.fire_after(MINUTE)
    await world.by("ann").schedules.remove("report")
    world.wait(MINUTE)
    equal((await world.fire()).schedules, 0)
    with refused(NotFound):
        await world.schedule()
    job = await world.begin()
    equal((await world.end(job)).kept, [job.id])


@check
async def a_name_is_free_again_after_its_schedule_was_removed(world: World) -> None:
    first = await world.add(plan())
    await world.fire_after(MINUTE)
    await world.store.schedules.remove("report")
    second = await world.add(plan())
    holds(second.id != first.id, "it is another schedule")
    equal(await world.fires(), [], "with a ledger of its own")


@check
async def what_was_changed_is_written_down_with_who_and_when(world: World) -> None:
    await world.add(plan())
    world.wait(MINUTE / 2)
    await world.by("ann").schedules.edit("report", lambda old: replace(old, title="new"))
    world.wait(MINUTE)
    await world.by("ben").schedules.pause("report", note="stocktaking")
    found = await world.store.schedules.changes("report")
    equal([(at - START, who) for at, who, _ in found],
          [(MINUTE * 1.5, "ben"), (MINUTE / 2, "ann")], "the newest first")  # fmt: skip
    holds("stocktaking" in found[0][2], "the note is there")
    holds("title" in found[1][2] and "new" in found[1][2], "the change is there")


@check
async def a_manual_run_stands_beside_the_clock(world: World) -> None:
    await world.add(plan(rule="every 1h"))
    before = await world.schedule()
    world.wait(MINUTE)
    fire = await world.by("ann").schedules.run("report")
    equal((fire.due_at, fire.count, str(fire.outcome)), (world.now, 1, "queued"))
    holds(fire.series != 0, "it has a series of its own")
    job = await world.job(fire.job_id)
    equal((str(job.state), job.due_at, job.fire_id), ("ready", world.now, fire.id))
    after = await world.schedule()
    equal((after.cursor, after.next_at), (before.cursor, before.next_at))


@check
async def a_manual_run_at_a_due_moment_does_not_replace_it(world: World) -> None:
    await world.add(plan(overlap="allow"))
    world.wait(MINUTE)
    await world.fire()
    manual = await world.store.schedules.run("report")
    equal([fire.due_at for fire in await world.fires()], [START + MINUTE] * 2)
    covering = await world.store.ledger.covering("report", START + MINUTE)
    holds(covering and covering.id != manual.id, "the clock's own row accounts for the moment")
    equal(len(await world.live()), 2)


@check
async def a_manual_run_keeps_the_overlap_policy(world: World) -> None:
    await world.add(plan())
    await world.fire_after(MINUTE)
    fire = await world.store.schedules.run("report")
    equal((str(fire.outcome), str(fire.cause), fire.job_id), ("skipped", "overlap", None))


@check
async def what_is_skipped_in_advance_is_in_the_ledger_at_once_and_gets_no_job(
    world: World,
) -> None:
    await world.add(plan())
    skipped = await world.by("ann").schedules.skip_next("report", count=2)
    equal(skipped, [START + MINUTE, START + 2 * MINUTE])
    fires = await world.fires()
    equal([(str(f.outcome), str(f.cause)) for f in fires], [("skipped", "asked")] * 2)
    holds("ann" in fires[0].reason, "it says who asked")
    for _ in range(3):
        await world.fire_after(MINUTE)
    equal([(f.due_at, str(f.outcome)) for f in await world.fires()],
          [(START + MINUTE, "skipped"), (START + 2 * MINUTE, "skipped"),
           (START + 3 * MINUTE, "queued")])  # fmt: skip


@check
async def what_is_skipped_again_lies_behind_what_is_skipped_already(world: World) -> None:
    report = await world.add(plan())
    skip = world.store.schedules.skip_next
    equal(await skip("report"), [START + MINUTE])
    equal(await skip("report", count=2), [START + 2 * MINUTE, START + 3 * MINUTE])
    ahead = await world.store.ledger.skipped_ahead([report.id, report.id + 1])
    equal(ahead, {report.id: frozenset(START + n * MINUTE for n in (1, 2, 3))})
    await world.fire_after(2 * MINUTE)
    ahead = await world.store.ledger.skipped_ahead([report.id])
    equal(ahead, {report.id: frozenset([START + 3 * MINUTE])}, "those that passed are not ahead")
    equal(await skip("report"), [START + 4 * MINUTE])
    await world.fire_after(3 * MINUTE)
    kept = [fire.due_at for fire in await world.fires() if fire.outcome == "queued"]
    equal(kept, [START + 5 * MINUTE])


@check
async def the_last_moments_of_several_schedules_are_found_at_once(world: World) -> None:
    report, other = await world.add(plan()), await world.add(plan("other", rule="every 1h"))
    await world.store.schedules.skip_next("report", count=5)
    for _ in range(3):
        await world.fire_after(MINUTE)
    found = await world.store.ledger.recent([report.id, other.id], limit=2)
    equal({number: [fire.due_at for fire in fires] for number, fires in found.items()},
          {report.id: [START + 3 * MINUTE, START + 2 * MINUTE], other.id: []},
          "the newest first, and none that is still ahead")  # fmt: skip
    every = await world.store.ledger.recent([report.id])
    equal(every, {report.id: (await world.fires())[2::-1]})


@check
async def what_is_skipped_in_advance_is_not_counted_among_the_missed(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.skip_next("report", count=2)
    await world.fire_after(4 * MINUTE)
    fires = {fire.due_at - START: (fire.count, str(fire.outcome)) for fire in await world.fires()}
    equal(fires, {MINUTE: (1, "skipped"), 2 * MINUTE: (1, "skipped"), 3 * MINUTE: (1, "merged"),
                  4 * MINUTE: (1, "queued")})  # fmt: skip


@check
async def as_many_as_the_whole_hour_cannot_be_skipped_in_advance(world: World) -> None:
    await world.add(plan())
    for count in (0, 101):
        with refused(InvalidValue, f"count={count}"):
            await world.store.schedules.skip_next("report", count=count)


@check
async def a_rewound_schedule_does_not_fire_again_what_is_in_the_ledger(world: World) -> None:
    await world.add(plan(missed=Missed("all"), overlap="allow"))
    await world.fire_after(3 * MINUTE)
    before = await world.fires()
    await world.by("ann").schedules.rewind("report", to=START)
    equal((await world.schedule()).cursor, START)
    equal((await world.fire()).fires, 0)
    equal(await world.fires(), before)
    equal(len(await world.live()), 3)
    await world.fire_after(MINUTE)
    equal(len(await world.fires()), 4, "and goes on")


@check
async def a_rewind_cures_a_cursor_that_a_wrong_clock_left_in_the_future(world: World) -> None:
    await world.add(plan(overlap="allow"))
    world.wait(timedelta(days=365))
    await world.fire()
    world.clock.set(START + MINUTE)
    equal((await world.fire()).schedules, 0, "silence")
    await world.store.schedules.rewind("report", to=world.now)
    equal((await world.schedule()).next_at, START + 2 * MINUTE)
    fired = await world.fired_after(MINUTE)
    equal([(f.due_at, str(f.outcome)) for f in fired], [(START + 2 * MINUTE, "queued")])


@check
async def a_fixed_delay_that_a_wrong_clock_left_in_the_future_is_rewound_too(world: World) -> None:
    await world.add(plan(rule="spaced 1m"))
    world.wait(timedelta(days=365))
    await world.fire()
    await world.end(await world.begin())
    world.clock.set(START + MINUTE)
    equal((await world.store.maintenance.progress()).ahead, ["report"])
    await world.store.schedules.rewind("report", to=world.now)
    equal((await world.store.maintenance.progress()).ahead, [])
    await world.fire_after(MINUTE)
    equal(len(await world.live()), 1)
    with refused(WrongState):
        await world.store.schedules.rewind("report", to=world.now)


@check
async def a_rewind_shortens_the_stretch_it_falls_into(world: World) -> None:
    await world.add(plan(overlap="allow"))
    await world.fire_after(10 * MINUTE)
    middle = START + 5 * MINUTE
    await world.store.schedules.rewind("report", to=middle)
    await world.fire()
    found = [(f.covers_from, f.due_at, f.count, str(f.outcome)) for f in await world.fires()]
    equal(
        found,
        [
            (START + MINUTE, middle, 5, "merged"),
            (START + 6 * MINUTE, START + 8 * MINUTE, 3, "merged"),
            (START + 9 * MINUTE, START + 9 * MINUTE, 1, "queued"),
            (START + 10 * MINUTE, START + 10 * MINUTE, 1, "queued"),
        ],
    )
