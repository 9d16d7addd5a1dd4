"""``python -m benchmarks queue``: every contestant, every question, in rounds that alternate.

PostgreSQL and SQLite wait for the disk at each commit. A worker is a process of its own, with the
settings its project recommends for tiny jobs, and a job counts as finished when the database says
so. Each round has a new database. See ``drain`` for when the clock runs.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from benchmarks.queue.contestant import Contestant
from benchmarks.queue.drain import drain, drain_afresh
from benchmarks.queue.enqueue import CALLERS, enqueue_rates
from benchmarks.queue.field import contestants
from benchmarks.queue.growth import churn, old_round, window
from benchmarks.queue.idle import idle
from benchmarks.queue.latency import first_job, latencies
from benchmarks.queue.marks import show_marks
from benchmarks.queue.page import write_page
from benchmarks.queue.places import Places, all_places
from benchmarks.queue.report import Figures

Kind = type[Contestant]
QUESTIONS = ("drain", "enqueue", "latency", "idle", "growth", "churn")


def main(words: Sequence[str] = ()) -> None:
    options = parsed(words)
    print(
        f"{options.jobs:,} jobs that do nothing, {options.rounds} rounds, commits reach the disk\n"
        "× raw: times hand-written SQL, × peer: times the best peer, on the same database"
    )
    with all_places() as places:
        kinds = contestants(options.only, list(places.servers))
        for kind in kinds:
            if not kind.durable:
                print(f"{kind.name}: its commits do not wait for the disk")
        run = Run(places, kinds, options)
        failed = [question for question in options.ask if not answered(run, question)]
    show_marks(run.figures, list(places.servers))
    if options.page:
        write_page(run.figures, jobs=options.jobs, rounds=options.rounds)
    if failed:
        sys.exit(f"not answered: {', '.join(failed)}")


def answered(run: "Run", question: str) -> bool:
    """Whether it came to an end. The figures of half an hour are not lost with one worker."""
    try:
        asyncio.run(getattr(run, question)())
    except RuntimeError as error:
        print(f"\n{question}: {error}")
        return False
    return True


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks queue", description=__doc__)
    parser.add_argument("--ask", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--finished", type=int, default=1_000_000, help="in history, for growth")
    parser.add_argument("--churn-seconds", type=float, default=60)
    parser.add_argument("--idle-seconds", type=float, default=10)
    parser.add_argument("--latency-jobs", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=(), help="words in contestants' names")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    return parser.parse_args(words)


@dataclass(slots=True)
class Run:
    """The questions, each a coroutine, and the figures so far."""

    places: Places
    kinds: Sequence[Kind]
    options: argparse.Namespace
    figures: dict[str, Figures] = field(default_factory=dict)

    async def drain(self) -> None:
        jobs = self.options.jobs
        for workers in (1, 2):
            crew = f"{workers} worker process{'es' if workers > 1 else ''}"
            rate = self._figures(f"drain {workers}", f"a full queue, {crew}")
            cpu = Figures(f"CPU of {crew}", "µs a job", more_is_better=False)
            for kind in self._turns():
                drained = await drain_afresh(self.places, kind, jobs=jobs, workers=workers)
                rate.add(kind, drained.rate)
                cpu.add(kind, drained.cpu)
            rate.show()
            cpu.show()

    async def enqueue(self) -> None:
        single = self._figures("enqueue", "enqueue one by one")
        callers = self._figures("enqueue by 32", f"enqueue by {CALLERS} callers at once")
        bulk = self._figures("enqueue in bulk", "enqueue in bulk")
        for kind in self._turns():
            rates = await enqueue_rates(self.places, kind, jobs=self.options.jobs)
            for figures, rate in zip((single, callers, bulk), rates, strict=True):
                figures.add(kind, rate)
        for figures in (single, callers, bulk):
            figures.show()

    async def latency(self) -> None:
        """The jobs are shared out among the rounds; the percentiles are of all of them."""
        waited: dict[Kind, list[float]] = {kind: [] for kind in self.kinds}
        jobs = max(1, self.options.latency_jobs // self.options.rounds)
        for kind in self._turns():
            waited[kind] += await latencies(self.places, kind, jobs=jobs)
        for share in (50, 99):
            name = f"latency p{share}"
            figures = self._figures(
                name, f"enqueue to start when idle, p{share}", "ms", less=True, digits=2
            )
            for kind, times in waited.items():
                figures.add(kind, sorted(times)[int(share / 100 * (len(times) - 1))])
            figures.show()

    async def idle(self) -> None:
        first = self._figures(
            "first job", "start of a worker to its first job", "s", less=True, digits=2
        )
        for kind in self._turns():
            first.add(kind, await first_job(self.places, kind))
        memory = self._figures("idle memory", "memory of an idle worker", "MB", less=True)
        cpu = self._figures("idle CPU", "CPU of an idle worker", "% of a core", less=True, digits=2)
        for kind in self.kinds:
            found = await idle(self.places, kind, seconds=self.options.idle_seconds)
            memory.add(kind, found.megabytes)
            cpu.add(kind, found.cpu)
        for figures in (first, memory, cpu):
            figures.show()

    async def growth(self) -> None:
        jobs, finished = self.options.jobs, self.options.finished
        new = self._figures("drain, new", "a full queue, nothing finished before")
        old = self._figures("drain, old", f"a full queue, {finished:,} jobs finished before")
        async with AsyncExitStack() as stack:
            rounds = {
                kind: await old_round(stack, self.places, kind, finished=finished)
                for kind in self.kinds
                if kind.bury
            }
            for kind in self._turns():
                if kind in rounds:
                    drained = await drain_afresh(self.places, kind, jobs=jobs, workers=1)
                    new.add(kind, drained.rate)
                    old.add(kind, (await drain(rounds[kind], jobs=jobs, workers=1)).rate)
        new.show()
        old.show()

    async def churn(self) -> None:
        seconds = self.options.churn_seconds
        span = f"{window(seconds):g} of {seconds:g} seconds"
        first = self._figures("churn, first", f"jobs come and go, the first {span}")
        last = self._figures("churn, last", f"jobs come and go, the last {span}")
        for kind in self.kinds:
            if kind.bury and kind.bulk:
                churned = await churn(self.places, kind, seconds=seconds)
                first.add(kind, churned.first)
                last.add(kind, churned.last)
        first.show()
        last.show()

    def _turns(self) -> list[Kind]:
        """Each contestant once, and again: the noise of a minute falls on all of them."""
        return list(self.kinds) * int(self.options.rounds)

    def _figures(
        self, name: str, title: str, unit: str = "jobs/s", *, less: bool = False, digits: int = 0
    ) -> Figures:
        self.figures[name] = Figures(title, unit, more_is_better=not less, digits=digits)
        return self.figures[name]
