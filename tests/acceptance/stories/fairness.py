"""Nobody is starved: not by a tenant with many jobs, and not by a flood of higher priority."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from duly.clock import boottime, now, sleep
from duly.model.job import JobRequest
from duly.model.limit import Queue
from duly.store.store import Store
from tests.acceptance.fleet import Fleet, Line, calls, common, fleet, until
from tests.acceptance.report import Report

NODES, SLOTS = 2, 10
JOB = 0.1
BATCH = 5_000
# How many high jobs are kept waiting, at least.
FLOOD = 300


async def a_tenant_floods(
    url: str, folder: Path, *, jobs: int = 100_000, rounds: int = 20
) -> Report:
    """The single job of another tenant begins when a slot is free, whoever has how many waiting."""
    report = Report()
    async with fleet(url, folder, nodes=NODES, slots=SLOTS) as (there, store):
        await store.work.set_queue(Queue(name="default", fair=True))
        for first in range(0, jobs, BATCH):
            await store.jobs.enqueue(list(_of("A", min(BATCH, jobs - first))))
        await until(lambda: there.count("begin") > NODES * SLOTS, seconds=60)
        waits, overtaken = [], []
        for _ in range(rounds):
            asked, before = now(), there.count("begin")
            [number] = await store.jobs.enqueue(list(_of("B", 1)))
            line = await _begun(there, number, seconds=60)
            waits.append((line.at - asked).total_seconds())
            overtaken.append(sum(one.at < line.at for one in there.lines("begin")[before:]))
        waiting = jobs + rounds - there.count("begin")
        report.say(f"{waiting} of {jobs} jobs of one tenant still waited")
        report.say(f"the other's were overtaken by {max(overtaken)} at most")
        report.must(waiting > NODES * SLOTS, "the flood was over too soon")
        # The slots' next jobs, and as many that are claimed ahead: not those that wait.
        most = 3 * NODES * SLOTS
        report.must(max(overtaken) <= most, f"overtaken by {max(overtaken)}, not {most}")
        report.within(max(waits), 1.0, "the longest wait")
        return common(there, report)


async def a_flood_of_high(url: str, folder: Path, *, seconds: float = 60.0) -> Report:
    """What is low and what is normal still run, while more and more of what is high comes in."""
    report = Report()
    async with fleet(url, folder, nodes=NODES, slots=SLOTS) as (there, store):
        await _flood(store)
        await until(lambda: there.count("begin") > NODES * SLOTS, seconds=60)
        asked = now()
        wanted = {"low": -50} | ({"normal": 0} if seconds >= 60 else {})
        numbers = await store.jobs.enqueue([_call(priority) for priority in wanted.values()])
        end, left = boottime() + 2 * seconds, set(numbers)
        while left and boottime() < end:
            await _flood(store)
            await sleep(0.2)
            left -= {line.job for line in there.lines("begin")}
        begun = {line.job: line.at for line in there.lines("begin")}
        waiting = (await store.maintenance.progress()).ready
        report.say(f"{len(begun)} begun, {waiting} still waiting")
        report.must(waiting > NODES * SLOTS, "there was no flood")
        for name, number in zip(wanted, numbers, strict=True):
            waited = (begun.get(number, now()) - asked).total_seconds()
            report.must(number in begun, f"{name} work was starved for {waited:.0f} s")
            report.within(waited, 60, f"{name} waited")
        return common(there, report)


async def _flood(store: Store) -> None:
    waiting = (await store.maintenance.progress()).ready
    if waiting < FLOOD:
        await store.jobs.enqueue([_call(50)] * FLOOD)


async def _begun(there: Fleet, number: int, *, seconds: float) -> Line:
    found = list[Line]()

    def looked() -> bool:
        found[:] = [line for line in there.lines("begin") if line.job == number]
        return bool(found)

    await until(looked, seconds=seconds)
    return found[0]


def _of(tenant: str, count: int) -> Iterator[JobRequest]:
    return (replace(call, tenant=tenant) for call in calls(count, seconds=JOB))


def _call(priority: int) -> JobRequest:
    return replace(next(calls(1, seconds=JOB)), priority=priority)
