"""FastAPI: jobs in the session of the request, and a lifespan with or without a worker."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from duly import Duly, StoreUnavailable
from duly.fastapi import AsyncEnqueue, SyncEnqueue, aenqueue_in, enqueue_in


@pytest.fixture
def app(url: str) -> Iterator[Duly]:
    found = Duly(url)
    yield found
    found.close()


def test_a_job_follows_the_session_of_its_request(app: Duly, url: str) -> None:
    sync_engine, async_engine = (
        create_engine(f"sqlite:///{url}"),
        create_async_engine(f"sqlite+aiosqlite:///{url}"),
    )

    @app.task
    def send(number: int) -> int:
        return number

    def get_session() -> Iterator[Session]:
        with Session(sync_engine) as session, session.begin():
            yield session

    async def get_async_session() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(async_engine) as session, session.begin():
            yield session

    blocking = Annotated[Session, Depends(get_session, scope="function")]
    awaited = Annotated[AsyncSession, Depends(get_async_session, scope="function")]
    site = FastAPI(lifespan=lambda _: app.lifespan(_, worker=False, scheduler=False))

    @site.post("/blocking/{number}")
    def buy(
        number: int,
        session: blocking,
        enqueue: Annotated[SyncEnqueue, Depends(enqueue_in(blocking))],
    ) -> int:
        job = enqueue(send, number)
        assert session.in_transaction()
        if not number:
            raise HTTPException(409)
        return job.id

    @site.post("/awaited/{number}")
    async def buy_awaited(
        number: int,
        session: awaited,
        enqueue: Annotated[AsyncEnqueue, Depends(aenqueue_in(awaited))],
    ) -> int:
        job = await enqueue(send.using(run_after="1h"), number)
        assert session.in_transaction()
        if not number:
            raise HTTPException(409)
        return job.id

    with TestClient(site) as client:
        for kind in ("blocking", "awaited"):
            assert client.post(f"/{kind}/0").status_code == 409
        assert app.jobs.list() == []
        numbers = [client.post(f"/{kind}/7").json() for kind in ("blocking", "awaited")]
    states = {job.id: job.state for job in app.jobs.list()}
    assert states == dict(zip(numbers, ("ready", "scheduled"), strict=True))
    sync_engine.dispose()


async def test_a_lifespan_without_worker_and_scheduler_only_opens_the_database(app: Duly) -> None:
    @app.task
    async def send() -> str:
        return "sent"

    async with app.lifespan(None, worker=False, scheduler=False):
        job = await send.aenqueue()
        assert await app.workers.alist() == []
    async with app.lifespan(None, scheduler=False, queues=["default"]):
        assert await (await app.jobs.aget(job.id)).aresult("15s") == "sent"


async def test_a_database_that_cannot_be_opened_is_reported_at_the_start(tmp_path: Path) -> None:
    app = Duly(f"postgresql:///shop?host={tmp_path}")
    with pytest.raises(StoreUnavailable):
        async with app.lifespan(None, worker=False, scheduler=False):
            pytest.fail("it has started")
