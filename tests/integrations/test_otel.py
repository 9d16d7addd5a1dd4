"""A span where a job is enqueued, one where it runs, and a link between them: across processes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from duly import Duly
from duly.model.terms import Terms
from duly.otel import instrument
from duly.testing import Sandbox
from tests.infrastructure.tables import with_tables

PROGRAM = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from duly import Duly
from duly.model.terms import Terms
from duly.otel import instrument

provider = TracerProvider()
said = open("spans.jsonl", "a")
exporter = ConsoleSpanExporter(out=said, formatter=lambda span: span.to_json(indent=None) + "\\n")
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

duly = Duly("duly.db")
instrument(duly)

@duly.task
async def on_the_loop() -> None: ...

@duly.task
def in_a_thread() -> None: ...

@duly.task(executor="process")
def in_a_child() -> None: ...
"""


class Observed:
    """The spans and metrics of this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        spans, meters = TracerProvider(), MeterProvider([self._reader])
        spans.add_span_processor(SimpleSpanProcessor(self._exporter))
        # The global provider can be set once in a process only.
        monkeypatch.setattr("opentelemetry.trace.get_tracer", spans.get_tracer)
        monkeypatch.setattr("opentelemetry.metrics.get_meter", meters.get_meter)

    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def metrics(self) -> dict[str, list[Any]]:
        found = self._reader.get_metrics_data()
        assert found is not None
        [resource] = found.resource_metrics
        [scope] = resource.scope_metrics
        return {one.name: list(one.data.data_points) for one in scope.metrics}


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Observed:
    return Observed(monkeypatch)


def test_a_job_is_linked_to_the_span_that_enqueued_it(tmp_path: Path, observed: Observed) -> None:
    with_tables(tmp_path / "duly.db")
    (tmp_path / "tasks.py").write_text(PROGRAM)
    duly = Duly(str(tmp_path / "duly.db"))
    instrument(duly)

    @duly.task
    async def on_the_loop() -> None: ...

    @duly.task
    def in_a_thread() -> None: ...

    @duly.task(executor="process")
    def in_a_child() -> None: ...

    tasks = [on_the_loop, in_a_thread, in_a_child]
    numbers = {task.enqueue().id: task.name for task in tasks}
    duly.close()
    command = [sys.executable, "-m", "duly", "worker", "tasks.py", "--max-jobs", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          check=False, env={**os.environ, "PYTHONWARNINGS": "default"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    sent = {span.attributes["duly.task"]: span for span in observed.spans() if span.attributes}
    ran = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert len(ran) == 3
    for span in ran:
        about = span["attributes"]
        assert numbers[int(about["messaging.message.id"])] == about["duly.task"]
        assert (span["kind"], span["parent_id"]) == ("SpanKind.CONSUMER", None)
        [link] = span["links"]
        producer = sent[about["duly.task"]].context
        assert int(link["context"]["trace_id"], 16) == producer.trace_id
        assert int(link["context"]["span_id"], 16) == producer.span_id


def test_spans_and_metrics_have_the_names_of_the_conventions(observed: Observed) -> None:
    duly = Duly()

    @duly.task(queue="mail", retry=None)
    async def send(to: str, password: str) -> None:
        raise ValueError(f"{to} refused {password}")

    instrument(duly)
    with Sandbox(duly) as box:
        duly.enqueue_many([send.bind("ada", password="s3cret-value") for _ in range(2)])
        box.run()
    enqueued, *ran = observed.spans()
    assert (enqueued.name, enqueued.kind) == ("enqueue mail", SpanKind.PRODUCER)
    assert dict(enqueued.attributes or {}) == {
        "messaging.system": "duly",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "mail",
        "messaging.batch.message_count": 2,
        "duly.task": "send",
    }
    assert [(span.name, span.kind) for span in ran] == [("process mail", SpanKind.CONSUMER)] * 2
    [exception] = ran[0].events
    assert ran[0].status.status_code is StatusCode.ERROR
    assert "ada refused" in str(exception.attributes)
    assert "s3cret-value" not in str(exception.attributes) + str(ran[0].status.description)
    found = observed.metrics()
    [count] = found["messaging.client.sent.messages"]
    [duration] = found["messaging.process.duration"]
    assert count.value == 2
    assert (duration.count, duration.attributes["error.type"]) == (2, "ValueError")


def test_a_job_of_a_schedule_has_no_link(observed: Observed) -> None:
    duly = Duly()
    instrument(duly)

    @duly.schedule("every 1h")
    @duly.task
    async def tick() -> None: ...

    with Sandbox(duly) as box:
        box.travel("61m")
        box.run()
    [span] = observed.spans()
    assert (len(span.links), (span.attributes or {})["duly.schedule"]) == (0, "tick")


def test_a_trace_is_kept_and_is_no_term_of_the_job() -> None:
    traced = Terms(trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert Terms.from_json(traced.as_json()) == traced
    assert not traced.are_own  # so that the timeout of the task counts
    assert replace(traced, timeout=timedelta(seconds=1)).are_own


def test_nothing_is_imported_without_it() -> None:
    program = (
        "import sys, duly.cli.main, duly.app.duly, duly.runtime.node;"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'sentry_sdk'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
