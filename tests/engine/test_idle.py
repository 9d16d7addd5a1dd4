"""What a node costs that has little to do: statements and ticks in a minute of virtual time."""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.app import Node
from duly.engine.death_watch import DeathWatch
from duly.engine.executors.in_process import CoroutineExecutor
from duly.engine.loop import Loop, Service
from duly.engine.maintenance import MARGIN, Dispatcher, Meter, Pruner, Reactor, Reaper
from duly.engine.scheduler import Scheduler
from duly.engine.timekeeper import Timekeeper
from duly.engine.worker import Worker, WorkerOptions
from duly.events import ignore_event
from duly.instants import to_us
from duly.model.event import Emitted
from duly.model.policies import Policies
from duly.model.worker import Host
from duly.registry.definition import define
from duly.registry.registry import Registry
from duly.store.database import Ask, Dialect, Migration, Operation, Row, Start, T, alone
from duly.store.migrate import migrations
from duly.store.sqlite.connection import MEMORY, apply_migration, connect, run
from duly.store.sqlite.database import SQLITE
from duly.store.statements import statements
from duly.store.store import SqlStore
from duly.store.values import ClaimRequest
from tests.factories import call, plan, profile
from tests.simulation.loop import VirtualLoop

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
HERE = Host(boot="boot", space="space", pid=1, born=1)


async def nothing() -> None:
    """A task that the worker knows; nobody enqueues it."""


class InlineDatabase:
    """SQLite in memory, without a thread: every call is answered at once, and counted."""

    dialect: Dialect = SQLITE
    is_listening = True

    def __init__(self, time: Callable[[], float]) -> None:
        self.connection = connect(MEMORY)
        self._texts = statements(SQLITE)
        self._time = time
        self.listeners: list[Callable[[str], None]] = []
        self.asked: Counter[str] = Counter()
        self.transactions = 0
        self.nudges: list[str] = []
        for migration in migrations(SQLITE):
            apply_migration(self.connection, migration, 0)

    async def write(self, start: Start[T], /) -> T:
        moment = to_us(BEGINNING + timedelta(seconds=self._time()))
        self.transactions += 1
        self.connection.execute("begin")
        try:
            return run(self.connection, self._counted(start()), texts=self._texts, now_us=moment)
        finally:
            self.connection.execute("commit")

    async def write_one(self, ask: Ask, /) -> list[Row]:
        return await self.write(lambda: alone(ask))

    async def read(self, start: Start[T], /) -> T:
        return await self.write(start)

    def _counted(self, operation: Operation[T]) -> Operation[T]:
        with closing(operation):
            try:
                ask = next(operation)
                while True:
                    self.asked[ask.statement] += 1
                    ask = operation.send((yield ask))
            except StopIteration as end:
                result: T = end.value
                return result

    def nudge(self, topics: Sequence[str], /) -> None:
        self.nudges += topics

    def listen(self, listener: Callable[[str], None], /) -> None:
        self.listeners.append(listener)

    async def applied(self) -> list[int]:
        return []

    async def minimum(self) -> int:
        return 0

    async def apply(self, migration: Migration, /) -> bool:
        raise NotImplementedError(migration)

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        self.connection.close()


class IdleNode:
    """The services of a node in virtual time."""

    def __init__(self, virtual: VirtualLoop) -> None:
        self.virtual = virtual
        self.database = InlineDatabase(virtual.time)
        self.store = SqlStore(self.database)
        registry = Registry()
        registry.add(define(nothing))
        self.worker = Worker(
            self.store,
            registry,
            WorkerOptions(name="idle", host=HERE),
            executors=lambda _: {"async": CoroutineExecutor()},
            dice=lambda: 0.5,
            on_stop=lambda: None,
            time=virtual.time,
        )
        keeper = Timekeeper(self.store, steady=virtual.time)
        self.services: list[Service] = [
            keeper,
            Dispatcher(self.store, timekeeper=keeper, steady=virtual.time),
            Reactor(self.store, timekeeper=keeper),
            Reaper(self.store, timekeeper=keeper),
            DeathWatch(self.store, here=HERE, wake=lambda: None, steady=virtual.time),
            Scheduler(
                self.store,
                planner=self.worker.planner,
                timekeeper=keeper,
                steady=virtual.time,
            ),
            Pruner(self.store, timekeeper=keeper),
            Meter(self.store, timekeeper=keeper),
            *self.worker.services,
        ]
        self.loop = Loop(self.services, dice=lambda: 0.5, listening=lambda: self.store.is_listening)
        self.store.listen(self.loop.nudge)

    async def _run(self) -> None:
        await self.worker.start(self.loop.nudge)
        await self.loop.run()

    def start(self) -> None:
        self._task = self.virtual.create_task(self._run())

    def elsewhere(self, ask: Callable[[SqlStore], Coroutine[Any, Any, T]]) -> T:
        """Ask the store as another process does; this one hears nothing of it."""
        return self.virtual.run_until_complete(ask(SqlStore(self.database)))

    def ticks(self) -> Counter[str]:
        return Counter({name: one.ticks for name, one in self.loop.progress().items()})

    def rests(self, service: str) -> None:
        """Let time pass until the service has just ticked."""
        before = self.ticks()[service]
        while self.ticks()[service] == before:
            self.virtual.run_until(self.virtual.time() + 0.1)

    def minutes(self, count: int) -> tuple[Counter[str], Counter[str]]:
        """Let time pass; return the statements and the ticks of it."""
        asked, ticks = Counter(self.database.asked), self.ticks()
        self.virtual.run_until(self.virtual.time() + 60 * count)
        return self.database.asked - asked, self.ticks() - ticks


@pytest.fixture
def node() -> Iterator[IdleNode]:
    with VirtualLoop(horizon=7200) as virtual:
        made = IdleNode(virtual)
        made.start()
        made.minutes(1)
        yield made
    made.worker._log_capture.__exit__(None, None, None)
    made.database.connection.close()


def test_it_has_the_services_of_a_node(node: IdleNode) -> None:
    complete = Node(node.store, worker=node.worker, emit=ignore_event)
    assert set(complete._loop.progress()) == set(node.ticks())


def test_an_idle_node_asks_the_store_fewer_than_four_times_a_second(node: IdleNode) -> None:
    asked, ticks = node.minutes(5)
    a_minute = {name: count / 5 for name, count in asked.items()}
    # Every two seconds: is something due, is a job ready. Every three: the lease.
    assert a_minute.pop("dispatcher_facts") <= 31
    assert a_minute.pop("ready_shelves") <= 31
    assert a_minute.pop("renew_lease") <= 21
    assert all(count <= 20 for count in a_minute.values()), a_minute
    assert sum(a_minute.values()) <= 120, a_minute
    assert ticks.total() / 5 <= 150, ticks


# Another process changed something, and its nudge was lost: the next poll finds it.


def test_a_due_job_of_another_process_is_made_ready_without_a_nudge(node: IdleNode) -> None:
    later = timedelta(seconds=90.25)
    [number] = node.elsewhere(lambda store: store.jobs.enqueue([call(run_after=later)]))
    node.virtual.run_until(node.virtual.time() + 91)
    assert node.elsewhere(lambda store: store.jobs.get(number)).state == "ready"


def test_a_schedule_of_another_process_fires_without_a_nudge(node: IdleNode) -> None:
    node.rests("scheduler")
    node.elsewhere(lambda store: store.schedules.add([plan(rule="every 5s")]))
    node.virtual.run_until(node.virtual.time() + 7.5)  # the scheduler itself polls every 10 s
    assert node.elsewhere(lambda store: store.ledger.fires("report"))


def test_an_event_of_another_process_is_handled_without_a_nudge(node: IdleNode) -> None:
    node.elsewhere(lambda store: store.schedules.add([plan(rule="on order.paid")]))
    node.elsewhere(lambda store: store.events.emit([Emitted(name="order.paid")]))
    node.virtual.run_until(node.virtual.time() + 2.5)
    assert len(node.elsewhere(lambda store: store.ledger.fires("report"))) == 1


def test_jobs_of_a_silent_worker_are_taken_back_without_a_nudge(node: IdleNode) -> None:
    lease = timedelta(seconds=15)
    other = node.elsewhere(lambda store: store.work.register(profile(), lease=lease))
    [number] = node.elsewhere(lambda store: store.jobs.enqueue([call()]))
    request = ClaimRequest(worker=other.id, queue="default", tasks=["work"], limit=1)
    node.elsewhere(lambda store: store.work.finish_and_claim([], request))
    node.virtual.run_until(node.virtual.time() + (lease + MARGIN).total_seconds() + 2.5)
    assert node.elsewhere(lambda store: store.jobs.get(number)).worker is None


def test_jobs_of_a_worker_that_let_go_are_taken_back_without_a_nudge(node: IdleNode) -> None:
    other = node.elsewhere(lambda store: store.work.register(profile(), lease=timedelta(minutes=1)))
    [number] = node.elsewhere(lambda store: store.jobs.enqueue([call()]))
    request = ClaimRequest(worker=other.id, queue="default", tasks=["work"], limit=1)
    node.elsewhere(lambda store: store.work.finish_and_claim([], request))
    node.virtual.run_until(node.virtual.time() + 30.5)
    node.elsewhere(lambda store: store.work.end_lease(other.id))
    node.virtual.run_until(node.virtual.time() + 2.5)
    assert node.elsewhere(lambda store: store.jobs.get(number)).worker is None


def test_an_event_is_handled_without_a_nudge_while_no_job_can_be_made_ready(
    node: IdleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.elsewhere(lambda store: store.schedules.add([plan(rule="on order.paid")]))
    node.elsewhere(lambda store: store.jobs.enqueue([call(run_after=timedelta(seconds=1))]))
    broken = {**node.database._texts, "ready_due_jobs": "select nonsense"}
    monkeypatch.setattr(node.database, "_texts", broken)
    node.virtual.run_until(node.virtual.time() + 10)
    before = node.ticks()["reactor"]
    node.virtual.run_until(node.virtual.time() + 1)
    assert node.ticks()["reactor"] == before  # it has nothing to do, and sleeps for some seconds
    node.elsewhere(lambda store: store.events.emit([Emitted(name="order.paid")]))
    node.virtual.run_until(node.virtual.time() + 3)
    assert len(node.elsewhere(lambda store: store.ledger.fires("report"))) == 1


def fire_ten_a_second(node: IdleNode) -> Counter[str]:
    """Return what is asked in a minute in which 600 jobs are fired."""
    spread = [f"every 1s from 2026-01-01T00:00:00.{tenth}00Z" for tenth in range(10)]
    allow, task = Policies(overlap="allow"), define(nothing).name
    plans = [plan(f"at {n}", rule, task=task, policies=allow) for n, rule in enumerate(spread)]
    node.elsewhere(lambda store: store.schedules.add(plans))
    node.minutes(1)
    node.database.transactions = 0
    node.database.nudges.clear()
    asked, _ = node.minutes(1)
    assert asked["add_fired_jobs"] == asked["finish_plain"] == 600
    return asked


def test_a_worker_claims_a_job_that_was_fired_elsewhere_and_does_not_look_around(
    node: IdleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    [scheduler] = [service for service in node.services if service.name == "scheduler"]
    monkeypatch.setattr(scheduler, "_planner", None)
    asked = fire_ten_a_second(node)
    assert asked["claim"] == 600
    # Every 0.4 s, because jobs may wait on other shelves: not for each fired job.
    assert asked["ready_shelves"] <= 150


def test_a_job_that_is_fired_beside_an_idle_worker_takes_two_transactions_and_no_nudge(
    node: IdleNode,
) -> None:
    asked = fire_ten_a_second(node)
    polls = asked["dispatcher_facts"] + asked["ready_shelves"]
    assert node.database.transactions - polls <= 2 * 600 + 120  # as in an idle minute
    assert node.database.nudges == []
