"""Whether a worker is dead is proven, not suspected: real processes, really killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from duly.clock import boottime, sleep
from duly.engine.coroner import Coroner, is_dead_here, this_process
from duly.engine.loop import Loop
from duly.engine.reaper import Reaper
from duly.events import Event, WorkerDied
from duly.model.states import State
from duly.model.worker import Host
from duly.store.protocol import Store, Wish
from duly.testing.factories import call, profile
from tests.engine.workshop import LONG_LEASE, memory_store, until

pytestmark = pytest.mark.skipif(not this_process().boot, reason="where nothing can be known")

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(SLEEPER))
        stack.callback(process.kill)
        yield process


def host_of(pid: int) -> Host:
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return replace(this_process(), pid=pid, born=int(stat[19]))


async def enlisted(store: Store, host: Host) -> int:
    return (await store.work.register(profile(host=host), lease=LONG_LEASE)).id


async def living(store: Store) -> list[int]:
    return [worker.id for worker in await store.work.living()]


async def judged(store: Store) -> list[Event]:
    events: list[Event] = []
    await Coroner(store, emit=events.append).tick()
    return events


def test_we_are_alive() -> None:
    assert not is_dead_here(this_process())
    assert this_process().pid == os.getpid()


async def test_the_lease_of_a_killed_worker_ends_within_a_second(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    worker = await enlisted(store, host_of(sleeper.pid))
    [number] = await store.jobs.enqueue([call()])
    await store.work.claim(Wish(worker=worker, queue="default", tasks=["work"], limit=1))
    events: list[Event] = []
    loop = Loop([Coroner(store, emit=events.append), Reaper(store)], dice=lambda: 0.5)
    store.listen(loop.nudge)
    stop = asyncio.Event()
    running = asyncio.create_task(loop.run(stop))
    try:
        await until(lambda: loop.progress()["coroner"].ticks > 0)
        assert await living(store) == [worker]
        killed_at = boottime()
        sleeper.kill()
        while (await store.jobs.get(number)).state is State.RUNNING:
            assert boottime() - killed_at < 1.5
            await sleep(0.01)
    finally:
        stop.set()
        await running
    assert [type(event) for event in events] == [WorkerDied]
    assert await living(store) == []


async def test_a_process_that_nobody_has_waited_for_is_dead_too(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    await enlisted(store, host_of(sleeper.pid))
    sleeper.kill()
    await asyncio.to_thread(os.waitid, os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert len(await judged(store)) == 1


async def test_a_process_that_is_stopped_is_alive(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    worker = await enlisted(store, host_of(sleeper.pid))
    sleeper.send_signal(signal.SIGSTOP)
    await asyncio.to_thread(os.waitid, os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    assert await judged(store) == []
    assert await living(store) == [worker]


async def test_another_process_with_the_same_number_is_not_the_worker(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    earlier = host_of(sleeper.pid)
    await enlisted(store, replace(earlier, born=earlier.born - 1))
    assert len(await judged(store)) == 1


async def test_a_worker_before_us_that_had_our_number_is_dead(store: Store) -> None:
    us = this_process()
    ours, before = await enlisted(store, us), await enlisted(store, replace(us, born=us.born - 1))
    assert [event.worker for event in await judged(store) if isinstance(event, WorkerDied)] == [
        before
    ]
    assert await living(store) == [ours]


@pytest.mark.parametrize("elsewhere", [{"boot": "another"}, {"space": "pid:[1]"}, {"boot": ""}])
async def test_of_other_machines_nothing_is_known(store: Store, elsewhere: dict[str, str]) -> None:
    gone = replace(this_process(), pid=2**22 + 1, born=1)
    await enlisted(store, replace(gone, **elsewhere))  # type: ignore[arg-type]
    assert await judged(store) == []


async def test_where_nothing_can_be_known_nobody_is_asked(store: Store) -> None:
    await enlisted(store, Host())
    coroner = Coroner(store, here=Host())
    assert (await coroner.tick()).total_seconds() > 60
    assert len(await living(store)) == 1


async def test_a_worker_is_dead_only_when_its_children_are(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    host = host_of(sleeper.pid)
    await enlisted(store, host)
    marked = ["--parent", f"{host.pid}:{host.born}", "and more"]
    left = await asyncio.create_subprocess_exec(*SLEEPER, *marked)
    sleeper.kill()
    await asyncio.to_thread(sleeper.wait)
    assert await judged(store) == []
    left.kill()
    await left.wait()
    assert len(await judged(store)) == 1


def test_a_process_that_is_hidden_from_us_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(_: Path, **__: object) -> str:
        raise FileNotFoundError

    init = replace(this_process(), pid=os.getppid(), born=1)
    monkeypatch.setattr(Path, "read_text", hidden)  # as proc(5) says of hidepid=2
    assert not is_dead_here(init)
