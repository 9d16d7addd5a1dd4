"""RabbitMQ as target: each message is published to the exchange and routing key of its job.

RabbitMQ confirms that it has the message on disk in every queue that takes it; a message that no
queue takes is a failed attempt. A message that is sent twice has the same ``message_id``: the
consumer drops the second.
"""

import json
from typing import Any, ClassVar

from aio_pika import DeliveryMode, Message, connect
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity, PublishError

from duly.builtin.send import OutgoingMessage
from duly.targets.configured import ConnectedTarget


class RabbitMqTarget(ConnectedTarget[AbstractChannel]):
    # RuntimeError is the client's error for a closed channel.
    down: ClassVar[tuple[type[Exception], ...]] = (AMQPError, RuntimeError)

    async def connect(self) -> AbstractChannel:
        connection = await connect(self.url)
        return await connection.channel(publisher_confirms=True, on_return_raises=True)

    async def close(self, client: AbstractChannel) -> None:
        await (await client.get_underlay_channel()).connection.close()

    async def publish(self, client: AbstractChannel, message: OutgoingMessage) -> None:
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
            exchange = await client.get_exchange(name, ensure=False)
            await exchange.publish(sent, message.task, mandatory=True)
        except PublishError as error:
            raise ValueError(f'no queue takes messages for "{message.task}"') from error
        except ChannelNotFoundEntity as error:
            raise ValueError(f"RabbitMQ refuses the message: {error}") from error
