"""What a job costs beside more and more of everything else: finished jobs, schedules, queues, ….

The cost of a job is its whole life: enqueue, claim, run, finish. It is counted as the CPU time of
this process and of the server, and on PostgreSQL as the pages that were touched. Each size is
measured in turn, twice, and the cheaper pass counts: whatever else the machine does adds to a cost.
Autovacuum is off, since it touches pages too, and so are images of whole pages in the log, which
depend on the last checkpoint; ``churn`` of the comparison measures with both.
"""

import argparse
import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Event
from time import perf_counter, process_time

import psycopg

from benchmarks import charts
from benchmarks.page import measured, replace_part, rows_of
from benchmarks.queue.crew import TICKS
from benchmarks.queue.places import Places, all_clusters
from duly import Duly, Step
from duly.app import connect, migrate_store
from duly.app.tasks import AsyncTask
from duly.clock import now
from duly.instants import to_us
from duly.model.policies import Overlap, Policies
from duly.model.schedule import Plan
from duly.policy.firing import decide
from tests.infrastructure.cluster import Cluster

JOBS = 10_000
FIRES = 1_000
IN_A_ROW = 300  # of jobs that run one after the other
PASSES = 2
FLAT = 0.1
PATIENCE_SECONDS = 120.0


class App:
    """An app of its own on a store, whose jobs count themselves."""

    def __init__(self, url: str, *, tasks: int = 1) -> None:
        self.duly = Duly(url)
        self.done = 0
        self.tasks: list[AsyncTask[[], None]] = []
        for number in range(tasks):

            async def work() -> None:
                self.done += 1

            self.tasks.append(self.duly.task(name=f"work {number}")(work))

    def run(self, jobs: int, *, queues: Sequence[str] = ("default",)) -> None:
        """Run a node until so many jobs have run."""
        with self.duly.running(concurrency=100, queues=queues):
            end = perf_counter() + PATIENCE_SECONDS
            while self.done < jobs:
                if perf_counter() > end:
                    raise RuntimeError(f"{self.done} of {jobs} jobs have run")
                Event().wait(0.01)

    def close(self) -> None:
        self.duly.close()


@contextmanager
def app(url: str, *, tasks: int = 1) -> Iterator[App]:
    made = App(url, tasks=tasks)
    try:
        yield made
    finally:
        made.close()


def plain(url: str, _size: int) -> int:
    with app(url) as one:
        one.duly.enqueue_many(one.tasks[0].bind() for _ in range(JOBS))
        one.run(JOBS)
    return JOBS


def in_queues(url: str, size: int) -> int:
    with app(url) as one:
        queues = [f"queue {number}" for number in range(size)]
        placed = [one.tasks[0].using(queue=queue) for queue in queues]
        one.duly.enqueue_many(placed[number % size].bind() for number in range(JOBS))
        one.run(JOBS, queues=queues)
    return JOBS


def of_tasks(url: str, size: int) -> int:
    with app(url, tasks=size) as one:
        one.duly.enqueue_many(one.tasks[number % size].bind() for number in range(JOBS))
        one.run(JOBS)
    return JOBS


def of_tenants(url: str, size: int) -> int:
    with app(url) as one:
        one.duly.queues.set("default", fair=True)
        asked = [one.tasks[0].using(tenant=f"tenant {number}") for number in range(size)]
        one.duly.enqueue_many(asked[number % size].bind() for number in range(JOBS))
        one.run(JOBS)
    return JOBS


def fires(url: str, _size: int) -> int:
    """Fire the schedules that are due; each pass looks from an hour later."""
    return asyncio.run(_fire(url, next(_hours)))


_hours = count(1)


async def _fire(url: str, hours: int) -> int:
    """Fire what is due so many hours from now; return how many schedules it were."""
    store = connect(url, clock=lambda: now() + timedelta(hours=hours))
    await store.open()
    fired = 0
    while done := (await store.ledger.fire(decide, limit=200, trust=lambda _: True)).schedules:
        fired += done
    await store.close()
    return fired


def one_after_the_other(url: str, _size: int) -> int:
    with app(url) as one:
        one.run(IN_A_ROW)
    return IN_A_ROW


def in_flows(url: str, size: int) -> int:
    """Run flows of so many parts, as many that there are equally many parts in all."""
    duly = Duly(url)

    @duly.task
    async def number(parts: int) -> list[int]:
        return list(range(parts))

    @duly.task
    async def double(item: int) -> int:
        return 2 * item

    @duly.task
    async def total(found: list[int]) -> int:
        return sum(found)

    @duly.flow
    def fan(parts: int) -> Step[int]:
        return total.step(double.map(number.step(parts).result).result)

    with duly.running(concurrency=100):
        for flow in [fan.enqueue(size) for _ in range(JOBS // size)]:
            flow.result("10m")
    duly.close()
    return JOBS


def nothing(_database: "Database", _size: int) -> None:
    """Prepare nothing: the work itself has the size."""


def finished(database: "Database", size: int) -> None:
    with app(database.url) as one:
        one.tasks[0].enqueue()
        one.run(1)
    database.copy("history", size)


def strangers(database: "Database", size: int) -> None:
    """Put jobs of a task that no worker knows in front of the others."""
    with app(database.url) as one:
        stranger = one.duly.task(name="stranger")(_unknown)
        for first in range(0, size, JOBS):
            one.duly.enqueue_many(stranger.bind() for _ in range(min(JOBS, size - first)))


async def _unknown() -> None:
    """Never run."""


def schedules(database: "Database", size: int) -> None:
    due = [_hourly(f"due {number}", "every 1h", "allow") for number in range(FIRES)]

    async def add() -> None:
        store = connect(database.url)
        await store.open()
        await store.schedules.add(due)
        for first in range(0, size, JOBS):
            some = range(first, min(first + JOBS, size))
            await store.schedules.add([_hourly(f"idle {n}", "every 9999h", "allow") for n in some])
        await store.close()

    asyncio.run(add())


def blocked(database: "Database", size: int) -> None:
    """Fire a schedule twice, whose second job waits for the first, and copy the second."""

    async def fire() -> None:
        store = connect(database.url)
        await store.open()
        await store.schedules.add([_hourly("crowded", "every 1h", "queue_all")])
        await store.close()
        for hours in (1, 2):
            await _fire(database.url, hours)

    asyncio.run(fire())
    # The second is due in two hours; its copies are due now.
    database.copy("job", size, where="state = 'blocked'", due_at=to_us(now()))


def _hourly(name: str, rule: str, overlap: Overlap) -> Plan:
    return Plan(name=name, rule=rule, task="work 0", policies=Policies(overlap=overlap))


@dataclass(frozen=True, slots=True)
class Case:
    """Something that grows, in which sizes, and the work whose cost is counted."""

    title: str
    sizes: Sequence[int]
    work: Callable[[str, int], int]  # returns the number of jobs
    prepare: "Callable[[Database, int], None]" = nothing
    large: Sequence[int] = ()  # sizes that take minutes, with --large
    reason: str = ""  # why the cost is probably not flat: supposed, not measured


CASES = {
    "finished": Case(
        "finished jobs", (1_000, 10_000, 100_000, 1_000_000), plain, finished, (10_000_000,)
    ),
    "schedules": Case(
        "schedules besides (cost of a fire)", (10, 1_000, 100_000), fires, schedules, (1_000_000,),
        reason="indexes of the first thousand rows have one level less",
    ),
    "queues": Case(
        "queues with jobs", (1, 10, 100, 500), in_queues,
        reason="10,000 jobs in 500 queues are claimed 20 at a time, not 100",
    ),
    "tasks": Case("tasks with jobs", (1, 10, 100, 300), of_tasks),
    "tenants": Case(
        "tenants in a fair queue", (1, 100, 10_000), of_tenants,
        reason="a claim takes one step of the index for each tenant whose jobs it takes",
    ),
    "strangers": Case(
        "ready jobs of an unknown task in front", (1_000, 20_000, 200_000), plain, strangers
    ),
    "blocked": Case(
        "jobs blocked behind one schedule", (1_000, 10_000, 100_000), one_after_the_other, blocked
    ),
    "parts": Case("parts of a flow", (100, 1_000, 10_000), in_flows),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one size of one case."""

    url: str
    cluster: Cluster | None  # None: SQLite

    def copy(
        self, table: str, size: int, *, where: str = "true", due_at: int | None = None
    ) -> None:
        """Make so many rows of the one that is there, with ids of their own."""
        due = "due_at" if due_at is None else str(due_at)
        ready = "ready_at" if due_at is None else str(due_at)
        if self.cluster:
            self._run(f"""
                insert into duly.{table}
                select copy.*
                  from (select {table} as row from duly.{table} where {where} limit 1) as one,
                       generate_series(1, {size}) as n,
                       jsonb_populate_record(
                           one.row,
                           jsonb_build_object(
                               'id', -n, 'request', -n,
                               'due_at', {due.replace("due_at", "(one.row).due_at")},
                               'ready_at', {ready.replace("ready_at", "(one.row).ready_at")}
                           )
                       ) as copy
            """)  # noqa: S608
        else:
            self._run(f"""
                create temporary table copy as
                with recursive n (n) as (select 1 union all select n + 1 from n limit {size})
                select one.*
                  from n cross join (select * from duly_{table} where {where} limit 1) as one;
                update copy
                   set id = -rowid, request = -rowid, due_at = {due}, ready_at = {ready};
                insert into duly_{table} select * from copy;
                drop table copy;
            """)  # noqa: S608

    def settle(self) -> None:
        """Leave no work of the preparation, or of the last pass, to the next one."""
        if self.cluster:
            self._run("vacuum analyze")
            self._run("checkpoint")

    def cost(self, work: Callable[[str, int], int], size: int) -> "Cost":
        pages, server, client = self.pages(), self.server_seconds(), process_time()
        jobs = work(self.url, size)
        client = process_time() - client
        server = self.server_seconds() - server
        pages = self.pages() - pages
        return Cost((client + server) / jobs * 1e6, pages / jobs)

    def pages(self) -> int:
        """Return the pages touched so far. Connections tell it when they are closed."""
        if not self.cluster:
            return 0
        asked = "select blks_hit + blks_read from pg_stat_database where datname = "
        with psycopg.connect(self.url, autocommit=True) as connection:
            others = "select count(*) from pg_stat_activity where datname = current_database()"
            while connection.execute(others).fetchone() != (1,):
                Event().wait(0.01)
            found = connection.execute(f"{asked}current_database()").fetchone()
            assert found
            return int(found[0])

    def server_seconds(self) -> float:
        """Return the CPU time of all processes of the server, also of those that have ended."""
        if not self.cluster:
            return 0
        file = self.cluster.directory / "data" / "postmaster.pid"
        postmaster = file.read_text().split()[0]
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                facts = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if path.parent.name == postmaster:
                ticks += sum(map(int, facts[11:15]))
            elif facts[1] == postmaster:
                ticks += sum(map(int, facts[11:13]))
        return ticks / TICKS

    def _run(self, script: str) -> None:
        if self.cluster:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(script.encode())
        else:
            sqlite = sqlite3.connect(self.url)
            sqlite.executescript(script)
            sqlite.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one job."""

    cpu: float  # microseconds
    pages: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The costs of a job on one database, by size."""

    case: Case
    database: str
    costs: dict[int, list[Cost]] = field(default_factory=dict)

    def cpu(self) -> list[tuple[float, float]]:
        return [(size, min(one.cpu for one in found)) for size, found in self.costs.items()]

    def pages(self) -> list[tuple[float, float]]:
        return [(size, min(one.pages for one in found)) for size, found in self.costs.items()]

    @property
    def counted(self) -> list[tuple[float, float]]:
        """Pages where they are counted: they do not depend on the machine."""
        return self.pages() if self.pages()[0][1] else self.cpu()

    def verdict(self) -> str:
        first, *rest = (cost for _, cost in self.counted)
        furthest = max(rest, key=lambda cost: abs(cost / first - 1)) / first
        if abs(furthest - 1) <= FLAT:
            return f"flat ({furthest:.2f} ×)"
        if furthest < 1:
            return f"falls ({furthest:.2f} ×)"
        return f"{furthest:.2f} ×{f': probably {self.case.reason}' if self.case.reason else ''}"

    def row(self) -> list[str]:
        sizes = " / ".join(charts.short(size) for size in self.costs)
        cpu = " / ".join(f"{cost:.0f}" for _, cost in self.cpu())
        pages = " / ".join(f"{cost:.1f}" for _, cost in self.pages()) if self.pages()[0][1] else "–"
        return [f"{self.case.title}: {sizes}", self.database, cpu, pages, self.verdict()]


HEAD = ["growing", "database", "CPU of a job, µs", "pages of a job", "cost"]


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks growth", description=__doc__)
    parser.add_argument("--ask", nargs="+", choices=CASES, default=tuple(CASES))
    parser.add_argument("--large", action="store_true", help="10⁷ finished jobs, 10⁶ schedules")
    parser.add_argument("--newest", action="store_true", help="not the oldest PostgreSQL found")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    options = parser.parse_args(words)
    begin = perf_counter()
    curves: list[Curve] = []
    with ExitStack() as stack:
        clusters = stack.enter_context(all_clusters())
        name = list(clusters)[-1 if options.newest else 0]
        for setting in ("autovacuum = off", "full_page_writes = off"):
            _configure(clusters[name], setting)
        places = Places({name: clusters[name].dsn}, count())
        for key in options.ask:
            for database, cluster in ((name, clusters[name]), ("SQLite", None)):
                curve = measure(places, CASES[key], database, cluster, large=options.large)
                curves.append(curve)
                print("  ".join(curve.row()), flush=True)
    if options.page:
        write_page(curves)
    print(f"{perf_counter() - begin:.0f} seconds in all")


def write_page(curves: Sequence[Curve]) -> None:
    table = rows_of([HEAD, *(one.row() for one in curves)], left=2)
    lines: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for one in curves:
        said = f"{one.database}, {'CPU' if one.database == 'SQLite' else 'pages'}"
        lines.setdefault(one.case.title, {})[said] = one.counted
    title = "Cost of a job over its cost at the smallest size"
    charts.write("growth", title, charts.panels(lines))
    # The link is part of what a run writes: no chart is shown that no run has drawn.
    chart = f"![{title}](images/performance-growth.svg)"
    replace_part("growth", f"{measured()}.\n\n{table}\n{chart}\n")


def measure(
    places: Places, case: Case, database: str, cluster: Cluster | None, *, large: bool
) -> Curve:
    sizes = [*case.sizes, *(case.large if large else ())]
    curve = Curve(case, database, {size: [] for size in sizes})
    with ExitStack() as stack:
        made: dict[int, Database] = {}
        for size in sizes:
            place = stack.enter_context(places.fresh(database))
            made[size] = Database(place.url, cluster)
            asyncio.run(migrate_store(place.url))
            case.prepare(made[size], size)
        for _ in range(PASSES):
            for size, one in made.items():
                one.settle()
                curve.costs[size].append(one.cost(case.work, size))
    return curve


def _configure(cluster: Cluster, setting: str) -> None:
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute(f"alter system set {setting}".encode())
        connection.execute("select pg_reload_conf()")
