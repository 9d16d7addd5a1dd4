"""Worker processes: held at a gate until the clock starts, looked at from outside, and ended."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from benchmarks.queue import jobs
from benchmarks.queue.contestant import Contestant
from duly.clock import sleep

ROOT = Path(__file__).parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGESIZE")

# How often the harness looks, in seconds: 1 % of the shortest drain it is made for.
LOOK = 0.002


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers of one round."""

    contestant: Contestant
    gate: Path
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    opened: list[int] = field(default_factory=list)

    async def gathered(self) -> None:
        """Until each process has claimed work and stands at the gate with its first job."""
        there = self.contestant.place.folder
        await self.until(lambda: len(list(there.glob(f"{jobs.READY}.*"))) == len(self.processes))

    def open_the_gate(self) -> None:
        # Open for reading too: then it does not wait, and a worker that comes late passes as well.
        self.opened.append(os.open(self.gate, os.O_RDWR))

    async def until(
        self, true: Callable[[], bool], *, look: float = LOOK, at_most: float = 600
    ) -> None:
        """Look until it is true, unless a worker has died or it takes far too long."""
        end = monotonic() + at_most
        while not true():
            self.check(stuck=monotonic() > end)
            await sleep(look)

    def check(self, *, stuck: bool = False) -> None:
        """A worker that is gone has said why in its log."""
        if stuck or any(process.poll() is not None for process in self.processes):
            log = (self.contestant.place.folder / "log").read_text()[-3000:]
            raise RuntimeError(f"{self.contestant.name}: the worker is stuck or gone:\n{log}")

    def started(self) -> int:
        """The jobs that were started in this place, by these workers and by those before them."""
        paths = self.contestant.place.folder.glob(f"{jobs.TALLY}.*")
        return sum(int.from_bytes(path.read_bytes(), "little") for path in paths)

    def cpu_seconds(self) -> float:
        """Used so far by the workers and all their children."""
        return sum(sum(map(int, facts[11:13])) for facts in self._facts()) / TICKS

    def resident_bytes(self) -> int:
        return sum(int(facts[21]) for facts in self._facts()) * PAGE

    def _facts(self) -> list[list[str]]:
        """The fields of /proc/PID/stat after the name, of each process in the crew's sessions."""
        ours = {str(process.pid) for process in self.processes}
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                facts = path.read_text().rpartition(")")[2].split()
                if facts[3] in ours:
                    found.append(facts)
        return found


@asynccontextmanager
async def crew(
    contestant: Contestant, count: int = 1, *, gate: bool = False
) -> AsyncIterator[Crew]:
    """So many workers, each a process of its own; without a gate they work as soon as they can."""
    folder = contestant.place.folder
    gate_path = folder / jobs.GATE
    for old in folder.glob(f"{jobs.READY}.*"):
        old.unlink()
    gate_path.unlink(missing_ok=True)
    os.mkfifo(gate_path)
    workers = Crew(contestant, gate_path)
    try:
        if not gate:
            workers.open_the_gate()
        for _ in range(count):
            workers.processes.append(started(contestant))
        yield workers
    finally:
        for process in workers.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for descriptor in workers.opened:
            os.close(descriptor)


def started(contestant: Contestant) -> "subprocess.Popen[bytes]":
    place = contestant.place
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        jobs.FOLDER: str(place.folder),
        jobs.URL: place.url,
        **contestant.environment(),
    }
    with (place.folder / "log").open("ab") as log:
        return subprocess.Popen(
            contestant.worker(),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def program(name: str) -> list[str]:
    """A worker of ours for a contestant that has no command which says all that is needed."""
    return [sys.executable, "-m", f"benchmarks.queue.workers.{name}"]
