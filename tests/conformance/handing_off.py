"""A job that was handed to another system runs without a worker until its outcome is reported."""

from contextlib import suppress
from dataclasses import replace

from duly.errors import InvalidValue, NotFound, OutcomeUnknown, WrongState
from duly.instants import to_us
from duly.model.flow import FlowPlan
from duly.model.job import JobRequest, StoredJob
from duly.model.limit import NamedLimit
from duly.model.outcome import REVOKE, SEND, HandedOff, MessageId, Postponed, Raised, Succeeded
from duly.model.payload import decode, encode
from duly.model.policies import Policies
from duly.model.states import State
from duly.model.terms import Callback, Terms
from duly.policy.retry import Retry
from duly.store.store import SqlStore
from tests.conformance.expect import equal, holds, refused
from tests.conformance.flow_plans import begun, opened, step
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, World
from tests.factories import call, plan

RETRY = Retry(attempts=2, backoff="constant", first="5m", jitter=False).as_json()
TARGET = "main (celery)"
OUT = HandedOff(TARGET, HOUR)
BROKEN = Raised("ValueError", "no luck")


def sending(**changes: object) -> JobRequest:
    return call(SEND, args=encode({"target": "main", "task": "shop.mail"}), **changes)


def sent_as(job: StoredJob, attempt: int = 1) -> str:
    """The id of the message of a try."""
    return str(MessageId.of(job.id, attempt, to_us(job.created_at), job.args))


async def claimed(world: World) -> StoredJob:
    [job] = await world.claim(1, tasks=[SEND])
    return job


async def handed_off(world: World, **changes: object) -> StoredJob:
    """Enqueue a job, and let a worker hand it off."""
    number = await world.enqueue(sending(**changes))
    await world.end(await claimed(world), OUT)
    return await world.job(number)


@check
async def a_handed_off_job_runs_without_a_worker_until_its_outcome_comes(world: World) -> None:
    job = await handed_off(world)
    equal((job.state, job.worker, job.waits, job.waits_for),
          (State.RUNNING, None, "outcome", TARGET))  # fmt: skip
    equal((job.deadline, job.reason),
          (world.now + HOUR, f"handed to {TARGET}, no outcome yet"))  # fmt: skip
    equal((await world.store.maintenance.progress()).running, 1)
    equal(await world.take_back(), type(await world.take_back())(), "there is no lease to lose")
    world.wait(MINUTE)
    said = await world.store.jobs.report(job.id, Succeeded(encode({"rows": 3})))
    equal((said.state, said.counted, said.why), (State.SUCCEEDED, True, ""))
    job = await world.job(job.id)
    equal((job.state, job.ended_at, job.result), (State.SUCCEEDED, world.now, '{"rows":3}'))
    equal(await world.live(), [])


@check
async def a_reported_failure_is_retried_like_one_that_a_worker_wrote(world: World) -> None:
    job = await handed_off(world, retry=RETRY)
    said = await world.store.jobs.report(job.id, BROKEN)
    equal((said.state, said.counted), (State.SCHEDULED, True))
    [attempt] = await world.store.jobs.attempts(job.id)
    equal((attempt.number, attempt.outcome, attempt.error), (1, "raised", "ValueError: no luck"))
    world.wait(5 * MINUTE)
    await world.dispatch()
    await world.end(await claimed(world), OUT)
    await world.store.jobs.report(job.id, BROKEN)
    job = await world.job(job.id)
    equal((job.state, job.attempt, job.error), (State.FAILED, 2, "ValueError: no luck"))


@check
async def an_outcome_may_come_before_the_mark_which_is_then_refused(world: World) -> None:
    for outcome, state in ((Succeeded(), State.SUCCEEDED), (BROKEN, State.SCHEDULED)):
        number = await world.enqueue(sending(retry=RETRY))
        running = await claimed(world)
        equal((await world.store.jobs.report(number, outcome)).counted, True)
        settled = await world.end(running, OUT)
        equal((settled.kept, settled.refused), ([], [number]))
        equal((await world.job(number)).state, state)


@check
async def a_mark_that_is_written_twice_is_written_once(world: World) -> None:
    """The answer to the first was lost."""
    number = await world.enqueue(sending())
    settlement = world.settlement(await claimed(world), OUT)
    losing = LosingAnswers(world.database)
    losing.lose("detach_jobs")
    with suppress(OutcomeUnknown):
        await SqlStore(losing).work.settle([settlement])
    equal(losing.lost, 1)
    equal((await world.store.work.settle([settlement])).kept, [number])
    equal((await world.job(number)).waits, "outcome")


@check
async def a_second_report_and_one_of_an_ended_job_change_nothing_and_say_so(world: World) -> None:
    job = await handed_off(world)
    await world.store.jobs.report(job.id, Succeeded())
    again = await world.store.jobs.report(job.id, BROKEN)
    equal((again.state, again.counted, again.why),
          (State.SUCCEEDED, False, f"job {job.id} has ended: it is succeeded"))  # fmt: skip
    equal((await world.job(job.id)).state, State.SUCCEEDED)
    with refused(NotFound, "there is no job 4711"):
        await world.store.jobs.report(4711, Succeeded())


@check
async def a_job_that_was_not_handed_off_cannot_be_reported(world: World) -> None:
    number = await world.enqueue(call())
    waits = await world.store.jobs.report(number, Succeeded())
    equal((waits.counted, waits.why), (False, f"job {number} is ready: it has not been sent"))
    await world.begin()
    with refused(WrongState, "was not handed off"):
        await world.store.jobs.report(number, Succeeded())
    equal((await world.job(number)).state, State.RUNNING)


@check
async def the_failure_of_an_earlier_try_does_not_count_and_its_success_does(world: World) -> None:
    job = await handed_off(world, retry=RETRY)
    world.wait(HOUR + MINUTE)
    await world.dispatch()
    world.wait(5 * MINUTE)
    await world.dispatch()
    await world.end(await claimed(world), OUT)
    late = await world.store.jobs.report(job.id, BROKEN, message=sent_as(job))
    equal((late.state, late.counted, late.why),
          (State.RUNNING, False,
           f"job {job.id} is at try 2, and this is the failure of try 1"))  # fmt: skip
    equal((await world.store.jobs.report(job.id, Succeeded(), message=sent_as(job))).counted, True)
    equal((await world.job(job.id)).state, State.SUCCEEDED)


@check
async def the_success_of_an_earlier_try_counts_while_the_job_waits_for_the_next(
    world: World,
) -> None:
    job = await handed_off(world, retry=RETRY)
    world.wait(HOUR + MINUTE)
    await world.dispatch()
    late = await world.store.jobs.report(job.id, BROKEN, message=sent_as(job))
    equal((late.state, late.counted), (State.SCHEDULED, False))
    equal((await world.store.jobs.report(job.id, Succeeded())).counted, False)
    other = sent_as(replace(job, created_at=job.created_at + MINUTE))
    equal((await world.store.jobs.report(job.id, Succeeded(), message=other)).counted, False)
    done = await world.store.jobs.report(job.id, Succeeded(encode(7)), message=sent_as(job))
    equal((done.state, done.counted), (State.SUCCEEDED, True))
    job = await world.job(job.id)
    equal((job.state, job.result), (State.SUCCEEDED, "7"))
    unsent = await world.job(await world.enqueue(sending()))
    equal((await world.store.jobs.report(unsent.id, Succeeded(), message=sent_as(unsent))).counted,
          False)  # fmt: skip


@check
async def a_success_counts_also_before_the_message_is_sent_again(world: World) -> None:
    """The message was sent, and then its confirm or its worker was lost."""
    unconfirmed = Postponed("main (celery) cannot be reached", MINUTE)
    for outcome, state in ((None, State.READY), (unconfirmed, State.SCHEDULED)):
        number = await world.enqueue(sending())
        running = await claimed(world)
        await (world.lose(running) if outcome is None else world.end(running, outcome))
        job = await world.job(number)
        equal(job.state, state)
        failed = await world.store.jobs.report(number, BROKEN, message=sent_as(job))
        equal((failed.state, failed.counted), (state, False), "it is sent again")
        later = await world.store.jobs.report(number, Succeeded(), message=sent_as(job, 2))
        equal(later.counted, False, "no try can have sent that")
        done = await world.store.jobs.report(number, Succeeded(encode(7)), message=sent_as(job))
        equal((done.state, done.counted), (State.SUCCEEDED, True))
        equal((await world.job(number)).result, "7")
    equal(await world.live(), [], "nothing is sent again")


@check
async def a_success_with_other_arguments_does_not_count(world: World) -> None:
    """A job that waits to send its message again is given other work under its key."""
    number = await world.enqueue(sending(key="mail"))
    await world.end(await claimed(world), Postponed("main (celery) cannot be reached", MINUTE))
    before = await world.job(number)
    other = replace(sending(key="mail"), args=encode({"task": "other"}))
    equal(await world.enqueue(other), number)
    said = await world.store.jobs.report(number, Succeeded(), message=sent_as(before))
    equal((said.counted, said.why),
          (False, f"message {sent_as(before)} is not of job {number}: "
                  "it has other arguments since then"))  # fmt: skip
    [job] = await world.live()
    equal(job.state, State.READY)


@check
async def the_outcome_of_a_message_of_another_database_does_not_count(world: World) -> None:
    """Two databases that share a Celery app have jobs with the same number."""
    job = await handed_off(world)
    theirs = str(MessageId.of(job.id, 1, to_us(job.created_at) + 1, job.args))
    for message in (theirs, sent_as(replace(job, id=job.id + 1))):
        said = await world.store.jobs.report(job.id, Succeeded(), message=message)
        equal((said.state, said.counted, said.why),
              (State.RUNNING, False,
               f"message {message} is not of job {job.id}: another database sent it"))  # fmt: skip
    with refused(InvalidValue, "it is not the id of a message that duly sent"):
        await world.store.jobs.report(job.id, Succeeded(), message="4711")
    equal((await world.job(job.id)).waits, "outcome")


@check
async def no_outcome_in_time_is_a_failed_attempt(world: World) -> None:
    job = await handed_off(world, retry=RETRY)
    world.wait(HOUR - MINUTE)
    equal((await world.dispatch()).rest, MINUTE)
    world.wait(2 * MINUTE)
    await world.dispatch()
    job = await world.job(job.id)
    equal((job.state, job.waits, job.ready_at),
          (State.SCHEDULED, None, world.now + 5 * MINUTE))  # fmt: skip
    [attempt] = await world.store.jobs.attempts(job.id)
    equal(attempt.error, "main (celery): no outcome within 1h")
    world.wait(5 * MINUTE)
    await world.dispatch()
    await world.end(await claimed(world), OUT)
    world.wait(HOUR + MINUTE)
    await world.dispatch()
    equal((await world.job(job.id)).state, State.FAILED)


@check
async def a_job_that_is_sent_again_after_a_crash_is_the_same_try(world: World) -> None:
    """So it has the same message id: the number of tries is attempts without crashes."""
    number = await world.enqueue(sending(retry=RETRY))
    await world.lose(await claimed(world))
    await world.end(await claimed(world), OUT)
    job = await world.job(number)
    equal((job.attempt, job.crashes, job.waits), (2, 1, "outcome"))
    said = await world.store.jobs.report(number, BROKEN, message=sent_as(job))
    equal(said.state, State.SCHEDULED)


@check
async def a_cancelled_hand_off_ends_at_once_and_its_target_is_asked_to_drop_it(
    world: World,
) -> None:
    job = await handed_off(world)
    equal(await world.store.jobs.cancel(job.id, reason="sold out"), State.CANCELLED)
    ended = await world.job(job.id)
    equal((ended.state, ended.reason), (State.CANCELLED, "cancelled: sold out"))
    [revoking] = await world.live()
    equal((revoking.task, revoking.queue, revoking.parent, revoking.state),
          (REVOKE, "default", job.id, State.READY))  # fmt: skip
    equal(decode(revoking.args), {"target": "main", "message": sent_as(job)})
    equal((await world.store.jobs.report(job.id, Succeeded())).counted, False)


@check
async def a_handed_off_step_is_called_off_with_its_flow(world: World) -> None:
    sent = step("sent")
    number = await opened(world, FlowPlan(steps=(sent,)))
    job = await begun(world, "sent")
    await world.end(job, OUT)
    await world.store.jobs.cancel(number)
    await world.dispatch()
    equal((await world.job(job.id)).state, State.CANCELLED)
    equal((await world.job(number)).state, State.CANCELLED)
    equal(await world.live(), [], "only duly.send has a target that could be asked")


@check
async def a_step_that_was_handed_off_goes_on_with_its_flow_when_it_is_reported(
    world: World,
) -> None:
    number = await opened(world, FlowPlan(steps=(step("sent"), step("next", 0))))
    job = await begun(world, "sent")
    await world.end(job, OUT)
    await world.store.jobs.report(job.id, Succeeded())
    await world.end(await begun(world, "next"))
    equal((await world.job(number)).state, State.SUCCEEDED)


@check
async def the_next_run_of_a_schedule_waits_for_the_outcome(world: World) -> None:
    once = plan("report", "every 1m", task=SEND, policies=Policies(overlap="queue_one"))
    await world.add(once)
    await world.fire_after(MINUTE)
    job = await claimed(world)
    await world.end(job, OUT)
    await world.fire_after(MINUTE)
    equal(await world.states(), ["running", "blocked"])
    await world.store.jobs.report(job.id, Succeeded())
    equal(await world.states(), ["ready"])


@check
async def a_replaced_run_of_a_schedule_is_called_off(world: World) -> None:
    await world.add(plan("report", "every 1m", task=SEND, policies=Policies(overlap="replace")))
    await world.fire_after(MINUTE)
    job = await claimed(world)
    await world.end(job, OUT)
    await world.fire_after(MINUTE)
    await world.dispatch()
    equal((await world.job(job.id)).state, State.CANCELLED)


@check
async def a_limit_is_held_until_the_outcome(world: World) -> None:
    limit = NamedLimit(name="crm", template="crm", concurrency=1)
    first = await handed_off(world, limits=(limit,))
    second = await world.enqueue(sending(limits=(limit,)))
    equal(await world.claim(1, tasks=[SEND]), [])
    equal((await world.job(second)).waits, "limit")
    await world.store.jobs.report(first.id, Succeeded())
    equal((await claimed(world)).id, second)


@check
async def a_callback_follows_a_reported_outcome(world: World) -> None:
    job = await handed_off(world, terms=Terms(on_success=Callback(task="work", argument="job_id")))
    await world.store.jobs.report(job.id, Succeeded())
    after = await world.begin()
    equal((after.task, decode(after.args), after.parent), ("work", {"job_id": job.id}, job.id))


@check
async def a_postponed_job_keeps_its_attempts_and_its_deadline(world: World) -> None:
    number = await world.enqueue(sending(retry=RETRY, start_within=HOUR))
    for _ in range(5):
        await world.end(await claimed(world), Postponed("Redis is down", MINUTE))
        job = await world.job(number)
        equal((job.state, job.attempt, job.reason),
              (State.SCHEDULED, 0, "Redis is down; next try in 1m"))  # fmt: skip
        world.wait(MINUTE)
        await world.dispatch()
    equal(await world.store.jobs.attempts(number), [])
    world.wait(HOUR)
    await world.dispatch()
    holds((await world.job(number)).state is State.EXPIRED, "it was never begun in time")


@check
async def a_report_is_in_the_audit_log_under_the_name_of_its_sender(world: World) -> None:
    job = await handed_off(world)
    await world.by("celery").jobs.report(job.id, Succeeded())
    [entry, *_] = await world.store.access.audit(limit=1)
    equal((entry.who, entry.action, entry.subject),
          ("celery", "jobs.report", f"job:{job.id}"))  # fmt: skip
