"""RQ, Dramatiq, Redis streams and webhooks, each with the real server or worker."""

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

import pytest
from redis import Redis

from duly.app import Duly, Job, allow_builtin
from duly.clock import sleep
from duly.instants import to_us
from duly.model.outcome import MessageId
from duly.settings.tables import TargetSettings
from duly.targets.reporting import OutcomeReporter
from tests.builtin.server import SILENCE, answered, serving
from tests.infrastructure.web import site
from tests.targets.servers import RedisServer, eventually, process, slowly, started

WORK = """
import os

def add(a, b):
    return a + b

def fail():
    raise ValueError("no luck")

if "dramatiq" in os.environ["KIND"]:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.middleware import Retries
    from duly import Duly
    from duly.targets.dramatiq import ReportOutcomes

    broker = RedisBroker(url=os.environ["BROKER"])
    broker.add_middleware(ReportOutcomes(Duly()), before=Retries)
    dramatiq.set_broker(broker)
    add = dramatiq.actor(add, actor_name="work.add")
    fail = dramatiq.actor(fail, actor_name="work.fail", max_retries=1, min_backoff=10)
"""
WORKERS = {
    "rq": ("-m", "rq.cli", "worker", "default", "--url"),
    "dramatiq": ("-m", "dramatiq", "work", "-p", "1", "-t", "1"),
}

pytestmark = [slowly, pytest.mark.thorough("servers and workers of others take seconds to start")]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with started(RedisServer(tmp_path_factory.mktemp("redis"))) as found:
        yield found


@pytest.fixture
def duly(tmp_path: Path) -> Iterator[Duly]:
    app = Duly(str(tmp_path / "duly.db"), name="test")
    yield app
    app.close()


def allow(duly: Duly, **target: Any) -> None:
    allow_builtin(
        duly.registry,
        ["send"],
        networks=["127.0.0.0/8"],
        targets=[TargetSettings(name="there", **target)],
    )


def message_id(job: Job[Any]) -> str:
    """The id of the first try's message."""
    return str(MessageId.of(job.id, 1, to_us(job.created_at), job.stored.args))


@pytest.mark.parametrize("kind", ["rq", "dramatiq"])
def test_a_worker_of_others_runs_jobs_and_reports(
    kind: str, duly: Duly, redis: RedisServer, tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(WORK)
    allow(duly, kind=kind, url=redis.url)
    add, fail = (duly.external(f"work.{name}", target="there") for name in ("add", "fail"))
    environ = {"KIND": kind, "BROKER": redis.url, "DULY_URL": duly.url}
    words = (*WORKERS[kind], *([redis.url] if kind == "rq" else []))
    with duly.running(), process(*words, folder=tmp_path, environ=environ):
        good, bad = add.enqueue(2, 3), fail.using(retry=None).enqueue()
        assert good.result(timeout="90s") == 5
        eventually(lambda: bad.refresh().state == "failed", "its failure is reported")
        assert bad.error == "ValueError: no luck"
        assert len(bad.attempts) == 1


def test_a_redis_stream_has_the_message_under_the_id_of_the_job(
    duly: Duly, redis: RedisServer
) -> None:
    allow(duly, kind="redis", url=redis.url, reports=False)
    with duly.running():
        job = duly.external("orders", target="there", options={"maxlen": 100}).enqueue(7, to="ada")
        job.result(timeout="90s")
    found: Any = Redis.from_url(redis.url, decode_responses=True).xrange("orders")
    [(_, entry)] = found
    assert entry == {"id": message_id(job), "args": "[7]", "kwargs": '{"to": "ada"}'}


async def test_a_webhook_gets_the_work_and_reports_over_http(duly: Duly) -> None:
    async with serving() as server:
        server.answers["/hook"] = answered(202)
        allow(duly, kind="webhook", url=server.url("/hook"))
        send = duly.external("orders.new", target="there")
        async with duly.running():
            job = await send.aenqueue(7, to="ada")
            while "no outcome yet" not in (await job.arefresh()).reason:
                await sleep(0.02)
            [request] = server.asked
            said = json.loads(request.body)
            answer = await duly.jobs.areport(said["job"], result={"ok": True}, message=said["id"])
            assert answer.counted
            assert await job.aresult(timeout="90s") == {"ok": True}
    assert said == {
        "id": message_id(job),
        "job": job.id,
        "attempt": 1,
        "task": "orders.new",
        "args": [7],
        "kwargs": {"to": "ada"},
    }
    assert request.headers["idempotency-key"] == said["id"]


@pytest.mark.parametrize("kind", ["rq", "dramatiq", "redis"])
def test_nothing_is_lost_while_redis_is_down_or_does_not_answer(
    kind: str, duly: Duly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"duly.targets.{'redis_stream' if kind == 'redis' else kind}")
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 1.0)
    with started(RedisServer(tmp_path)) as redis:
        allow(duly, kind=kind, url=redis.url, reports=False)
        orders = duly.external("orders", target="there")
        with duly.running():
            orders.enqueue(1).result(timeout="90s")
            redis.signal(SIGSTOP)
            slow = orders.enqueue(2)
            eventually(lambda: "cannot be reached" in slow.refresh().reason, "it does not answer")
            redis.signal(SIGCONT)
            slow.result(timeout="90s")
            redis.kill()
            late = orders.enqueue(3)
            eventually(lambda: "cannot be reached" in late.refresh().reason, "Redis is down")
            assert late.state == "scheduled"
            redis.start()
            late.result(timeout="90s")
        assert (slow.attempts, late.attempts) == ((), ())


@pytest.mark.parametrize(
    "answer", [SILENCE, b"HTTP/1.1 202 Accepted\r\nContent-Le", b"ready\r\n\r\n"]
)
async def test_nothing_is_lost_while_a_webhook_does_not_confirm(
    answer: bytes, duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.targets.webhook.PATIENCE_SECONDS", 0.5)
    async with serving() as server:
        server.answers["/hook"] = answer
        allow(duly, kind="webhook", url=server.url("/hook"), reports=False)
        async with duly.running():
            job = await duly.external("orders", target="there").aenqueue()
            while "cannot be reached" not in (await job.arefresh()).reason:
                await sleep(0.02)
            assert job.state == "scheduled"
            server.answers["/hook"] = answered(202)
            await job.aresult(timeout="90s")
        assert (await job.arefresh()).attempts == ()
    assert len({request.headers["idempotency-key"] for request in server.asked}) == 1


async def test_a_webhook_that_refuses_the_work_is_a_failed_attempt(duly: Duly) -> None:
    async with serving() as server:
        server.answers["/hook"] = answered(503)
        allow(duly, kind="webhook", url=server.url("/hook"), reports=False)
        async with duly.running():
            job = await duly.external("orders", target="there").using(retry=None).aenqueue()
            while (await job.arefresh()).state != "failed":
                await sleep(0.02)
    assert "answered 503" in (job.error or "")


async def test_no_outcome_in_time_is_seen_by_people(duly: Duly) -> None:
    async with serving() as server:
        server.answers["/hook"] = answered(202)
        within = timedelta(seconds=1)
        allow(duly, kind="webhook", url=server.url("/hook"), outcome_within=within)
        async with duly.running():
            job = await duly.external("orders", target="there").using(retry=None).aenqueue()
            while (await job.arefresh()).state != "failed":
                await sleep(0.02)
    silent = "there (webhook): no outcome within 1s"
    assert job.error == silent
    assert silent in await duly.jobs.awhy(job.id)

    def page() -> str:
        with site(duly) as found:
            headers = found.bearer("ada", "operator")
            return str(found.client.get(f"/jobs/{job.id}", headers=headers).text)

    assert silent in await asyncio.to_thread(page)


async def test_two_databases_do_not_mix_up_the_outcomes_of_their_jobs(
    duly: Duly, tmp_path: Path
) -> None:
    """The workers of a Celery app that both use tell both of them about every message."""
    other = Duly(str(tmp_path / "other.db"), name="other")
    async with serving() as server:
        server.answers["/hook"] = answered(202)
        jobs = []
        for app in (duly, other):
            allow(app, kind="webhook", url=server.url("/hook"))
            jobs.append(await app.external("orders", target="there").aenqueue())
            async with app.running():
                while "no outcome yet" not in (await jobs[-1].arefresh()).reason:
                    await sleep(0.02)
        messages = [json.loads(request.body)["id"] for request in server.asked]
    assert jobs[0].id == jobs[1].id, "otherwise there is nothing to mix up"
    for app in (duly, other):
        reporter = OutcomeReporter(app)
        await asyncio.to_thread(reporter.succeeded, messages[1], "other")
        await asyncio.to_thread(reporter.succeeded, messages[0], "ours")
    assert [await job.aresult(timeout="90s") for job in jobs] == ["ours", "other"]
    await other.aclose()


async def test_the_queue_of_a_job_chooses_its_target(duly: Duly) -> None:
    """Enqueued in Python and over HTTP; the job that asks to drop the work finds it, too."""
    async with serving() as server:
        server.answers["/hook"] = answered(202)
        allow(duly, kind="webhook", url=server.url("/hook"), for_queues=("mail",))
        orders = duly.external("orders").using(queue="mail", retry=None)
        mine, lost = await orders.aenqueue(7), await orders.using(queue="default").aenqueue()

        def asked() -> int:
            body = {"task": "duly.send", "args": {"task": "orders"}, "queue": "mail"}
            with site(duly) as found:
                headers = found.bearer("ada", "operator")
                return int(
                    found.client.post("/api/v1/jobs", json=body, headers=headers).json()["id"]
                )

        theirs = await duly.jobs.aget(await asyncio.to_thread(asked))
        async with duly.running(queues=["mail", "default"]):
            for job in (mine, theirs):
                while "handed to there (webhook)" not in (await job.arefresh()).reason:
                    await sleep(0.02)
            while (await lost.arefresh()).state != "failed":
                await sleep(0.02)
            await mine.acancel()
            while not (dropping := await duly.jobs.alist("task:duly.revoke state:succeeded")):
                await sleep(0.02)
    assert lost.error == (
        "it names no target, and no target of the worker has "
        'for_queues = ["default"]; there are: there'
    )
    assert await dropping[0].aresult() == "there (webhook) cannot drop a message"
