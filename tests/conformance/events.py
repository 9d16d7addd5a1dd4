"""What happened is remembered, looked at once, and can be asked for."""

import asyncio
from datetime import timedelta
from typing import Any

from duly.errors import InvalidValue, NotFound, OutcomeUnknown, WrongState
from duly.model.access import Actor
from duly.model.event import Emitted, EventFilter
from duly.model.fire import Cause, Outcome
from duly.model.payload import encode
from duly.store.maintenance import Retention
from duly.store.store import SqlStore
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import plan

DOC = {"doc": {"$event": "doc"}}
SECOND = timedelta(seconds=1)


async def emit(world: World, name: str = "doc.changed", **payload: Any) -> int:
    said = Emitted(name=name, payload=encode(payload), submitter="ada", tenant="acme")
    return (await world.store.events.emit([said]))[0]


async def react(world: World) -> int:
    """Look at everything new: how many jobs came of it."""
    return (await world.store.events.react(limit=100)).jobs


async def fires(world: World, name: str = "report") -> list[tuple[str, Cause | None]]:
    return [(str(fire.outcome), fire.cause) for fire in await world.fires(name)]


@check
async def what_was_emitted_can_be_asked_for(world: World) -> None:
    said = [
        Emitted(name="a.b", payload=encode({"n": 1}), key="k", submitter="ada", tenant="acme"),
        Emitted(name="a.c"),
    ]
    first, second = await world.store.events.emit(said)
    event = await world.store.events.get(first)
    equal((event.name, event.payload, event.key, event.at), ("a.b", '{"n":1}', "k", START))
    equal((event.submitter, event.tenant), ("ada", "acme"))
    equal((await world.store.events.get(second)).key, None)
    with refused(NotFound, "no event 12345678"):
        await world.store.events.get(12345678)


@check
async def events_are_listed_the_newest_first_a_page_at_a_time(world: World) -> None:
    numbers = []
    for name in ("a.x", "a.y", "a.y.z", "ab", "b.x"):
        numbers.append(await emit(world, name))
        world.wait(SECOND)
    listed = world.store.events.page
    first = await listed(limit=3)
    equal([event.id for event in first.events], numbers[:1:-1])
    rest = await listed(after=first.after, limit=3)
    equal(([event.id for event in rest.events], rest.after), (numbers[1::-1], None))
    below = await listed(EventFilter(pattern="a.*"))
    equal([event.name for event in below.events], ["a.y.z", "a.y", "a.x"])
    equal([event.name for event in (await listed(EventFilter(pattern="a.y"))).events], ["a.y"])
    some = await listed(EventFilter(since=START + SECOND, until=START + 3 * SECOND))
    equal([event.name for event in some.events], ["a.y.z", "a.y"])
    with refused(InvalidValue, "not a cursor of events"):
        await listed(after="x")


@check
async def events_are_found_by_what_they_are_about(world: World) -> None:
    await world.store.events.emit([Emitted(name="a", key="k"), Emitted(name="a", key="other")])
    page = await world.store.events.page(EventFilter(key="k"))
    equal([event.key for event in page.events], ["k"])


@check
async def events_are_found_by_whose_they_are_and_by_their_numbers(world: World) -> None:
    said = [Emitted(name="a", tenant=tenant) for tenant in ("", "acme", "other", "acme")]
    numbers = await world.store.events.emit(said)
    page = await world.store.events.page(EventFilter(tenant="acme"))
    equal(sorted(event.id for event in page.events), [numbers[1], numbers[3]])
    found = await world.store.events.find([numbers[2], 12345678, numbers[0]])
    equal(sorted(event.id for event in found), [numbers[0], numbers[2]])
    equal(await world.store.events.find([]), [])


@check
async def what_a_person_emits_is_in_the_audit_log(world: World) -> None:
    await emit(world)
    equal(await world.store.access.audit(limit=10), [])
    await world.store.acting(Actor("ada", "token")).events.emit([Emitted(name="a", key="k")])
    [entry] = await world.store.access.audit(limit=10)
    equal(
        (entry.who, entry.action, entry.subject, entry.details),
        ("ada", "events.emit", "event:a", '{"key":"k"}'),
    )


@check
async def an_emit_whose_answer_was_lost_says_it_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    losing.lose("emit_events", times=3)
    [number] = await SqlStore(losing).events.emit([Emitted(name="a")])
    equal([event.id for event in (await world.store.events.page()).events], [number])


@check
async def an_event_starts_one_job_for_each_schedule_that_means_it(world: World) -> None:
    await world.add(
        plan("doc", "on doc.changed", args=encode(DOC)),
        plan("all", "on *"),
        plan("below", "on doc.*"),
        plan("other", "on invoice.paid"),
        plan("clock"),
    )
    number = await emit(world, doc=7)
    done = await world.store.events.react(limit=10)
    equal((done.events, done.jobs, done.skipped, done.more), (1, 3, 0, False))
    equal(list(done.queues), ["default"] * 3)
    jobs = {job.fire_id: job for job in await world.live()}
    [fire] = await world.fires("doc")
    job = jobs[fire.id]
    equal((fire.due_at, fire.series, str(fire.outcome)), (START, number, "queued"))
    equal(
        (fire.job_id, job.args, job.due_at, str(job.state)), (job.id, '{"doc":7}', START, "ready")
    )
    equal((job.submitter, job.tenant, job.key), ("ada", "acme", None))
    told = dict(await world.store.events.reactions([number]))
    equal(sorted(told), ["all", "below", "doc"])
    equal(told["doc"], fire)
    other = await emit(world, "invoice.paid")
    await react(world)
    both = await world.store.events.reactions([number, other])
    equal([name for name, one in both if one.series == other], ["all", "other"])
    equal(len(both), 5)
    equal(await world.fires("clock"), [])


@check
async def an_event_is_looked_at_once(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    await emit(world)
    equal([await react(world), await react(world)], [1, 0])
    equal(len(await world.live()), 1)


@check
async def events_are_looked_at_a_bounded_piece_at_a_time(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    for _ in range(3):
        await emit(world)
    first = await world.store.events.react(limit=2)
    equal((first.events, first.more), (2, True))
    equal((await world.store.events.react(limit=2)).events, 1)
    equal(len(await world.live()), 3)


@check
async def of_several_reactors_at_once_one_starts_the_job(world: World) -> None:
    await world.add(plan(rule="on doc.changed"), plan("keyed", 'on doc.changed key="{doc}"'))
    for doc in range(5):
        await emit(world, doc=doc)
    nodes = [world, *(world.another_node() for _ in range(3))]
    await asyncio.gather(*(react(node) for node in nodes for _ in range(2)))
    equal(len(await world.live()), 10)
    equal([len(await world.fires(name)) for name in ("report", "keyed")], [5, 5])


@check
async def a_reaction_whose_answer_was_lost_is_not_made_again(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    for lost in ("see_events", "enqueue_as"):
        await emit(world)
        losing = LosingAnswers(world.database)
        losing.lose(lost)
        node = World(SqlStore(losing), world.clock)
        with refused(OutcomeUnknown):
            await react(node)
        await react(node)
    equal(len(await world.live()), 2)
    equal(await fires(world), [("queued", None)] * 2)


@check
async def what_happened_before_a_schedule_was_there_is_not_for_it(world: World) -> None:
    await emit(world)
    world.wait(SECOND)
    await world.add(plan(rule="on doc.changed"))
    equal(await react(world), 0)
    equal(await world.fires(), [])


@check
async def what_lacks_a_field_is_refused_in_the_ledger(world: World) -> None:
    await world.add(plan(rule="on doc.changed", args=encode(DOC)))
    await emit(world, other=1)
    done = await world.store.events.react(limit=10)
    equal((done.jobs, done.skipped), (0, 1))
    [fire] = await world.fires()
    equal((fire.outcome, fire.cause), (Outcome.SKIPPED, Cause.REFUSED))
    holds('has no field "doc", which work takes' in fire.reason, fire.reason)
    [told] = await world.store.activity.not_kept(START, limit=10)
    equal((told.schedule, told.cause, told.reason), ("report", Cause.REFUSED, fire.reason))


@check
async def what_happens_in_a_pause_is_skipped_in_the_ledger(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    await world.by("ada").schedules.pause("report", note="migration")
    await emit(world)
    equal(await react(world), 0)
    world.wait(SECOND)
    await world.store.schedules.resume("report")
    await emit(world)
    equal(await react(world), 1)
    equal(await fires(world), [("skipped", Cause.PAUSED), ("queued", None)])
    holds("by ada" in (await world.fires())[0].reason, "who paused it is told")
    with refused(InvalidValue, "catch_up"):
        await world.store.schedules.pause("report", catch_up=True)


@check
async def a_pause_of_a_reaction_ends_by_itself(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    await world.store.schedules.pause("report", until=START + HOUR)
    await world.fire_after(HOUR)
    schedule = await world.schedule()
    equal((schedule.pause, schedule.next_at, schedule.fault), (None, None, None))
    await emit(world)
    equal(await react(world), 1)


@check
async def the_clock_and_people_leave_reactions_alone(world: World) -> None:
    await world.add(plan(rule="on doc.changed"))
    await world.fire_after(24 * HOUR)
    equal((await world.fires(), (await world.schedule()).next_at), ([], None))
    with refused(WrongState, "takes its arguments from events"):
        await world.store.schedules.run("report")
    with refused(WrongState, "replayed"):
        await world.store.schedules.backfill("report", since=START, until=START + HOUR)
    with refused(WrongState, "reacts to events"):
        await world.store.schedules.rewind("report", to=START)
    equal(await world.store.schedules.skip_next("report"), [])


@check
async def a_schedule_becomes_a_reaction_and_back(world: World) -> None:
    await world.add(plan(overlap="allow"))
    rules = world.store.schedules.edit
    await rules("report", lambda _: plan(rule="on doc.changed"))
    equal((await world.schedule()).next_at, None)
    await emit(world)
    equal(await react(world), 1)
    await rules("report", lambda _: plan(rule="every 1m"))
    equal((await world.schedule()).next_at, START + MINUTE)
    await emit(world)
    equal(await react(world), 0)


@check
async def a_reaction_that_is_not_in_time_is_skipped(world: World) -> None:
    soon: dict[str, Any] = {"start_within": MINUTE}
    await world.add(
        plan(rule="on doc.changed", **soon),
        plan("late", "on doc.changed", late="run", **soon),
        plan("hurry", "on doc.changed", late="hurry", **soon),
    )
    await emit(world)
    world.wait(2 * MINUTE)
    equal(await react(world), 2)
    equal(await fires(world), [("skipped", Cause.LATE)])
    equal(sorted(job.priority for job in await world.live()), [0, 50])


@check
async def old_events_are_forgotten_once_they_were_looked_at(world: World) -> None:
    seen, unseen = await emit(world), 0
    await react(world)
    unseen = await emit(world)
    world.wait(timedelta(days=30))
    young = await emit(world)
    await world.store.maintenance.prune(Retention(), limit=100)
    kept = [event.id for event in (await world.store.events.page()).events]
    equal(kept, [young, unseen])
    holds(seen not in kept, "what was looked at is gone")
