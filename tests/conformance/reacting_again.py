"""What came to nothing can be replayed once it can be done; what came to something never is."""

from datetime import timedelta

from duly.model.fire import Cause
from duly.model.payload import encode
from duly.model.states import State
from duly.store.backfill import ReplayResult
from duly.store.maintenance import Retention
from tests.conformance.events import DOC, emit, fires, react
from tests.conformance.expect import equal
from tests.conformance.reactions import DAY, SECOND, cancelled, only, reminder, scheduled
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, START, World
from tests.factories import plan


async def replay(world: World, *, dry_run: bool = False) -> ReplayResult:
    world.wait(SECOND)
    return await world.store.events.replay("report", since=START, until=world.now, dry_run=dry_run)


async def replay_what_was_refused(world: World, rule: str) -> None:
    await world.add(plan(rule=rule, args=encode({"doc": {"$event": "dok"}})))
    await emit(world, doc=7)
    await react(world)
    [refused] = await world.fires()
    equal((refused.cause, refused.job_id), (Cause.REFUSED, None))
    still = await replay(world)
    equal((still.events, list(still.jobs), still.skipped), (1, [], 1))
    right = plan(rule=rule, args=encode({"doc": {"$event": "doc"}}))
    await world.store.schedules.edit("report", lambda _: right)
    equal((await replay(world, dry_run=True)).events, 1)
    done = await replay(world)
    job = await only(world)
    equal((done.events, list(done.jobs), done.skipped), (1, [job.id], 0))
    [fire] = await world.fires()
    equal((fire.id, str(fire.outcome), fire.cause), (refused.id, "queued", None))
    equal((fire.job_id, job.fire_id, job.args), (job.id, fire.id, '{"doc":7}'))
    equal((await replay(world)).events, 0)
    equal((await only(world)).id, job.id)


@check
async def what_was_refused_while_the_code_was_wrong_is_replayed_once(world: World) -> None:
    await replay_what_was_refused(world, "on doc.changed")


@check
async def what_was_refused_under_a_key_is_replayed_once(world: World) -> None:
    await replay_what_was_refused(world, 'on doc.changed key="{doc}"')


@check
async def what_was_refused_and_came_again_is_merged_when_it_is_replayed(world: World) -> None:
    wrong = encode({"doc": {"$event": "doc"}, "n": {"$event": "n"}})
    await world.add(plan(rule='on doc.changed key="{doc}" run_after=1h', args=wrong))
    await emit(world, doc=7)
    world.wait(SECOND)
    await emit(world, doc=7, n=1)
    await react(world)
    job = await only(world)
    right = plan(rule='on doc.changed key="{doc}" run_after=1h', args=encode(DOC))
    await world.store.schedules.edit("report", lambda _: right)
    equal((await replay(world)).events, 1)
    equal((await only(world)).args, job.args, "what came later stays")
    equal(await fires(world), [("merged", None), ("queued", None)])


@check
async def what_fell_into_a_pause_is_replayed_once(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    await world.store.schedules.pause("report")
    await emit(world)
    await react(world)
    await world.store.schedules.resume("report")
    equal([(await replay(world)).events for _ in range(2)], [1, 0])
    equal((len(await world.live()), await fires(world)), (1, [("queued", None)]))


@check
async def what_was_called_off_or_too_late_is_not_replayed(world: World) -> None:
    within = plan("late", "on class.scheduled", start_within=MINUTE)
    await world.add(reminder(), within)
    await scheduled(world, START + 10 * DAY)
    await react(world)
    world.wait(2 * MINUTE)
    await cancelled(world)
    await scheduled(world, START + 10 * DAY, number=2)
    world.wait(2 * MINUTE)
    await react(world)
    equal(await fires(world, "late"), [("queued", None), ("skipped", Cause.LATE)])
    equal((await replay(world)).events, 0)
    late = await world.store.events.replay("late", since=START, until=world.now)
    equal((late.events, (await fires(world))[0]), (0, ("skipped", Cause.WITHDRAWN)))


@check
async def events_are_forgotten_before_the_rows_that_say_what_became_of_them(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    await emit(world)
    await react(world)
    await world.end(await world.begin())
    world.wait(20 * DAY)
    kept = Retention(history=30 * DAY, failed=30 * DAY, fires=10 * DAY)
    await world.store.maintenance.prune(kept, limit=1_000)
    equal(((await replay(world)).events, await world.live()), (0, []))


@check
async def what_a_job_waits_to_react_to_is_not_forgotten(world: World) -> None:
    await world.add(reminder())
    first = await scheduled(world, START + 40 * DAY)
    await react(world)
    world.wait(20 * DAY)
    await world.store.maintenance.prune(Retention(), limit=1_000)
    equal((await world.store.events.get(first)).id, first)
    gone = await only(world)
    await cancelled(world)
    await react(world)
    equal((await world.live(), (await world.job(gone.id)).state), ([], State.CANCELLED))
    equal(await fires(world), [("skipped", Cause.WITHDRAWN)])
    await world.store.maintenance.prune(Retention(), limit=1_000)
    equal(await world.store.events.find([first]), [], "now it is")


@check
async def what_waits_longer_than_its_row_is_kept_is_not_replayed(world: World) -> None:
    await world.add(plan(rule="on doc.changed run_after=40d"))
    await emit(world)
    await react(world)
    world.wait(20 * DAY)
    short = Retention(history=timedelta(days=5), fires=timedelta(days=5))
    await world.store.maintenance.prune(short, limit=1_000)
    equal(((await replay(world)).events, len(await world.live())), (0, 1))
