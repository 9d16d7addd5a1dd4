"""Programs and all that they start: whatever ends a job, nothing of it is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.app import migrate_store
from duly.builtin.process_group import LINGER, ProcessGroup, ProgramCall
from duly.builtin.shell import shell
from duly.clock import boottime, now, sleep
from duly.model.payload import encode
from duly.model.states import State
from duly.store.store import Store
from tests.builtin.programs import is_alive, is_dead, number_in
from tests.engine.workshop import opened, until
from tests.factories import call

FAMILY = "sleep 300 & echo $! > child; echo $$ > parent; wait"


async def cancelled(work: "asyncio.Task[Any]") -> None:
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


@pytest.mark.parametrize("end", [cancelled, asyncio.wait_for], ids=["cancelled", "timed out"])
async def test_a_program_ends_with_what_it_has_started(
    tmp_path: Path, end: Callable[..., Awaitable[None]]
) -> None:
    work = asyncio.create_task(shell(FAMILY, cwd=str(tmp_path)))
    numbers = [await number_in(tmp_path / name) for name in ("child", "parent")]
    assert all(map(is_alive, numbers))
    if end is cancelled:
        await end(work)
    else:
        with pytest.raises(TimeoutError):
            await end(work, 0.1)
    assert not any(map(is_alive, numbers))


async def test_a_program_may_tidy_up_though_the_shell_around_it_is_gone(tmp_path: Path) -> None:
    tidy = "trap 'sleep 0.3; echo tidy > done; exit' TERM; echo $$ > child"
    (tmp_path / "tidy.sh").write_text(f"{tidy}; while :; do sleep 0.05; done")
    work = asyncio.create_task(shell("true && sh tidy.sh && true", cwd=str(tmp_path)))
    child = await number_in(tmp_path / "child")
    await cancelled(work)
    assert (tmp_path / "done").read_text() == "tidy\n"
    assert not is_alive(child)


async def test_who_does_not_listen_is_killed_after_the_grace(tmp_path: Path) -> None:
    group = await ProcessGroup.start(deaf(tmp_path), grace=0.3)
    began = boottime()
    async with group:
        number = await number_in(tmp_path / "child")
    assert not is_alive(number)
    assert boottime() - began >= 0.3


async def test_who_is_asked_to_stop_twice_has_no_grace(tmp_path: Path) -> None:
    entered = asyncio.Event()

    async def run() -> None:
        async with await ProcessGroup.start(deaf(tmp_path), grace=300):
            entered.set()
            await asyncio.Event().wait()

    work = asyncio.create_task(run())
    await entered.wait()
    number = await number_in(tmp_path / "child")
    work.cancel()
    await asyncio.wait([work], timeout=0.2)
    assert not work.done()
    assert is_alive(number)
    await cancelled(work)
    assert not is_alive(number)


async def test_what_is_left_in_the_background_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = await shell("sleep 300 > /dev/null 2>&1 & echo $! > child", cwd=str(tmp_path))
    assert found["exit"] == 0
    assert not is_alive(await number_in(tmp_path / "child"))
    assert "what it left running in the background is ended with it" in caplog.text


async def test_the_last_words_of_a_background_process_are_waited_for() -> None:
    found = await shell("(sleep 0.2; echo last) & echo first")
    assert found["tail"] == "first\nlast"


async def test_who_has_left_the_group_holds_nobody_up(tmp_path: Path) -> None:
    await shell("true")
    descriptors = count_of_descriptors()
    line = "setsid sh -c 'echo $$ > child; exec sleep 300' & sleep 0.2; echo done"
    began = boottime()
    found = await shell(line, cwd=str(tmp_path))
    assert found["tail"] == "done"
    assert boottime() - began < 10
    await until(lambda: count_of_descriptors() == descriptors)
    stray = await number_in(tmp_path / "child")
    assert is_alive(stray)
    os.kill(stray, signal.SIGKILL)
    await is_dead(stray)


async def test_a_program_that_has_ended_is_not_waited_for() -> None:
    began = boottime()
    for _ in range(5):
        await shell("echo x")
    assert boottime() - began < 5 * LINGER


async def test_no_descriptor_and_no_process_is_left_of_many() -> None:
    await shell("true")
    descriptors, processes = count_of_descriptors(), children(os.getpid())
    await asyncio.gather(*(shell("echo x") for _ in range(20)))
    assert children(os.getpid()) == processes
    assert count_of_descriptors() == descriptors


WORKER = """
import asyncio, os, sys, time
from datetime import timedelta
from pathlib import Path
from duly import Duly
from duly.app import Node, connect
from duly.engine.worker import WorkerOptions
from duly.runtime.node import allow_builtin, make_worker

app = Duly()

@app.task
def fork(note: str) -> None:
    if not os.fork():
        time.sleep(300)
        os._exit(0)
    Path(note).touch()

async def work(url):
    store = connect(url, create=False)
    await store.open()
    allow_builtin(app.registry, ["shell"])
    options = WorkerOptions(lease=timedelta(seconds=4))
    worker = make_worker(
        store, app.registry, options, url=url, target=None, on_stop=lambda: None
    )
    await Node(store, worker=worker, scheduler=False).run(asyncio.Event(), asyncio.Event())

asyncio.run(work(sys.argv[1]))
"""


class Shop:
    """A worker as a process that runs a program and what that has started."""

    def __init__(self, store: Store, worker: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.store = store
        self.worker = worker
        self.folder = folder

    async def program(self) -> tuple[int, list[int]]:
        """The job, and the processes that it has started."""
        for name in ("child", "parent"):
            (self.folder / name).unlink(missing_ok=True)
        args = {"line": f"echo begun; {FAMILY}", "cwd": str(self.folder)}
        [job] = await self.store.jobs.enqueue([call("duly.shell", args=encode(args))])
        numbers = [await number_in(self.folder / name) for name in ("child", "parent")]
        while not await self.store.journal.logs(job):  # what it says is read once it is guarded
            await sleep(0.02)
        return job, numbers


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    url = str(tmp_path / "duly.db")
    await migrate_store(url)
    with started(url, tmp_path) as worker:
        try:
            async with opened(url) as store:
                yield Shop(store, worker, tmp_path)
        finally:
            os.killpg(worker.pid, signal.SIGKILL)  # and what it has forked


async def test_a_worker_that_is_killed_takes_its_programs_with_it(shop: Shop) -> None:
    _, numbers = await shop.program()
    assert all(map(is_alive, numbers))
    shop.worker.kill()
    for number in numbers:
        await is_dead(number)


async def test_a_fork_of_the_worker_does_not_keep_its_programs_alive(shop: Shop) -> None:
    note = shop.folder / "forked"
    _, numbers = await shop.program()  # whose guard is there before the fork
    await shop.store.jobs.enqueue([call("fork", args=encode({"note": str(note)}))])
    await until(note.exists)
    [fork] = [one for one in children(shop.worker.pid) if is_fork(one, of=shop.worker.pid)]
    shop.worker.kill()
    for number in numbers:
        await is_dead(number)
    assert is_alive(fork)


async def test_a_worker_that_is_stopped_has_no_program_when_its_lease_ends(shop: Shop) -> None:
    job, numbers = await shop.program()
    [begun] = await shop.store.work.living()
    await until(lambda: now() > begun.lease_until + timedelta(seconds=1))
    assert all(map(is_alive, numbers)), "they run on while the lease is renewed"
    shop.worker.send_signal(signal.SIGSTOP)
    [stopped] = await shop.store.work.living()
    for number in numbers:
        await is_dead(number)
    assert now() < stopped.lease_until
    for name in ("child", "parent"):
        (shop.folder / name).unlink()
    shop.worker.send_signal(signal.SIGCONT)
    await number_in(shop.folder / "parent")  # it runs again
    found = await shop.store.jobs.get(job)
    assert (found.state, found.attempt - found.crashes) == (State.RUNNING, 1), "at no cost"


async def test_a_guard_that_is_killed_is_replaced(shop: Shop) -> None:
    _, numbers = await shop.program()
    [watchdog] = watchdogs(shop.worker.pid)
    os.kill(watchdog, signal.SIGKILL)
    await until(lambda: watchdogs(shop.worker.pid) not in ([], [watchdog]))
    shop.worker.kill()
    for number in numbers:
        await is_dead(number)


def deaf(folder: Path) -> ProgramCall:
    return ProgramCall(
        argv=["sh", "-c", "trap '' TERM; echo $$ > child; while :; do sleep 0.05; done"],
        cwd=str(folder),
        environment=os.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def started(url: str, folder: Path) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-c", WORKER, url]
    return subprocess.Popen(words, cwd=folder, start_new_session=True)


def count_of_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children(of: int) -> set[int]:
    listed = Path(f"/proc/{of}/task").glob("*/children")
    return {int(child) for file in listed for child in file.read_text().split()}


def is_fork(number: int, *, of: int) -> bool:
    return command_of(number) == command_of(of)


def watchdogs(worker: int) -> list[int]:
    """Those of its children that guard what it starts."""
    return [one for one in children(worker) if b"watchdog" in command_of(one) and is_alive(one)]


def command_of(number: int) -> bytes:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""
