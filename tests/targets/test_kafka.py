"""Kafka: the client speaks to the cluster that librdkafka simulates, in a process that is killed.

No broker comes with the set-up. ``DULY_TEST_KAFKA=host:port`` names a real one to try as well.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from duly.app import Duly, Job, allow_builtin
from duly.settings.tables import TargetSettings
from duly.targets import kafka
from duly.targets.kafka import ID_HEADER
from tests.targets.servers import Server, eventually, process, slowly, started
from tests.targets.test_brokers import CRASHING, TOML, message_id

SIMULATED = """
import pathlib, signal
from confluent_kafka import Producer

cluster = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
[broker] = cluster.list_topics(timeout=60).brokers.values()
pathlib.Path("address").write_text(f"{broker.host}:{broker.port}")
signal.pause()
"""
pytestmark = [slowly, pytest.mark.thorough("a broker takes seconds to start")]


class SimulatedKafka(Server):
    """Has its messages in memory, and another port after each start."""

    def command(self) -> list[str]:
        (self.folder / "address").unlink(missing_ok=True)
        return [sys.executable, "-c", SIMULATED]

    def answers(self) -> bool:
        address = self.folder / "address"
        self.url = address.read_text() if address.exists() else ""
        return bool(self.url)


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedKafka]:
    with started(SimulatedKafka(tmp_path_factory.mktemp("kafka"))) as found:
        yield found


@pytest.fixture
def duly(tmp_path: Path) -> Iterator[Duly]:
    app = Duly(str(tmp_path / "duly.db"), name="test")
    yield app
    app.close()


def received(url: str, topic: str, count: int) -> list[tuple[str, Any, dict[str, str]]]:
    """Return the key, body and headers of the first messages of a topic."""
    reader = Consumer({"bootstrap.servers": url, "group.id": "test", "log_level": 0})
    found: list[tuple[str, Any, dict[str, str]]] = []

    def read() -> bool:
        one: Any = reader.poll(0.5)  # the types of a message are wider than what is in this one
        if one is not None and not one.error():
            headers = {name: value.decode() for name, value in one.headers() or []}
            found.append((one.key().decode(), json.loads(one.value()), headers))
        return len(found) >= count

    try:
        partitions = reader.list_topics(topic, timeout=60).topics[topic].partitions
        reader.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions])
        eventually(read, f"{count} messages in {topic}")
    finally:
        reader.close()
    return found


def allow(duly: Duly, url: str) -> None:
    there = TargetSettings(name="there", kind="kafka", url=url, reports=False)
    allow_builtin(duly.registry, ["send"], targets=[there])


def expected(job: Job[Any], *args: object, **headers: str) -> tuple[str, Any, dict[str, str]]:
    said = {"args": list(args), "kwargs": {}}
    return str(job.id), said, {**headers, ID_HEADER: message_id(job)}


def test_a_message_is_confirmed_with_its_key_and_id_and_waits_while_the_broker_is_down(
    duly: Duly, broker: SimulatedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", broker.url)
    allow(duly, "kafka://${KAFKA}?client.id=shop")
    orders = duly.external("orders", target="there", options={"for": "ada"})
    with duly.running():
        first = orders.enqueue(7)
        first.result(timeout="90s")
        assert received(broker.url, "orders", 1) == [expected(first, 7, **{"for": "ada"})]
        broker.kill()
        late = orders.enqueue(8)
        eventually(lambda: "cannot be reached" in late.refresh().reason, "the broker is down")
        assert (late.state, late.attempts) == ("scheduled", ())
        broker.start()
        monkeypatch.setenv("KAFKA", broker.url)
        late.result(timeout="90s")
    assert received(broker.url, "orders", 1) == [expected(late, 8, **{"for": "ada"})]


def test_a_broker_that_does_not_answer_is_like_one_that_is_down(
    duly: Duly, broker: SimulatedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(duly, broker.url)
    with monkeypatch.context() as patch, duly.running():
        patch.setattr(kafka, "PATIENCE_SECONDS", 2.0)
        broker.signal(SIGSTOP)
        job = duly.external("orders", target="there").enqueue(1)
        eventually(lambda: "cannot be reached" in job.refresh().reason, "it does not answer")
        patch.undo()
        broker.signal(SIGCONT)
        job.result(timeout="90s")
    assert expected(job, 1) in received(broker.url, "orders", 1)


def test_a_message_that_is_refused_is_a_failed_attempt(duly: Duly, broker: SimulatedKafka) -> None:
    allow(duly, f"{broker.url}?message.max.bytes=2000")
    with duly.running():
        large = duly.external("orders", target="there").using(retry=None).enqueue("x" * 5000)
        eventually(lambda: large.refresh().state == "failed", "the message is refused")
    assert "Kafka refuses the message" in (large.error or "")


def test_a_worker_that_is_killed_between_confirm_and_mark_sends_again_under_the_same_id(
    duly: Duly, broker: SimulatedKafka, tmp_path: Path
) -> None:
    crashing = CRASHING.replace("targets.configured", "targets.kafka")
    (tmp_path / "crashing.py").write_text(crashing.replace("ConnectedTarget", "KafkaTarget"))
    (tmp_path / "duly.toml").write_text(TOML.format(kind="kafka", url=broker.url))
    (tmp_path / "sent").touch()
    job = duly.external("orders", target="there").enqueue(9)
    environ = {"DULY_URL": duly.url}
    with process("-m", "duly", "up", folder=tmp_path, environ=environ):
        eventually((tmp_path / "sent").read_text, "the first worker has sent")
    assert (job.refresh().state, job.reason) == ("running", ""), "it is not marked"
    with process("-m", "duly", "up", folder=tmp_path, environ=environ):
        eventually(lambda: "no outcome yet" in job.refresh().reason, "the second has sent")
    assert received(broker.url, "orders", 2) == [expected(job, 9)] * 2


def test_a_real_broker_has_the_message_when_the_job_has_succeeded(duly: Duly) -> None:
    url, topic = os.environ.get("DULY_TEST_KAFKA"), f"duly-test-{uuid4()}"
    if url is None:
        pytest.skip("no Kafka broker comes with the set-up: DULY_TEST_KAFKA=host:port names one")
    allow(duly, url)
    with duly.running():
        job = duly.external(topic, target="there").enqueue(1)
        job.result(timeout="90s")
    assert received(url, topic, 1) == [expected(job, 1)]
