"""What runs in a child ends with its worker's lease, also if the worker cannot say so."""

import asyncio
import errno
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from duly.app import migrate_store
from duly.clock import boottime, now, sleep
from duly.engine.executors.process.frames import CapturedLine
from duly.engine.executors.process.pool import ProcessExecutor, ProcessPool
from duly.events import ChildNotStarted
from duly.model.job import Claimed
from duly.model.outcome import Lost, Returned, Succeeded
from duly.model.payload import encode
from tests.engine.executors import chores
from tests.engine.executors.calling import (
    CHORES,
    is_alive,
    number_in,
    order,
    outcome_of,
    until,
    watch_it_die,
)
from tests.engine.executors.conftest import is_listed
from tests.engine.workshop import Bench, memory_store, opened
from tests.factories import call

WORKER = """
import asyncio, sys
from datetime import timedelta
from duly.app import Node, connect
from duly.engine.worker import WorkerOptions
from duly.runtime.node import make_worker
from tests.engine.executors.chores import registry

async def work(url, target):
    store = connect(url, create=False)
    await store.open()
    options = WorkerOptions(lease=timedelta(seconds=3), concurrency=1, children=1)
    worker = make_worker(
        store, registry, options, url=url, target=target, on_stop=lambda: None
    )
    await Node(store, worker=worker, scheduler=False).run(asyncio.Event(), asyncio.Event())

asyncio.run(work(*sys.argv[1:]))
"""


async def test_a_worker_that_is_stopped_has_no_child_when_its_lease_ends(tmp_path: Path) -> None:
    url, note = str(tmp_path / "duly.db"), tmp_path / "note"
    await migrate_store(url)
    async with opened(url) as store:
        await store.jobs.enqueue([call("resist", args=encode({"note": str(note)}))])
        command = [sys.executable, "-c", WORKER, url, str(CHORES)]
        worker = await asyncio.create_subprocess_exec(*command, cwd=CHORES.parents[3])
        try:
            await until(lambda: number_in(note) is not None)
            grandchild = number_in(note)
            assert grandchild is not None
            child = os.getpgid(grandchild)
            [begun] = await store.work.living()
            await until(lambda: now() > begun.lease_until + timedelta(seconds=1))
            assert is_alive(child), "it runs on while the lease is renewed"
            worker.send_signal(signal.SIGSTOP)
            [stopped] = await store.work.living()
            await until(lambda: not is_alive(child) and not is_alive(grandchild), within=5)
            assert now() < stopped.lease_until
            assert is_alive(worker.pid)
        finally:
            worker.kill()
            await worker.wait()


async def test_a_lease_is_prolonged_from_any_thread_while_the_loop_stands_still(
    pool: ProcessPool, tmp_path: Path
) -> None:
    child, note = await warmed(pool), tmp_path / "note"
    pool.lease_until(boottime() + 1)
    running = asyncio.create_task(outcome_of(pool, order("ignore_everybody", note=str(note))))
    await until(note.exists)
    ends = []

    def prolong() -> None:
        for _ in range(8):
            ends.append(boottime() + 0.8)
            pool.lease_until(ends[-1])
            threading.Event().wait(0.2)

    thread = threading.Thread(target=prolong)
    thread.start()
    thread.join()
    assert is_alive(child)
    watch_it_die(child)
    assert 0 <= boottime() - ends[-1] < 0.5
    lost = Lost(reason="the process that ran it was killed by SIGKILL", alone=True)
    assert await running == lost, "and the job is not to blame"


async def test_a_child_without_a_job_waits_for_the_next_lease(pool: ProcessPool) -> None:
    child, end = await warmed(pool), boottime() + 0.2
    pool.lease_until(end)
    await until(lambda: boottime() > end + 0.7)
    pool.lease_until(boottime() + 60)
    assert await warmed(pool) == child


async def test_a_job_that_comes_in_one_breath_with_a_lease_has_its_output(
    pool: ProcessPool,
) -> None:
    child = await warmed(pool)
    os.kill(child, signal.SIGSTOP)
    await until(lambda: ") T " in Path(f"/proc/{child}/stat").read_text())
    pool.lease_until(boottime() + 60)
    running = asyncio.create_task(outcome_of(pool, order("pid")))
    await sleep(0.05)  # both are on their way, and not received
    os.kill(child, signal.SIGCONT)
    assert isinstance(await running, Succeeded)


async def test_nothing_runs_on_that_began_after_the_end_of_the_lease(pool: ProcessPool) -> None:
    await warmed(pool)
    pool.lease_until(boottime() - 1)
    found = await outcome_of(pool, order("ignore_everybody"))
    assert isinstance(found, Returned | Lost)


async def test_a_job_that_cannot_be_begun_has_failed_and_says_why(pool: ProcessPool) -> None:
    await warmed(pool)
    async with memory_store() as store:
        registry = chores.registry
        bench = Bench(store, registry=registry, executors={"process": processes(pool)})
        jobs = await bench.claimed("pid")
        with no_more_descriptors():
            bench.runner.take(jobs)
            await until(lambda: not bench.runner.running)
        [settlement] = bench.runner.outbox.settlements
    assert settlement.outcome == "raised"
    assert "Too many open files" in (settlement.verdict.error or "")


async def test_a_child_that_nobody_can_look_after_is_killed(
    pool: ProcessPool, told: list[ChildNotStarted], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def exhausted(pid: int) -> int:
        started.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", exhausted)
    assert isinstance(await outcome_of(pool, order("pid")), Returned)
    assert len(told) == 1
    [child] = started
    await until(lambda: not is_listed(child))


def processes(pool: ProcessPool) -> ProcessExecutor:
    return ProcessExecutor(pool, listener=Deaf())


class Deaf:
    def lines(self, job: Claimed, lines: Sequence[CapturedLine]) -> None:
        pass


@pytest.mark.parametrize("claimed", [True, False])
async def test_a_job_begins_when_its_process_is_ready_and_if_it_is_still_claimed(
    pool: ProcessPool, *, claimed: bool
) -> None:
    noted: list[tuple[bool, int]] = []

    async def note_begin(_: Claimed, *, begun: bool) -> bool:
        noted.append((begun, len(pool.pids())))
        return claimed

    executor = ProcessExecutor(pool, listener=Deaf(), note_begin=note_begin)
    async with memory_store() as store:
        bench = Bench(store, registry=chores.registry, executors={"process": executor})
        bench.runner.take(await bench.claimed("pid"))
        await until(lambda: not bench.runner.running)
    assert noted == [(False, 0), (True, 1)], "with the number of processes"
    outbox = bench.runner.outbox
    assert (len(outbox.done), len(outbox.settlements)) == ((1, 0) if claimed else (0, 1))


async def warmed(pool: ProcessPool) -> int:
    """The child that has just run a job, and waits."""
    found = await outcome_of(pool, order("pid"))
    assert isinstance(found, Succeeded)
    return int(found.result or "")


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
