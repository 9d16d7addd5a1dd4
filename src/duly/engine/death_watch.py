"""The death watch: ends the leases of workers whose process on this machine has died.

A lease is long, because it has to outlast pauses and network partitions. But most deaths are plain:
a process was killed on a machine that still runs. The row of a worker says which process it is. A
node that has seen that process alive, and sees that it is gone, knows that it cannot come back, and
need not wait for the lease. This is proof, not suspicion: a process that is stopped or slow still
exists.

A process that was never seen from here proves nothing by its absence: it may run on another machine
of the same name, resumed from the same memory snapshot. Its lease decides.

The children of a dead worker are checked too: the kernel kills them with it, but they can be seen
for a moment. The jobs are given to others only when no child is left.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from duly.clock import boottime
from duly.engine.loop import EVERYBODY
from duly.engine.process_identity import PROC, namespaces, process_stat, shows_number
from duly.events import Emit, WorkerDied, ignore_event
from duly.model.worker import Host, WorkerInfo
from duly.store.store import Store
from duly.store.values import WORKERS

EVERY = timedelta(milliseconds=500)
LOOK_SECONDS = 10.0  # a worker that registers is told of


class DeathWatch:
    name = "death watch"
    patient = True
    topics: ClassVar[frozenset[str]] = frozenset({WORKERS})

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = ignore_event,
        wake: Callable[[], None] | None = None,
        here: Host | None = None,
        is_dead: Callable[[Host], bool] | None = None,
        is_here: Callable[[WorkerInfo], bool] | None = None,
        steady: Callable[[], float] = boottime,
    ) -> None:
        self._store = store
        self._emit = emit
        self._here = here or this_process()
        self._is_dead = is_dead or is_dead_here
        self._is_here = is_here or is_alive_here
        self._steady = steady
        self._is_woken = wake is not None
        self._watch = ProcessWatch(wake or (lambda: None))
        self._near: list[WorkerInfo] = []
        self._seen: set[int] = set()  # ids of those that were seen alive
        self._looked_at = float("-inf")
        store.listen(self._hear)

    async def tick(self) -> timedelta:
        if not self._here.boot:
            return timedelta(hours=1)  # the system does not tell about processes
        # Behind a pooler nobody tells of a new worker, and one that dies unseen keeps its lease.
        is_told = self._store.is_listening
        if not is_told or self._steady() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = self._steady()
            self._near = [
                worker
                for worker in await self._store.work.living()
                if self._is_on_this_machine(worker)
            ]
            self._seen &= {worker.id for worker in self._near}
        self._look()
        for worker in [worker for worker in self._near if self._has_died(worker)]:
            await self._store.work.end_lease(worker.id, died=True)
            self._near.remove(worker)
            self._emit(WorkerDied(worker.id, worker.name))
        # The kernel tells of the end of processes that are watched.
        hears = self._is_woken and len(self._watch) == len(self._near)
        return timedelta(seconds=LOOK_SECONDS) if is_told and hears else EVERY

    def _look(self) -> None:
        """Find workers that were not seen yet, and watch those that were."""
        for worker in self._near:
            if worker.id not in self._seen and self._is_here(worker):
                self._seen.add(worker.id)
        seen = [worker for worker in self._near if worker.id in self._seen]
        self._watch.over({worker.profile.host.pid for worker in seen})

    def _has_died(self, worker: WorkerInfo) -> bool:
        return worker.id in self._seen and self._is_dead(worker.profile.host)

    def close(self) -> None:
        self._watch.over(set())

    def _hear(self, topic: str) -> None:
        if topic in (WORKERS, EVERYBODY):
            self._looked_at = float("-inf")

    def _is_on_this_machine(self, worker: WorkerInfo) -> bool:
        host, here = worker.profile.host, self._here
        return (host.boot, host.space) == (here.boot, here.space) and host != here


class ProcessWatch:
    """Calls back when one of the processes ends, where the kernel can tell; never elsewhere."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._watched: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def over(self, pids: set[int]) -> None:
        for pid in [pid for pid in self._watched if pid not in pids]:
            self._end(pid)
        for pid in pids - self._watched.keys():
            # A process that is gone or replaced by now is found by polling.
            with contextlib.suppress(OSError, AttributeError):
                descriptor = os.pidfd_open(pid)
                self._watched[pid] = descriptor
                asyncio.get_running_loop().add_reader(descriptor, self._ended, pid)

    def _ended(self, pid: int) -> None:
        self._end(pid)
        self._call()

    def _end(self, pid: int) -> None:
        descriptor = self._watched.pop(pid, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)


def this_process() -> Host:
    """Return the identity of this process; empty where the system does not tell."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        pid = os.getpid()
        return Host(boot=boot, space=namespaces(), pid=pid, born=process_stat(pid).born)
    except (OSError, ValueError, IndexError):
        return Host()


def is_alive_here(worker: WorkerInfo) -> bool:
    """Return whether the worker's process exists and shows the number of this worker."""
    host = worker.profile.host
    try:
        return process_stat(host.pid).born == host.born and shows_number(host.pid, worker.id)
    except (OSError, ValueError, IndexError):
        return False


def is_dead_here(host: Host) -> bool:
    """Return whether the process and its children have ended."""
    try:
        found = process_stat(host.pid)
    except (FileNotFoundError, ProcessLookupError):
        return _is_gone(host.pid) and not _has_children(host)
    except OSError:
        return False
    same = found.born == host.born
    return (not same or found.is_gone) and not _has_children(host)


def is_gone(worker: WorkerInfo) -> bool:
    """Return whether the process of a worker on this machine is known to have ended.

    The store considers the worker alive until its lease ends; people need not wait for that.
    """
    host, here = worker.profile.host, this_process()
    near = bool(here.boot) and (host.boot, host.space) == (here.boot, here.space)
    return near and host != here and is_dead_here(host)


def present(workers: Iterable[WorkerInfo]) -> list[WorkerInfo]:
    """Return the workers without those whose process is known to have ended."""
    return [worker for worker in workers if not is_gone(worker)]


def _is_gone(pid: int) -> bool:
    """Return whether the PID is free: some systems hide the processes of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _has_children(host: Host) -> bool:
    """Return whether a process was started for that worker, by its command line.

    A process that is about to start a program has no command line for a moment, and may be one.
    """
    mark = f"\0--parent\0{host.pid}:{host.born}\0".encode()
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                line = (entry / "cmdline").read_bytes()
                if mark in line or (not line and _has_program(entry)):
                    return True
    return False


def _has_program(process: Path) -> bool:
    """Return whether the process runs a program: threads of the kernel and zombies do not."""
    return bool((process / "exe").readlink())
