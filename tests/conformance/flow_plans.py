"""Flows to be held against the promises, and a worker who runs the steps that are named."""

from typing import Any

from duly.model.flow import Fill, FlowPlan, Over, Source, StepPlan
from duly.model.job import StoredJob
from duly.model.outcome import Opened, Outcome, Returned
from duly.model.payload import encode
from tests.conformance.world import World
from tests.factories import call


def step(name: str, *before: int, **changes: Any) -> StepPlan:
    """A step called ``name`` behind those of these numbers."""
    asked = changes.pop("call", None) or call(task="work", title=name)
    return StepPlan(name=name, call=asked, before=before, **changes)


def chain(length: int) -> FlowPlan:
    """Each step takes the result of the one before."""
    steps = [step("step 0", wanted=True)]
    for n in range(1, length):
        fill = Fill(("value",), Source(n - 1))
        asked = call(task="work", title=f"step {n}", args=encode({"value": None}))
        steps.append(step(f"step {n}", n - 1, call=asked, fills=(fill,), wanted=True))
    return FlowPlan(steps=tuple(steps), result=length - 1)


def diamond(**changes: Any) -> FlowPlan:
    """Two steps between a first and a last one."""
    last = step("last", 1, 2, **changes)
    return FlowPlan(steps=(step("first"), step("left", 0), step("right", 0), last))


def fan(items: str | None = None, **changes: Any) -> FlowPlan:
    """A list, a job for each of its items, and one that takes what they come to."""
    over = Over("item", Source(0)) if items is None else Over("item", items=encode([*items]))
    return FlowPlan(
        steps=(
            step("list", wanted=True),
            step(
                "each", 0, over=over, wanted=True, call=call(task="work", title="each"), **changes
            ),
            step(
                "all",
                1,
                call=call(task="work", title="all", args=encode({"found": None})),
                fills=(Fill(("found",), Source(1)),),
                wanted=True,
            ),
        ),
        result=2,
    )


async def opened(world: World, plan: FlowPlan, **changes: Any) -> int:
    """A flow that a worker has opened: its number."""
    number = await world.enqueue(call(**changes))
    await world.end(await world.begin(), Opened(plan))
    return number


async def ready(world: World) -> list[str]:
    """The titles of the steps that can run, or do."""
    return sorted(job.title for job in await world.live() if job.step is not None)


async def done(world: World, title: str, outcome: Outcome | None = None) -> StoredJob:
    """Let a worker run the step of this title."""
    job = await begun(world, title)
    await world.end(job, outcome)
    return job


async def begun(world: World, title: str) -> StoredJob:
    claimed = await world.claim(1_000)
    wanted = [job for job in claimed if job.title == title and job.step is not None]
    for job in claimed:
        if job not in wanted[:1]:
            await world.end(job, Returned())
    return wanted[0]


async def states(world: World, number: int) -> list[str]:
    """What became of the steps of a flow."""
    flow = await world.store.jobs.flow(number)
    return [] if flow is None else [str(one.state) for one in flow.steps]
