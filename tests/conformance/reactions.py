"""Of events about the same the last one counts; some are called off, and some are replayed."""

from datetime import datetime, timedelta

from duly.errors import InvalidValue, WrongState
from duly.model.event import Emitted
from duly.model.fire import Cause
from duly.model.job import StoredJob
from duly.model.payload import encode
from duly.model.schedule import Plan
from duly.model.states import State
from tests.conformance.events import emit, fires, react
from tests.conformance.expect import equal, holds, refused
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
DEBOUNCED = 'on doc.changed key="doc:{doc}" debounce=30s'
REMINDER = (
    'on class.scheduled key="class:{id}" run_after="-24h from starts_at" unless=class.cancelled'
)


def reminder(name: str = "report", rule: str = REMINDER) -> Plan:
    return plan(name, rule, args=encode({"id": {"$event": "id"}}))


async def scheduled(world: World, starts_at: datetime, *, number: int = 1) -> int:
    return await emit(world, "class.scheduled", id=number, starts_at=starts_at.isoformat())


async def only(world: World) -> StoredJob:
    [job] = await world.live()
    return job


async def cancelled(world: World, *, number: int = 1) -> int:
    return await emit(world, "class.cancelled", id=number)


@check
async def a_debounced_reaction_waits_until_it_has_been_quiet(world: World) -> None:
    await world.add(plan(rule=DEBOUNCED, args=encode({"doc": {"$event": "doc"}})))
    for _ in range(3):
        await emit(world, doc=1)
        await react(world)
        world.wait(10 * SECOND)
    await emit(world, doc=2)
    done = await world.store.events.react(limit=10)
    equal((done.jobs, done.later, list(done.queues)), (1, 1, []))
    due = sorted((job.args, job.due_at, str(job.state)) for job in await world.live())
    equal(
        due,
        [
            ('{"doc":1}', START + 50 * SECOND, "scheduled"),
            ('{"doc":2}', START + 60 * SECOND, "scheduled"),
        ],
    )
    equal(await fires(world), [("merged", None)] * 2 + [("queued", None)] * 2)


@check
async def several_events_about_the_same_in_one_look_make_one_job(world: World) -> None:
    await world.add(plan(rule=DEBOUNCED, args=encode({"n": {"$event": "n"}})))
    for n in range(4):
        await emit(world, doc=1, n=n)
        world.wait(SECOND)
    await react(world)
    job = await only(world)
    equal((job.args, job.due_at), ('{"n":3}', START + 33 * SECOND))
    equal(await fires(world), [("merged", None)] * 3 + [("queued", None)])
    equal({fire.job_id for fire in await world.fires()}, {job.id})
    equal((await world.fires())[-1].id, job.fire_id)


@check
async def a_key_without_a_field_is_about_all_events_together(world: World) -> None:
    await world.add(plan(rule="on doc.* key=all debounce=30s"))
    await emit(world, doc=1)
    await emit(world, "doc.removed", doc=2)
    await react(world)
    equal((await only(world)).key, "acme:all")


@check
async def a_reaction_that_runs_is_left_alone_and_the_next_waits_beside_it(world: World) -> None:
    await world.add(plan(rule='on doc.changed key="doc:{doc}"'))
    await emit(world, doc=1)
    await react(world)
    running = await world.begin()
    world.wait(SECOND)
    await emit(world, doc=1)
    await react(world)
    equal(sorted(await world.states()), ["ready", "running"])
    await world.end(running)
    world.wait(SECOND)
    await emit(world, doc=1)
    await react(world)
    equal(await world.states(), ["ready"])
    equal(await fires(world), [("queued", None), ("merged", None), ("queued", None)])


@check
async def a_reaction_moves_with_the_moment_in_its_event(world: World) -> None:
    await world.add(reminder())
    await scheduled(world, START + 10 * DAY)
    await react(world)
    first = await only(world)
    equal((first.due_at, str(first.state)), (START + 9 * DAY, "scheduled"))
    world.wait(SECOND)
    await scheduled(world, START + 3 * DAY)
    await react(world)
    moved = await only(world)
    equal((moved.id, moved.due_at), (first.id, START + 2 * DAY))
    world.wait(SECOND)
    await scheduled(world, START + HOUR)
    await react(world)
    equal((await only(world)).state, State.READY, "a moment that has passed is now")


@check
async def a_reaction_is_called_off_by_another_event(world: World) -> None:
    await world.add(reminder())
    await scheduled(world, START + 10 * DAY)
    await scheduled(world, START + 10 * DAY, number=2)
    await react(world)
    [withdrawn, kept] = await world.live()
    world.wait(SECOND)
    called_off = await cancelled(world)
    done = await world.store.events.react(limit=10)
    equal((done.withdrawn, done.jobs), (1, 0))
    equal([job.id for job in await world.live()], [kept.id])
    ended = await world.job(withdrawn.id)
    equal(ended.state, State.CANCELLED)
    holds(f"event {called_off}" in ended.reason, ended.reason)
    equal(await fires(world), [("skipped", Cause.WITHDRAWN), ("queued", None)])
    world.wait(SECOND)
    await scheduled(world, START + 5 * DAY)
    equal(await react(world), 1, "it takes place after all")


@check
async def what_runs_is_not_called_off(world: World) -> None:
    await world.add(reminder())
    await scheduled(world, START + HOUR)
    await react(world)
    await world.begin()
    world.wait(SECOND)
    await cancelled(world)
    await react(world)
    equal(await world.states(), ["running"])


@check
async def a_promise_that_no_event_made_is_not_called_off(world: World) -> None:
    await world.add(reminder())
    number = await world.enqueue(call(key="acme:class:1", tenant="acme", run_after=HOUR))
    await cancelled(world)
    await react(world)
    equal((await only(world)).id, number)


@check
async def what_was_called_off_before_it_was_seen_does_not_start(world: World) -> None:
    """The events are committed in another order than they came in."""
    await world.add(reminder())
    world.wait(2 * SECOND)
    await cancelled(world)
    await react(world)
    world.clock.set(START + SECOND)
    await scheduled(world, START + 10 * DAY)
    equal(await react(world), 0)
    equal(await fires(world), [("skipped", Cause.WITHDRAWN)])


@check
async def both_in_one_look_come_to_nothing(world: World) -> None:
    await world.add(reminder())
    await scheduled(world, START + 10 * DAY)
    world.wait(SECOND)
    await cancelled(world)
    await react(world)
    equal((await world.live(), await fires(world)), ([], [("skipped", Cause.WITHDRAWN)]))


@check
async def a_call_off_that_was_older_than_what_it_meets_does_nothing(world: World) -> None:
    await world.add(reminder())
    world.wait(2 * SECOND)
    await scheduled(world, START + 10 * DAY)
    await react(world)
    world.clock.set(START + SECOND)
    await cancelled(world)
    await react(world)
    equal(await world.states(), ["scheduled"])


@check
async def an_older_event_does_not_take_the_place_of_a_newer_one(world: World) -> None:
    await world.add(reminder())
    world.wait(2 * SECOND)
    await scheduled(world, START + 10 * DAY)
    await react(world)
    world.clock.set(START + SECOND)
    await scheduled(world, START + 20 * DAY)
    await react(world)
    job = await only(world)
    equal(job.due_at, START + 9 * DAY)
    older, newer = await world.fires()
    equal((str(older.outcome), older.job_id, str(newer.outcome)), ("merged", job.id, "queued"))


@check
async def a_call_off_without_the_key_is_told_in_the_ledger(world: World) -> None:
    await world.add(reminder())
    await emit(world, "class.cancelled", other=1)
    await react(world)
    equal(await fires(world), [("skipped", Cause.REFUSED)])


@check
async def two_schedules_of_one_task_share_their_keys(world: World) -> None:
    moved = REMINDER.replace("on class.scheduled", "on class.moved")
    await world.add(reminder(), reminder("moved", moved))
    await scheduled(world, START + 10 * DAY)
    await react(world)
    world.wait(SECOND)
    starts_at = (START + 5 * DAY).isoformat()
    await emit(world, "class.moved", id=1, starts_at=starts_at)
    await react(world)
    job = await only(world)
    equal((job.due_at, job.schedule_id), (START + 4 * DAY, (await world.schedule("moved")).id))
    equal(
        [await fires(world), await fires(world, "moved")], [[("merged", None)], [("queued", None)]]
    )
    world.wait(SECOND)
    await cancelled(world)
    await react(world)
    equal((await world.live(), await fires(world, "moved")), ([], [("skipped", Cause.WITHDRAWN)]))


@check
async def what_happened_before_is_replayed_once(world: World) -> None:
    for n in range(3):
        await emit(world, n=n)
        world.wait(MINUTE)
    await react(world)
    await world.add(plan(rule="on doc.changed", args=encode({"n": {"$event": "n"}})))
    replay, until = world.by("ada").events.replay, START + 2 * MINUTE
    foreseen = await replay("report", since=START, until=until, dry_run=True)
    equal((foreseen.events, list(foreseen.jobs), foreseen.dry_run), (2, [], True))
    equal(await world.live(), [])
    done = await replay("report", since=START, until=until)
    equal((done.events, len(done.jobs), done.skipped), (2, 2, 0))
    again = await replay("report", since=START, until=until)
    equal((again.events, list(again.jobs)), (0, []))
    equal([job.args for job in await world.live()], ['{"n":0}', '{"n":1}'])
    holds(
        any("replayed" in what for _, _, what in await world.store.schedules.changes("report")),
        "who replayed what is noted",
    )


@check
async def what_was_replayed_before_it_was_looked_at_is_not_reacted_to_again(world: World) -> None:
    await world.add(plan(rule="on doc.changed"), plan("keyed", 'on doc.* key="{n}"'))
    await emit(world, n=1)
    world.wait(SECOND)
    for name in ("report", "keyed"):
        equal((await world.store.events.replay(name, since=START, until=world.now)).events, 1)
    done = await world.store.events.react(limit=10)
    equal((done.events, done.jobs, len(await world.live())), (1, 0, 2))


@check
async def a_replay_is_as_the_events_were(world: World) -> None:
    """The last one about the same counts, and what was called off is."""
    for number, day in ((1, 10), (2, 11), (1, 12)):
        await scheduled(world, START + day * DAY, number=number)
        world.wait(SECOND)
    await cancelled(world, number=2)
    await react(world)
    world.wait(SECOND)
    await world.add(reminder())
    done = await world.store.events.replay("report", since=START, until=world.now)
    equal((done.events, len(done.jobs), done.skipped), (3, 1, 1))
    equal((await only(world)).due_at, START + 11 * DAY)


@check
async def only_what_a_schedule_means_is_replayed(world: World) -> None:
    for name in ("doc.changed", "doc.removed", "other"):
        await emit(world, name)
    await react(world)
    world.wait(SECOND)
    await world.add(plan(rule="on doc.*"), plan("clock"))
    replay = world.store.events.replay
    some = await replay("report", since=START, until=world.now, pattern="doc.removed")
    equal(some.events, 1)
    equal((await replay("report", since=START, until=world.now)).events, 1)
    with refused(InvalidValue, 'reacts to "doc.*"'):
        await replay("report", since=START, until=world.now, pattern="other")
    with refused(WrongState, "due by the clock"):
        await replay("clock", since=START, until=world.now)
    await world.store.schedules.pause("report")
    with refused(WrongState, "paused"):
        await replay("report", since=START, until=world.now)


@check
async def what_a_tenant_says_moves_and_calls_off_nothing_of_others(world: World) -> None:
    await world.add(reminder(), reminder("ours", "on a"), plan("theirs", "on a", tenant="other"))
    starts_at = START + 3 * DAY
    said = encode({"id": 1, "starts_at": starts_at.isoformat()})
    for tenant in ("other", "acme"):
        await world.store.events.emit(
            [Emitted(name="class.scheduled", payload=said, tenant=tenant)]
        )
        await react(world)
    equal(sorted(job.tenant for job in await world.live()), ["acme", "other"])
    world.wait(SECOND)
    await cancelled(world)
    await react(world)
    job = await only(world)
    equal((job.tenant, job.due_at), ("other", starts_at - DAY))
    equal(await fires(world), [("queued", None), ("skipped", Cause.WITHDRAWN)])
    await emit(world, "a", id=1)
    await react(world)
    equal((await fires(world, "ours"), await fires(world, "theirs")), ([("queued", None)], []))
