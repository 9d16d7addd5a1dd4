"""Clients: programs and people who enqueue, schedule, change their minds, and are cut off.

Each call is made by a process of its own, which may die at any statement. What a call answered is a
promise, and is held against the changes that were seen; what it did not answer may or may not have
happened, and has happened at most once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TypeVar, get_args

from duly.clock import sleep
from duly.errors import DulyError, StoreUnavailable
from duly.model.event import Emitted, read_awaited
from duly.model.job import JobRequest
from duly.model.limit import Queue, Rate
from duly.model.payload import encode
from duly.model.schedule import Plan
from duly.model.states import LIVE, State
from duly.model.worker import Order
from duly.store.store import SqlStore
from tests.simulation.database import SimulatedDatabase
from tests.simulation.ledger import Life
from tests.simulation.plans import CUSTOMERS, KEYS, LIMITS, rolled_call, rolled_plan
from tests.simulation.tasks import GO, PING, QUEUES, STOP, TASKS
from tests.simulation.world import World

LIMIT_NAMES = tuple(
    dict.fromkeys(
        name
        for limit in LIMITS
        for name in (limit.name, *(limit.rendered({"customer": c}).name for c in CUSTOMERS))
    )
)
T = TypeVar("T")


class Workload:
    """What clients have asked for, and what they were promised."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice
        self._calls: Iterator[int] = count(1)
        self._names: Iterator[int] = count(1)
        self._promised: dict[int, int] = {}  # the job that was promised to a call
        self._actions: tuple[tuple[Callable[[SqlStore], Awaitable[None]], int], ...] = (
            (self._enqueue, 16),
            (self._cancel, 2),
            (self._cancel_key, 2),
            (self._retry, 4),
            (self._edit, 3),
            (self._pause, 5),
            (self._resume, 3),
            (self._skip_next, 2),
            (self._rewind, 1),
            (self._run, 3),
            (self._add, 1),
            (self._remove, 1),
            (self._set_queue, 2),
            (self._set_limit, 1),
            (self._order, 1),
            (self._emit, 7),
        )

    async def begin(self) -> None:
        for _ in range(0 if self._world.sabotage.harsh else self._dice.randint(3, 8)):
            await self._as_a_client(self._add)

    async def go_on(self, pace: float) -> None:
        """Ask for something, again and again, until cancelled."""
        actions, weights = zip(*self._actions, strict=True)
        while True:
            await sleep(self._dice.expovariate(1 / pace))
            [action] = self._dice.choices(actions, weights)
            await self._as_a_client(action)

    async def let_go(self) -> None:
        """Take everything back that somebody ordered, so that all can come to an end."""
        store = SqlStore(SimulatedDatabase(self._world, self._world.host("operator")))
        for queue in QUEUES:
            await _surely(partial(store.work.set_queue, Queue(name=queue)))
        for name in LIMIT_NAMES:
            await _surely(partial(store.limits.unset, name))

    async def recall(self) -> None:
        """Let every worker run; who had no lease a moment ago may have kept an order."""
        store = SqlStore(SimulatedDatabase(self._world, self._world.host("operator")))
        for worker in await _surely(store.work.living):
            await _surely(partial(store.work.tell, worker.id, "run"))

    def broken(self) -> Iterator[str]:
        """Promises that are not kept, at the end."""
        checkers = self._world.checkers
        for call, job in self._promised.items():
            if job not in checkers.jobs:
                yield f"call {call} was promised job {job}, and there never was one"
        for call, jobs in checkers.calls.items():
            if len(jobs) > 1:
                yield f"call {call} was enqueued or run as jobs {sorted(jobs)}"

    async def _as_a_client(self, action: Callable[[SqlStore], Awaitable[None]]) -> None:
        world = self._world
        host = world.host("client")
        store = SqlStore(SimulatedDatabase(world, host))
        call = world.loop.create_task(_done(action(store)), context=host.context())

        def crash() -> None:
            host.die()
            call.cancel()

        host.crash = crash
        try:
            await asyncio.wait((call,))
        except asyncio.CancelledError:
            crash()
            raise
        finally:
            host.die()
        error = None if call.cancelled() else call.exception()
        if error is not None and not isinstance(error, DulyError):
            world.violated(f"{action.__name__} failed: {error!r}")

    async def _enqueue(self, store: SqlStore) -> None:
        numbers = [next(self._calls) for _ in range(self._dice.choice((1, 1, 3, 6)))]
        now = self._world.clock.now()
        calls = [rolled_call(self._dice, number, now) for number in numbers]
        if self._world.sabotage.harsh:
            calls = [JobRequest(task=call.task, args=call.args, queue=call.queue) for call in calls]
        jobs = await store.jobs.enqueue(calls)
        for number, job in zip(numbers, jobs, strict=True):
            if job not in self._world.checkers.jobs:
                self._world.violated(f"call {number} was promised job {job}, which is not there")
            self._promised[number] = job

    async def _cancel(self, store: SqlStore) -> None:
        if (job := self._some_job(*LIVE)) is not None:
            state = await store.jobs.cancel(job, reason="a client said so")
            became = self._world.checkers.jobs[job].state
            if state is State.CANCELLED and became is not state:
                self._world.violated(f"job {job} was said to be cancelled, and is {became}")

    async def _cancel_key(self, store: SqlStore) -> None:
        await store.jobs.cancel_key(self._dice.choice(TASKS), self._dice.choice(KEYS))

    async def _retry(self, store: SqlStore) -> None:
        if (job := self._some_job(State.FAILED)) is not None:
            await store.jobs.retry(job)

    async def _add(self, store: SqlStore) -> None:
        name = f"schedule {next(self._names)}"
        plan = rolled_plan(self._dice, name, self._world.clock.now())
        [added] = await store.schedules.add([plan])
        if added.id not in self._world.checkers.ledger.lives:
            self._world.violated(f'"{name}" was said to be added, and is not there')

    async def _edit(self, store: SqlStore) -> None:
        new = rolled_plan(self._dice, "any", self._world.clock.now())
        part = self._dice.random()

        def change(old: Plan) -> Plan:
            if part < 0.3:
                return replace(old, title=old.title + "!")
            if part < 0.6:
                return replace(old, policies=replace(old.policies, overlap=new.policies.overlap))
            return replace(new, name=old.name)

        await store.schedules.edit(self._some_schedule(), change)

    async def _pause(self, store: SqlStore) -> None:
        until = None
        if self._world.chance(0.6):
            until = self._world.clock.now() + timedelta(seconds=self._dice.choice((1, 5, 60)))
        await store.schedules.pause(
            self._some_schedule(), until=until, catch_up=self._world.chance(0.4)
        )

    async def _resume(self, store: SqlStore) -> None:
        paused = [life.row.name for life in self._lives() if life.row.pause]
        name = self._dice.choice(paused) if paused else self._some_schedule()
        await store.schedules.resume(name)

    async def _skip_next(self, store: SqlStore) -> None:
        count = self._dice.choice((1, 1, 3))
        await store.schedules.skip_next(self._some_schedule(), count=count)

    async def _rewind(self, store: SqlStore) -> None:
        to = self._world.clock.now() - timedelta(seconds=self._dice.uniform(-5, 60))
        await store.schedules.rewind(self._some_schedule(), to=to)

    async def _run(self, store: SqlStore) -> None:
        fire = await store.schedules.run(self._some_schedule())
        if fire.id not in self._world.checkers.ledger.fires:
            self._world.violated(f"fire {fire.id} was promised, and is not there")

    async def _remove(self, store: SqlStore) -> None:
        await store.schedules.remove(self._some_schedule())

    async def _set_queue(self, store: SqlStore) -> None:
        queue = Queue(
            name=self._dice.choice(QUEUES),
            paused=self._world.chance(0.3),
            concurrency=self._dice.choice((None, None, 1, 3)),
            rate=self._dice.choice((None, None, Rate.parse("5/s"))),
            fair=self._world.chance(0.4),
        )
        await store.work.set_queue(queue)

    async def _set_limit(self, store: SqlStore) -> None:
        name = self._dice.choice(LIMIT_NAMES)
        if self._world.chance(0.4):
            await store.limits.unset(name)
        else:
            rate = self._dice.choice((None, Rate.parse("2/s")))
            concurrency = self._dice.choice((1, 2, 4))
            await store.limits.set(name, concurrency=concurrency, rate=rate)

    async def _order(self, store: SqlStore) -> None:
        order = self._dice.choice(get_args(Order))
        living = await store.work.living()
        if living:
            slots = self._dice.choice((None, 1, 5))
            await store.work.tell(self._dice.choice(living).name, order, slots=slots)

    async def _emit(self, store: SqlStore) -> None:
        """Something happens; or a flow may go on, which does not wait yet, or never does."""
        if self._world.chance(0.5):
            calls = [f"go:{call}" for call in (0, *list(self._promised)[-20:])]
            keys = self._awaited() if self._world.chance(0.7) else []
            said = Emitted(name=GO, key=self._dice.choice(keys or calls))
        else:
            payload = {"k": self._dice.choice(KEYS), "at": self._world.clock.now().isoformat()}
            said = Emitted(
                name=self._dice.choice((PING, PING, PING, STOP, STOP)), payload=encode(payload)
            )
        [number] = await store.events.emit([said])
        if number not in self._world.checkers.events:
            self._world.violated(f"event {number} was said to be kept, and is not there")

    def _awaited(self) -> list[str]:
        """The keys of what steps wait for."""
        waiting = [
            job.row for job in self._world.checkers.jobs.values() if job.row.waits == "event"
        ]
        return [key for row in waiting if (key := read_awaited(row.waits_for or "")[1])]

    def _some_schedule(self) -> str:
        there = [life.row.name for life in self._lives()]
        return self._dice.choice(there or ["one that never was"])

    def _lives(self) -> list[Life]:
        lives = self._world.checkers.ledger.lives.values()
        return [life for life in lives if not life.removed]

    def _some_job(self, *states: State) -> int | None:
        jobs = self._world.checkers.jobs
        found = [number for number, job in jobs.items() if job.state in states]
        return self._dice.choice(found) if found else None


async def _done(action: Awaitable[None]) -> None:
    await action


async def _surely(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await sleep(0.1)
