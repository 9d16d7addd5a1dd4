"""What a worker does for a job on an engine. The engine here is the test's own."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly.clock import sleep
from duly.engine.executors import on_engine
from duly.engine.executors.process.frames import DoneFrame, FailedFrame, FromChild, MismatchFrame
from duly.errors import EngineUnavailable, InvalidValue
from duly.model.states import State
from duly.policy.retry import Retry
from duly.registry.definition import Definition, EngineJob, define
from duly.store.store import Store
from tests.engine.workshop import Bench, at_work, memory_store, until


class TestEngine:
    """Reports, raises or waits, as it is told for each call; remembers the calls."""

    __test__ = False

    def __init__(self, *reports: FromChild | str | Exception) -> None:
        self._reports = list(reports)
        self.jobs: list[EngineJob] = []
        self.ended: list[str] = []
        self.ending: Callable[[], None] = lambda: None

    @property
    def running(self) -> set[str]:
        return {job.key for job in self.jobs} - set(self.ended)

    async def keys(self, family: str) -> list[str]:
        return sorted(key for key in self.running if key.startswith(family))

    async def start(self, job: EngineJob) -> bool:
        is_new = job.key not in self.running
        self.jobs.append(job)
        return is_new

    async def report(self, job: EngineJob) -> str:  # noqa: ARG002 - as it is told
        if not self._reports:
            await asyncio.Event().wait()
        report = self._reports.pop(0)
        if isinstance(report, Exception):
            raise report
        return report if isinstance(report, str) else msgspec.json.encode(report).decode()

    async def end(self, key: str, grace: timedelta) -> None:
        assert grace == timedelta(seconds=10)
        self.ending()
        await sleep(0)
        self.ended.append(key)


def heavy(engine: TestEngine, **options: Any) -> Definition:
    def crunch(size: int = 1) -> int:
        raise AssertionError(f"{size}: it must not run here")

    return define(crunch, engine=engine, **options)


async def log(store: Store, number: int) -> str:
    return str(await store.journal.logs(number, after=0, limit=100))


async def keys(*changes: dict[str, Any]) -> list[str]:
    """The keys under which a job goes to its engine after these changes of it."""
    engine = TestEngine(*[DoneFrame("1") for _ in changes])
    async with memory_store() as store:
        bench = Bench(store, heavy(engine))
        [job] = await bench.claimed("crunch")
        for change in changes:
            bench.runner.take([msgspec.structs.replace(job, **change)])
            await until(lambda: not bench.runner.running)
        await bench.threads.close()
    return [job.key for job in engine.jobs]


async def test_the_result_and_the_error_are_those_of_the_remote_job() -> None:
    failed = FailedFrame("ValueError", "too big", "", False, None, True)
    engine = TestEngine(DoneFrame("42"), failed, MismatchFrame("size is gone", "abc"))
    async with memory_store() as store, at_work(store, heavy(engine, retry=None)) as worker:
        good, bad, odd = await worker.enqueue("crunch", times=3)
        assert (await worker.ended(good)).result == "42"
        assert "ValueError: too big" in str((await worker.ended(bad)).error)
        assert (await worker.became(odd, State.BLOCKED)).reason == "size is gone"


async def test_a_lost_attempt_has_the_key_of_the_one_before_and_a_failed_one_has_not() -> None:
    first, lost, twice, failed, failed_and_lost = await keys(
        {"attempt": 1, "crashes": 0},
        {"attempt": 2, "crashes": 1},
        {"attempt": 3, "crashes": 2},
        {"attempt": 4, "crashes": 2},
        {"attempt": 5, "crashes": 3},
    )
    assert first == lost == twice
    assert failed == failed_and_lost
    assert failed != first


async def test_other_arguments_and_a_job_of_another_database_have_other_keys() -> None:
    found = await keys({}, {"args": '{"size":2}'}, {"created_at": 7}, {})
    assert len(set(found)) == 3
    assert found[0] == found[-1]


async def test_a_report_that_nobody_can_read_fails_the_attempt() -> None:
    engine = TestEngine("all went well", "", '["CompletedFrame"]')
    once = Retry(attempts=1)
    async with memory_store() as store, at_work(store, heavy(engine, retry=once)) as worker:
        for number in await worker.enqueue("crunch", times=3):
            job = await worker.ended(number)
            assert job.state is State.FAILED
            assert "without a readable report" in str(job.error)


async def test_an_engine_that_does_not_answer_is_asked_again_with_the_same_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_engine, "PAUSES", (0.01,))
    engine = TestEngine(EngineUnavailable("no answer"), EngineUnavailable("no"), DoneFrame("1"))
    async with memory_store() as store, at_work(store, heavy(engine, retry=None)) as worker:
        [number] = await worker.enqueue("crunch")
        assert (await worker.ended(number)).state is State.SUCCEEDED
        assert len({job.key for job in engine.jobs}) == 1
        assert "no answer; trying again" in await log(store, number)


async def test_an_engine_that_does_not_answer_for_long_fails_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_engine, "PATIENCE", timedelta(0))
    engine = TestEngine(EngineUnavailable("no answer"))
    async with memory_store() as store, at_work(store, heavy(engine, retry=None)) as worker:
        [number] = await worker.enqueue("crunch")
        assert "no answer" in (await worker.ended(number)).reason


async def test_a_cancel_and_a_timeout_end_the_remote_job() -> None:
    engine = TestEngine()
    async with memory_store() as store, at_work(store, heavy(engine, retry=None)) as worker:
        [cancelled] = await worker.enqueue("crunch")
        [late] = await worker.enqueue("crunch", timeout="50ms")
        await until(lambda: len(engine.jobs) == 2)
        await store.jobs.cancel(cancelled, reason="not needed")
        assert (await worker.ended(cancelled)).state is State.CANCELLED
        assert "ran longer than" in (await worker.ended(late)).reason
    assert sorted(engine.ended) == sorted(job.key for job in engine.jobs)


async def test_a_job_is_cancelled_though_its_engine_does_not_answer() -> None:
    engine = TestEngine()

    def refuse() -> None:
        raise EngineUnavailable("no answer")

    engine.ending = refuse
    async with memory_store() as store, at_work(store, heavy(engine)) as worker:
        [number] = await worker.enqueue("crunch")
        await until(lambda: len(engine.jobs) == 1)
        await store.jobs.cancel(number, reason="not needed")
        assert (await worker.ended(number)).state is State.CANCELLED
        assert "may still run: no answer" in await log(store, number)


async def test_a_worker_that_stops_leaves_the_remote_job_to_the_next() -> None:
    engine = TestEngine()
    async with memory_store() as store:
        async with at_work(store, heavy(engine)) as worker:
            [number] = await worker.enqueue("crunch")
            await until(lambda: len(engine.jobs) == 1)
            await worker.leave(cold=True)
        async with at_work(store, heavy(engine)) as worker:
            await until(lambda: len(engine.jobs) == 2)
            assert len({job.key for job in engine.jobs}) == 1
            assert not engine.ended
            await store.jobs.cancel(number, reason="")
            await worker.ended(number)


async def test_a_task_of_a_script_is_refused() -> None:
    engine = TestEngine(DoneFrame("1"))
    task = heavy(engine)
    task.function.__module__ = "__main__"
    async with memory_store() as store, at_work(store, task) as worker:
        [number] = await worker.enqueue("crunch")
        assert "declare it in a module" in (await worker.ended(number)).reason
    assert not engine.jobs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": TestEngine(), "executor": "thread"}, "exclude each other"),
        ({"engine": TestEngine}, "expected an engine"),
        ({"engine": "dask"}, "expected an engine"),
    ],
)
def test_a_wrong_engine_is_refused_when_the_task_is_declared(
    options: dict[str, Any], said: str
) -> None:
    def crunch() -> None: ...

    with pytest.raises(InvalidValue, match=said):
        define(crunch, **options)
