"""RabbitMQ as target: each message is published to the exchange and routing key of its job.

RabbitMQ confirms that it has the message on disk in every queue that takes it; a message that no
queue takes is a failed attempt. A message that is sent twice has the same ``message_id``: the
consumer drops the second.
"""

import json
from typing import Any, ClassVar, NamedTuple

from aio_pika import Connection, DeliveryMode, Message
from aio_pika.abc import AbstractChannel
from aio_pika.connection import make_url
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity, PublishError

from duly.builtin.send import OutgoingMessage
from duly.targets.configured import ConnectedTarget


class RabbitMqClient(NamedTuple):
    connection: Connection
    channel: AbstractChannel


class RabbitMqTarget(ConnectedTarget[RabbitMqClient]):
    # RuntimeError is the client's error for a closed channel.
    down: ClassVar[tuple[type[Exception], ...]] = (AMQPError, RuntimeError)

    async def connect(self) -> RabbitMqClient:
        connection = Connection(make_url(self.url))
        try:
            await connection.connect()
            channel = connection.channel(publisher_confirms=True, on_return_raises=True)
            return RabbitMqClient(connection, await channel)
        except BaseException:  # a connection that is not closed closes itself when it is collected
            await connection.close()
            raise

    async def close(self, client: RabbitMqClient) -> None:
        await client.connection.close()

    async def publish(self, client: RabbitMqClient, message: OutgoingMessage) -> None:
        options: dict[str, Any] = dict(message.options)
        name = options.pop("exchange", "")
        sent = Message(
            json.dumps({"args": message.args, "kwargs": message.kwargs}).encode(),
            message_id=str(message.id),
            content_type="application/json",
            delivery_mode=DeliveryMode.PERSISTENT,
            **options,
        )
        try:
            exchange = await client.channel.get_exchange(name, ensure=False)
            await exchange.publish(sent, message.task, mandatory=True)
        except PublishError as error:
            raise ValueError(f'no queue takes messages for "{message.task}"') from error
        except ChannelNotFoundEntity as error:
            raise ValueError(f"RabbitMQ refuses the message: {error}") from error
