"""The heartbeat: one lease after another, and nothing runs on without one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from duly.app import connect, migrate_store
from duly.clock import boottime, sleep
from duly.engine.heartbeat import EX_TEMPFAIL, HOPELESS_SECONDS, Heartbeat, LeaseTerms
from duly.errors import SchemaMismatch, StoreUnavailable
from duly.events import (
    EngineEvent,
    FencingFailed,
    LoopStalled,
    TickFailed,
    WorkerFenced,
    WorkerRegistered,
)
from duly.store.store import Store
from duly.store.work import Beat
from tests.engine.workshop import Line, memory_store, opened, raising, until
from tests.factories import profile

SHORT = timedelta(seconds=1)


class Ward:
    """Somebody whose life depends on a heartbeat."""

    def __init__(self, *jobs: int) -> None:
        self.numbers: list[int] = []
        self.beats: list[Beat] = []
        self.jobs = list(jobs)
        self.fences: list[float] = []
        self.leases: list[float] = []
        self.killed = 0
        self.stops = True
        self.turned_at = boottime()

    def enlisted(self, worker: int) -> None:
        self.numbers.append(worker)

    def hear(self, beat: Beat) -> None:
        self.beats.append(beat)

    def fenced(self) -> None:
        self.fences.append(boottime())
        if self.stops:
            self.jobs.clear()

    def load(self) -> int:
        return len(self.jobs)

    def running(self) -> list[int]:
        return list(self.jobs)

    def pulse(self) -> float:
        return self.turned_at

    def jobs_of(self, thread: int) -> list[tuple[int, str]]:
        return [(job, f"in {thread}") for job in self.jobs]

    def lease_until(self, moment: float) -> None:
        self.leases.append(moment)

    def kill(self) -> None:
        self.killed += 1


class Care:
    """A ward and its heartbeat."""

    def __init__(self, store: Store, ward: Ward, **terms: Any) -> None:
        self.line = Line(store)
        self.ward = ward
        self.exits: list[int] = []
        self.events: list[EngineEvent] = []
        heart = terms.pop("heart", None)
        self.heartbeat = Heartbeat(
            ward,
            profile("tester"),
            connect=heart,
            store=self.line.store,
            terms=LeaseTerms(**{"lease": SHORT, "exit": self.exits.append, **terms}),
            emit=self.events.append,
        )

    async def __aenter__(self) -> Self:
        await self.heartbeat.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.heartbeat.stop()

    def heard(self, *kinds: type[EngineEvent]) -> list[EngineEvent]:
        return [event for event in self.events if isinstance(event, kinds)]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


@pytest.fixture
async def url(tmp_path: Path) -> str:
    await migrate_store(str(tmp_path / "duly.db"))
    return str(tmp_path / "duly.db")


def heart_of(url: str) -> Callable[[], Awaitable[Store]]:
    async def heart() -> Store:
        store = connect(url, create=False)
        await store.open()
        return store

    return heart


async def test_who_runs_jobs_is_told_until_when_it_may(store: Store) -> None:
    before = boottime()
    async with Care(store, Ward(1), lease=timedelta(seconds=2)) as care:
        await until(lambda: len(care.ward.leases) >= 3)
        first, second, *_ = care.ward.leases
        assert before + 1.8 <= first < second <= boottime() + 1.8
        care.line.faults["work.renew"] = raising(StoreUnavailable)
        told = len(care.ward.leases)
        await until(lambda: len(care.ward.fences) == 1)
        assert len(care.ward.leases) <= told + 1, "one may have been under way"


@pytest.mark.parametrize("verb", ["register", "renew"])
async def test_a_lease_counts_from_when_it_was_asked_for(store: Store, verb: str) -> None:
    """The store counts from when it wrote the lease, which is never before the question."""
    asked: list[float] = []

    async def answer_late(real: Callable[..., Awaitable[Any]], *args: Any, **words: Any) -> object:
        asked.append(boottime())
        answer = await real(*args, **words)
        await sleep(0.3)
        return answer

    care = Care(store, Ward(1), lease=timedelta(seconds=3))
    care.line.faults[f"work.{verb}"] = answer_late
    async with care:
        await until(lambda: len(care.ward.leases) >= 2)
    told = care.ward.leases[0 if verb == "register" else 1]
    assert told <= asked[0] + 0.9 * 3


async def test_a_lease_is_kept_and_let_go(store: Store) -> None:
    async with Care(store, Ward(1, 2), lease=timedelta(seconds=2)) as care:
        await until(lambda: care.line.calls["work.renew"] >= 2)
        [worker] = await store.work.living()
        assert care.ward.numbers == [worker.id]
        assert worker.running == 2
        assert care.ward.beats[0].order == "run"
    assert await store.work.living() == []
    assert care.heard(WorkerFenced) == []


async def test_a_lease_is_not_let_go_while_something_runs(store: Store) -> None:
    care = Care(store, Ward(1))
    await care.heartbeat.start()
    await until(lambda: care.ward.numbers != [])
    await care.heartbeat.stop(let_go=False)
    assert len(await store.work.living()) == 1
    assert care.line.calls["work.end_lease"] == 0


async def test_an_order_is_heard_at_once(store: Store) -> None:
    async with Care(store, Ward(), lease=timedelta(minutes=1)) as care:
        await until(lambda: len(care.ward.beats) >= 1)
        told_at = boottime()
        await store.work.tell("tester", "drain", slots=7)
        await until(lambda: care.ward.beats[-1].order == "drain")
        assert boottime() - told_at < 1
        assert care.ward.beats[-1].slots == 7


async def test_jobs_are_stopped_before_a_lease_ends_that_cannot_be_renewed(store: Store) -> None:
    async with Care(store, Ward(1)) as care:
        await until(lambda: care.ward.numbers != [])
        sent = boottime()
        care.line.faults["work.renew"] = raising(StoreUnavailable)
        await until(lambda: care.ward.fences != [])
        assert care.ward.fences[0] - sent < 0.9 * SHORT.total_seconds()
        assert care.ward.killed == 1
        care.line.faults.clear()
        await until(lambda: len(care.ward.numbers) == 2)
        assert care.ward.numbers[0] != care.ward.numbers[1]
    assert care.exits == []


async def test_a_store_that_does_not_answer_takes_no_time_from_stopping(store: Store) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async with Care(store, Ward(1)) as care:
        await until(lambda: care.ward.numbers != [])
        sent = boottime()
        care.line.faults["work.renew"] = hang
        await until(lambda: care.ward.fences != [])
        assert care.ward.fences[0] - sent < 0.9 * SHORT.total_seconds()


@pytest.mark.parametrize("verb", ["renew", "register"])
async def test_an_error_that_nobody_thought_of_does_not_end_a_heartbeat(
    store: Store, verb: str
) -> None:
    care = Care(store, Ward(1), lease=timedelta(seconds=2))
    care.line.faults[f"work.{verb}"] = raising(SchemaMismatch)
    async with care:
        await until(lambda: care.heard(TickFailed) != [])
        care.line.faults.clear()
        await until(lambda: care.line.calls["work.renew"] > 0)
        assert care.ward.fences == []


async def test_a_store_that_is_away_is_not_asked_without_end(store: Store) -> None:
    async with Care(store, Ward(), lease=timedelta(seconds=30)) as care:
        await until(lambda: care.ward.numbers != [])
        care.line.faults.update(
            {f"work.{verb}": raising(StoreUnavailable) for verb in ("renew", "listen_to")}
        )
        before = sum(care.line.calls.values())
        await store.work.tell("tester", "run")  # which it would hear at once
        await sleep(0.5)
        assert 2 <= sum(care.line.calls.values()) - before <= 10


async def test_a_worker_whose_lease_was_ended_by_others_stops_and_begins_anew(store: Store) -> None:
    async with Care(store, Ward(1), lease=timedelta(minutes=1)) as care:
        await until(lambda: care.ward.numbers != [])
        await store.work.end_lease(care.ward.numbers[0])
        await until(lambda: len(care.ward.numbers) == 2)
        assert len(care.ward.fences) == 1
    [fenced] = care.heard(WorkerFenced)
    assert isinstance(fenced, WorkerFenced)
    assert fenced.reason == "it had expired"


@pytest.mark.parametrize("dedicated", [True, False])
async def test_what_ignores_its_fence_ends_a_worker_or_is_told(
    store: Store, dedicated: bool
) -> None:
    ward = Ward(1)
    ward.stops = False
    async with Care(store, ward, dedicated=dedicated) as care:
        await until(lambda: ward.numbers != [])
        sent = boottime()
        care.line.faults["work.renew"] = raising(StoreUnavailable)
        await until(lambda: care.heard(FencingFailed) != [])
        assert boottime() - sent < SHORT.total_seconds() + 1  # others wait for two
        care.line.faults.clear()
        await until(lambda: len(care.heard(WorkerRegistered)) == 2)
    assert care.exits == ([EX_TEMPFAIL] if dedicated else [])
    [unfenced] = care.heard(FencingFailed)
    assert isinstance(unfenced, FencingFailed)
    assert (unfenced.worker, unfenced.jobs) == (ward.numbers[0], [1])
    assert unfenced.then == ("end" if dedicated else "stay")


async def test_a_worker_that_is_told_that_its_lease_is_over_does_not_wait_for_its_own_end_of_it(
    store: Store,
) -> None:
    ward = Ward(1)
    ward.stops = False  # a thread that nobody can stop
    async with Care(store, ward, dedicated=True, lease=timedelta(hours=1)) as care:
        await until(lambda: ward.numbers != [])
        await store.work.end_lease(ward.numbers[0])
        await until(lambda: care.exits != [])
    assert care.exits == [EX_TEMPFAIL]
    assert ward.killed == 1


async def test_a_heart_that_finds_no_store_goes_on_looking_and_can_be_stopped(url: str) -> None:
    tries = 0

    async def heart() -> Store:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreUnavailable("away")
        return await heart_of(url)()

    async with opened(url) as store:
        async with Care(store, Ward(), heart=heart) as care:
            await until(lambda: care.ward.numbers != [])
        assert tries == 2

        async def never() -> Store:
            raise StoreUnavailable("away")

        begun = boottime()
        async with Care(store, Ward(), heart=never):
            pass
        assert boottime() - begun < 2


async def test_a_heartbeat_whose_store_hangs_can_be_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.engine.heartbeat.STOP_SECONDS", 0.2)

    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    care = Care(store, Ward())
    care.line.faults["work.register"] = hang
    async with care:
        await until(lambda: care.line.calls["work.register"] == 1)
        begun = boottime()
    assert boottime() - begun < 1
    await sleep(0)


async def test_a_loop_that_does_not_turn_is_told_of(store: Store) -> None:
    ward = Ward()
    ward.turned_at = boottime() - 100
    async with Care(store, ward) as care:
        await until(lambda: care.heard(LoopStalled) != [])
        assert ward.fences == []


async def test_a_loop_that_never_turns_again_is_not_enlisted_again_and_again(store: Store) -> None:
    ward = Ward(1)
    async with Care(store, ward, dedicated=True) as care:
        await until(lambda: ward.numbers != [])
        ward.turned_at = boottime() - HOPELESS_SECONDS - 1
        await store.work.tell("tester", "run")  # which it hears at once
        await until(lambda: care.heard(WorkerFenced) != [])
        await sleep(0.3)
        assert len(ward.numbers) == 1
        ward.turned_at = boottime()
