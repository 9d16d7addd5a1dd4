"""RabbitMQ and NATS JetStream, each with its real server, which is killed, and so is the worker."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any, NamedTuple

import nats
import pytest
from aio_pika import connect

from duly.app import Duly, Job, allow_builtin
from duly.instants import to_us
from duly.model.outcome import MessageId
from duly.settings.tables import TargetSettings
from duly.targets import configured
from duly.targets.reporting import OutcomeReporter
from tests.targets.servers import (
    NatsServer,
    RabbitServer,
    eventually,
    process,
    slowly,
    started,
)

# The worker dies when the broker has confirmed the first message, and before the job is marked.
CRASHING = """
import os, pathlib
from duly import Duly
from duly.targets.configured import ConnectedTarget

duly = Duly()
send = ConnectedTarget.send

async def crash_once(self, message):
    await send(self, message)
    with pathlib.Path("sent").open("a") as sent:
        print(message.id, file=sent)
    if len(pathlib.Path("sent").read_text().splitlines()) == 1:
        os.kill(os.getpid(), 9)

ConnectedTarget.send = crash_once
"""
TOML = """
app = "crashing.py"
allow = ["send"]
lease = "3s"
web = false

[targets.there]
kind = "{kind}"
url = "{url}"
outcome = "report"
"""

pytestmark = [slowly, pytest.mark.thorough("RabbitMQ takes seconds to start")]


class Received(NamedTuple):
    id: str
    body: dict[str, Any]
    header: object


class Rabbit(RabbitServer):
    """Has the durable queue ``orders``."""

    kind = "rabbitmq"
    options = {"headers": {"for": "ada"}}  # noqa: RUF012

    async def prepare(self) -> None:
        async with await connect(self.url) as connection:
            await (await connection.channel()).declare_queue("orders", durable=True)

    async def receive(self) -> list[Received]:
        async with await connect(self.url) as connection:
            queue = await (await connection.channel()).get_queue("orders")
            found = []
            while (one := await queue.get(fail=False)) is not None:
                await one.ack()
                found.append(
                    Received(str(one.message_id), json.loads(one.body), one.headers.get("for"))
                )
        return found


class Nats(NatsServer):
    """Has the stream ``orders`` on disk, which drops a message that it has already."""

    kind = "nats"
    options = {"for": "ada"}  # noqa: RUF012

    async def prepare(self) -> None:
        async with await nats.connect(self.url) as client:
            await client.jetstream().add_stream(name="orders", subjects=["orders"])

    async def receive(self) -> list[Received]:
        async with await nats.connect(self.url) as client:
            stream = client.jetstream()
            reader = await stream.pull_subscribe("orders", durable="reader", stream="orders")
            found = []
            for _ in range((await stream.stream_info("orders")).state.messages):
                try:
                    [one] = await reader.fetch(1, timeout=1)
                except nats.errors.TimeoutError:
                    break
                await one.ack_sync()
                headers = one.headers or {}
                found.append(
                    Received(headers["Nats-Msg-Id"], json.loads(one.data), headers.get("for"))
                )
        return found


@pytest.fixture(scope="module", params=[Rabbit, Nats], ids=["rabbitmq", "nats"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rabbit | Nats]:
    with started(request.param(tmp_path_factory.mktemp("broker"))) as found:
        asyncio.run(found.prepare())
        yield found


@pytest.fixture
def duly(tmp_path: Path) -> Iterator[Duly]:
    app = Duly(str(tmp_path / "duly.db"), name="test")
    yield app
    app.close()


def message_id(job: Job[Any]) -> str:
    return str(MessageId.of(job.id, 1, to_us(job.created_at), job.stored.args))


def is_silent(job: Job[Any]) -> bool:
    return "no answer within 2 seconds" in job.refresh().reason


def test_messages_are_confirmed_and_nothing_is_lost_while_the_broker_is_down(
    duly: Duly, broker: Rabbit | Nats
) -> None:
    there = TargetSettings(name="there", kind=broker.kind, url=broker.url, reports=False)
    allow_builtin(duly.registry, ["send"], targets=[there])
    orders = duly.external("orders", target="there", options=broker.options)
    nowhere = duly.external("nowhere", target="there").using(retry=None)
    with duly.running():
        first = orders.enqueue(7, to="ada")
        first.result(timeout="90s")
        broker.kill()
        late = orders.enqueue(8)
        eventually(lambda: "cannot be reached" in late.refresh().reason, "the broker is down")
        assert late.state == "scheduled"
        broker.start()
        late.result(timeout="90s")
        refused = nowhere.enqueue()
        eventually(lambda: refused.refresh().state == "failed", "nobody takes the message")
        assert "takes" in (refused.error or "")
        assert late.attempts == ()
    assert asyncio.run(broker.receive()) == [
        Received(message_id(first), {"args": [7], "kwargs": {"to": "ada"}}, "ada"),
        Received(message_id(late), {"args": [8], "kwargs": {}}, "ada"),
    ]


def test_a_broker_that_does_not_answer_is_like_one_that_is_down(
    duly: Duly, broker: Rabbit | Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configured, "PATIENCE_SECONDS", 2.0)
    there = TargetSettings(name="there", kind=broker.kind, url=broker.url, reports=False)
    allow_builtin(duly.registry, ["send"], targets=[there])
    with duly.running():
        broker.signal(SIGSTOP)
        jobs = [duly.external("orders", target="there").enqueue(number) for number in range(3)]
        for job in jobs:
            eventually(partial(is_silent, job), "the broker does not answer")
        broker.signal(SIGCONT)
        for job in jobs:
            job.result(timeout="90s")
    assert {one.id for one in asyncio.run(broker.receive())} == {message_id(job) for job in jobs}


def test_a_worker_that_is_killed_between_confirm_and_mark_sends_again_under_the_same_id(
    duly: Duly, broker: Rabbit | Nats, tmp_path: Path
) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    (tmp_path / "duly.toml").write_text(TOML.format(kind=broker.kind, url=broker.url))
    job = duly.external("orders", target="there").enqueue(9)
    sent = tmp_path / "sent"
    sent.touch()
    up = ("-m", "duly", "up")
    environ = {"DULY_URL": duly.url}
    with process(*up, folder=tmp_path, environ=environ):
        eventually(sent.read_text, "the first worker has sent")
    assert job.refresh().state == "running"
    assert job.reason == "", "it is not marked"
    with process(*up, folder=tmp_path, environ=environ):
        eventually(lambda: "no outcome yet" in job.refresh().reason, "the second has sent")
    assert sent.read_text().splitlines() == [message_id(job)] * 2
    received = asyncio.run(broker.receive())
    # JetStream has dropped the second itself.
    assert [one.id for one in received] == [message_id(job)] * (1 if broker.kind == "nats" else 2)
    for number, one in enumerate(received):
        OutcomeReporter(duly).succeeded(one.id, number)
    assert job.result(timeout="90s") == 0, "the outcome of the second copy does not count"
    assert [attempt.outcome for attempt in job.refresh().attempts] == ["lost"]
