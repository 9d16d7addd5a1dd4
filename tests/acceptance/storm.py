"""The kill storm: nodes are killed at random moments, and every due moment is accounted for.

Nodes are processes, the kill is SIGKILL, and the pause between two kills is random: a fixed one
falls into step with schedules that are due each second, and then interrupts nothing.

The judge asks two witnesses. The ledger must have one row for every due moment, queued, with one
job. The file, written outside the system by whoever ran the jobs, must name every moment, and for
each one job only. A line may be there twice: execution is at least once, and a kill may come
between the line and the commit; but it is then the same job.
"""

import asyncio
import contextlib
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from duly.app import migrate_store, open_store
from duly.clock import boottime, sleep
from duly.errors import StoreUnavailable
from duly.instants import from_us
from duly.model.fire import Outcome, StoredFire
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan, StoredSchedule
from duly.rules import Rule
from duly.store.store import Store
from tests.infrastructure.commands import Forked

TASK = "witness"

# Before that, nodes are still starting: what they make up for says nothing about lateness.
STARTING = timedelta(seconds=3)

Blow: TypeAlias = Callable[[], None]


@dataclass
class Storm:
    """What a storm came to."""

    due: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    repeated_runs: int = 0
    kills: int = 0
    lateness: list[timedelta] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Lateness in milliseconds, from the due moment to the decision's commit, by its clock."""
        ordered = sorted(self.lateness)
        return ordered[int(share * (len(ordered) - 1))] / timedelta(milliseconds=1)

    def __str__(self) -> str:
        return (
            f"{self.due} moments due, {len(self.lost)} lost, {len(self.doubled)} doubled; "
            f"{self.kills} kills, {self.repeated_runs} jobs run again; lateness "
            f"p50 {self.percentile(0.5):.1f} ms, p99 {self.percentile(0.99):.1f} ms, "
            f"worst {self.percentile(1):.0f} ms"
        )


async def storm(  # noqa: PLR0913 - its weather, by name
    url: str,
    folder: Path,
    *,
    nodes: int = 4,
    schedules: int = 200,
    seconds: float = 60,
    pause: float | None = 2.0,
    heal: float = 8.0,
    least: int = 0,
    blow: Blow | None = None,
) -> Storm:
    """Raise a storm over a new store; without a ``pause`` between blows, there are none.

    It lasts that many seconds, and until ``least`` blows have fallen. A blow kills a node, unless
    it is something else.
    """
    await migrate_store(url)
    file = folder / "witness"
    file.touch()
    store = await open_store(url)
    try:
        added = await store.schedules.add([plan(number) for number in range(schedules)])
        result = Storm()
        with fleet(url, file, nodes) as processes:
            fall = blow or (lambda: kill_one(processes, lambda: start(url, file)))
            await rage(processes, fall, seconds=seconds, pause=pause, least=least, result=result)
            await calm(store, heal)
        end = min([await newest(store, schedule) for schedule in added])
        await judge(store, added, file=file, end=end, result=result)
        return result
    finally:
        await store.close()


def plan(number: int) -> Plan:
    policies = Policies(overlap="allow", missed=Missed("all", at_most=1_000))
    return Plan(name=f"second {number:04}", rule="every 1s", task=TASK, policies=policies)


@contextlib.contextmanager
def fleet(url: str, file: Path, nodes: int) -> Iterator[list[Forked]]:
    processes = [start(url, file) for _ in range(nodes)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def start(url: str, file: Path) -> Forked:
    words = ["tests.acceptance.node", url, str(file)]
    return Forked(words, stdout=1, stderr=2, folder=Path(__file__).parents[2])


async def rage(
    processes: list[Forked],
    blow: Blow,
    *,
    seconds: float,
    pause: float | None,
    least: int,
    result: Storm,
) -> None:
    end = boottime() + seconds
    while (left := end - boottime()) > 0 or result.kills < least:
        await sleep(random.uniform(0.5, 1.5) * pause if pause else left)
        assert all(process.poll() is None for process in processes), "a node ended by itself"
        if pause:
            await asyncio.to_thread(blow)
            result.kills += 1


def kill_one(processes: list[Forked], another: Callable[[], Forked]) -> None:
    victim = random.randrange(len(processes))
    processes[victim].send_signal(signal.SIGKILL)
    processes[victim].wait()
    processes[victim] = another()


async def calm(store: Store, seconds: float) -> None:
    """Wait until what was interrupted has been taken back and run; not longer than that takes."""
    await sleep(2)
    end = boottime() + seconds
    before: datetime | None = None
    while boottime() < end:
        with contextlib.suppress(StoreUnavailable):
            before = before or (await store.maintenance.progress()).now
            jobs = await store.jobs.page(limit=1)
            if not jobs or jobs[0].created_at > before:
                return
        await sleep(0.1)


async def newest(store: Store, schedule: StoredSchedule) -> datetime:
    [fire] = await store.ledger.fires(schedule.plan.name, limit=1)
    return fire.due_at


async def judge(
    store: Store, added: list[StoredSchedule], *, file: Path, end: datetime, result: Storm
) -> None:
    seen = witnessed(file)
    cutoff = end - timedelta(seconds=1)  # the last second's jobs may still be on their way
    for schedule in added:
        fires: dict[datetime, list[StoredFire]] = {}
        for fire in await store.ledger.fires(schedule.plan.name, limit=100_000):
            fires.setdefault(fire.due_at, []).append(fire)
        rule = schedule.plan.kept
        assert isinstance(rule, Rule)
        moments = list(rule.between(schedule.created_at, cutoff, 100_000))
        for moment in moments:
            compare(schedule, moment, fires=fires.get(moment, []), seen=seen, result=result)
        result.due += len(moments)
    result.repeated_runs = sum(len(lines) - len(set(lines)) for lines in seen.values())


def compare(
    schedule: StoredSchedule,
    moment: datetime,
    *,
    fires: list[StoredFire],
    seen: dict[tuple[int, datetime], list[int]],
    result: Storm,
) -> None:
    where = f"{schedule.plan.name} at {moment:%H:%M:%S}"
    jobs = set(seen.get((schedule.id, moment), []))
    if not fires or fires[0].outcome is not Outcome.QUEUED or not jobs:
        result.lost.append(f"{where}: ledger {fires}, file {jobs}")
    if len(fires) > 1 or len(jobs | {fire.job_id for fire in fires}) > 1:
        result.doubled.append(f"{where}: ledger {fires}, file {jobs}")
    if moment > schedule.created_at + STARTING:
        result.lateness += [fire.decided_at - moment for fire in fires]


def witnessed(file: Path) -> dict[tuple[int, datetime], list[int]]:
    """The jobs that were run, by schedule and due moment."""
    seen: dict[tuple[int, datetime], list[int]] = {}
    for line in file.read_text().splitlines():
        schedule, due, job, _ = map(int, line.split())
        seen.setdefault((schedule, from_us(due)), []).append(job)
    return seen
