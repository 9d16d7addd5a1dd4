"""Moments that nobody was there to fire: each is covered by exactly one row, however many."""

from collections import Counter
from datetime import datetime, timedelta

from duly.model.fire import StoredFire
from duly.model.job import Owner
from duly.model.policies import Missed
from duly.rules import Rule
from tests.conformance.expect import Broken, equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
YEAR = timedelta(days=365)
NAMES = ("latest", "all", "skip", "recent", "local", "hourly")
SECONDS_OF_A_YEAR = 365 * 86_400


@check
async def a_single_moment_that_has_passed_is_decided_as_missed(world: World) -> None:
    past = (START - DAY).isoformat()
    await world.add(plan("latest", past))
    await world.add(plan("all", past, missed=Missed("all")))
    await world.add(plan("skip", past, missed=Missed("skip")))
    await world.add(plan("recent", (START - SECOND).isoformat(), missed=Missed("skip")))
    await world.add(plan("local", "2026-02-28T10:00", zone="Europe/Berlin"))
    await world.add(plan("hourly", f"every 1h start={past} end={START.isoformat()}"))
    equal((await world.schedule("latest")).next_at, START - DAY)
    for _ in range(2):  # once, however often
        await world.fire_after(SECOND)
        ran = {job.schedule_id for job in await world.live()}
        names = [name for name in NAMES if (await world.schedule(name)).id in ran]
        equal((len(ran), names), (4, ["latest", "all", "recent", "local"]))
    equal((await world.schedule("latest")).is_finished, True)
    equal((await world.schedule("hourly")).is_finished, True)
    [fire] = await world.fires("skip")
    equal((fire.due_at, fire.outcome, fire.cause), (START - DAY, "skipped", "missed"))


@check
async def a_single_moment_that_has_passed_does_not_run_if_it_was_declared(world: World) -> None:
    for owner in (Owner.CODE, Owner.FILE):
        await world.add(plan(owner, (START - DAY).isoformat(), owner=owner))
    await world.fire_after(SECOND)
    equal(await world.live(), [])
    equal([(await world.schedule(owner)).is_finished for owner in ("code", "file")], [True, True])


@check
async def a_year_of_seconds_is_two_rows_under_latest(world: World) -> None:
    await world.add(plan(rule="every 1s"))
    await world.fire_after(YEAR)
    equal([_row(f) for f in await world.fires()],
          [(SECOND, YEAR - SECOND, SECONDS_OF_A_YEAR - 1, "merged", None),
           (YEAR, YEAR, 1, "queued", None)])  # fmt: skip
    equal([job.due_at for job in await world.live()], [START + YEAR])


@check
async def a_year_of_seconds_is_a_row_for_each_of_the_newest_and_one_for_the_rest(
    world: World,
) -> None:
    await world.add(plan(rule="every 1s", missed=Missed("all", at_most=5), overlap="allow"))
    await world.fire_after(YEAR)
    newest = [YEAR - n * SECOND for n in (4, 3, 2, 1, 0)]
    equal([_row(f) for f in await world.fires()],
          [(SECOND, YEAR - 5 * SECOND, SECONDS_OF_A_YEAR - 5, "skipped", "missed"),
           *((due, due, 1, "queued", None) for due in newest)])  # fmt: skip
    equal([job.due_at - START for job in await world.live()], newest)


@check
async def a_year_of_seconds_is_one_row_under_skip(world: World) -> None:
    grace = timedelta(seconds=60)
    await world.add(plan(rule="0 0 * * *", zone="UTC", missed=Missed("skip", grace=grace)))
    await world.fire_after(YEAR)
    equal([_row(f) for f in await world.fires()],
          [(12 * HOUR, YEAR - 12 * HOUR, 365, "skipped", "missed")])  # fmt: skip
    equal(await world.live(), [])


@check
async def skip_still_runs_what_is_within_its_grace(world: World) -> None:
    await world.add(plan(missed=Missed("skip", grace=timedelta(seconds=30))))
    await world.fire_after(MINUTE + timedelta(seconds=30))
    await world.fire_after(timedelta(seconds=61))
    equal([_row(f)[1:] for f in await world.fires()],
          [(MINUTE, 1, "queued", None), (2 * MINUTE, 1, "skipped", "missed")])  # fmt: skip


@check
async def a_moment_that_is_alone_is_run_however_late(world: World) -> None:
    for name, policy in (("report", Missed("latest")), ("all", Missed("all"))):
        await world.add(plan(name, f"{START + HOUR:%Y-%m-%d %H:%M} UTC", missed=policy))
    await world.fire_after(YEAR)
    for name in ("report", "all"):
        equal([_row(f) for f in await world.fires(name)], [(HOUR, HOUR, 1, "queued", None)])


@check
async def spacing_lets_the_jobs_of_missed_moments_start_one_after_another(world: World) -> None:
    spacing = timedelta(minutes=5)
    await world.add(plan(missed=Missed("all", at_most=3, spacing=spacing), overlap="allow"))
    await world.fire_after(HOUR)
    found = [(j.due_at - START, j.ready_at - world.now, str(j.state)) for j in await world.live()]
    equal(found, [(58 * MINUTE, 0 * spacing, "ready"), (59 * MINUTE, spacing, "scheduled"),
                  (HOUR, 2 * spacing, "scheduled")])  # fmt: skip


@check
async def every_moment_of_an_outage_is_covered_by_one_row_under_latest(world: World) -> None:
    await world.add(plan())
    await _pass_with_outages(world)
    await _covered_once(world)


@check
async def every_moment_of_an_outage_is_covered_by_one_row_under_all(world: World) -> None:
    await world.add(plan(missed=Missed("all", at_most=3)))
    await _pass_with_outages(world)
    await _covered_once(world)


@check
async def every_moment_of_an_outage_is_covered_by_one_row_under_skip(world: World) -> None:
    await world.add(plan(missed=Missed("skip", grace=timedelta(seconds=10))))
    await _pass_with_outages(world)
    await _covered_once(world)


@check
async def every_moment_is_covered_by_one_row_with_every_policy_at_once(world: World) -> None:
    await world.add(
        plan(
            missed=Missed("all", at_most=4),
            overlap="queue_one",
            start_within=timedelta(minutes=6),
            exclude="2026-03-02 12:10..20:00 UTC",
        )
    )
    await world.store.schedules.skip_next("report", count=3)
    await _pass_with_outages(world)
    await _covered_once(world)


@check
async def what_a_calendar_leaves_out_is_one_row_that_says_so(world: World) -> None:
    await world.add(plan(rule="every 1h", exclude="dates(2026-03-03)", zone="UTC"))
    await world.fire_after(3 * DAY)
    excluded = [f for f in await world.fires() if f.cause == "excluded"]
    equal([_row(f)[:3] for f in excluded], [(12 * HOUR, 35 * HOUR, 24)])
    holds("2026-03-03" in excluded[0].reason, "the reason names the calendar")
    inside = await world.store.ledger.covering("report", START + 20 * HOUR)
    equal(inside and inside.cause, "excluded")
    outside = await world.store.ledger.covering("report", START + 40 * HOUR)
    equal(outside and str(outside.outcome), "merged")


@check
async def a_moment_that_is_left_out_is_not_waited_for(world: World) -> None:
    added = await world.add(plan(rule="every 1h", exclude="dates(2026-03-02)", zone="UTC"))
    equal(added.next_at, START + 12 * HOUR)


@check
async def a_moment_that_is_in_the_ledger_is_found_by_the_row_that_covers_it(world: World) -> None:
    await world.add(plan())
    await world.fire_after(10 * MINUTE)
    covering = world.store.ledger.covering
    merged, queued = await world.fires()
    equal(await covering("report", START + 3 * MINUTE), merged)
    equal(await covering("report", START + 9 * MINUTE), merged)
    equal(await covering("report", START + 10 * MINUTE), queued)
    equal(await covering("report", START + 11 * MINUTE), None, "it is not decided yet")


def _row(fire: StoredFire) -> tuple[timedelta, timedelta, int | None, str, str | None]:
    cause = None if fire.cause is None else str(fire.cause)
    return fire.covers_from - START, fire.due_at - START, fire.count, str(fire.outcome), cause


async def _pass_with_outages(world: World) -> None:
    """Twenty minutes in which the scheduler comes and goes, and one job takes long."""
    for minutes in (1, 1, 3, 1, 7, 1, 5):
        await world.fire_after(minutes * MINUTE)
        if minutes == 7:
            await world.claim(1)


async def _covered_once(world: World) -> None:
    """Compare the ledger with the rule: by lookup, and by counting."""
    schedule = await world.schedule()
    timing = schedule.plan.timing
    if not isinstance(timing, Rule):
        raise Broken("a fixed delay has no moments to compare with")
    moments = list(timing.between(START, schedule.cursor, 10_000))
    fires = await world.fires()
    covered = Counter([await _covering(world, moment) for moment in moments])
    equal(covered, Counter({fire.id: fire.count for fire in fires}), "moments by row")


async def _covering(world: World, moment: datetime) -> int:
    found = await world.store.ledger.covering("report", moment)
    return found.id if found else -1


@check
async def catching_up_for_many_at_once_is_done_in_pieces(world: World) -> None:
    missed = Missed("all", at_most=1_000)
    await world.add(*(plan(f"number {n}", missed=missed, overlap="allow") for n in range(5)))
    world.wait(1_000 * MINUTE)
    fired = []
    while (done := await world.fire()).schedules:
        fired.append(done.fires)
    equal((sum(fired), len(fired) > 1, max(fired) <= 3_000), (5_000, True, True))
