"""Notifications ("nudges") between processes, by NOTIFY on the channel ``duly``.

No guarantee depends on them: a notification may be lost, and the change is then found by polling.
They are sent after the commit, from a connection of their own, and rarely: a NOTIFY takes a lock of
the whole server while it commits, and inside every enqueue it would cost nine tenths of the
throughput.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import TypeAlias

import psycopg

from duly.clock import Timeout
from duly.store.postgres.connections import Connection, pause
from duly.store.statements import for_libpq

EVERYTHING = "*"  # the topic that stands for all: something may have been missed

Connect: TypeAlias = Callable[[], Awaitable[Connection]]

NOTIFY = b"select pg_notify('duly', topic) from unnest(%s::text[]) as topic"
# A notification that a crash loses is not missed, so the listeners need not wait for the disk.
_NOTIFY_AT_ONCE = for_libpq(
    "select set_config('synchronous_commit', 'off', true), pg_notify('duly', topic)"
    "  from unnest(:topics::text[]) as topic"
)
_PROOF = "proof:"  # the topics that listeners send to themselves
# Seconds until the next attempt; the last one repeats.
_AFTER_FAILURE = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class Notifier:
    """Sends notifications: the first of a topic at once, then at most one in ten milliseconds."""

    def __init__(
        self,
        connect: Connect,
        *,
        deadline: timedelta,
        quiet: timedelta = timedelta(milliseconds=10),
    ) -> None:
        self._connect = connect
        self._deadline = deadline.total_seconds()
        self._quiet = quiet.total_seconds()
        self._recent: dict[str, bool] = {}  # sent within the quiet time; whether nudged since
        self._pending: dict[str, None] = {}  # to be sent, in this order
        self._sending: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def process(self) -> int | None:
        """Return the backend PID of our connection, which identifies our own notifications."""
        return self._connection.info.backend_pid if self._connection else None

    def nudge(self, topics: Iterable[str]) -> None:
        loop = asyncio.get_running_loop()
        for topic in topics:
            if topic in self._recent:
                self._recent[topic] = True
            else:
                self._recent[topic] = False
                self._pending[topic] = None
                loop.call_later(self._quiet, self._end_of_quiet, topic)
        if self._pending and (self._sending is None or self._sending.done()):
            self._sending = loop.create_task(self._send_pending())

    async def send(self, topics: list[str]) -> None:
        """Send the notifications now; errors are raised."""
        async with self._one_at_a_time, Timeout(self._deadline):
            connection = await self._connected()
            await connection.rows(_NOTIFY_AT_ONCE, {"topics": topics})

    async def close(self) -> None:
        self._recent.clear()
        self._pending.clear()
        await _ended(self._sending)
        await self._disconnect()

    def _end_of_quiet(self, topic: str) -> None:
        if self._recent.pop(topic, False):
            self.nudge([topic])

    async def _send_pending(self) -> None:
        while self._pending:
            topics = list(self._pending)
            self._pending.clear()
            # Any error is ignored: the caller has long gone on, and polling will find the change.
            with suppress(Exception):
                await self.send(topics)

    async def _connected(self) -> Connection:
        if self._connection is None or not self._connection.usable:
            await self._disconnect()
            self._connection = await self._connect()
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class NotifyListener:
    """Receives the notifications of other processes, and reconnects for ever.

    A pooler may accept LISTEN and never deliver. So each new connection is tested first: we send
    a notification to ourselves and wait until it arrives.
    """

    def __init__(
        self,
        connect: Connect,
        notifier: Notifier,
        tell: Callable[[str], None],
        *,
        patience: timedelta = timedelta(seconds=1),
        again: timedelta = timedelta(seconds=60),
    ) -> None:
        self._connect = connect
        self._notifier = notifier
        self._tell = tell
        self._patience = patience.total_seconds()
        self._again = again.total_seconds()
        self._failures = 0
        self._listening: asyncio.Task[None] | None = None
        self.listening: bool = False

    def start(self) -> None:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen_for_ever())

    async def close(self) -> None:
        await _ended(self._listening)
        self._listening = None

    async def hears(self) -> bool:
        """Test now, on a connection of its own, whether notifications arrive."""
        connection = await self._connect()
        try:
            await connection.execute(b"listen duly")
            return await self._arrives(connection)
        finally:
            await connection.close()

    async def _listen_for_ever(self) -> None:
        while True:
            rest = self._again
            try:
                await self._listen_once()
            except (psycopg.Error, OSError, TimeoutError):
                rest = _AFTER_FAILURE[min(self._failures, len(_AFTER_FAILURE) - 1)]
                self._failures += 1
            finally:
                self.listening = False
            await pause(rest)

    async def _listen_once(self) -> None:
        """Return if no notification arrives; otherwise listen until the connection breaks."""
        connection = await self._connect()
        try:
            await connection.execute(b"listen duly")
            if await self._arrives(connection):
                self._failures = 0
                self.listening = True
                self._tell(EVERYTHING)
                await self._hear(connection)
        finally:
            await connection.close()

    async def _arrives(self, connection: Connection) -> bool:
        token = _PROOF + secrets.token_hex(8)
        await self._notifier.send([token])
        async with aclosing(connection.notifies(timeout=self._patience)) as notifications:
            async for notification in notifications:
                if notification.payload == token:
                    return True
        return False

    async def _hear(self, connection: Connection) -> None:
        async with aclosing(connection.notifies()) as notifications:
            async for notification in notifications:
                ours = notification.pid == self._notifier.process
                if not ours and not notification.payload.startswith(_PROOF):
                    self._tell(notification.payload)


async def hears(connect: Connect, *, deadline: timedelta) -> bool:
    """Test once, on two new connections, whether notifications arrive.

    New ones, since behind a pooler the prepared statements of an old one may be gone, or be
    another client's.
    """
    notifier = Notifier(connect, deadline=deadline)
    try:
        return await NotifyListener(connect, notifier, lambda _: None).hears()
    finally:
        await notifier.close()


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
