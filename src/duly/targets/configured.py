"""The settings of a target, and how it uses clients that block and clients that stay connected."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Generic, ParamSpec, TypeVar

from duly.builtin.send import OutgoingMessage, TargetDown
from duly.clock import Timeout
from duly.model.outcome import MessageId
from duly.settings.tables import TargetSettings, filled

P = ParamSpec("P")
T = TypeVar("T")
ClientT = TypeVar("ClientT")
PATIENCE_SECONDS = 10.0  # for a connection, and for a confirm


class ConfiguredTarget:
    """A target with its settings; most cannot take a message back."""

    def __init__(self, settings: TargetSettings) -> None:
        self.settings = settings

    @property
    def reports(self) -> bool:
        return self.settings.reports

    @property
    def outcome_within(self) -> timedelta:
        return self.settings.outcome_within

    @property
    def for_queues(self) -> tuple[str, ...]:
        return self.settings.for_queues

    @property
    def url(self) -> str:
        return filled(self.settings.url)

    async def send(self, message: OutgoingMessage) -> None:
        raise NotImplementedError

    async def revoke(self, message: MessageId) -> bool:  # noqa: ARG002 - as the protocol says
        return False

    def __str__(self) -> str:
        return str(self.settings)


@dataclass(slots=True)
class SharedConnection(Generic[ClientT]):
    client: asyncio.Task[ClientT]
    users: int = 0


class ConnectedTarget(ConfiguredTarget, Generic[ClientT]):
    """A target with an asynchronous client: messages that are sent at once share a connection.

    It is closed after the last of them, so that no idle connection has to be kept alive. After an
    error, the next message gets another one.
    """

    down: ClassVar[tuple[type[Exception], ...]]  # the client's errors for a lost connection

    def __init__(self, settings: TargetSettings) -> None:
        super().__init__(settings)
        self._shared: SharedConnection[ClientT] | None = None

    async def connect(self) -> ClientT:
        raise NotImplementedError

    async def close(self, client: ClientT) -> None:
        raise NotImplementedError

    async def publish(self, client: ClientT, message: OutgoingMessage) -> None:
        """Publish a message, and return when the server has confirmed it."""
        raise NotImplementedError

    async def send(self, message: OutgoingMessage) -> None:
        shared = self._shared
        if shared is None:
            shared = self._shared = SharedConnection(asyncio.create_task(self.connect()))
        shared.users += 1
        is_sent = False
        try:
            with target_down(self.down):
                async with Timeout(PATIENCE_SECONDS):
                    await self.publish(await asyncio.shield(shared.client), message)
            is_sent = True
        finally:
            shared.users -= 1
            if self._shared is shared and not (is_sent and shared.users):
                self._shared = None
            if not shared.users:
                await self._disconnect(shared)

    async def _disconnect(self, shared: SharedConnection[ClientT]) -> None:
        client = shared.client
        client.cancel()  # if it is still connecting
        with suppress(Exception):  # the message has its own outcome
            async with Timeout(PATIENCE_SECONDS):
                await asyncio.wait([client])
                if not client.cancelled():
                    await self.close(client.result())


async def in_thread(
    down: tuple[type[Exception], ...], call: Callable[P, T], *args: P.args, **words: P.kwargs
) -> T:
    """Call a blocking client in a thread; the errors ``down`` mean that its server is."""
    with target_down(down):
        return await asyncio.to_thread(call, *args, **words)


@contextmanager
def target_down(down: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise ``TargetDown`` for the errors that mean that the server cannot be reached."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (OSError, *down)):
            raise
        said = str(error) or f"no answer within {PATIENCE_SECONDS:g} seconds"
        raise TargetDown(f"{type(error).__name__}: {said}") from error
