"""One node examines and delivers; what it wrote is there for the next one."""

from datetime import timedelta

from duly.model.alert import AlertChanges, AlertContent, GoneWorker, OpenAlert, Problem
from duly.model.limit import Queue
from duly.model.outcome import Raised
from tests.conformance.expect import equal, holds
from tests.conformance.registry import check
from tests.conformance.world import HOUR, LEASE, MINUTE, START, World
from tests.factories import plan, profile

TURN = timedelta(seconds=60)
LONGEST = timedelta(minutes=10)
REFUSED = Raised(error="ConnectionError", message="refused")
PROBLEM = Problem(
    kind="failed",
    subject="schedule:report",
    name="report",
    sentence="failed: refused",
    since=START,
    last=START + MINUTE,
    count=3,
    job_id=42,
    command="duly why 42",
)
FOUND = OpenAlert(problem=PROBLEM, found_at=START, told_at=START + MINUTE, resolved_at=START + HOUR)


def message(title: str) -> AlertContent:
    return AlertContent(title=title, firing=(PROBLEM,), resolved=(PROBLEM,), more=2)


async def put(world: World, *titles: str, to: str = "hook", holder: str = "ada") -> bool:
    made = tuple((to, message(title)) for title in titles)
    return await world.store.alerts.change(holder, AlertChanges(messages=made, tells=True))


async def due(world: World, *destinations: str) -> list[str]:
    found = await world.store.alerts.due(destinations or ("hook",), longest=LONGEST)
    return [one.content.title for one in found]


@check
async def one_node_has_the_turn_until_it_ends(world: World) -> None:
    alerts = world.store.alerts
    mine = await alerts.turn("ada", TURN)
    holds(mine is not None and mine.until == START + TURN, "the first one takes it")
    equal(await alerts.turn("bob", TURN), None)
    world.wait(TURN / 2)
    renewed = await alerts.turn("ada", TURN)
    holds(renewed is not None and renewed.until == world.now + TURN, "renewed when a third is over")
    world.wait(TURN)
    taken = await alerts.turn("bob", TURN)
    holds(taken is not None, "the turn is over")
    equal(await alerts.turn("ada", TURN), None)


@check
async def a_turn_written_by_a_clock_that_was_ahead_is_taken(world: World) -> None:
    world.wait(HOUR)
    await world.store.alerts.turn("ada", TURN)
    world.wait(-HOUR)
    holds(await world.store.alerts.turn("bob", TURN) is not None, "it is taken")


@check
async def a_node_without_the_turn_changes_nothing(world: World) -> None:
    await world.store.alerts.turn("ada", TURN)
    equal(await put(world, "one", holder="bob"), False)
    world.wait(TURN)
    equal(await put(world, "two"), False, "its turn is over")
    equal(await world.store.alerts.messages(), [])


@check
async def an_alert_keeps_every_column_and_is_closed(world: World) -> None:
    alerts = world.store.alerts
    await alerts.turn("ada", TURN)
    other = OpenAlert(problem=PROBLEM, found_at=START)
    equal(await alerts.change("ada", AlertChanges(alerts=(other,))), True)
    equal(await alerts.open(), [other])
    equal(await alerts.change("ada", AlertChanges(alerts=(FOUND,))), True)
    equal(await alerts.open(), [FOUND], "one row for a kind and a subject")
    equal(await alerts.change("ada", AlertChanges(closed=(FOUND,))), True)
    equal(await alerts.open(), [])


@check
async def the_turn_remembers_when_a_message_was_made(world: World) -> None:
    alerts = world.store.alerts
    await alerts.turn("ada", TURN)
    world.wait(timedelta(seconds=5))
    await alerts.change("ada", AlertChanges(messages=(("ping:report", message("ping")),)))
    equal(getattr(await alerts.turn("ada", TURN), "told_at", START), None, "a ping is no alert")
    await put(world, "one")
    equal(getattr(await alerts.turn("ada", TURN), "told_at", None), world.now)


@check
async def messages_of_a_destination_are_due_one_after_the_other(world: World) -> None:
    alerts = world.store.alerts
    await alerts.turn("ada", TURN)
    await put(world, "one")
    world.wait(timedelta(seconds=1))
    await put(world, "two")
    await put(world, "mail", to="mail")
    equal(await due(world), ["one"])
    equal(await due(world, "hook", "mail"), ["one", "mail"])
    equal(await due(world, "gone"), [])
    [first] = await alerts.due(["hook"], longest=LONGEST)
    equal((first.content, first.made_at, first.state), (message("one"), START, "pending"))
    await alerts.failed(first.id, "refused", pause=MINUTE)
    equal(await due(world), [], "the second waits for the first")
    world.wait(MINUTE)
    equal(await due(world), ["one"])
    await alerts.sent(first.id)
    equal(await due(world), ["two"])
    [_, _, sent] = await alerts.messages()
    equal((sent.state, sent.attempts, sent.sent_at, sent.error), ("sent", 2, world.now, ""))
    equal([one.content.title for one in await alerts.messages(pending=True)], ["mail", "two"])


@check
async def a_message_that_was_given_up_is_due_no_more(world: World) -> None:
    alerts = world.store.alerts
    await alerts.turn("ada", TURN)
    await put(world, "one")
    [first] = await alerts.due(["hook"], longest=LONGEST)
    await alerts.failed(first.id, "gone for good", pause=None)
    equal(await due(world), [])
    [given_up] = await alerts.messages()
    equal((given_up.state, given_up.error), ("given up", "gone for good"))
    await alerts.failed(first.id, "late", pause=MINUTE)
    equal((await alerts.messages())[0].state, "given up")


@check
async def a_pause_written_by_a_clock_that_was_ahead_is_over(world: World) -> None:
    alerts = world.store.alerts
    await alerts.turn("ada", TURN)
    await put(world, "one")
    [first] = await alerts.due(["hook"], longest=LONGEST)
    world.wait(24 * HOUR)
    await alerts.failed(first.id, "refused", pause=MINUTE)
    world.wait(-24 * HOUR)
    equal(await due(world), ["one"])


@check
async def the_last_run_of_a_schedule_is_the_one_that_ended_last(world: World) -> None:
    await world.add(plan(), plan("other", "every 1h"))
    await world.fire_after(MINUTE)
    bad = await world.begin()
    await world.end(bad, REFUSED)
    runs = world.store.alerts.last_runs
    [last] = await runs(["report", "other", "unknown"], since=START)
    equal((last.schedule, last.job_id, last.state), ("report", bad.id, "failed"))
    await world.fire_after(MINUTE)
    good = await world.begin()
    await world.end(good)
    [last] = await runs(["report"], since=START)
    equal((last.job_id, last.state, last.ended_at), (good.id, "succeeded", world.now))
    equal(await runs(["report"], since=world.now + MINUTE), [])


@check
async def a_run_that_is_due_and_has_not_started_is_late(world: World) -> None:
    await world.add(plan())
    await world.fire_after(MINUTE)
    late = world.store.alerts.not_started
    equal(await late(late=MINUTE), [])
    world.wait(MINUTE)
    [one] = await late(late=MINUTE)
    equal((one.schedule, one.runs, one.due_at), ("report", 1, START + MINUTE))
    await world.store.work.set_queue(Queue(name="default", paused=True))
    equal(await late(late=MINUTE), [], "its queue is paused on purpose")
    await world.store.work.set_queue(Queue(name="default"))
    await world.begin()
    equal(await late(late=MINUTE), [])


@check
async def a_worker_that_died_is_gone_and_one_that_ended_is_not(world: World) -> None:
    work, gone = world.store.work, world.store.alerts.gone_workers
    ended = await work.register(profile("ended"), lease=LEASE)
    died = await work.register(profile("died"), lease=LEASE)
    silent = await work.register(profile("silent"), lease=LEASE)
    await work.end_lease(ended.id)
    await work.end_lease(died.id, died=True)
    equal(await gone(since=START), [GoneWorker(id=died.id, name="died", pid=0, beat_at=START)])
    world.wait(LEASE)
    equal({one.id for one in await gone(since=START)}, {died.id, silent.id})
    equal(await gone(since=START + MINUTE), [])
