"""How long a page of jobs takes among a million that have ended, on PostgreSQL.

Each figure stands beside that of the same question among a thousandth of them: a page looks at so
many jobs and no more, so that it should not matter how many there are.
"""

import asyncio
from time import perf_counter

import psycopg
from starlette.testclient import TestClient

from benchmarks.schedules import store_url
from duly import Duly, User
from duly.app import migrate_store, open_store
from duly.clock import now
from duly.instants import to_us
from duly.model.job_filter import parse_filter
from duly.store.store import Store

MANY, FEW = 1_000_000, 1_000
DAYS = 14
ROUNDS = 100
QUESTIONS = (
    "",
    "task:nothing",
    "task:nothing*",
    "state:failed",
    "error~nothing",
    "state:failed error~nothing",
    "schedule:often",
    "schedule:often task:nothing",
    "tag:nothing",
    "nothing",
    "before:7d task:nothing",
)
PAGES = (
    "/",
    "/schedules",
    "/schedules/often",
    "/schedules/timeline",
    "/jobs",
    "/jobs?filter=task:nothing",
    "/jobs?filter=error~nothing",
    "/jobs?filter=state:failed&group=error",
    "/capacity",
    "/api/v1/jobs",
)
PAGE_ROUNDS = 30
A_DAY = 86_400_000_000
COLUMNS = (
    "id, task, args, queue, priority, tenant, submitter, title, tags, owner, version, state, "
    "created_at, due_at, ready_at, late, attempt, crashes, fence, schedule_id, reason, ended_at, "
    "error, request"
)
A_JOB = """
select n, 'task ' || n % 50, '{{"customer": ' || n || '}}', 'queue ' || n % 5, 0,
       'tenant ' || n % 40, 'ada', 'The title of ' || n, '["nightly"]', 'api', 1, '{state}',
       at, at, at, 'skip', 1, 0, 1, case when n % 20 = 0 then 1 end,
       'attempt 1 of 1 raised TimeoutError: after ' || n || ' s', at, {error}, n
  from (select {first} + n as n, {now} - ({count} - n) * {step}::bigint as at
          from generate_series(1, {count}) as n) as job
"""
TRACEBACK = """repeat('  File "/srv/app.py", line 7, in send' || md5(n::text) || e'\\n', 40)"""


def main() -> None:
    for count in (FEW, MANY):
        with store_url("postgres") as url:
            asyncio.run(measured(url, count))
            look(url, count)


def look(url: str, count: int) -> None:
    """The same as pages: how long the server takes for each, all of it."""
    app = Duly(url)
    with TestClient(app.asgi(auth=lambda _: User("bench"))) as client:
        for path in PAGES:
            client.get(path)
            took: list[float] = []
            for _ in range(PAGE_ROUNDS):
                begin = perf_counter()
                assert client.get(path).status_code == 200
                took.append(perf_counter() - begin)
            tell(count, path, took)
    app.close()


async def measured(url: str, count: int) -> None:
    await migrate_store(url)
    load(url, count)
    store = await open_store(url)
    deep = f"e.{to_us(now()) - (DAYS - 4) * A_DAY}.0"
    for question in QUESTIONS:
        await ask(store, count, question, after=None)
    for question in ("", "task:nothing"):
        await ask(store, count, question, after=deep)
    await store.close()


def load(url: str, count: int) -> None:
    """So many that have succeeded, and a twentieth of them that have failed, in two weeks."""
    with psycopg.connect(url, autocommit=True) as connection:
        instant = to_us(now())
        for day in range(DAYS + 1):
            connection.execute(b"select duly.make_day('history', %s)", [instant - day * A_DAY])
        connection.execute(
            b"insert into duly.schedule (id, name, task, args, rule, policies, queue, priority, "
            b"tenant, submitter, title, tags, owner, version, created_at, cursor, revision, "
            b"zone_data) values (1, 'often', 'work', '{}', 'every 1h', '{}', 'default', 0, '', '', "
            b"'', '[]', 'api', 1, 0, 0, 0, '')"
        )
        for table, state, error, share in (
            ("history", "succeeded", "null", 1),
            ("failed", "failed", TRACEBACK, 20),
        ):
            rows = A_JOB.format(
                state=state, error=error, first=(share - 1) * MANY, now=instant,
                count=count // share, step=DAYS * A_DAY * share // count,
            )  # fmt: skip
            connection.execute(f"insert into duly.{table} ({COLUMNS}) {rows}".encode())
        connection.execute(b"vacuum analyze")


async def ask(store: Store, count: int, question: str, *, after: str | None) -> None:
    wanted = parse_filter(question)
    page = await store.jobs.find(wanted, after=after, limit=50)
    took = []
    for _ in range(ROUNDS):
        begin = perf_counter()
        await store.jobs.find(wanted, after=after, limit=50)
        took.append(perf_counter() - begin)
    where = f"{question or 'everything'}{', deep behind' if after else ''}"
    tell(count, f"{where:35} {len(page.jobs):3} found", took)


def tell(count: int, what: str, took: list[float]) -> None:
    p50, p95 = ranked(took, 0.5), ranked(took, 0.95)
    print(f"{count:9,} ended, {what:45} p50 {p50:5.1f} ms, p95 {p95:5.1f} ms")


def ranked(took: list[float], rank: float) -> float:
    return sorted(took)[int(rank * (len(took) - 1))] * 1_000
