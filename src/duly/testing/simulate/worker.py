"""A worker that only pretends to work, and is as bad at it as real ones.

It keeps a lease, claims, "runs" jobs for a while, settles what they came to, and stops its jobs
when it loses its lease. Some jobs raise, some take their node with them, some make it stand still
for longer than the lease, and some do not stop when told: they come back as zombies, with a result
that nobody may take.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar, cast

from duly.clock import sleep
from duly.engine.wake import Wake
from duly.errors import StoreUnavailable
from duly.model.job import Job
from duly.model.outcome import Late, Outcome, Raised, Returned, Stopped, Succeeded
from duly.model.payload import Json
from duly.policy.retry import Retry
from duly.policy.verdict import judge
from duly.store.protocol import Settlement, Store
from duly.testing.simulate.world import Host, World

T = TypeVar("T")

QUEUES = ("default", "other")
TASKS = ("work", "more work")


@dataclass(eq=False, slots=True)
class Run:
    """An attempt under way."""

    job: Job
    began: float
    stop: Wake
    reason: str | None = None  # why it is asked to stop, if it is
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    attempt: int
    crashes: int
    retry: Retry


class Worker:
    def __init__(self, world: World, host: Host, store: Store) -> None:
        self._world = world
        self._host = host
        self._store = store
        self._wake = Wake()
        self._runs: dict[int, Run] = {}
        self._done: list[Settlement] = []
        self._turn = 0

    def nudge(self, topic: str) -> None:
        if topic.startswith("ready"):
            self._wake.set()

    async def run(self) -> None:
        """One lease after another."""
        lease = self._world.knobs.lease_length
        while True:
            try:
                info = await self._store.work.register(
                    self._host.name, queues=QUEUES, tasks=TASKS, lease=lease
                )
            except StoreUnavailable:
                await self._rest(1.0)
                continue
            self._world.workers[info.id] = self._host
            try:
                await self._serve(info.id)
            finally:
                self._stop_all()

    async def _serve(self, worker: int) -> None:
        """Until the lease is lost, or cannot be known to be kept."""
        knobs, time = self._world.knobs, self._world.loop.time
        confirmed = beat = time()
        while time() - confirmed < knobs.lease * 2 / 3:
            if time() - beat >= knobs.beat:
                beat = time()
                renewed = await self._try(
                    lambda: self._store.work.renew(worker, knobs.lease_length)
                )
                if renewed is False:
                    self._world.sometimes["lease found lost"] += 1
                    return
                confirmed = beat if renewed else confirmed
                await self._obey(worker)
            busy = await self._claim(worker)
            await self._settle()
            await self._rest(0 if busy else knobs.poll)

    async def _obey(self, worker: int) -> None:
        signals = await self._try(lambda: self._store.work.signals(worker))
        told: Mapping[int, str] = signals or {}
        for run in self._runs.values():
            if run.job.id in told and run.reason is None:
                run.reason = told[run.job.id]
                run.stop.set()

    async def _claim(self, worker: int) -> bool:
        """Whether there may be more."""
        free = self._world.knobs.slots - len(self._runs)
        if free <= 0:
            return False
        self._turn += 1
        queue = QUEUES[self._turn % len(QUEUES)]
        claimed = await self._try(
            lambda: self._store.work.claim(worker, queue=queue, tasks=TASKS, limit=free)
        )
        for job in claimed or ():
            self._begin(job)
        return bool(claimed)

    def _begin(self, job: Job) -> None:
        run = Run(job, self._world.loop.time(), Wake())
        self._runs[job.id] = run
        run.task = self._world.loop.create_task(self._work(run), name=f"job {job.id}")
        run.task.add_done_callback(self._ended)

    async def _work(self, run: Run) -> None:
        try:
            outcome = await self._outcome(run)
        except asyncio.CancelledError:
            # A thread cannot be stopped from outside: this one finishes, long after its lease.
            if not self._host.alive or not self._world.chance(self._world.odds.bad_jobs):
                raise
            outcome = await self._as_a_zombie(run)
            await self._try(lambda: self._write([self._settlement(run, outcome)]))
            return
        self._done.append(self._settlement(run, outcome))
        self._wake.set()

    async def _as_a_zombie(self, run: Run) -> Outcome:
        await sleep(self._world.knobs.lease * self._world.dice.random() * 2)
        await self._host.thaw()
        self._world.tell(self._host.name, "is a zombie with", f"job {run.job.id}")
        self._world.sometimes["zombie"] += 1
        return Succeeded()

    async def _outcome(self, run: Run) -> Outcome:
        world = self._world
        if _is_late(run.job):
            return Late()
        bad = world.chance(world.odds.bad_jobs)
        if bad and world.chance(0.05):
            return Returned()
        await self._take_time(run, listens=not (bad and world.chance(0.2)))
        if run.reason is not None:
            return Stopped(run.reason)
        await self._harm(run.job, bad=bad)
        if bad and world.chance(0.8):
            after = timedelta(seconds=world.dice.random() * 5) if world.chance(0.5) else None
            permanent = world.chance(0.2)
            return Raised("Trouble", "as it goes", permanent=permanent, retry_after=after)
        return Succeeded(Json('"done"'))

    async def _take_time(self, run: Run, *, listens: bool) -> None:
        length = self._world.dice.random() ** 4 * (20 if self._world.odds.bad_jobs else 0.1)
        if listens:
            await run.stop.rest(length)
        else:
            await sleep(length * 3)
        await self._host.thaw()

    async def _harm(self, job: Job, *, bad: bool) -> None:
        """Some jobs bring their node down, or to a stop."""
        world = self._world
        poisonous = bool(world.odds.bad_jobs) and "poison" in json.loads(job.args)
        if poisonous or (bad and world.chance(0.05)):
            world.tell(self._host.name, "is brought down by", f"job {job.id}")
            self._host.crash()
        elif bad and world.chance(0.1):
            self._host.freeze(world.knobs.lease * (0.8 + world.dice.random()))
            await self._host.thaw()

    async def _settle(self) -> None:
        """Write what came to an end, until it is known to be written or refused."""
        done, self._done = self._done, []
        if not done:
            return
        if await self._try(lambda: self._write(done)) is None:
            self._done = done + self._done
            return
        for settlement in done:
            self._runs.pop(settlement.job.id, None)

    async def _write(self, settlements: Sequence[Settlement]) -> bool:
        known = self._world.checkers.settled
        before = {one.job.id for one in settlements if (one.job.id, one.job.fence) in known}
        settled = await self._store.work.settle(settlements)
        by_id = {one.job.id: one for one in settlements}
        self._world.sometimes["zombie write refused"] += len(settled.refused)
        for number in settled.kept:
            one = by_id[number]
            self._world.sometimes["unknown commit resolved"] += number in before
            became = known.get((number, one.job.fence))
            if became is not one.verdict.state:
                self._world.violated(
                    f"{self._host.name} was told that job {number} is {one.verdict.state} by its "
                    f"fence {one.job.fence}, and by that it became {became}"
                )
        return True

    def _settlement(self, run: Run, outcome: Outcome) -> Settlement:
        job = run.job
        retry = Retry.from_json(job.retry) if job.retry else Retry()
        verdict = judge(
            Tried(job.attempt, job.crashes, retry),
            outcome,
            self._now(run),
            dice=self._world.dice.random(),
        )
        result = outcome.result if isinstance(outcome, Succeeded) else None
        word = type(outcome).__name__.lower()
        return Settlement(job=job, verdict=verdict, outcome=word, result=result)

    def _now(self, run: Run) -> datetime:
        """The store's time, as far as a worker can know it: since the claim, by its own clock."""
        claimed = cast(datetime, run.job.claimed_at)
        return claimed + timedelta(seconds=self._world.loop.time() - run.began)

    def _stop_all(self) -> None:
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        self._runs, self._done = {}, []

    async def _try(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        try:
            return await ask()
        except StoreUnavailable:
            return None

    async def _rest(self, seconds: float) -> None:
        await self._wake.rest(seconds)
        await self._host.thaw()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._world.violated(f"{task.get_name()} failed in its worker: {error!r}")


def _is_late(job: Job) -> bool:
    """Whether the moment by which it had to start had passed when it was claimed."""
    if job.deadline is None or job.claimed_at is None or job.late != "skip":
        return False
    return job.claimed_at > job.deadline
