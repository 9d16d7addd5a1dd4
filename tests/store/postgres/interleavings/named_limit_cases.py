"""Cases about limits that change under those who come and go: rules, openings, pruning, nets."""

from datetime import timedelta

from duly.instants import to_us
from duly.store import limits, maintenance
from tests.factories import plan
from tests.interleaving.interleave import Explored, Order, once
from tests.store.postgres.interleavings.actors import (
    SUCCESSOR,
    Broken,
    Scene,
    expect,
    finish,
    fire,
)
from tests.store.postgres.interleavings.limit_actors import (
    FIRST,
    MOST,
    SECOND,
    THIRD,
    a_look,
    begun,
    careful,
    is_one_of,
    limited,
    named_limit,
    play,
    ready,
)

HOUR = timedelta(hours=1)


async def a_claim_and_a_pruner(scene: Scene) -> Explored:
    await ready(scene, limited())
    [job] = await begun(scene)
    await scene.stage.run(lambda: finish(job))
    await scene.enqueue(SECOND, limited())
    before = to_us(scene.stage.now + timedelta(seconds=1))
    scene.wait(60)
    return await play(
        scene,
        is_one_of(scene, {FIRST: "succeeded", SECOND: "running"}),
        pruner=once(lambda: maintenance.prune("prune_limits", before, 10)),
        worker=once(careful),
    )


async def a_rule_and_a_claim(scene: Scene) -> Explored:
    await ready(scene, limited(), limited())
    await begun(scene)
    return await play(
        scene,
        is_one_of(
            scene, {FIRST: "running", SECOND: "running"}, {FIRST: "running", SECOND: "ready"}
        ),
        operator=once(lambda: limits.set_rule("crm", 2, None)),
        worker=once(lambda: careful(SUCCESSOR)),
    )


async def a_lowered_rule_and_a_claim(scene: Scene) -> Explored:
    await ready(scene, limited(named_limit(concurrency=2)), limited(named_limit(concurrency=2)))
    await begun(scene)

    async def claims_after_it(order: Order) -> Broken:
        found = await scene.stage.run(lambda: careful(SUCCESSOR))
        running = sum(state == "running" for state in (await scene.states()).values())
        return expect(not found or running <= 1, f"{running} run")

    # Who decided before the rule was there may be over it.
    return await scene.play(
        claims_after_it,
        most=MOST,
        operator=once(lambda: limits.set_rule("crm", 1, None)),
        worker=once(lambda: careful(SUCCESSOR)),
    )


async def an_opening_and_a_claim(scene: Scene) -> Explored:
    """A rate opens while somebody comes who will wait for its next opening."""
    paced = named_limit(concurrency=None, rate="1/m")
    await ready(scene, limited(paced), limited(paced))
    await begun(scene, limit=5)
    await scene.enqueue(THIRD, limited(paced))
    scene.wait(60)
    return await play(
        scene,
        dispatcher=once(lambda: limits.open_limits(10)),
        worker=once(lambda: careful(SUCCESSOR, limit=5)),
    )


async def an_opening_and_an_end(scene: Scene) -> Explored:
    both = named_limit(concurrency=1, rate="1/m")
    await ready(scene, limited(both), limited(both), limited(both))
    [job] = await begun(scene, limit=5)
    scene.wait(60)
    await scene.stage.look("update duly.named_limit set opens_at = 0 returning name")
    return await play(
        scene,
        dispatcher=once(lambda: limits.open_limits(10)),
        worker=once(lambda: finish(job)),
    )


async def an_end_while_somebody_holds_who_waits(scene: Scene) -> Explored:
    """A scheduler looks at the jobs of its schedule, one of which waits at the limit."""
    await ready(scene, limited())
    await scene.add(plan(rule="every 10s", overlap="queue_one", limits=(named_limit(),)))
    [job] = await begun(scene)
    scene.wait(10)
    await scene.fire()
    await begun(scene)
    scene.wait(10)
    return await play(
        scene,
        most=80,
        worker=once(lambda: finish(job)),
        scheduler=once(lambda: fire(91)),
    )


async def a_net_and_a_claim(scene: Scene) -> Explored:
    """Somebody is said to have a place, does not run, and is about to."""
    await ready(scene, limited(), limited())
    await scene.stage.run(a_look)
    await scene.stage.look(
        "insert into duly.holding (limit_name, job_id) values ('crm', 100) returning limit_name"
    )
    return await play(
        scene,
        net=once(lambda: limits.sweep(10)),
        worker=once(lambda: careful(limit=5)),
    )
