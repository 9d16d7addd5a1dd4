"""A flow is a job with steps: each starts once, when what it waits for is done, and knows it."""

from contextlib import suppress
from datetime import timedelta

from duly.errors import NotFound, OutcomeUnknown
from duly.model.flow import Fill, FlowPlan, Source, StepPlan
from duly.model.limit import Queue
from duly.model.outcome import Opened, Raised, Succeeded
from duly.model.payload import decode, encode
from duly.model.policies import Policies
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.store.database import Ask, alone
from duly.store.rows import packed
from duly.store.store import SqlStore
from duly.store.values import JobDone
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
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import MINUTE, World
from tests.factories import call, plan

MANY = 200


@check
async def a_flow_runs_without_a_worker_until_its_last_step_has_ended(world: World) -> None:
    number = await opened(world, chain(2))
    flow = await world.job(number)
    equal((flow.state, flow.worker, flow.waits), (State.RUNNING, None, "steps"))
    equal(await ready(world), ["step 0"])
    await done(world, "step 0", Succeeded(encode(20)))
    equal(await ready(world), ["step 1"])
    job = await done(world, "step 1", Succeeded(encode({"sum": 40})))
    equal((decode(job.args), job.parent, job.step), ({"value": 20}, number, 1))
    flow = await world.job(number)
    equal((flow.state, decode(flow.result or encode(None))), (State.SUCCEEDED, {"sum": 40}))
    equal(await states(world, number), ["succeeded", "succeeded"])
    equal(await world.live(), [])


@check
async def a_step_starts_once_when_the_last_before_it_has_ended(world: World) -> None:
    await opened(world, diamond())
    await done(world, "first")
    equal(await ready(world), ["left", "right"])
    await done(world, "left")
    equal(await ready(world), ["right"])
    await done(world, "right")
    equal(await ready(world), ["last"])


@check
async def steps_that_end_together_are_counted_together(world: World) -> None:
    number = await opened(world, diamond())
    await done(world, "first")
    both = await world.claim(2)
    await world.store.work.settle([world.settlement(job) for job in both])
    equal(await ready(world), ["last"])
    await done(world, "last")
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def a_list_becomes_a_job_for_each_item_and_what_they_come_to_a_list_again(
    world: World,
) -> None:
    number = await opened(world, fan())
    await done(world, "list", Succeeded(encode([*range(MANY)])))
    jobs = await world.claim(MANY + 1)
    equal(sorted(decode(job.args)["item"] for job in jobs), [*range(MANY)])
    for job in reversed(jobs):
        result = Succeeded(encode(decode(job.args)["item"] * 2))
        await world.store.work.settle([world.settlement(job, result)])
    last = await begun(world, "all")
    equal(decode(last.args), {"found": [n * 2 for n in range(MANY)]})
    await world.end(last, Succeeded(encode("done")))
    equal((await world.job(number)).result, '"done"')
    flow = await world.store.jobs.flow(number)
    equal([] if flow is None else [one.parts for one in flow.steps], [1, MANY, 1])
    equal(len(await world.store.jobs.parts(number, 1, limit=MANY + 1)), MANY)


@check
async def a_list_of_nothing_is_done_at_once(world: World) -> None:
    number = await opened(world, fan())
    await done(world, "list", Succeeded(encode([])))
    last = await done(world, "all")
    equal(decode(last.args), {"found": []})
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def what_is_no_list_fails_its_step_with_a_sentence(world: World) -> None:
    number = await opened(world, fan())
    await done(world, "list", Succeeded(encode({"rows": 7})))
    flow = await world.job(number)
    equal(flow.state, State.FAILED)
    holds("but got an object" in flow.reason, flow.reason)
    equal(await states(world, number), ["succeeded", "failed", "cancelled"])


@check
async def a_step_is_of_the_flow_it_belongs_to(world: World) -> None:
    """It stands for the same moment, for the same tenant, and is let through by the same limits."""
    number = await world.enqueue(call(tenant="acme", submitter="ada", run_after=MINUTE))
    world.wait(2 * MINUTE)
    await world.dispatch()
    flow = await world.begin()
    asked = call(task="work", title="for {name}", args=encode({"name": None}), priority=7)
    fill = Fill(("name",), Source(argument="who"))
    one = StepPlan(name="one", call=asked, fills=(fill,), defaults=encode({"who": "nobody"}))
    await world.end(flow, Opened(FlowPlan(steps=(one,))))
    [job] = [job for job in await world.live() if job.step is not None]
    equal((job.tenant, job.submitter, job.due_at, job.priority, job.parent),
          ("acme", "ada", flow.due_at, 7, number))  # fmt: skip
    equal(job.title, "for None")


@check
async def a_flow_may_be_a_step_of_another(world: World) -> None:
    outer = FlowPlan(steps=(step("inner", wanted=True), chain(2).steps[1]), result=1)
    number = await opened(world, outer)
    inner = await begun(world, "inner")
    await world.end(inner, Opened(chain(1)))
    equal(await ready(world), ["inner", "step 0"])
    await done(world, "step 0", Succeeded(encode(7)))
    last = await done(world, "step 1", Succeeded(encode("done")))
    equal(decode(last.args), {"value": 7})
    equal((await world.job(inner.id)).result, "7")
    equal((await world.job(number)).result, '"done"')


@check
async def the_end_of_a_flow_is_followed_by_its_task(world: World) -> None:
    terms = Terms(on_success=Callback(task="good"))
    number = await opened(world, chain(1), terms=terms)
    await done(world, "step 0")
    [job] = await world.live()
    equal((job.task, decode(job.args)), ("good", {"job_id": number}))


@check
async def a_schedule_skips_while_its_flow_runs(world: World) -> None:
    await world.add(plan("report", "every 1m", policies=Policies(overlap="skip")))
    await world.fire_after(MINUTE)
    await world.end(await world.begin(), Opened(chain(2)))
    [skipped] = await world.fired_after(MINUTE)
    equal(str(skipped.outcome), "skipped")
    await done(world, "step 0")
    await done(world, "step 1")
    [queued] = await world.fired_after(MINUTE)
    equal(str(queued.outcome), "queued")


@check
async def a_flow_that_is_replaced_is_stopped_with_its_steps(world: World) -> None:
    await world.add(plan("report", "every 1m", policies=Policies(overlap="replace")))
    await world.fire_after(MINUTE)
    flow = await world.begin()
    await world.end(flow, Opened(chain(2)))
    await world.fire_after(MINUTE)
    await world.dispatch()
    await world.dispatch()
    equal((await world.job(flow.id)).state, State.CANCELLED)
    equal(await world.states(), ["ready"])


@check
async def opening_twice_is_opening_once(world: World) -> None:
    """The answer to the first was lost, and its worker says it again."""
    number = await world.enqueue(call())
    job = await world.begin()
    losing = LosingAnswers(world.database)
    losing.lose("detach_jobs")
    settlements = [world.settlement(job, Opened(chain(2)))]
    with suppress(OutcomeUnknown):
        await SqlStore(losing).work.settle(settlements)
    equal(losing.lost, 1)
    settled = await world.store.work.settle(settlements)
    equal(settled.kept, [number])
    equal(await ready(world), ["step 0"])


@check
async def an_end_that_is_said_twice_is_counted_once(world: World) -> None:
    await opened(world, diamond())
    await done(world, "first")
    left = await begun(world, "left")
    losing = LosingAnswers(world.database)
    losing.lose("end_parts")
    with suppress(OutcomeUnknown):
        await SqlStore(losing).work.settle([world.settlement(left)])
    equal(losing.lost, 1)
    await world.end(left)
    equal(await ready(world), ["right"])


@check
async def a_flow_whose_worker_died_before_it_was_opened_is_opened_by_another(
    world: World,
) -> None:
    number = await world.enqueue(call())
    await world.lose(await world.begin())
    job = await world.begin()
    equal(job.id, number)
    await world.end(job, Opened(chain(1)))
    await done(world, "step 0")
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def nobody_takes_back_a_flow_that_runs(world: World) -> None:
    number = await opened(world, chain(1))
    world.wait(timedelta(days=1))
    equal((await world.take_back()).lost, 0)
    equal((await world.job(number)).state, State.RUNNING)


@check
async def a_queue_is_not_full_of_flows(world: World) -> None:
    await world.store.work.set_queue(Queue(name="default", concurrency=1))
    number = await opened(world, chain(2))
    await done(world, "step 0")
    await done(world, "step 1")
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def what_is_forgotten_is_forgotten_with_its_steps(world: World) -> None:
    number = await opened(world, chain(1))
    job = await done(world, "step 0")
    await world.store.jobs.remove(number)
    equal(await world.store.jobs.flow(number), None)
    with refused(NotFound):
        await world.job(job.id)


@check
async def many_flows_tell_how_far_they_are(world: World) -> None:
    first = await opened(world, chain(2))
    await done(world, "step 0")
    numbers = [first, await opened(world, chain(2), priority=7)]
    plain = await world.enqueue(call())
    found = await world.store.jobs.flow_progress([*numbers, plain])
    equal([(found[n].steps, found[n].remaining) for n in numbers], [(2, 1), (2, 2)])
    holds(plain not in found, "a job that is no flow has no steps")


@check
async def a_flow_is_nobodys_orphan_and_takes_up_no_room_in_its_queue(world: World) -> None:
    await opened(world, chain(1))
    world.wait(timedelta(days=1))
    equal(await world.store.diagnostics.orphans(), [])
    equal([one.running for one in await world.store.activity.depths()], [0])


@check
async def a_flow_goes_on_though_whoever_ended_its_step_knew_nothing_of_flows(world: World) -> None:
    """A worker of an older version finishes it in passing, as if nothing waited for it."""
    number = await opened(world, chain(2))
    job = await begun(world, "step 0")
    await world.finish_and_claim(0, JobDone(job.id, job.fence, encode(20), None))
    equal(await ready(world), [])
    equal(await world.store.maintenance.sweep(limit=100), 1)
    last = await done(world, "step 1")
    equal(decode(last.args), {"value": 20})
    equal((await world.job(number)).state, State.SUCCEEDED)
    equal(await world.store.maintenance.sweep(limit=100), 0)


@check
async def a_flow_that_somebody_took_for_lost_goes_on_and_starts_nothing_twice(world: World) -> None:
    """Whoever does not know of flows sees a job that runs, and nobody who runs it."""
    abc = FlowPlan(steps=(step("a", if_failed="go_on"), step("b"), step("c", 1)))
    number = await opened(world, abc)
    await done(world, "a", Raised("Oops", "it broke", permanent=True))
    lost = {"id": number, "state": "ready", "ready_at": 0, "uncounted": 1, "crashes": 1}
    rows = packed([{**lost, "reason": "lost"}])
    await world.write(lambda _: alone(Ask("return_jobs", {"rows": rows})))
    [flow] = [job for job in await world.claim(10) if job.id == number]
    await world.end(flow, Opened(abc))
    equal(await ready(world), ["b"])
    [b] = [job for job in await world.live() if job.title == "b"]
    await world.end(b)
    await done(world, "c")
    equal((await world.job(number)).state, State.FAILED)
    equal(await states(world, number), ["failed", "succeeded", "succeeded"])
