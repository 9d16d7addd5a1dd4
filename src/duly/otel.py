"""OpenTelemetry: spans and metrics of jobs, by the semantic conventions for messaging.

``instrument(duly)`` is all. The context of the span that enqueues a job is stored with the job, and
the span of each attempt has a link to it: a job may run days later and several times, so it is a
trace of its own. The application chooses SDK and exporters.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context as SpanContext
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from duly.app.duly import Duly
from duly.clock import boottime
from duly.engine.execution import raised, without_secrets
from duly.model.job import JobRequest
from duly.policy.retry import Retry
from duly.registry.context import Context, Instrument
from duly.version import __version__

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_HEADER: Final = "traceparent"
_ROOT: Final = SpanContext()


def instrument(app: Duly) -> None:
    """Make spans and metrics of the jobs that an app enqueues and runs."""
    app.registry.observe_by(OpenTelemetry())


class OpenTelemetry(Instrument):
    def __init__(self) -> None:
        self._tracer = trace.get_tracer("duly", __version__)
        meter = metrics.get_meter("duly", __version__)
        self._sent = meter.create_counter("messaging.client.sent.messages", unit="{message}")
        self._duration = meter.create_histogram("messaging.process.duration", unit="s")

    @contextmanager
    def sending(self, requests: Sequence[JobRequest]) -> Iterator[Sequence[JobRequest]]:
        if not requests:
            yield requests
            return
        queues = {request.queue for request in requests}
        tasks = {request.task for request in requests}
        about = _about("send", "enqueue", queue=queues.pop() if len(queues) == 1 else None)
        if len(tasks) == 1:
            about["duly.task"] = tasks.pop()
        details = dict(about)
        if len(requests) > 1:
            details["messaging.batch.message_count"] = len(requests)
        with self._tracer.start_as_current_span(
            _name(about), kind=SpanKind.PRODUCER, attributes=details
        ):
            carrier: dict[str, str] = {}
            _PROPAGATOR.inject(carrier)
            yield list(_traced(requests, carrier.get(_HEADER)))
        self._sent.add(len(requests), about)

    @contextmanager
    def running(self, context: Context) -> Iterator[None]:
        job = context.job
        about = {**_about("process", "process", queue=job.queue), "duly.task": job.task}
        details = {
            **about,
            "messaging.message.id": str(job.id),
            "duly.attempt": context.attempt,
            **({"duly.schedule": context.fire.schedule or ""} if context.fire else {}),
        }
        began = boottime()
        with self._tracer.start_as_current_span(
            _name(about),
            context=_ROOT,
            kind=SpanKind.CONSUMER,
            attributes=details,
            links=_links(job.terms.trace),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                about["error.type"] = type(error).__qualname__
                span.set_attribute("error.type", about["error.type"])
                found = without_secrets(raised(error, Retry()), job.args)
                span.set_status(StatusCode.ERROR, found.message)
                exception = {
                    "exception.type": about["error.type"],
                    "exception.message": found.message,
                    "exception.stacktrace": found.traceback,
                }
                span.add_event("exception", exception)
                raise
            finally:
                self._duration.record(boottime() - began, about)


def _about(kind: str, operation: str, *, queue: str | None) -> dict[str, str | int]:
    about: dict[str, str | int] = {
        "messaging.system": "duly",
        "messaging.operation.type": kind,
        "messaging.operation.name": operation,
    }
    return about if queue is None else {**about, "messaging.destination.name": queue}


def _name(about: dict[str, str | int]) -> str:
    name, queue = about["messaging.operation.name"], about.get("messaging.destination.name", "")
    return f"{name} {queue}".rstrip()


def _traced(requests: Sequence[JobRequest], parent: str | None) -> Iterator[JobRequest]:
    """Yield the requests with the context of the current span; requests alike stay alike."""
    patterns: dict[int, JobRequest] = {}
    for request in requests:
        like = request.like or request
        pattern = patterns.get(id(like))
        if pattern is None:
            pattern = replace(like, terms=replace(like.terms, trace=parent))
            patterns[id(like)] = pattern
        yield pattern if request is like else pattern.saying(request.args)


def _links(parent: str | None) -> list[Link]:
    if parent is None:
        return []
    context = trace.get_current_span(_PROPAGATOR.extract({_HEADER: parent})).get_span_context()
    return [Link(context)] if context.is_valid else []
