"""Kafka as target: each message is published to the topic that the job names.

The producer is idempotent and waits for all in-sync replicas. It lives for one message: a confirm
that comes late cannot be taken for that of the next.
"""

import json
from typing import Any, Final
from urllib.parse import parse_qsl

from confluent_kafka import KafkaError, KafkaException, Producer

from duly.builtin.send import OutgoingMessage, TargetDown
from duly.targets.configured import PATIENCE_SECONDS, ConfiguredTarget, in_thread

ID_HEADER: Final = "duly-message-id"
# The cluster answers, and refuses this message.
REFUSED: Final = (
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the client's own errors have such names
)


class KafkaTarget(ConfiguredTarget):
    async def send(self, message: OutgoingMessage) -> None:
        await in_thread((), self._send, message)

    def _send(self, message: OutgoingMessage) -> None:
        options = {name: str(value) for name, value in message.options.items()}
        key = options.pop("key", str(message.id.job))
        confirms: list[KafkaError | None] = []
        try:
            producer = Producer(_properties(self.url))
            producer.produce(
                message.task,
                json.dumps({"args": message.args, "kwargs": message.kwargs}),
                key,
                headers={**options, ID_HEADER: str(message.id)},
                on_delivery=lambda error, _: confirms.append(error),
            )
            producer.flush(PATIENCE_SECONDS + 1)
        except KafkaException as error:
            confirms.append(error.args[0])
        _check(confirms[0] if confirms else KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001


def _check(error: KafkaError | None) -> None:
    """Raise if the message is not confirmed."""
    if error is None:
        return
    if error.code() in REFUSED:
        raise ValueError(f"Kafka refuses the message: {error.str()}")
    raise TargetDown(f"{error.name()}: {error.str()}")


def _properties(url: str) -> dict[str, Any]:
    """Return the settings of the client: those in the query of the url, and ours."""
    servers, _, query = url.removeprefix("kafka://").partition("?")
    return {
        **dict(parse_qsl(query)),
        "bootstrap.servers": servers,
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": round(PATIENCE_SECONDS * 1000),
        "log_level": 0,  # an error is raised
    }
