"""Cases about flows: those who end its steps, and whoever stops it, at the same time."""

from collections.abc import Sequence
from datetime import timedelta

from duly.model.event import Emitted
from duly.model.flow import Awaited, FlowPlan, StepPlan
from duly.model.job import Claimed
from duly.model.outcome import Opened
from duly.store import events, maintenance
from duly.store.database import alone
from tests.factories import call
from tests.interleaving.interleave import Explored, Order, Program, once
from tests.store.postgres.interleavings.actors import (
    Broken,
    Scene,
    cancel,
    claim,
    expect,
    finish,
    numbers,
)

FLOW = 100
COUNTS = """
select format('%s steps are said to be left, and there are %s', flow.remaining, there)
  from duly.flow
  join lateral (select count(*) as there from duly.step
                 where step.flow = flow.id and state in ('waiting', 'running')) as steps on true
 where flow.remaining <> there
 union all
select format('step %s waits for %s, and there are %s', step.number, step.waiting, there)
  from duly.step
  join lateral (select count(*) as there from duly.step as other
                 where other.flow = step.flow and other.state in ('waiting', 'running')
                   and step.follows::jsonb @> to_jsonb(other.number)) as steps on true
 where step.state = 'waiting' and (step.waiting <> there or there = 0)
 union all
select format('step %s has %s parts left, and there are %s', step.number, step.remaining, there)
  from duly.step
  join lateral (select count(*) as there from duly.part
                 where part.flow = step.flow and part.step = step.number
                   and state = 'running') as parts on true
 where step.state = 'running' and step.remaining <> there
 union all
select format('flow %s runs, and nothing of it does', job.id)
  from duly.job
 where waits = 'steps'
   and not exists (select from duly.job as one where one.parent = job.id and one.step is not null)
"""


def diamond() -> FlowPlan:
    """Two steps between a first and a last one."""
    steps = ((), (0,), (0,), (1, 2))
    return FlowPlan(
        steps=tuple(
            StepPlan(name=f"step {n}", call=call(), before=before) for n, before in enumerate(steps)
        )
    )


async def two_steps_that_run(scene: Scene) -> Sequence[Claimed]:
    """A flow whose first step is done, and whose two next are run."""
    await scene.worker()
    await scene.enqueue(FLOW, call())
    flow = await scene.begin()
    await scene.stage.run(lambda: finish(flow, outcome=Opened(diamond()), block=80))
    first = await scene.begin()
    await scene.stage.run(lambda: finish(first, block=81))
    return await scene.stage.run(lambda: claim(limit=2))


async def two_ends_before_a_join(scene: Scene) -> Explored:
    left, right = await two_steps_that_run(scene)

    async def it_has_started_once(_: Order) -> Broken:
        found = [text for (text,) in await scene.stage.look(COUNTS)]
        begun = await scene.column("select id from duly.job where step = 3")
        return [*found, *expect(len(begun) == 1, f"behind both is {begun}")]

    return await scene.play(
        it_has_started_once,
        one=once(lambda: finish(left, block=82)),
        two=once(lambda: finish(right, block=83)),
    )


def waits_for_an_event() -> FlowPlan:
    awaited = Awaited("order.paid", None, timedelta(hours=1))
    return FlowPlan(
        steps=(
            StepPlan(name="ask", call=call()),
            StepPlan(name="wait", call=call("wait"), before=(0,), awaited=awaited),
        )
    )


async def an_event_and_a_step_that_begins_to_wait(scene: Scene) -> Explored:
    """What a step waits for happens, and is looked at, while the step is made."""
    await scene.worker()
    await scene.enqueue(FLOW, call())
    flow = await scene.begin()
    await scene.stage.run(lambda: finish(flow, outcome=Opened(waits_for_an_event()), block=80))
    first = await scene.begin()

    def ends_and_answers() -> Program:
        yield lambda: finish(first, block=82)
        return (yield lambda: maintenance.answer(10, ids=numbers(86)))

    def somebody_says_it() -> Program:
        yield lambda: alone(events.emit([Emitted(name="order.paid")], [9_001]))
        return (yield lambda: events.react(events.EventBatch(limit=10), ids=numbers(84)))

    async def it_is_answered(_: Order) -> Broken:
        await scene.stage.run(lambda: maintenance.answer(10, ids=numbers(85)))
        states = await scene.states()
        return expect(states[FLOW] == "succeeded", f"the flow is {states[FLOW]}: {states}")

    return await scene.play(
        it_is_answered,
        most=200,
        worker=ends_and_answers,
        somebody=somebody_says_it,
    )


async def an_end_and_a_cancellation(scene: Scene) -> Explored:
    """Somebody does not want the flow any more, while its steps end."""
    left, right = await two_steps_that_run(scene)

    async def nothing_is_left(_: Order) -> Broken:
        found = [text for (text,) in await scene.stage.look(COUNTS)]
        states = await scene.states()
        over = states[FLOW] == "cancelled" or "cancelled" not in states.values()
        return [*found, *expect(over, f"it is {states[FLOW]}")]

    return await scene.play(
        nothing_is_left,
        most=200,
        worker=once(lambda: finish(left, right, block=82)),
        person=once(lambda: cancel(FLOW)),
    )
