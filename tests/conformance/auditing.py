"""The audit log: one chain, whoever adds to it, with every change that is somebody's."""

import asyncio
import json
from datetime import timedelta
from typing import Any

from duly.errors import InvalidValue, NotFound, PayloadError
from duly.model.access import LONGEST_DETAILS, LONGEST_SUBJECT, Actor, AuditedAction, AuditEntry
from duly.model.job_filter import Filter
from duly.model.limit import Queue, Rate
from duly.model.outcome import Raised
from duly.model.states import State
from duly.store.store import SqlStore, Store
from duly.store.values import QueueStep, ScheduleStep
from tests.conformance.expect import equal, holds, refused
from tests.conformance.losing import LosingAnswers
from tests.conformance.registry import check
from tests.conformance.world import HOUR, MINUTE, START, World
from tests.factories import call, plan

ADA = Actor("ada", "command")
GRACE = Actor("grace", "person")
REFUSED = Raised(error="ConnectionError", message="refused")
AT_ONCE = 25


async def log(world: World, **which: Any) -> list[AuditEntry]:
    """The oldest first."""
    return (await world.store.access.audit(**{"limit": 1_000, **which}))[::-1]


async def actions(world: World) -> list[tuple[str, str]]:
    return [(entry.action, entry.subject) for entry in await log(world)]


def said(entry: AuditEntry) -> dict[str, Any]:
    return dict(json.loads(entry.details))


@check
async def an_entry_says_who_did_what_when_and_follows_the_one_before(world: World) -> None:
    equal((await log(world), await world.store.access.verify_audit()), ([], None))
    first = await world.store.access.append_audit(
        ADA, AuditedAction("login", "person:ada", {"ip": "::1"})
    )
    world.wait(MINUTE)
    second = await world.store.access.append_audit(GRACE, AuditedAction("logout"))
    equal(await log(world), [first, second])
    equal(
        (first.number, first.at, first.who, first.how, first.action, first.subject, said(first)),
        (1, START, "ada", "command", "login", "person:ada", {"ip": "::1"}),
    )
    equal((second.number, second.at, second.how), (2, START + MINUTE, "person"))
    equal((first.previous, second.previous), ("", first.hash))
    equal((first.hash, second.hash), (first.digest(), second.digest()))
    equal(await world.store.access.verify_audit(), None)


@check
async def of_many_who_add_at_once_each_comes_after_another(world: World) -> None:
    nodes = [world, world.another_node(), world.another_node()]

    async def add(node: World, number: int) -> AuditEntry:
        return await node.store.access.append_audit(ADA, AuditedAction("tick", f"{number}"))

    added = await asyncio.gather(
        *(add(node, number) for number in range(AT_ONCE) for node in nodes)
    )
    there = await log(world)
    equal([entry.number for entry in there], list(range(1, AT_ONCE * len(nodes) + 1)))
    equal(sorted(added, key=lambda entry: entry.number), there)
    equal(await world.store.access.verify_audit(), None)


@check
async def changes_of_many_at_once_are_one_chain(world: World) -> None:
    """Each holds rows of its own before the end of the chain."""
    stores = [world.store.acting(ADA), world.another_node().store.acting(GRACE)]
    await world.add(*(plan(f"s{number}") for number in range(AT_ONCE)))

    async def steer(store: Store, number: int) -> None:
        await store.schedules.pause(f"s{number}")
        await store.work.set_queue(Queue(name=f"q{number}", paused=True))

    await asyncio.gather(*(steer(store, number) for number in range(AT_ONCE) for store in stores))
    equal(len(await log(world)), 4 * AT_ONCE)
    equal(await world.store.access.verify_audit(), None)


@check
async def a_page_lies_between_two_numbers_the_newest_first(world: World) -> None:
    for number in range(1, 7):
        deed = AuditedAction("tick", "even" if number % 2 == 0 else "odd")
        await world.store.access.append_audit(ADA if number < 5 else GRACE, deed)

    async def page(**which: Any) -> list[int]:
        return [entry.number for entry in await world.store.access.audit(**which)]

    equal(await page(), [6, 5, 4, 3, 2, 1])
    equal((await page(limit=2), await page(before=5, limit=2)), ([6, 5], [4, 3]))
    equal(await page(after=3), [6, 5, 4])
    equal(await page(after=2, before=5), [4, 3])
    equal((await page(who="ada"), await page(subject="even")), ([4, 3, 2, 1], [6, 4, 2]))
    equal(await page(who="grace", subject="even", before=6), [])
    equal(await page(who="ada", subject="odd", after=1), [3])


@check
async def an_entry_whose_answer_was_lost_is_there_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    node = SqlStore(losing).acting(ADA)
    losing.lose("add_audit", times=2)
    await node.access.append_audit(GRACE, AuditedAction("login"))
    losing.lose("add_audit", times=2)
    await node.schedules.add([plan()])
    losing.lose("add_audit", times=1)
    await node.work.set_queue(Queue(name="mail", paused=True))
    equal(losing.lost, 5)
    equal(
        await actions(world),
        [("login", ""), ("schedules.add", "schedule:report"), ("queues.set", "queue:mail")],
    )
    equal(await world.store.access.verify_audit(), None)


@check
async def what_is_done_to_a_schedule_in_somebodys_name_is_there(world: World) -> None:
    people = world.store.acting(ADA).schedules
    await people.add([plan(rule="every 1h")])
    await people.edit("report", lambda _: plan(rule="every 2h", title="new"))
    await people.pause("report", until=START + HOUR, note="holiday")
    await people.resume("report")
    [moment] = await people.skip_next("report")
    await people.rewind("report", to=START)
    await people.run("report")
    world.wait(5 * HOUR)
    await people.backfill("report", since=START - 4 * HOUR, until=START)
    await people.remove("report")
    entries = await log(world, subject="schedule:report")
    equal(
        [entry.action.removeprefix("schedules.") for entry in entries],
        ["add", "edit", "pause", "resume", "skip_next", "rewind", "run", "backfill", "remove"],
    )
    equal({(entry.who, entry.how) for entry in entries}, {("ada", "command")})
    equal(
        said(entries[1]),
        {"was": {"rule": "every 1h", "title": ""}, "now": {"rule": "every 2h", "title": "new"}},
    )
    equal(said(entries[2]), {"until": "2026-03-02T13:00:00Z", "note": "holiday"})
    equal(said(entries[4]), {"moments": [moment.isoformat().replace("+00:00", "Z")]})
    equal(said(entries[7])["jobs"], 2)


@check
async def what_is_done_to_queues_limits_workers_and_jobs_is_there(world: World) -> None:
    store = world.store.acting(ADA)
    await store.work.set_queue(Queue(name="mail", concurrency=3, rate=Rate.parse("5/s")))
    await store.limits.set("crm", concurrency=2, rate=None)
    await store.limits.unset("crm")
    worker = await world.the_worker()
    await store.work.tell(worker, "drain")
    number = await world.enqueue(call())
    await store.jobs.cancel(number, reason="not today")
    number = await world.enqueue(call())
    await world.end(await world.begin(), REFUSED)
    await store.jobs.retry(number)
    await store.schedules.apply(
        "schedules.toml",
        expected=None,
        record="one",
        steps=[
            ScheduleStep(name="report", seen=None, plan=plan()),
            QueueStep(seen=None, queue=Queue(name="other")),
        ],
    )
    equal(
        [(entry.action, said(entry)) for entry in await log(world)],
        [
            ("queues.set", {"paused": False, "concurrency": 3, "rate": "5/s", "fair": False}),
            ("limits.set", {"concurrency": 2}),
            ("limits.reset", {}),
            ("workers.tell", {"order": "drain"}),
            ("jobs.cancel", {"reason": "not today"}),
            ("jobs.retry", {}),
            ("apply", {"schedules": ["report"], "queues": ["other"]}),
        ],
    )
    equal((await log(world))[3].subject, f"worker:{worker}")


@check
async def what_is_done_to_many_jobs_is_announced_once_and_only_if_there_are_any(
    world: World,
) -> None:
    store = world.store.acting(ADA)
    nothing = Filter(task="nothing")
    await store.jobs.cancel_found(nothing)
    await store.jobs.retry_found(nothing)
    await store.jobs.remove_found(nothing)
    equal(await log(world), [])
    for _ in range(3):
        await world.enqueue(call())
        await world.end(await world.begin(), REFUSED)
    failed = Filter(states=(State.FAILED,), task="work")
    equal(len(await store.jobs.retry_found(failed, first=1)), 1)
    equal(len(await store.jobs.retry_found(Filter(task="work"))), 2)
    equal(len(await store.jobs.cancel_found(Filter(task="work"), reason="enough")), 3)
    equal(len(await store.jobs.remove_found(Filter(task="work"))), 3)
    equal(
        [(entry.action, entry.subject, said(entry)) for entry in await log(world)],
        [
            ("jobs.retry", "jobs", {"filter": "state:failed task:work", "first": 1}),
            ("jobs.retry", "jobs", {"filter": "task:work"}),
            ("jobs.cancel", "jobs", {"filter": "task:work", "reason": "enough"}),
            ("jobs.remove", "jobs", {"filter": "task:work"}),
        ],
    )


@check
async def what_nobody_does_or_what_is_refused_is_not_there(world: World) -> None:
    await world.add(plan())
    await world.store.schedules.pause("report")
    await world.fire_after(HOUR)
    store = world.store.acting(ADA)
    with refused(NotFound):
        await store.schedules.pause("nothing")
    with refused(InvalidValue):
        await store.schedules.pause("report", until=START)
    await store.schedules.backfill("report", since=START - HOUR, until=START, dry_run=True)
    await store.jobs.enqueue([call()])
    equal(await log(world), [])


@check
async def a_change_with_much_to_say_is_kept_and_its_entry_is_short(world: World) -> None:
    store = world.store.acting(ADA)
    names = [f"{number}" + "ä" * 490 for number in range(100)]
    await store.schedules.apply(
        "schedules.toml",
        expected=None,
        record="one",
        steps=[ScheduleStep(name=name, seen=None, plan=plan(name)) for name in names],
    )
    equal(len(await world.store.schedules.page(limit=200)), 100)
    [entry] = await log(world)
    holds(len(entry.details.encode()) <= LONGEST_DETAILS, "it is short")
    equal(said(entry)["schedules"][-1], "… and 80 more")


@check
async def what_is_named_like_a_secret_is_not_there(world: World) -> None:
    await world.store.acting(ADA).schedules.add([plan(rule="every 1h")])
    people = world.store.acting(ADA).schedules
    await people.pause("report", note="password=hunter2")
    equal(said((await log(world))[-1]), {"note": "password=***"})


@check
async def what_cannot_be_kept_of_an_entry_is_refused(world: World) -> None:
    long: dict[str, Any] = {"text": "x" * LONGEST_DETAILS}
    for words, error in (
        (("",), InvalidValue),
        (("a" * 101,), PayloadError),
        (("login", "s" * (LONGEST_SUBJECT + 1)), PayloadError),
        (("login", "", long), PayloadError),
        (("login", "", {"at": timedelta(1)}), PayloadError),
    ):
        with refused(error):
            await world.store.access.append_audit(ADA, AuditedAction(*words))
    for who, how in (("w" * 501, "token"), ("ada", "magic")):
        with refused(InvalidValue):
            await world.store.access.append_audit(Actor(who, how), AuditedAction("x"))  # type: ignore[arg-type]
    equal(await log(world), [])
