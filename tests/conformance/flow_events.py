"""A step may wait for something to happen: whichever comes first, the step or the event."""

from duly.model.event import Emitted
from duly.model.flow import Awaited, Fill, FlowPlan, Source
from duly.model.payload import Json, decode, encode
from duly.model.states import State
from tests.conformance.expect import equal, holds
from tests.conformance.flow_plans import done, opened, ready, states, step
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call

APPROVAL = "order.approved"


def approval(*, key: str | None = None) -> FlowPlan:
    """Something is prepared, somebody approves, and it is sent with what they said."""
    fill = Fill(("order",), Source(argument="order"))
    return FlowPlan(
        steps=(
            step("prepare"),
            step(
                "approve",
                0,
                call=call("wait", title="approve", args=encode({"order": None})),
                fills=(fill,),
                awaited=Awaited(APPROVAL, key, HOUR),
                wanted=True,
            ),
            step(
                "send",
                1,
                call=call("work", title="send", args=encode({"said": None})),
                fills=(Fill(("said",), Source(1)),),
            ),
        )
    )


async def waiting(world: World, key: str | None = None, order: int = 7) -> int:
    number = await opened(world, approval(key=key), args=encode({"order": order}))
    await done(world, "prepare")
    return number


async def happened(world: World, payload: Json, key: str | None = None) -> int:
    """Something is said, and whoever waits for it is answered: how many."""
    await world.store.events.emit([Emitted(name=APPROVAL, payload=payload, key=key)])
    return await world.store.maintenance.answer(limit=100)


@check
async def those_that_wait_are_listed_until_they_are_answered(world: World) -> None:
    first = await waiting(world, "a{order}", order=1)
    world.wait(MINUTE)
    second = await waiting(world, "a{order}", order=2)
    listed = await world.store.activity.awaiting(limit=5)
    equal([(job.parent, job.waits_for) for job in listed], [
        (first, f"{APPROVAL}:a1"), (second, f"{APPROVAL}:a2"),
    ])  # fmt: skip
    equal(len(await world.store.activity.awaiting(limit=1)), 1)
    await happened(world, encode({}), "a1")
    equal([job.parent for job in await world.store.activity.awaiting()], [second])


@check
async def a_step_waits_until_it_happens_and_has_what_was_said_as_its_result(world: World) -> None:
    number = await waiting(world)
    [job] = [job for job in await world.live() if job.step == 1]
    equal((job.state, job.waits, job.waits_for), (State.BLOCKED, "event", APPROVAL))
    equal(await world.store.maintenance.answer(limit=100), 0)
    equal(await happened(world, encode({"by": "ada"})), 1)
    sent = await done(world, "send")
    equal(decode(sent.args), {"said": {"by": "ada"}})
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def it_may_have_happened_before_the_step_began_to_wait(world: World) -> None:
    number = await opened(world, approval(), args=encode({"order": 7}))
    equal(await happened(world, encode({})), 0)
    world.wait(MINUTE)
    await done(world, "prepare")
    equal(await world.store.maintenance.answer(limit=100), 1)
    await done(world, "send")
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def what_happened_before_the_flow_began_is_about_another(world: World) -> None:
    await happened(world, encode({}))
    world.wait(MINUTE)
    await waiting(world)
    equal(await world.store.maintenance.answer(limit=100), 0)


@check
async def a_key_tells_which_flow_is_meant(world: World) -> None:
    first = await waiting(world, "order:{order}", order=7)
    second = await waiting(world, "order:{order}", order=8)
    equal(await happened(world, encode({}), "order:9"), 0)
    equal(await happened(world, encode({}), "order:8"), 1)
    equal(await states(world, first), ["succeeded", "running", "waiting"])
    equal(await states(world, second), ["succeeded", "succeeded", "running"])


@check
async def who_waits_too_long_fails_the_flow(world: World) -> None:
    number = await waiting(world)
    world.wait(HOUR + MINUTE)
    await world.dispatch()
    flow = await world.job(number)
    equal(flow.state, State.FAILED)
    holds("did not happen in time" in flow.reason, flow.reason)


@check
async def who_is_cancelled_does_not_wait_any_more(world: World) -> None:
    number = await waiting(world)
    await world.store.jobs.cancel(number)
    await world.dispatch()
    equal((await world.job(number)).state, State.CANCELLED)
    equal(await happened(world, encode({})), 0)
    equal(await ready(world), [])


@check
async def what_a_tenant_says_answers_nobody_else(world: World) -> None:
    await waiting(world)
    for tenant, answered in (("acme", 0), ("", 1)):
        await world.store.events.emit([Emitted(name=APPROVAL, tenant=tenant)])
        equal(await world.store.maintenance.answer(limit=100), answered)
