"""Dramatiq as target: a message for an actor by name, and a middleware that reports its outcome.

``broker.add_middleware(ReportOutcomes(duly), before=Retries)``: so it hears of a message after
Dramatiq's own retries were decided.
"""

from functools import cached_property
from typing import Any

from dramatiq import Message, Middleware
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import BrokerError
from redis import Redis
from redis.exceptions import RedisError

from duly.builtin.send import OutgoingMessage
from duly.targets.configured import PATIENCE_SECONDS, ConfiguredTarget, in_thread
from duly.targets.reporting import OutcomeReporter, ReportingApp


class DramatiqTarget(ConfiguredTarget):
    async def send(self, message: OutgoingMessage) -> None:
        await in_thread((BrokerError, RedisError), self._send, message)

    def _send(self, message: OutgoingMessage) -> None:
        options = dict(message.options)
        name = options.pop("queue", self.settings.queue or "default")
        self._broker.declare_queue(name)
        self._broker.enqueue(
            Message(
                queue_name=name,
                actor_name=message.task,
                args=tuple(message.args),
                kwargs=message.kwargs,
                options=options,
                message_id=str(message.id),
            )
        )

    @cached_property
    def _broker(self) -> RedisBroker:
        patience = {"socket_timeout": PATIENCE_SECONDS, "socket_connect_timeout": PATIENCE_SECONDS}
        client = Redis.from_url(self.url, **patience)
        return RedisBroker(client=client, middleware=[])  # type: ignore[no-untyped-call]


class ReportOutcomes(Middleware):
    """Reports the outcomes of messages that duly sent."""

    def __init__(self, duly: ReportingApp) -> None:
        self._reporter = OutcomeReporter(duly)

    def after_process_message(
        self,
        _broker: object,
        message: Any,  # noqa: ANN401
        *,
        result: object = None,
        exception: BaseException | None = None,
    ) -> None:
        if exception is None:
            self._reporter.succeeded(message.message_id, result)
        elif message.failed:  # Dramatiq retries it otherwise
            self._reporter.failed(message.message_id, exception)

    def after_skip_message(self, _broker: object, message: Any) -> None:  # noqa: ANN401
        self._reporter.failed(message.message_id, "Skipped: Dramatiq skipped the message")
