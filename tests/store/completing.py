"""Blocks of ``current().transaction()`` that write a note and complete their job, on any store."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any, TypeAlias

import psycopg

from duly.clock import now
from duly.model.job import Claimed
from duly.model.outcome import Lost, Succeeded
from duly.model.payload import Json, encode
from duly.policy.retry import NEVER
from duly.policy.verdict import Tried, judge
from duly.store.connect import is_postgres
from duly.store.store import SqlStore
from duly.store.task_transaction import JobCompletion, open_completion
from duly.store.values import ClaimRequest, Settlement
from tests.factories import profile

LEASE = timedelta(seconds=15)
Meanwhile: TypeAlias = Callable[[Any], Awaitable[object]]
Leave: TypeAlias = Callable[..., Awaitable[None]]


async def nothing(_: object) -> None:
    """Happens inside the block."""


async def by_awaiting(
    completion: JobCompletion, number: int = 1, meanwhile: Meanwhile = nothing
) -> None:
    async with completion as tx:
        await tx.execute(f"insert into note values ({number}, '')")
        tx.complete({"number": number})
        await meanwhile(tx)


async def by_blocking(
    completion: JobCompletion, number: int = 1, meanwhile: Meanwhile = nothing
) -> None:
    loop = asyncio.get_running_loop()

    def task() -> None:
        with completion as tx:
            tx.execute(f"insert into note values ({number}, '')")
            tx.complete({"number": number})
            asyncio.run_coroutine_threadsafe(awaited(meanwhile(tx)), loop).result(timeout=20)

    with ThreadPoolExecutor(1) as thread:
        await loop.run_in_executor(thread, task)


async def awaited(what: Awaitable[object]) -> None:
    await what


def completing(url: str, job: Claimed, *, lease: timedelta = LEASE) -> JobCompletion:
    def settlement(result: Json | None) -> Settlement:
        verdict = judge(Tried.of(job), Succeeded(result), now(), dice=0.5)
        return Settlement(job=job, verdict=verdict, outcome="succeeded", result=result)

    return open_completion(url, settlement=settlement, encode=encode, lease=lease)


async def claimed(store: SqlStore) -> Claimed:
    worker = await store.work.register(profile(), lease=LEASE)
    [place] = await store.work.ready(["default"], ["work"])
    request = ClaimRequest(
        worker=worker.id, queue="default", shelf=place.shelf, tasks=["work"], limit=1
    )
    [job] = (await store.work.claim(request)).jobs
    return job


async def given_to_another(store: SqlStore, job: Claimed) -> Claimed:
    """Take the job back and claim it for another worker."""
    await take_back(store, job)
    worker = await store.work.register(profile(isolates=True), lease=LEASE)
    request = ClaimRequest(worker=worker.id, queue="default", tasks=["work"], limit=1, shelf=4)
    [again] = (await store.work.claim(request)).jobs
    return again


async def take_back(store: SqlStore, job: Claimed) -> None:
    await store.work.end_lease(job.worker)
    taken = await store.maintenance.take_back(
        lambda lost, moment: judge(Tried.of(lost, NEVER), Lost(lost.worker), moment, dice=0.5),
        after=0, margin=timedelta(0), limit=10,
    )  # fmt: skip
    assert taken.lost == 1


async def state(store: SqlStore, job: Claimed) -> str:
    return str((await store.jobs.get(job.id)).state)


def notes_in(url: str) -> list[int]:
    """What is there, asked over a connection of our own."""
    with closing(psycopg.connect(url) if is_postgres(url) else sqlite3.connect(url)) as connection:
        return [number for (number,) in connection.execute("select id from note order by id")]
