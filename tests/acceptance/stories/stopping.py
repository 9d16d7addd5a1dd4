"""Nodes are stopped in order, under load: what runs is finished, and what is finished stays so."""

import random
import signal
from collections import Counter
from pathlib import Path

from duly.clock import sleep
from duly.model.states import State
from duly.store.store import Store
from tests.acceptance.fleet import Fleet, Member, calls, common, enlisted, fleet, idle, until
from tests.acceptance.report import Report

NODES = 3
LOAD = 100  # jobs for each stop: some run, some wait, some are claimed and wait
LONGEST_JOB = 0.3
FOREVER = 300.0
# What a cold stop leaves to what runs, and a second for all the rest.
COLD = 6.0


async def nodes_are_stopped(url: str, folder: Path, *, stops: int = 100) -> Report:
    """One after the other is told to stop, and another one takes its place."""
    report = Report()
    numbers, exits, codes = list[int](), list[float](), Counter[int]()
    async with fleet(url, folder, nodes=NODES) as (there, store):
        for _ in range(stops):
            there.start()
            await until(lambda: enlisted(store, NODES + 1), seconds=60)
            jobs = [next(calls(1, seconds=random.uniform(0, LONGEST_JOB))) for _ in range(LOAD)]
            numbers += await store.jobs.enqueue(jobs)
            await sleep(random.uniform(0, LONGEST_JOB))
            exits.append(await _stopped(there, there.members[0], codes=codes))
        await until(lambda: idle(store), seconds=60)
        await _judge(there, store, numbers, report=report)
        report.must(set(codes) == {0}, f"nodes ended with {dict(codes)}")
        report.within(max(exits), LONGEST_JOB + 1, f"{stops} stops, the longest")
        await _hurried(there, store, report=report)
        return common(there, report)


async def _stopped(there: Fleet, member: Member, *, codes: Counter[int]) -> float:
    member.send(signal.SIGTERM)
    seconds = await until(lambda: not member.is_there, seconds=60)
    codes[there.bury(member)] += 1
    return seconds


async def _judge(there: Fleet, store: Store, numbers: list[int], *, report: Report) -> None:
    begun = Counter(line.job for line in there.lines("begin"))
    ended = Counter(line.job for line in there.lines("end"))
    succeeded = {job.id for job in await store.jobs.ended(State.SUCCEEDED, limit=len(numbers))}
    again = [job for job, count in begun.items() if count > 1 or ended[job] > 1]
    lost = [job for job in numbers if not ended[job] or job not in succeeded]
    report.say(f"{len(numbers)} jobs, {len(lost)} lost, {len(again)} run again")
    report.must(not lost, f"lost: {lost[:10]}")
    report.must(not again, f"run again: {again[:10]}")


async def _hurried(there: Fleet, store: Store, *, report: Report) -> None:
    """Told twice, a node stops what runs too; that costs its jobs no try."""
    for member in there.members[1:]:
        there.kill(member)
    [number] = await store.jobs.enqueue(list(calls(1, seconds=FOREVER, again=0.1)))
    await until(lambda: any(line.job == number for line in there.lines("begin")), seconds=30)
    member = there.members[0]
    member.send(signal.SIGTERM)
    await sleep(0.2)
    report.must(member.is_there, "a node did not wait for what it runs")
    codes = Counter[int]()
    seconds = await _stopped(there, member, codes=codes)
    there.start()
    await until(lambda: idle(store), seconds=60)
    job = await store.jobs.get(number)
    found = (job.state, job.attempt, job.crashes, set(codes))
    report.must(found == (State.SUCCEEDED, 1, 0, {0}), f"told twice: {found}")
    report.must(there.count("interrupted") == 1, "what ran was not interrupted")
    report.within(seconds, COLD, "told twice, ended after")
