"""Whether a worker is dead is proven, not suspected: real processes, really killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Self

import pytest

from duly.app import connect, migrate_store
from duly.clock import boottime, sleep
from duly.engine import death_watch
from duly.engine.death_watch import EVERY, DeathWatch, is_alive_here, is_dead_here, this_process
from duly.engine.heartbeat import Heartbeat, LeaseTerms
from duly.engine.loop import Loop
from duly.engine.maintenance import Reaper
from duly.events import EngineEvent, WorkerDied
from duly.model.states import State
from duly.model.worker import Host
from duly.store.store import Store
from duly.store.values import ClaimRequest
from tests.engine.test_heartbeat import Ward
from tests.engine.workshop import LONG_LEASE, memory_store, opened, until
from tests.factories import call, profile

pytestmark = pytest.mark.skipif(not this_process().boot, reason="where nothing can be known")

# A process that shows the number it is given, as the heartbeat of a worker does, and sleeps.
SLEEPER = [
    sys.executable,
    "-c",
    "import sys, time\n"
    "from duly.engine.process_identity import show_number\n"
    "for line in sys.stdin:\n"
    "    show_number(int(line))\n"
    "    print(flush=True)\n"
    "time.sleep(60)",
]
UNSHARE = ["unshare", "--user", "--map-root-user", "--fork"]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memory_store() as store:
        yield store


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        stack.callback(process.kill)
        yield process


def shows(process: "subprocess.Popen[bytes]", worker: int) -> None:
    """Have the process show the number of a worker."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"%d\n" % worker)
    process.stdin.flush()
    process.stdout.readline()


def host_of(pid: int) -> Host:
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return replace(this_process(), pid=pid, born=int(stat[19]))


async def enlisted(store: Store, host: Host) -> int:
    return (await store.work.register(profile(host=host), lease=LONG_LEASE)).id


async def living(store: Store) -> list[int]:
    return [worker.id for worker in await store.work.living()]


class Judge:
    """A coroner, and what it has said so far."""

    def __init__(self, store: Store) -> None:
        self.events: list[EngineEvent] = []
        self.coroner = DeathWatch(store, emit=self.events.append)

    async def __aenter__(self) -> Self:
        await self.coroner.tick()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.coroner.close()

    async def died(self) -> list[int]:
        """Look again: the workers that it has declared dead."""
        await self.coroner.tick()
        return [event.worker for event in self.events if isinstance(event, WorkerDied)]


def test_we_are_alive() -> None:
    assert not is_dead_here(this_process())
    assert this_process().pid == os.getpid()


async def test_the_lease_of_a_killed_worker_ends_within_a_second(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    worker = await enlisted(store, host_of(sleeper.pid))
    shows(sleeper, worker)
    [number] = await store.jobs.enqueue([call()])
    await store.work.claim(ClaimRequest(worker=worker, queue="default", tasks=["work"], limit=1))
    events: list[EngineEvent] = []
    loop = Loop([DeathWatch(store, emit=events.append), Reaper(store)], dice=lambda: 0.5)
    store.listen(loop.nudge)
    stop = asyncio.Event()
    running = asyncio.create_task(loop.run(stop))
    try:
        await until(lambda: loop.progress()["death watch"].ticks > 0)
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
    worker = await enlisted(store, host_of(sleeper.pid))
    shows(sleeper, worker)
    async with Judge(store) as judge:
        sleeper.kill()
        await asyncio.to_thread(os.waitid, os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
        assert await judge.died() == [worker]


async def test_a_process_that_is_stopped_is_alive(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    worker = await enlisted(store, host_of(sleeper.pid))
    shows(sleeper, worker)
    async with Judge(store) as judge:
        sleeper.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
        assert await judge.died() == []
    assert await living(store) == [worker]


async def test_another_process_with_the_same_number_is_not_the_worker(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    host = host_of(sleeper.pid)
    assert not is_dead_here(host)
    assert is_dead_here(replace(host, born=host.born - 1))


async def test_a_worker_that_was_never_seen_alive_from_here_is_left_to_its_lease(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    """It may run on another machine that was resumed from the same memory snapshot."""
    us, host = this_process(), host_of(sleeper.pid)
    gone = replace(us, pid=2**22 + 1, born=1)
    before = [replace(us, born=us.born - 1), replace(host, born=host.born - 1), gone]
    workers = [await enlisted(store, one) for one in before]
    async with Judge(store) as judge:
        assert await judge.died() == []
    assert await living(store) == workers


async def test_a_worker_that_nobody_tells_of_is_seen_at_the_next_look(
    store: Store, sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler, where no notification arrives."""
    monkeypatch.setattr(type(store), "is_listening", False)
    monkeypatch.setattr(store, "listen", lambda _: None)
    async with Judge(store) as judge:
        worker = await enlisted(store, host_of(sleeper.pid))
        shows(sleeper, worker)
        assert await judge.died() == []
        sleeper.kill()
        await asyncio.to_thread(sleeper.wait)
        assert await judge.died() == [worker]


@pytest.mark.parametrize(("told", "rest"), [(True, timedelta(seconds=10)), (False, EVERY)])
async def test_the_next_look_is_soon_where_nobody_tells_of_new_workers(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, told: bool, rest: timedelta
) -> None:
    """Behind a pooler, a worker that dies before it was seen would keep its jobs for a lease."""
    monkeypatch.setattr(type(store), "is_listening", told)
    assert await DeathWatch(store, wake=lambda: None).tick() == rest


async def test_two_machines_that_were_one_do_not_bury_each_others_workers(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    """Resumed from one memory snapshot, the same process is on both, under two numbers."""
    host = host_of(sleeper.pid)
    elsewhere, here = await enlisted(store, host), await enlisted(store, host)
    shows(sleeper, here)
    async with Judge(store) as judge:
        sleeper.kill()
        await asyncio.to_thread(sleeper.wait)
        assert await judge.died() == [here]
    assert await living(store) == [elsewhere]


async def test_a_worker_shows_its_number_to_its_neighbours(tmp_path: Path) -> None:
    url = str(tmp_path / "duly.db")
    await migrate_store(url)

    async def heart() -> Store:
        found = connect(url, create=False)
        await found.open()
        return found

    async with opened(url) as store:
        ward = Ward()
        heartbeat = Heartbeat(
            ward, profile(host=this_process()), connect=heart, store=store, terms=LeaseTerms()
        )
        await heartbeat.start()
        try:
            await until(lambda: ward.numbers != [])
            [worker] = await store.work.living()
            assert is_alive_here(worker)
            assert not is_alive_here(replace(worker, id=worker.id + 1))
        finally:
            await heartbeat.stop()


def test_the_proc_of_another_pid_namespace_tells_nothing() -> None:
    assert identity_in("--pid") == Host()


def test_in_another_pid_namespace_a_process_is_somebody_else() -> None:
    here, there = this_process(), identity_in("--pid", "--mount-proc")
    assert there.boot == here.boot
    assert there.space != here.space


def test_in_another_time_namespace_a_process_was_born_at_another_time() -> None:
    here, there = this_process(), identity_in("--time", "--boottime", "1000000")
    assert there.boot == here.boot
    assert there.space != here.space


def identity_in(*namespaces: str) -> Host:
    """What a process in a namespace of its own believes to be."""
    program = (
        "import dataclasses, json\n"
        "from duly.engine.death_watch import this_process\n"
        "print(json.dumps(dataclasses.asdict(this_process())))"
    )
    command = [*UNSHARE, *namespaces, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"this system makes no such namespace: {done.stderr.strip()}")
    return Host(**json.loads(done.stdout))


@pytest.mark.parametrize("elsewhere", [{"boot": "another"}, {"space": "pid:[1]"}, {"boot": ""}])
async def test_of_other_machines_nothing_is_known(store: Store, elsewhere: dict[str, str]) -> None:
    gone = replace(this_process(), pid=2**22 + 1, born=1)
    await enlisted(store, replace(gone, **elsewhere))  # type: ignore[arg-type]
    async with Judge(store) as judge:
        assert await judge.died() == []


async def test_where_nothing_can_be_known_nobody_is_asked(store: Store) -> None:
    await enlisted(store, Host())
    coroner = DeathWatch(store, here=Host())
    assert (await coroner.tick()).total_seconds() > 60
    assert len(await living(store)) == 1


async def test_a_worker_of_another_namespace_is_left_to_its_lease(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    elsewhere = replace(host_of(sleeper.pid), space="pid:[1] time:[1]")
    shows(sleeper, await enlisted(store, elsewhere))
    async with Judge(store) as judge:
        sleeper.kill()
        await asyncio.to_thread(sleeper.wait)
        assert await judge.died() == []


async def test_a_worker_is_dead_only_when_its_children_are(
    store: Store, sleeper: "subprocess.Popen[bytes]"
) -> None:
    host = host_of(sleeper.pid)
    worker = await enlisted(store, host)
    shows(sleeper, worker)
    marked = ["--parent", f"{host.pid}:{host.born}", "and more"]
    left = await asyncio.create_subprocess_exec(*SLEEPER, *marked)
    async with Judge(store) as judge:
        sleeper.kill()
        await asyncio.to_thread(sleeper.wait)
        assert await judge.died() == []
        left.kill()
        await left.wait()
        assert await judge.died() == [worker]


def test_a_process_that_is_about_to_start_a_program_may_be_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(death_watch, "PROC", tmp_path)
    nobody = replace(this_process(), pid=2**22 - 1, born=1)
    for pid in ("2", "77"):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").touch()
    assert is_dead_here(nobody)  # a thread of the kernel, a zombie
    (tmp_path / "77" / "exe").symlink_to(sys.executable)
    assert not is_dead_here(nobody)
    (tmp_path / "77" / "cmdline").write_bytes(b"python\0another program\0")
    assert is_dead_here(nobody)


def test_a_process_that_is_hidden_from_us_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(_: Path, **__: object) -> str:
        raise FileNotFoundError

    init = replace(this_process(), pid=os.getppid(), born=1)
    monkeypatch.setattr(Path, "read_text", hidden)  # as proc(5) says of hidepid=2
    assert not is_dead_here(init)
