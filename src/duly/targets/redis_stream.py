"""A Redis stream as target: each message is an entry of the stream that the job names.

Redis confirms that it has the entry. A message that is sent twice is in the stream twice, with the
same ``id`` field: the consumer drops the second.
"""

import json
from functools import cached_property
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from duly.builtin.send import OutgoingMessage
from duly.targets.configured import PATIENCE_SECONDS, ConfiguredTarget, in_thread


class RedisStreamTarget(ConfiguredTarget):
    async def send(self, message: OutgoingMessage) -> None:
        await in_thread((RedisError,), self._send, message)

    def _send(self, message: OutgoingMessage) -> None:
        said = {"args": message.args, "kwargs": message.kwargs}
        entry: dict[Any, Any] = {
            "id": str(message.id),
            **{name: json.dumps(value) for name, value in said.items()},
        }
        try:
            self._redis.xadd(message.task, entry, **message.options)
        except ResponseError as error:  # it answers: the key is no stream, or an option is wrong
            raise ValueError(f"Redis refuses the message: {error}") from error

    @cached_property
    def _redis(self) -> Redis:
        patience = {"socket_timeout": PATIENCE_SECONDS, "socket_connect_timeout": PATIENCE_SECONDS}
        return Redis.from_url(self.url, **patience)
