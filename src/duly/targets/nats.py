"""NATS JetStream as target: each message is published to the subject that the job names.

JetStream confirms that a stream has the message, and drops a second one with the same
``Nats-Msg-Id`` by itself, within the stream's duplicate window.
"""

import json
from typing import ClassVar

from nats.aio.client import Client
from nats.errors import Error, MaxPayloadError
from nats.js.errors import APIError, NoStreamResponseError

from duly.builtin.send import OutgoingMessage
from duly.targets.configured import PATIENCE_SECONDS, ConnectedTarget


class NatsTarget(ConnectedTarget[Client]):
    down: ClassVar[tuple[type[Exception], ...]] = (Error,)

    async def connect(self) -> Client:
        client = Client()
        try:
            await client.connect(
                self.url.split(","),
                error_cb=_ignore,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
            )
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self, client: Client) -> None:
        await client.close()

    async def publish(self, client: Client, message: OutgoingMessage) -> None:
        body = json.dumps({"args": message.args, "kwargs": message.kwargs}).encode()
        headers = {**message.options, "Nats-Msg-Id": str(message.id)}
        try:
            await client.jetstream(timeout=PATIENCE_SECONDS).publish(
                message.task, body, headers=headers
            )
        except NoStreamResponseError as error:
            raise ValueError(
                f'no stream of JetStream takes the subject "{message.task}"'
            ) from error
        except (APIError, MaxPayloadError) as error:  # it answers: the stream is full, for example
            raise ValueError(f"NATS refuses the message: {error}") from error


async def _ignore(_error: Exception) -> None:
    """Do not log what is raised as well."""
