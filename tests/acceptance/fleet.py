"""Nodes as processes, what they are asked to do, and the file in which they bear witness."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from duly.app import migrate_store, open_store
from duly.clock import boottime, now, sleep
from duly.errors import StoreUnavailable
from duly.instants import from_us
from duly.model.job import JobRequest
from duly.model.payload import encode
from duly.store.store import Store
from tests.acceptance.report import Report
from tests.acceptance.tasks import whole_lines
from tests.infrastructure.commands import Forked

HERE = Path(__file__).parents[2]

# A node in a namespace of its own is on a machine of its own, as far as anybody can tell: no other
# one sees its process, and nobody but its lease says that it is dead.
_APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Impossible(Exception):
    """A story that cannot be told on this machine, and why."""


class Line(NamedTuple):
    """What a job said outside of the system."""

    what: str  # begin, end, interrupted; or refused, by its worker
    schedule: int
    due: datetime
    job: int
    at: datetime
    fence: int
    member: int


class Span(NamedTuple):
    """A run, from its beginning until it was over, one way or another."""

    job: int
    schedule: int
    begin: datetime
    end: datetime
    member: int


@dataclass(eq=False)
class Member:
    """A process of ``tests.acceptance.member``."""

    number: int
    process: subprocess.Popen[bytes] | Forked

    def send(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    @property
    def is_there(self) -> bool:
        return self.process.poll() is None


@dataclass
class Fleet:
    """Members on one store, and when those died that did."""

    url: str
    file: Path
    lease: float = 15.0
    slots: int = 10
    before: Sequence[str] = ()  # a command in front of each
    ways: Sequence[str] = ()  # URLs of the store that members use in turn; default: the one above
    more: Sequence[str] = ()  # further words for every member
    clocks: Sequence[Path] = ()  # of members, in turn; default: the machine's
    program: str = "tests.acceptance.member"
    members: list[Member] = field(default_factory=list)
    died: dict[int, datetime] = field(default_factory=dict)
    started: int = 0

    def start(self) -> Member:
        self.started += 1
        words = ["--number", self.started, "--lease", self.lease, "--slots", self.slots, *self.more]
        if self.clocks:
            words += ["--clock", self.clocks[self.started % len(self.clocks)]]
        url = self.ways[self.started % len(self.ways)] if self.ways else self.url
        program = [self.program, url, *map(str, [self.file, *words])]
        member = Member(self.started, self._started(program))
        self.members.append(member)
        return member

    def _started(self, program: list[str]) -> "subprocess.Popen[bytes] | Forked":
        if not self.before:
            return Forked(program, stdout=1, stderr=2, folder=HERE)
        return subprocess.Popen([*self.before, sys.executable, "-m", *program], cwd=HERE)

    def kill(self, member: Member) -> None:
        """It runs nothing from here on, whenever we hear of it: others may take over before."""
        killed = now()
        member.send(signal.SIGKILL)
        self.bury(member)
        self.died[member.number] = killed

    def bury(self, member: Member) -> int:
        """Wait for its end, which must be near: how it ended."""
        code = member.process.wait(timeout=60)
        self.died[member.number] = now()
        self.members.remove(member)
        return code

    def gone(self) -> list[Member]:
        """Those that have ended by themselves."""
        return [member for member in self.members if not member.is_there]

    def end(self) -> None:
        for member in self.members:
            with contextlib.suppress(ProcessLookupError):
                member.send(signal.SIGCONT)
            member.process.kill()
        for member in self.members:
            member.process.wait()

    def busiest(self) -> Member:
        """Whoever has begun most of what has not ended."""
        ended = {(line.job, line.fence) for line in self.lines("end", "interrupted")}
        begun = self.lines("begin")
        open_ = Counter(line.member for line in begun if (line.job, line.fence) not in ended)
        return max(self.members, key=lambda member: open_[member.number])

    def lines(self, *whats: str) -> list[Line]:
        found = []
        for text in whole_lines(self.file):
            what, schedule, due, job, at, fence, member = text.split()
            if not whats or what in whats:
                numbers = int(job), from_us(int(at)), int(fence), int(member)
                found.append(Line(what, int(schedule), from_us(int(due)), *numbers))
        return found

    def count(self, what: str) -> int:
        return len(self.lines(what))

    def spans(self) -> list[Span]:
        """What ran when. A run without an end was over when its node died, or is not over yet."""
        over = {(line.job, line.fence): line.at for line in self.lines("end", "interrupted")}
        signs = self.signs_of_life()
        died = {number: max(at, signs.get(number, at)) for number, at in self.died.items()}
        return [
            Span(
                line.job,
                line.schedule,
                line.at,
                over.get((line.job, line.fence)) or died.get(line.member) or now(),
                line.member,
            )
            for line in self.lines("begin")
        ]

    def signs_of_life(self) -> dict[int, datetime]:
        """When each member was last heard of."""
        lines = sorted(self.lines(), key=lambda line: line.at)
        return {line.member: line.at for line in lines}

    def trouble(self) -> list[str]:
        """What nodes said that should never have to be said."""
        file = self.file.with_name(f"{self.file.name}.trouble")
        return file.read_text().splitlines() if file.exists() else []

    def completed_twice(self) -> list[int]:
        """Jobs of which more than one end was not refused.

        A node that was killed may have said that a job ends and not have committed it: such ends do
        not count.
        """
        ends = Counter(
            (line.job, line.fence) for line in self.lines("end") if line.member not in self.died
        )
        ends.subtract((line.job, line.fence) for line in self.lines("refused"))
        jobs = Counter(job for (job, _), count in ends.items() if count > 0)
        return [job for job, count in jobs.items() if count > 1]


@contextlib.asynccontextmanager
async def fleet(  # noqa: PLR0913 - how its members differ, by name
    url: str,
    folder: Path,
    *,
    nodes: int,
    lease: float = 15.0,
    slots: int = 10,
    apart: bool = False,
    ways: Sequence[str] = (),
    more: Sequence[str] = (),
    clocks: Sequence[Path] = (),
) -> AsyncIterator[tuple[Fleet, Store]]:
    """So many nodes on a new store, all of them enlisted."""
    await migrate_store(url)
    file = folder / "witness"
    file.write_text("")
    store = await open_store(url)
    before = machine_of_its_own() if apart else ()
    there = Fleet(url, file, lease, slots, before, ways, more, clocks)
    try:
        for _ in range(nodes):
            there.start()
        await until(lambda: there.gone() or enlisted(store, nodes), seconds=60)
        assert not there.gone(), "a node did not even start"
        yield there, store
    except AssertionError as error:
        error.add_note(await evidence(there, store))
        raise
    finally:
        there.end()
        await store.close()


async def evidence(there: Fleet, store: Store) -> str:
    """What is left, and who is there to do it."""
    jobs = [f"{job.id} {job.task} {job.state} {job.reason}" for job in await store.jobs.page()]
    workers = [f"{worker.id} {worker.name}" for worker in await store.work.living()]
    gone = [(member.number, member.process.returncode) for member in there.gone()]
    return f"jobs {jobs[:10]}\nworkers {workers}\nended {gone}\n{there.trouble()[:10]}"


def machine_of_its_own() -> list[str]:
    """The words in front of a command that put it there."""
    for words in (_APART, [_APART[0], "--user", "--map-root-user", *_APART[1:]]):
        with contextlib.suppress(OSError):
            if subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0:
                return words
    raise Impossible("NO NAMESPACES: run it as root, or allow users to make their own")


async def enlisted(store: Store, nodes: int) -> bool:
    return len(await store.work.living()) >= nodes


async def idle(store: Store) -> bool:
    """Whether nothing is left to be done."""
    return not await store.jobs.page(limit=1)


async def until(condition: Callable[[], object], *, seconds: float) -> float:
    """Wait until it holds: how long that took. Also through outages."""
    began = boottime()
    while True:
        with contextlib.suppress(StoreUnavailable):
            found = condition()
            if await found if asyncio.iscoroutine(found) else found:
                return boottime() - began
        assert boottime() - began < seconds, f"not within {seconds} s"
        await sleep(0.02)


def calls(count: int, task: str = "nap", **arguments: object) -> Iterator[JobRequest]:
    for _ in range(count):
        yield JobRequest(task=task, args=encode(arguments, what="the arguments"))


def common(there: Fleet, report: Report) -> Report:
    """What must hold in every story."""
    report.must(not there.trouble(), f"trouble: {there.trouble()[:3]}")
    return report
