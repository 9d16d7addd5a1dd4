"""Cases about schedules: what is there, who acts on it, and what must hold in every order."""

from datetime import timedelta

from duly.instants import EPOCH
from duly.model.job import Claimed, Owner
from duly.model.policies import Overlap
from duly.model.schedule import Pause
from duly.policy.firing import decide
from duly.store import declarations, schedule_changes
from duly.store.database import Operation
from duly.store.declarations import Declared, WantedSchedule
from duly.store.transactions import Editor
from duly.store.values import CLOCK
from tests.factories import plan
from tests.interleaving.interleave import Explored, Order, once
from tests.store.postgres.interleavings.actors import (
    Broken,
    Scene,
    claim,
    expect,
    finish,
    fire,
    numbers,
)

EVERY = "every 10s"

# So long a step that schedulers see different sets of due moments.
SLOW = timedelta(seconds=4)

a_scheduler = once(lambda: fire(1))
another_scheduler = once(lambda: fire(2))
a_pause = once(
    lambda: schedule_changes.pause("report", Pause(since=EPOCH), Editor("me", decide, numbers(3)))
)


async def scheduled(scene: Scene, overlap: Overlap = "allow") -> None:
    """A schedule with two moments that are due."""
    await scene.add(plan(rule=EVERY, overlap=overlap))
    scene.wait(25)


async def with_a_running_job(scene: Scene, overlap: Overlap, *, behind: int = 0) -> Claimed:
    """A schedule that is due, with a job that runs and as many as there can be that wait."""
    await scene.add(plan(rule=EVERY, overlap=overlap))
    await scene.worker()
    scene.wait(10)
    await scene.fire(block=80)
    job = await scene.begin()
    for place in range(behind):
        scene.wait(10)
        await scene.fire(block=81 + place)
    scene.wait(15)
    return job


async def two_schedulers(scene: Scene) -> Explored:
    await scheduled(scene)
    return await scene.play(tick=SLOW, a=a_scheduler, b=another_scheduler)


async def a_pause_and_a_scheduler(scene: Scene) -> Explored:
    await scheduled(scene)

    async def is_paused(order: Order) -> Broken:
        found = await scene.column("select pause is not null from duly.schedule")
        return expect(found == [True], "the pause is gone")

    return await scene.play(is_paused, tick=SLOW, most=80, a=a_scheduler, pauser=a_pause)


async def a_scheduler_and_an_end(
    scene: Scene, overlap: Overlap = "queue_all", behind: int = 0
) -> Explored:
    job = await with_a_running_job(scene, overlap, behind=behind)
    return await scene.play(most=60, a=a_scheduler, worker=once(lambda: finish(job)))


async def a_scheduler_and_a_claim(scene: Scene) -> Explored:
    """The next moment wants to take over a job that a worker is about to begin."""
    await scene.add(plan(rule=EVERY, overlap="queue_one"))
    await scene.worker()
    scene.wait(10)
    await scene.fire(block=80)
    scene.wait(15)
    taking = once(lambda: claim(shelf=CLOCK))
    return await scene.play(most=80, a=a_scheduler, worker=taking)


def declare(mark: str, block: int) -> Operation[Declared]:
    """A node announces the set of its version, in which the schedule has another rule."""
    wanted = [WantedSchedule(plan(rule=RULES[mark], owner=Owner.CODE))]
    return declarations.declare(
        "shop", mark, wanted, whole=True, was_in_force=False, decide=decide, ids=numbers(block)
    )


RULES = {"before": "every 3h", "one": "every 1h", "two": "every 2h"}


async def two_nodes_declare(scene: Scene) -> Explored:
    """Two nodes of different versions start at once: the set in force is the one written."""
    await scene.stage.look("insert into duly.app values ('shop', '', 0) returning 1")
    await scene.stage.run(lambda: declare("before", 80))

    async def the_rule_is_of_the_set_in_force(_: Order) -> Broken:
        [mark] = await scene.column("select mark from duly.app")
        [rule] = await scene.column("select rule from duly.schedule")
        return expect(rule == RULES[mark], f"{mark} is in force, and the rule is {rule}")

    return await scene.play(
        the_rule_is_of_the_set_in_force,
        one=once(lambda: declare("one", 81)),
        two=once(lambda: declare("two", 82)),
    )
