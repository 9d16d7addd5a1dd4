"""A worker that only pretends to work, and is as bad at it as real ones.

It keeps a lease, claims, "runs" jobs for a while, settles what they came to, and stops its jobs
when it loses its lease. Some jobs raise, some take their node with them, some make it stand still
for longer than the lease, and some do not stop when told: they come back as zombies, with a result
that nobody may take.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from duly.clock import sleep
from duly.engine.wake import Wake
from duly.errors import StoreUnavailable
from duly.model.claimed import Claimed
from duly.model.outcome import Late, Outcome, Raised, Returned, Stopped, Succeeded
from duly.model.payload import Json
from duly.model.states import State
from duly.model.worker import Profile
from duly.policy.verdict import Tried, judge
from duly.store.protocol import CAREFUL, Beat, Done, Settlement, Store, Wish
from duly.testing.simulate.world import Host, World

T = TypeVar("T")

QUEUES = ("default", "other")
TASKS = ("work", "more work")
SIGNATURES = dict.fromkeys(TASKS, "as it was")


@dataclass(eq=False, slots=True)
class Run:
    """An attempt under way."""

    job: Claimed
    began: float
    stop: Wake
    reason: str | None = None  # why it is asked to stop, if it is
    task: asyncio.Task[None] | None = None


class Worker:
    def __init__(self, world: World, host: Host, store: Store) -> None:
        self._world = world
        self._host = host
        self._store = store
        self._wake = Wake()
        self._runs: dict[int, Run] = {}
        self._done: list[Settlement] = []
        self._unsure = False  # whether something was claimed whose answer was lost

    def nudge(self, topic: str) -> None:
        if topic.startswith("ready"):
            self._wake.set()

    async def run(self) -> None:
        """One lease after another."""
        lease = self._world.knobs.lease_length
        profile = Profile(name=self._host.name, queues=QUEUES, signatures=SIGNATURES)
        while True:
            try:
                info = await self._store.work.register(profile, lease=lease)
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
                heard = await self._beat(worker)
                if heard is None:
                    self._world.sometimes["lease found lost"] += 1
                    return
                confirmed = beat if heard else confirmed
            await self._find_again(worker)
            busy = await self._claim(worker)
            await self._settle()
            await self._rest(0 if busy else knobs.poll)

    async def _beat(self, worker: int) -> bool | None:
        """Whether the lease is known to be kept, or None if it is known to be lost."""
        length = self._world.knobs.lease_length
        try:
            heard = await self._store.work.renew(worker, length, running=len(self._runs))
        except StoreUnavailable:
            return False
        if heard is None:
            return None
        self._obey(heard)
        return True

    def _obey(self, heard: Beat) -> None:
        for run in self._runs.values():
            if run.job.id in heard.signals and run.reason is None:
                run.reason = heard.signals[run.job.id]
                run.stop.set()

    async def _find_again(self, worker: int) -> None:
        """Begin what was claimed by a claim whose answer was lost."""
        if not self._unsure:
            return
        held = await self._try(lambda: self._store.work.held(worker))
        if held is None:
            return
        self._unsure = False
        for job in held:
            if job.id not in self._runs:
                self._world.sometimes["claim found again"] += 1
                self._begin(job)

    async def _claim(self, worker: int) -> bool:
        """Whether there may be more."""
        free = self._world.knobs.slots - len(self._runs)
        places = await self._try(lambda: self._store.work.ready(QUEUES)) if free > 0 else None
        if not places or self._unsure:
            return False
        queue, shelf = self._world.dice.choice(places)
        wish = Wish(worker=worker, queue=queue, tasks=TASKS, limit=free, shelf=shelf)
        claimed = await self._try(lambda: self._taken(wish))
        self._unsure = claimed is None
        for job in claimed or ():
            self._begin(job)
        return bool(claimed)

    async def _taken(self, wish: Wish) -> Sequence[Claimed]:
        """With care, or in passing, when what is done is finished."""
        if wish.shelf == CAREFUL or self._world.chance(0.5):
            return await self._store.work.claim(wish)
        plain = [one for one in self._done if _is_plain(one)]
        jobs = await self._finish(plain, wish)
        self._done = [one for one in self._done if one not in plain]
        for one in plain:
            self._runs.pop(one.job.id, None)
        return jobs

    def _begin(self, job: Claimed) -> None:
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
            one = self._settlement(run, outcome)
            in_passing = _is_plain(one)
            await self._try(lambda: self._finish([one]) if in_passing else self._write([one]))
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
        if run.job.is_late:
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

    async def _harm(self, job: Claimed, *, bad: bool) -> None:
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

    async def _finish(
        self, plain: Sequence[Settlement], wish: Wish | None = None
    ) -> Sequence[Claimed]:
        done = [Done(one.job.id, one.job.fence, one.result) for one in plain]
        turn = await self._store.work.turn(done, wish)
        self._told(plain, kept=turn.kept, refused=turn.refused)
        return turn.jobs

    async def _write(self, settlements: Sequence[Settlement]) -> Sequence[Claimed]:
        known = self._world.checkers.settled
        before = {one.job.id for one in settlements if (one.job.id, one.job.fence) in known}
        settled = await self._store.work.settle(settlements)
        self._world.sometimes["unknown commit resolved"] += len(before & set(settled.kept))
        self._told(settlements, kept=settled.kept, refused=settled.refused)
        return ()

    def _told(
        self, settlements: Sequence[Settlement], *, kept: Sequence[int], refused: Sequence[int]
    ) -> None:
        """Hold what the store says that it wrote against what was seen to be written."""
        known = self._world.checkers.settled
        by_id = {one.job.id: one for one in settlements}
        self._world.sometimes["zombie write refused"] += len(refused)
        for number in kept:
            one = by_id[number]
            became = known.get((number, one.job.fence))
            if became is not one.verdict.state:
                self._world.violated(
                    f"{self._host.name} was told that job {number} is {one.verdict.state} by its "
                    f"fence {one.job.fence}, and by that it became {became}"
                )

    def _settlement(self, run: Run, outcome: Outcome) -> Settlement:
        job = run.job
        now = job.moment(self._world.loop.time() - run.began)
        verdict = judge(Tried.of(job), outcome, now, dice=self._world.dice.random())
        result = outcome.result if isinstance(outcome, Succeeded) else None
        word = type(outcome).__name__.lower()
        return Settlement(job=job, verdict=verdict, outcome=word, result=result)

    def _stop_all(self) -> None:
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        self._runs, self._done, self._unsure = {}, [], False

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


def _is_plain(settlement: Settlement) -> bool:
    job = settlement.job
    succeeded = settlement.verdict.state is State.SUCCEEDED
    return succeeded and isinstance(job, Claimed) and job.is_plain
