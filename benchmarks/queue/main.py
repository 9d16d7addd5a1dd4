"""``python -m benchmarks``: every contestant, every question, in rounds that alternate.

PostgreSQL and SQLite wait for the disk at each commit. A worker is a process of its own, with the
settings its project recommends for tiny jobs, and a job counts as finished when the database says
so. Each round has a new database. See ``drain`` for when the clock runs.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.queue.churn import churn
from benchmarks.queue.contestant import Queue, Scheduler
from benchmarks.queue.drain import drain_afresh
from benchmarks.queue.enqueue import enqueue_rates
from benchmarks.queue.field import contestants, installed
from benchmarks.queue.idle import idle
from benchmarks.queue.latency import first_job, latencies
from benchmarks.queue.page import write_page
from benchmarks.queue.places import Places, all_places
from benchmarks.queue.questions import figures
from benchmarks.queue.report import Figures, show_marks
from benchmarks.queue.schedules import keep

QUESTIONS = ("drain", "enqueue", "latency", "schedules", "idle", "churn")


def main(words: Sequence[str] = ()) -> None:
    options = parsed(words)
    begin = perf_counter()
    with all_places() as places:
        servers = list(places.servers)
        print(
            f"{', '.join(servers)} and SQLite: {options.jobs:,} jobs that do nothing, "
            f"{options.rounds} rounds, commits reach the disk\n"
            "× raw: times hand-written SQL, × peer: times the best peer, on the same database"
        )
        modules, notes = installed()
        queues = [kind for one in modules for kind in getattr(one, "QUEUES", ())]
        schedulers = [kind for one in modules for kind in getattr(one, "SCHEDULERS", ())]
        run = Run(
            places,
            contestants(queues, options.only, servers),
            contestants(schedulers, options.only, servers),
            options,
            notes,
        )
        failed = [question for question in options.ask if not answered(run, question)]
    run.notes += [f"{question} was not answered: a worker was stuck." for question in failed]
    show_marks(run.figures)
    print("", *run.notes, sep="\n")
    if options.page:
        write_page(run.figures, jobs=options.jobs, rounds=options.rounds, notes=run.notes)
    print(f"\n{perf_counter() - begin:.0f} seconds in all")
    if failed:
        sys.exit(f"not answered: {', '.join(failed)}")


def answered(run: "Run", question: str) -> bool:
    """Whether it came to an end. The figures of ten minutes are not lost with one worker."""
    begin = perf_counter()
    try:
        asyncio.run(getattr(run, question)())
    except RuntimeError as error:
        print(f"\n{question}: {error}")
        return False
    print(f"\n({question}: {perf_counter() - begin:.0f} s)")
    return True


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks queue", description=__doc__)
    parser.add_argument("--ask", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--churn-seconds", type=float, default=24, help="300 for the long one")
    parser.add_argument("--idle-seconds", type=float, default=15)
    parser.add_argument("--schedules-seconds", type=float, default=8)
    parser.add_argument("--latency-jobs", type=int, default=240)
    parser.add_argument("--only", nargs="+", default=(), help="words in contestants' names")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    return parser.parse_args(words)


@dataclass(slots=True)
class Run:
    """The questions, each a coroutine, and the figures so far."""

    places: Places
    queues: Sequence[type[Queue]]
    schedulers: Sequence[type[Scheduler]]
    options: argparse.Namespace
    notes: list[str]  # what a reader of the table must know
    figures: dict[str, Figures] = field(default_factory=figures)

    async def drain(self) -> None:
        for workers in (1, 2):
            for kind in self._turns():
                rate = await drain_afresh(
                    self.places, kind, jobs=self.options.jobs, workers=workers
                )
                self.figures[f"drain {workers}"].add(kind, rate)
        self._show("drain 1", "drain 2")

    async def enqueue(self) -> None:
        keys = ("enqueue", "enqueue 32", "bulk")
        for kind in self._turns():
            rates = await enqueue_rates(self.places, kind, jobs=self.options.jobs)
            for key, rate in zip(keys, rates, strict=True):
                self.figures[key].add(kind, rate)
        self._show(*keys)

    async def latency(self) -> None:
        """The jobs are shared out among the rounds."""
        jobs = max(1, self.options.latency_jobs // self.options.rounds)
        for kind in self._turns():
            self._add_percentiles("latency", kind, await latencies(self.places, kind, jobs=jobs))
        self._show("latency p50", "latency p99")

    async def schedules(self) -> None:
        print()
        for kind in self.schedulers:
            kept = await keep(self.places, kind, seconds=self.options.schedules_seconds)
            said = f"{kind.name}: {len(kept.late):,} of {kept.expected:,} runs of schedules"
            print(f"{said}, {kind.nodes} processes")
            if len(kept.late) < 0.95 * kept.expected:
                self.notes.append(f"{said} started in time; it is left out there.")
                continue
            self._add_percentiles("schedules", kind, kept.late)
            self.figures["schedules CPU"].add(kind, kept.cpu)
        self._show("schedules p50", "schedules p99", "schedules CPU")

    async def idle(self) -> None:
        for kind in self._turns():
            self.figures["first job"].add(kind, await first_job(self.places, kind))
        found = await idle(self.places, self.queues, seconds=self.options.idle_seconds)
        for kind, cost in found.items():
            self.figures["idle memory"].add(kind, cost.megabytes)
            self.figures["idle CPU"].add(kind, cost.cpu)
            self.figures["idle statements"].add(kind, cost.transactions)
        self._show("idle CPU", "idle statements", "idle memory", "first job")

    async def churn(self) -> None:
        print()
        for kind in self.queues:
            if kind.role == "duly":
                churned = await churn(self.places, kind, seconds=self.options.churn_seconds)
                self.figures["churn first"].add(kind, churned.first)
                self.figures["churn last"].add(kind, churned.last)
                self.figures["churn table"].add(kind, churned.megabytes)
        self._show("churn first", "churn last", "churn table")

    def _turns(self) -> list[type[Queue]]:
        """Each contestant once, and again: the noise of a minute falls on all of them."""
        return list(self.queues) * int(self.options.rounds)

    def _add_percentiles(
        self, question: str, kind: type[Queue] | type[Scheduler], times: Sequence[float]
    ) -> None:
        ordered = sorted(times)
        for share in (50, 99):
            at = int(share / 100 * (len(ordered) - 1))
            self.figures[f"{question} p{share}"].add(kind, ordered[at])

    def _show(self, *keys: str) -> None:
        for key in keys:
            if self.figures[key].answers:
                self.figures[key].show()
