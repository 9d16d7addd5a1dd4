"""Jepsen's test of Chronos, with its parameters: half of the nodes lose the database, and heal.

A run is owed for each moment of an acknowledged schedule that the end of the test leaves time for.
It must have begun within a window behind its moment, and it counts only if it ended. Jepsen's
judge accepts any run in the window; here a run names its moment, so that a run for another moment,
a second one and an early one are seen, too.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from duly.clock import boottime, now, sleep
from duly.model.payload import encode
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan
from duly.rules import Rule
from duly.store.store import Store
from tests.acceptance.fleet import Fleet, common, fleet, until
from tests.acceptance.ledger import MANY
from tests.acceptance.report import Report
from tests.infrastructure.proxy import Network, Proxy

NODES = 5
LOAD, QUIET, CUT, LEASE = 450.0, 400.0, 200.0, 10.0
HEAD_START, FORGIVENESS = 10.0, 5.0
SHORTEST_LEASE = 2.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schedule that was acknowledged: when its runs are due, how late they may begin."""

    id: int
    moments: Sequence[datetime]
    late: timedelta
    length: timedelta


async def half_of_the_nodes_are_cut_off(url: str, folder: Path, *, scale: float = 1.0) -> Report:
    """``scale``: how long everything takes, beside the original."""
    report = Report()
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(Proxy.before(url)) for _ in range(NODES)]
        ways = [proxy.url for proxy in proxies]
        lease = max(SHORTEST_LEASE, LEASE * scale)
        there, store = await stack.enter_async_context(
            fleet(url, folder, nodes=NODES, lease=lease, ways=ways)
        )
        wanted, cuts = await _load(store, proxies, scale=scale)
        for proxy in proxies:
            proxy.network = Network.PASS
        await sleep(QUIET * scale)
        read = now()
        report.must(not there.gone(), "a node ended by itself")
        await until(lambda: _all_ran(there, wanted, read), seconds=60)
        report.say(f"{len(wanted)} schedules, {cuts} cuts of {CUT * scale:g} s")
        report.must(cuts, "nobody was cut off")
        _judge(there, wanted, read, report=report)
        return common(there, report)


async def _load(
    store: Store, proxies: Sequence[Proxy], *, scale: float
) -> tuple[list[Wanted], int]:
    """Add schedules while half of the nodes lose the database again and again."""
    wanted, cuts, began = list[Wanted](), 0, boottime()
    end = now() + timedelta(seconds=(LOAD + QUIET) * scale)
    turn = began + CUT * scale
    while (passed := boottime() - began) < LOAD * scale:
        wanted.append(await _add(store, len(wanted), end=end, scale=scale))
        await sleep(min(random.uniform(30, 60) * scale, LOAD * scale - passed))
        if boottime() < turn:
            continue
        turn += CUT * scale
        cut = all(proxy.network is Network.PASS for proxy in proxies)
        chosen = random.sample(range(NODES), NODES // 2) if cut else []
        cuts += cut
        for place, proxy in enumerate(proxies):
            proxy.network = Network.BLACKHOLE if place in chosen else Network.PASS
    return wanted, cuts


async def _add(store: Store, number: int, *, end: datetime, scale: float) -> Wanted:
    length, late = random.uniform(0, 10) * scale, random.uniform(10, 30) * scale
    gap = (1 + FORGIVENESS + random.uniform(0, 30)) * scale + length + late
    start = now() + timedelta(seconds=HEAD_START * scale)
    last = min(end, start + timedelta(seconds=gap * random.randint(1, 99)))
    policies = Policies(overlap="allow", missed=Missed("all", at_most=1_000), start=start, end=last)
    args = encode({"seconds": length}, what="the arguments")
    rule = f"every {round(gap * 1_000)}ms"
    plan = Plan(name=f"chronos {number:03}", rule=rule, task="nap", args=args, policies=policies)
    [added] = await store.schedules.add([plan])
    timing = plan.kept
    assert isinstance(timing, Rule)
    moments = list(timing.between(added.created_at, last, MANY))
    late_by = timedelta(seconds=late + FORGIVENESS * scale)
    return Wanted(added.id, moments, late_by, timedelta(seconds=length))


async def _all_ran(there: Fleet, wanted: Sequence[Wanted], read: datetime) -> bool:
    ended = {(line.schedule, line.due) for line in there.lines("end")}
    return all(moment in ended for moment in _owed(wanted, read))


def _owed(wanted: Sequence[Wanted], read: datetime) -> list[tuple[int, datetime]]:
    """Return the moments that are judged: with time to begin late, and to end."""
    return [
        (one.id, moment)
        for one in wanted
        for moment in one.moments
        if moment < read - one.late - one.length
    ]


def _judge(there: Fleet, wanted: Sequence[Wanted], read: datetime, *, report: Report) -> None:
    late = {one.id: one.late for one in wanted}
    due = {(one.id, moment) for one in wanted for moment in one.moments}
    begun = {(line.job, line.fence): line for line in there.lines("begin")}
    completed = defaultdict[tuple[int, datetime], list[datetime]](list)
    jobs = defaultdict[tuple[int, datetime], set[int]](set)
    for line in there.lines("end"):
        completed[line.schedule, line.due].append(begun[line.job, line.fence].at)
    for line in begun.values():
        jobs[line.schedule, line.due].add(line.job)
    owed = _owed(wanted, read)
    lost = [where for where in owed if where not in completed]
    missed = [
        where
        for where in owed
        if not any(where[1] <= at <= where[1] + late[where[0]] for at in completed[where])
    ]
    extra = [where for where, numbers in jobs.items() if len(numbers) > 1]
    phantoms = jobs.keys() - due
    early = [line for line in begun.values() if line.at < line.due]
    again = sum(map(len, completed.values())) - len(completed)
    report.say(f"{len(owed)} runs owed, {len(missed)} missed, {len(lost)} lost")
    report.say(f"{len(extra)} extra, {len(phantoms)} phantoms, {len(early)} early, {again} again")
    stopped = there.count("interrupted")
    report.say(f"{stopped} runs stopped by nodes that were cut off")
    report.must(len(owed) > len(wanted), "next to nothing was owed")
    for what, found in {"lost": lost, "extra": extra, "phantoms": phantoms, "early": early}.items():
        report.must(not found, f"{what}: {list(found)[:3]}")
    if missed:
        report.slow.append(f"outside of their windows: {missed[:3]}")
