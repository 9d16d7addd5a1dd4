"""What is enqueued under a key is there once, however often it is asked, and by however many."""

import asyncio
from datetime import timedelta

from duly.errors import WrongState
from duly.model.access import Actor
from duly.model.event import Emitted
from duly.model.states import State
from duly.store.maintenance import Retention
from duly.store.store import SqlStore
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import World
from tests.factories import call

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
ADA, BOB = Actor("ada", "token"), Actor("bob", "token")


@check
async def what_is_asked_again_under_a_key_is_not_done_again(world: World) -> None:
    jobs = world.store.jobs
    calls = [call(title="a"), call(title="b", key="k")]
    first = await jobs.enqueue_once(calls, key="x", mark="1")
    equal(await jobs.enqueue_once(calls, key="x", mark="1"), first)
    equal([(job.id, job.title) for job in await world.live()], list(zip(first, "ab", strict=True)))
    holds(await jobs.enqueue_once(calls[:1], key="y", mark="1") != first[:1], "another key")


@check
async def a_key_is_known_when_its_job_has_ended(world: World) -> None:
    jobs = world.store.jobs
    first = await jobs.enqueue_once([call()], key="x", mark="1")
    await world.end(await world.begin())
    equal(await jobs.enqueue_once([call()], key="x", mark="1"), first)
    equal((await world.live(), len(await jobs.ended(State.SUCCEEDED))), ([], 1))


@check
async def something_else_under_the_same_key_is_refused(world: World) -> None:
    jobs = world.store.jobs
    await jobs.enqueue_once([call(title="a")], key="x", mark="1")
    with refused(WrongState, saying='"x" was used for another request within a day'):
        await jobs.enqueue_once([call(title="b")], key="x", mark="2")
    equal([job.title for job in await world.live()], ["a"])


@check
async def what_happened_is_said_once_under_a_key(world: World) -> None:
    events = world.store.acting(ADA).events
    said = [Emitted(name="a"), Emitted(name="b")]
    first = await events.emit_once(said, key="x", mark="1")
    equal(await events.emit_once(said, key="x", mark="1"), first)
    equal(sorted(event.id for event in (await events.page()).events), sorted(first))
    equal([entry.action for entry in await world.store.access.audit(limit=10)], ["events.emit"])
    with refused(WrongState, saying='"x" was used for another request within a day'):
        await events.emit_once(said[:1], key="x", mark="2")


@check
async def everybody_has_keys_of_their_own(world: World) -> None:
    ada, bob = (world.store.acting(who).jobs for who in (ADA, BOB))
    theirs = [
        await one.enqueue_once([call()], key="x", mark=mark)
        for one, mark in ((ada, "1"), (bob, "2"))
    ]
    equal(len(await world.live()), 2)
    equal(await ada.enqueue_once([call()], key="x", mark="1"), theirs[0])


@check
async def after_a_day_a_key_is_free_and_forgotten(world: World) -> None:
    jobs = world.store.jobs
    first = await jobs.enqueue_once([call()], key="x", mark="1")
    world.wait(DAY - SECOND)
    equal(await jobs.enqueue_once([call()], key="x", mark="1"), first)
    world.wait(SECOND)
    second = await jobs.enqueue_once([call()], key="x", mark="2")
    holds(second != first, "it is another job")
    equal(await jobs.enqueue_once([call()], key="x", mark="2"), second)
    await jobs.enqueue_once([call()], key="old", mark="1")
    world.wait(DAY + SECOND)
    await world.store.maintenance.prune(Retention(), limit=100)
    holds(await jobs.enqueue_once([call()], key="old", mark="other"), "nothing is known of it")


@check
async def what_fails_leaves_its_key_free(world: World) -> None:
    jobs = world.store.jobs
    await jobs.enqueue([call(key="k")])
    for _ in range(2):
        with refused(Exception, saying="is held by job"):
            await jobs.enqueue_once([call(key="k", if_exists="error")], key="x", mark="1")
    holds(await jobs.enqueue_once([call()], key="x", mark="2"), "the key was not used")


@check
async def a_lost_answer_under_a_key_enqueues_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = SqlStore(losing)
    losing.lose("note_once")
    numbers = await node.jobs.enqueue_once([call(title="a")], key="x", mark="1")
    equal(losing.lost, 1)
    equal([job.id for job in await world.live()], numbers)


@check
async def many_who_ask_at_once_under_a_key_get_the_same_job(world: World) -> None:
    nodes = [world.store, world.another_node().store]
    asked = (nodes[n % 2].jobs.enqueue_once([call()], key="x", mark="1") for n in range(8))
    answers = await asyncio.gather(*asked)
    equal(len({tuple(numbers) for numbers in answers}), 1)
    equal([job.id for job in await world.live()], answers[0])
