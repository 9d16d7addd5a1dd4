"""Cases about limits: who enters, who leaves, and who must not be left waiting."""

from datetime import timedelta

from duly.model.limit import Queue
from duly.store import work
from duly.store.values import NORMAL
from tests.factories import call
from tests.interleaving.interleave import Explored, Order, Program, once
from tests.store.postgres.interleavings.actors import (
    LEASE,
    SUCCESSOR,
    WORKER,
    Broken,
    Scene,
    cancel,
    claim,
    enqueue,
    expect,
    finish,
    take_back,
)
from tests.store.postgres.interleavings.limit_actors import (
    FIRST,
    SECOND,
    THIRD,
    a_look,
    a_turn_of,
    begun,
    careful,
    is_one_of,
    limited,
    named_limit,
    play,
    ready,
)

HOUR = timedelta(hours=1)


async def two_claims(scene: Scene) -> Explored:
    await ready(scene, limited(), limited())
    return await play(
        scene,
        is_one_of(scene, {FIRST: "running", SECOND: "blocked"}, {FIRST: "running", SECOND: "ready"},
                  {FIRST: "blocked", SECOND: "running"}, {FIRST: "ready", SECOND: "running"}),
        one=once(lambda: careful(limit=2)),
        two=once(lambda: careful(SUCCESSOR, limit=2)),
    )  # fmt: skip


async def two_claims_where_there_is_room(scene: Scene) -> Explored:
    await ready(scene, *(limited(named_limit(concurrency=2)) for _ in range(3)))
    await scene.stage.run(lambda: a_look(concurrency=2))

    async def both_have_one(order: Order) -> Broken:
        claimed = [len(found) for found in order.results.values() if isinstance(found, list)]
        return expect(sum(claimed) <= 2 and max(claimed) == 1, f"claimed: {claimed}")

    return await play(scene, both_have_one, one=once(careful), two=once(lambda: careful(SUCCESSOR)))


async def two_claims_from_two_queues(scene: Scene, *, known: bool = True) -> Explored:
    await ready(scene, limited(), limited(queue="other"))
    if known:
        await scene.stage.run(a_look)
    return await play(
        scene,
        is_one_of(
            scene, {FIRST: "running", SECOND: "blocked"}, {FIRST: "blocked", SECOND: "running"}
        ),
        one=once(careful),
        two=once(lambda: careful(SUCCESSOR, queue="other")),
    )


async def two_claims_at_a_limit_that_nobody_has_met(scene: Scene) -> Explored:
    return await two_claims_from_two_queues(scene, known=False)


async def two_claims_from_a_limited_queue(scene: Scene) -> Explored:
    await ready(scene, call(), call(priority=-50))
    await scene.stage.run(lambda: work.set_queue(Queue(name="default", concurrency=1)))

    async def one_has_some(order: Order) -> Broken:
        states = sorted((await scene.states()).values())
        return expect(states == ["ready", "running"], f"{states}")

    return await play(
        scene,
        one_has_some,
        one=once(lambda: careful(limit=2, shelf=NORMAL)),
        two=once(lambda: careful(SUCCESSOR, limit=2, shelf=NORMAL + 1)),
    )


async def a_claim_in_passing(scene: Scene) -> Explored:
    """From a queue with a limit, beside one that minds it."""
    await ready(scene, call(), call())
    await scene.stage.run(lambda: work.set_queue(Queue(name="default", concurrency=1)))
    return await play(
        scene,
        one=once(lambda: careful(limit=2, shelf=NORMAL)),
        two=once(lambda: claim(SUCCESSOR, limit=2)),
    )


async def a_turn(scene: Scene) -> Explored:
    """The same, as one statement."""
    await ready(scene, call(), call())
    await scene.stage.run(lambda: work.set_queue(Queue(name="default", concurrency=1)))
    return await play(
        scene,
        one=once(lambda: careful(limit=2, shelf=NORMAL)),
        two=once(lambda: a_turn_of(SUCCESSOR)),
    )


async def an_end_and_a_claim(scene: Scene) -> Explored:
    await ready(scene, limited(), limited())
    [job] = await begun(scene)
    return await play(
        scene,
        is_one_of(
            scene, {FIRST: "succeeded", SECOND: "running"}, {FIRST: "succeeded", SECOND: "ready"}
        ),
        worker=once(lambda: finish(job)),
        other=once(lambda: careful(SUCCESSOR)),
    )


async def an_end_and_a_claim_of_another(scene: Scene) -> Explored:
    """One waits there, and a newcomer is claimed while the place becomes free.

    Who found the newcomer alone may let it in before the other: both were ready by then.
    """
    await ready(scene, limited(), limited())
    [job] = await begun(scene, limit=5)
    await begun(scene)
    await scene.enqueue(THIRD, limited())

    async def the_place_is_used(order: Order) -> Broken:
        states = await scene.states()
        return [
            *expect(states[SECOND] in ("ready", "running"), f"{states}: it is left waiting"),
            *expect("running" in states.values() or states[SECOND] == "ready", f"{states}"),
        ]

    return await play(
        scene,
        the_place_is_used,
        worker=once(lambda: finish(job)),
        other=once(lambda: careful(SUCCESSOR, limit=5)),
    )


async def two_ends(scene: Scene) -> Explored:
    await ready(scene, *(limited(named_limit(concurrency=2)) for _ in range(4)))
    one, two = await begun(scene, limit=2)
    await begun(scene, limit=4)
    return await play(
        scene,
        is_one_of(scene, {FIRST: "succeeded", SECOND: "succeeded", THIRD: "ready", 400: "ready"}),
        one=once(lambda: finish(one)),
        two=once(lambda: finish(two)),
    )


async def a_cancellation_and_an_end(scene: Scene) -> Explored:
    """Of one that waits, while the place becomes free for which it waits."""
    await ready(scene, limited(), limited(), limited())
    [job] = await begun(scene, limit=5)
    return await play(
        scene,
        is_one_of(scene, {FIRST: "succeeded", SECOND: "cancelled", THIRD: "ready"}),
        worker=once(lambda: finish(job)),
        person=once(lambda: cancel(SECOND)),
    )


async def a_cancellation_and_a_claim(scene: Scene) -> Explored:
    """Of one that was set free, while it is about to take its place."""
    await ready(scene, limited(), limited(), limited())
    [job] = await begun(scene, limit=5)
    await scene.stage.run(lambda: finish(job))

    async def the_place_is_used(order: Order) -> Broken:
        states = await scene.states()
        if states[SECOND] == "cancelled":
            return expect(states[THIRD] in ("ready", "running"), f"{states}: left waiting")
        return expect((states[SECOND], states[THIRD]) == ("running", "blocked"), f"{states}")

    return await play(
        scene,
        the_place_is_used,
        person=once(lambda: cancel(SECOND)),
        other=once(lambda: careful(SUCCESSOR)),
    )


async def a_move_and_an_end(scene: Scene) -> Explored:
    await ready(scene, limited(), limited(key="k"), limited())
    [job] = await begun(scene, limit=5)
    return await play(
        scene,
        worker=once(lambda: finish(job)),
        person=once(lambda: enqueue((400, limited(key="k", run_after=HOUR)))),
    )


async def a_zombie_and_its_successor(scene: Scene) -> Explored:
    await scene.worker(lease=LEASE)
    await scene.worker(SUCCESSOR)
    await scene.enqueue(FIRST, limited())
    await scene.enqueue(SECOND, limited())
    [job] = await begun(scene, limit=5)
    scene.wait(60)

    def takes_back_and_claims() -> Program:
        taken = yield take_back
        return taken, (yield lambda: careful(SUCCESSOR, limit=5))

    async def the_place_is_used(order: Order) -> Broken:
        states = await scene.states()
        waiting = [state for state in states.values() if state in ("ready", "running")]
        return expect(waiting, f"{states}: nobody uses it")

    return await play(
        scene,
        the_place_is_used,
        zombie=once(lambda: finish(job)),
        reaper=takes_back_and_claims,
    )


async def two_limits_in_two_orders(scene: Scene) -> Explored:
    a, b = named_limit("a"), named_limit("b")
    await ready(scene, limited(a), limited(b), limited(a, b), limited(b, a, queue="other"))
    one, two = await begun(scene, limit=2)
    return await play(
        scene,
        most=60,
        ends=once(lambda: finish(one, two)),
        one=once(lambda: careful(WORKER)),
        two=once(lambda: careful(SUCCESSOR, queue="other")),
    )
