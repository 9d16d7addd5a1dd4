"""An event calls off what other events have asked for, and nothing that has begun or is others'."""

from duly.model.event import Emitted
from duly.model.fire import Cause
from duly.model.job import StoredJob
from duly.model.outcome import Raised
from duly.model.payload import encode
from duly.model.states import State
from duly.policy.retry import Retry
from duly.policy.verdict import Tried, judge
from duly.store import schedule_changes
from duly.store.database import Ask, Operation, Value
from duly.store.rows import ScheduleColumns
from duly.store.values import Settlement
from tests.conformance.events import emit, fires, react
from tests.conformance.expect import equal
from tests.conformance.reactions import DAY, SECOND, cancelled, only, reminder, scheduled
from tests.conformance.registry import check
from tests.conformance.world import HOUR, START, World
from tests.factories import call, plan


async def fail_once(world: World, job: StoredJob) -> None:
    """It is to be tried again."""
    verdict = judge(Tried.of(job, Retry()), Raised("E", "x"), world.now, dice=0.5)
    await world.store.work.settle([Settlement(job=job, verdict=verdict, outcome="raised")])


@check
async def what_waits_to_be_tried_again_has_begun_and_is_not_called_off(world: World) -> None:
    await world.add(reminder())
    await scheduled(world, START + HOUR)
    await react(world)
    await fail_once(world, await world.begin())
    waits = await only(world)
    equal((waits.attempt, waits.state), (1, State.SCHEDULED))
    world.wait(SECOND)
    await cancelled(world)
    await react(world)
    equal((await only(world)).id, waits.id)
    equal(await fires(world), [("queued", None)])


@check
async def what_a_person_asked_for_since_is_not_called_off(world: World) -> None:
    await world.add(reminder())
    await scheduled(world, START + 5 * DAY)
    await react(world)
    world.wait(SECOND)
    await cancelled(world)
    asked = call(key="acme:class:1", tenant="acme", args=encode({"id": 9}), run_after=HOUR)
    number = await world.enqueue(asked)
    equal((await only(world)).args, '{"id":9}', "it was moved")
    await react(world)
    equal((await only(world)).id, number)


@check
async def tenants_have_keys_of_their_own(world: World) -> None:
    await world.add(reminder(), plan("quiet", "on class.scheduled key=all debounce=1h"))
    said = encode({"id": 7, "starts_at": (START + 5 * DAY).isoformat()})
    for tenant in ("acme", "globex"):
        await world.store.events.emit(
            [Emitted(name="class.scheduled", payload=said, tenant=tenant)]
        )
    equal(await react(world), 4)
    equal(await fires(world), [("queued", None)] * 2)
    equal(await fires(world, "quiet"), [("queued", None)] * 2)
    world.wait(SECOND)
    await cancelled(world, number=7)
    equal((await world.store.events.react(limit=10)).withdrawn, 1)
    left = sorted((job.tenant, job.key) for job in await world.live())
    equal(left, [("acme", "acme:all"), ("globex", "globex:all"), ("globex", "globex:class:7")])


@check
async def a_person_s_job_of_another_tenant_is_left_alone(world: World) -> None:
    await world.add(reminder())
    number = await world.enqueue(call(key="acme:class:1", tenant="globex", run_after=HOUR))
    await scheduled(world, START + 5 * DAY)
    await react(world)
    job = await only(world)
    equal((job.id, job.tenant, job.due_at), (number, "globex", START + HOUR))
    equal(await fires(world), [("skipped", Cause.REFUSED)])


@check
async def of_what_nobody_has_looked_at_only_the_nearest_is_read(world: World) -> None:
    """A backlog costs as much for each event, however long it is; what was seen is all read."""
    seen = await cancelled(world, number=0)
    await react(world)
    unseen = []
    for number in range(5):
        world.wait(SECOND)
        unseen.append(await cancelled(world, number=number))
    near = await world.write(lambda _: _later(2))
    equal(near, [seen, *unseen[:3]])
    equal(await world.write(lambda _: _later(100)), [seen, *unseen])


@check
async def what_is_called_off_far_behind_in_a_backlog_does_not_start(world: World) -> None:
    await world.add(reminder())
    await scheduled(world, START + HOUR)
    world.wait(SECOND)
    await emit(world, "class.cancelled", id=2)
    await cancelled(world)
    equal((await world.store.events.react(limit=1)).jobs, 0)
    equal((await world.live(), await fires(world)), ([], [("skipped", Cause.WITHDRAWN)]))


@check
async def a_schedule_that_cannot_be_read_holds_up_no_other(world: World) -> None:
    await world.add(plan("bad", "on doc.changed"), plan(rule="on doc.changed"))
    await world.write(lambda _: _spoiled("bad"))
    await emit(world)
    equal(await react(world), 1)
    equal(await fires(world), [("queued", None)])


def _later(ahead: int) -> Operation[list[int]]:
    asked: dict[str, Value] = {
        "low": "class.cancelled",
        "high": "class.cancelled",
        "since": 0,
        "ahead": ahead,
    }
    return [event[0] for event in (yield Ask("later_events", asked))]


def _spoiled(name: str) -> Operation[None]:
    [row] = yield Ask("hold_named_schedules", {"names": [name]})
    values = schedule_changes.values_of(ScheduleColumns(*row))
    yield Ask("change_schedule", values | {"pause": "somebody's hand"})
