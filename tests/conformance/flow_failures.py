"""A step that fails: what happens to the rest, and how the flow is gone on with later."""

from datetime import timedelta

from duly.errors import WrongState
from duly.model.flow import Fill, FlowPlan, Over, Source
from duly.model.outcome import Opened, Raised, Stopped, Succeeded
from duly.model.payload import decode, encode
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.store.maintenance import Retention
from tests.conformance.expect import equal, holds, refused
from tests.conformance.flow_plans import (
    begun,
    chain,
    diamond,
    done,
    fan,
    opened,
    ready,
    states,
    step,
)
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call

RETENTION = Retention(
    history=timedelta(days=14), failed=timedelta(days=30), fires=timedelta(days=90)
)
FATAL = Raised("Oops", "it broke", permanent=True)


async def let_them_end(world: World) -> None:
    """Let those end that were asked to: what waits at once, what runs by its worker."""
    for _ in range(3):
        await world.dispatch()
        for job in await world.live():
            if job.id in await world.signals():
                await world.end(job, Stopped("told"))


@check
async def what_is_behind_a_failed_step_is_cancelled_and_the_flow_has_failed(world: World) -> None:
    number = await opened(world, chain(3))
    await done(world, "step 0", FATAL)
    flow = await world.job(number)
    equal(flow.state, State.FAILED)
    holds('step "step 0"' in flow.reason and "it broke" in flow.reason, flow.reason)
    equal(await states(world, number), ["failed", "cancelled", "cancelled"])
    equal(await world.live(), [])


@check
async def the_rest_is_cancelled_also_what_runs(world: World) -> None:
    number = await opened(world, diamond())
    await done(world, "first")
    left, right = await world.claim(2)
    await world.end(left, FATAL)
    equal((await world.job(number)).state, State.RUNNING)
    equal([*await world.signals()], [right.id])
    await world.end(right, Stopped("told"))
    equal((await world.job(number)).state, State.FAILED)
    equal(sorted(await states(world, number)), ["cancelled", "cancelled", "failed", "succeeded"])


@check
async def what_waits_for_a_worker_is_cancelled_by_the_dispatcher(world: World) -> None:
    number = await opened(world, diamond())
    await done(world, "first")
    await done(world, "left", FATAL)
    equal(await ready(world), ["right"])
    await world.dispatch()
    equal((await world.job(number)).state, State.FAILED)
    equal(await world.live(), [])


@check
async def the_rest_goes_on_if_the_step_says_so(world: World) -> None:
    steps = (step("a", if_failed="go_on"), step("b"), step("c", 1), step("d", 0))
    number = await opened(world, FlowPlan(steps=steps))
    await done(world, "a", FATAL)
    await done(world, "b")
    await done(world, "c")
    equal(await states(world, number), ["failed", "succeeded", "succeeded", "cancelled"])
    equal((await world.job(number)).state, State.FAILED)


@check
async def a_step_may_be_there_for_failures(world: World) -> None:
    steps = (
        step("try"),
        step("help", 0, when="any_failed", rescue=True),
        step("after help", 1, rescue=True),
        step("always", 0, when="all_done", rescue=True),
    )
    number = await opened(world, FlowPlan(steps=steps))
    await done(world, "try", FATAL)
    equal(await ready(world), ["always", "help"])
    await done(world, "help")
    await done(world, "after help")
    await done(world, "always")
    equal(await states(world, number), ["failed", "succeeded", "succeeded", "succeeded"])
    equal((await world.job(number)).state, State.FAILED)


@check
async def what_is_there_for_failures_is_skipped_if_there_are_none(world: World) -> None:
    steps = (
        step("try"),
        step("help", 0, when="any_failed", rescue=True),
        step("after help", 1, rescue=True),
        step("always", 1, when="all_done", rescue=True),
    )
    number = await opened(world, FlowPlan(steps=steps))
    await done(world, "try")
    await done(world, "always")
    equal(await states(world, number), ["succeeded", "skipped", "skipped", "succeeded"])
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def a_part_that_fails_cancels_the_others(world: World) -> None:
    number = await opened(world, fan())
    await done(world, "list", Succeeded(encode([1, 2, 3])))
    jobs = await world.claim(2)
    await world.end(jobs[0], FATAL)
    await let_them_end(world)
    equal((await world.job(number)).state, State.FAILED)
    equal(await states(world, number), ["succeeded", "failed", "cancelled"])
    equal(await world.live(), [])


@check
async def a_step_that_runs_whatever_happens_gets_nothing_for_what_failed(world: World) -> None:
    steps = (
        step("each", over=Over("item", items=encode([1, 2])), if_failed="go_on", wanted=True),
        step(
            "all",
            0,
            when="all_done",
            rescue=True,
            call=call(title="all", args=encode({"found": None})),
            fills=(Fill(("found",), Source(0)),),
        ),
    )
    await opened(world, FlowPlan(steps=steps))
    for job in await world.claim(2):
        bad = decode(job.args)["item"] == 1
        await world.end(job, FATAL if bad else Succeeded(encode("two")))
    equal(decode((await begun(world, "all")).args), {"found": [None, "two"]})


@check
async def a_flow_is_cancelled_with_everything_in_it(world: World) -> None:
    terms = Terms(on_cancelled=Callback(task="gone"))
    number = await opened(world, diamond(), terms=terms)
    await done(world, "first")
    left = await begun(world, "left")
    equal(await world.store.jobs.cancel(number, reason="enough"), State.RUNNING)
    await world.dispatch()
    equal((await world.job(number)).state, State.RUNNING)
    await world.end(left, Stopped("told"))
    flow = await world.job(number)
    equal((flow.state, flow.reason), (State.CANCELLED, "cancelled: enough"))
    equal([job.task for job in await world.live()], ["gone"])
    equal(await states(world, number), ["succeeded", "cancelled", "cancelled", "cancelled"])


@check
async def a_flow_within_a_flow_is_cancelled_with_it(world: World) -> None:
    number = await opened(world, FlowPlan(steps=(step("inner"), step("behind", 0))))
    inner = await begun(world, "inner")
    await world.end(inner, Opened(chain(2)))
    await world.store.jobs.cancel(number)
    for _ in range(3):
        await world.dispatch()
    equal([(await world.job(n)).state for n in (number, inner.id)], [State.CANCELLED] * 2)
    equal(await world.live(), [])


@check
async def a_step_that_somebody_cancels_fails_its_flow(world: World) -> None:
    number = await opened(world, chain(2))
    [job] = [job for job in await world.live() if job.step is not None]
    await world.store.jobs.cancel(job.id, reason="not today")
    flow = await world.job(number)
    equal(flow.state, State.FAILED)
    holds("not today" in flow.reason, flow.reason)


@check
async def a_flow_has_a_time_limit_for_the_whole(world: World) -> None:
    number = await opened(world, chain(2), terms=Terms(timeout=HOUR))
    job = await begun(world, "step 0")
    world.wait(HOUR - MINUTE)
    await world.dispatch()
    equal(await world.signals(), {})
    world.wait(2 * MINUTE)
    await world.dispatch()
    equal([*await world.signals()], [job.id])
    await world.dispatch()
    await world.end(job, Stopped("told"))
    flow = await world.job(number)
    equal(flow.state, State.FAILED)
    holds("longer" in flow.reason, flow.reason)


@check
async def a_flow_is_retried_from_the_steps_that_failed(world: World) -> None:
    number = await opened(world, fan())
    await done(world, "list", Succeeded(encode([1, 2, 3])))
    jobs = await world.claim(3)
    by_item = {decode(job.args)["item"]: job for job in jobs}
    await world.end(by_item[2], Succeeded(encode("two")))
    await world.end(by_item[1], FATAL)
    await let_them_end(world)
    equal((await world.job(number)).state, State.FAILED)
    await world.store.jobs.retry(number)
    await world.end(await world.begin(), Opened(chain(1)))  # what code says by now is not asked
    again = await world.claim(10)
    equal(sorted(decode(job.args)["item"] for job in again), [1, 3])
    holds(by_item[1].id in [job.id for job in again], "under its own number, with its attempts")
    for job in again:
        await world.end(job, Succeeded(encode(f"again {decode(job.args)['item']}")))
    last = await done(world, "all")
    equal(decode(last.args), {"found": ["again 1", "two", "again 3"]})
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def who_retries_a_step_retries_its_flow(world: World) -> None:
    number = await opened(world, chain(2))
    job = await done(world, "step 0", FATAL)
    await world.store.jobs.retry(job.id)
    equal((await world.job(number)).state, State.READY)


@check
async def a_step_is_not_retried_while_its_flow_runs(world: World) -> None:
    steps = (step("a", if_failed="go_on"), step("b"))
    await opened(world, FlowPlan(steps=steps))
    job = await done(world, "a", FATAL)
    with refused(WrongState, "and can only be retried together with it"):
        await world.store.jobs.retry(job.id)


@check
async def what_helped_when_it_failed_is_asked_anew_when_it_is_retried(world: World) -> None:
    steps = (step("try"), step("help", 0, when="any_failed", rescue=True))
    number = await opened(world, FlowPlan(steps=steps))
    await done(world, "try", FATAL)
    await done(world, "help")
    await world.store.jobs.retry(number)
    await world.end(await world.begin(), Opened(chain(1)))
    await done(world, "try")
    equal(await states(world, number), ["succeeded", "skipped"])
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def results_outlive_their_own_time_until_the_flow_has_ended(world: World) -> None:
    await opened(world, chain(2))
    job = await begun(world, "step 0")
    settlement = world.settlement(job, Succeeded(encode(20)))
    await world.store.work.settle([settlement])
    world.wait(timedelta(days=300))
    equal(decode((await begun(world, "step 1")).args), {"value": 20})


@check
async def a_flow_within_one_that_is_retried_goes_on_where_it_was(world: World) -> None:
    """It was cancelled because a neighbour failed; what had succeeded in it is not done again."""
    number = await opened(world, FlowPlan(steps=(step("inner"), step("bad"))))
    inner = await begun(world, "inner")
    await world.end(inner, Opened(chain(2)))
    await done(world, "step 0", Succeeded(encode(20)))
    await done(world, "bad", FATAL)
    await let_them_end(world)
    equal([(await world.job(n)).state for n in (number, inner.id)],
          [State.FAILED, State.CANCELLED])  # fmt: skip
    await world.store.jobs.retry(number)
    await world.end(await world.begin(), Opened(chain(1)))
    equal(await ready(world), ["bad", "inner"])
    await world.end(await begun(world, "inner"), Opened(chain(1)))
    equal(await ready(world), ["bad", "inner", "step 1"])
    equal(decode((await done(world, "step 1")).args), {"value": 20})
    await done(world, "bad")
    equal([(await world.job(n)).state for n in (number, inner.id)], [State.SUCCEEDED] * 2)


@check
async def what_a_flow_within_a_flow_cannot_hand_on_fails_it(world: World) -> None:
    outer = FlowPlan(steps=(step("inner", wanted=True), chain(2).steps[1]))
    number = await opened(world, outer)
    each = step("each", over=Over("item", items=encode([1, 2])), wanted=True)
    await world.end(await begun(world, "inner"), Opened(FlowPlan(steps=(each,), result=0)))
    for job in await world.claim(2):
        await world.end(job, Succeeded(encode("x" * 600_000, longest=1_000_000)))
    flow = await world.job(number)
    equal(flow.state, State.FAILED)
    holds("too long" in flow.reason, flow.reason)


@check
async def a_flow_that_is_retried_is_not_forgotten_meanwhile(world: World) -> None:
    number = await opened(world, chain(2))
    await done(world, "step 0", Succeeded(encode(20)))
    await done(world, "step 1", FATAL)
    await world.store.jobs.retry(number)
    world.wait(timedelta(days=100))
    await world.store.maintenance.prune(RETENTION, limit=1_000)
    await world.end(await world.begin(), Opened(chain(1)))
    equal(await ready(world), ["step 1"])
