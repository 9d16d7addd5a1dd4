"""Dask as an engine: a job is one task of a Dask cluster.

The Dask task has the key of the job's try and is published under it. So Dask keeps it when the
client that submitted it is gone, and a second ``submit`` with this key is the same task. Only a
plain function of this package and texts travel to Dask; never a pickled function of the
application.

Dask has bounded logs of events by topic, but keeps a topic for ever: the lines of all jobs share
``TOPICS`` of them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duly import clock
from duly.engines.dask_task import Message, run_program, topic_of
from duly.errors import EngineUnavailable, InvalidValue
from duly.registry.definition import EngineJob

if TYPE_CHECKING:
    from distributed import Client, Future, Security

CONNECT_SECONDS: Final = 5
# After its grace, a cancelled program is killed and reported within this time.
REPORTED_WITHIN: Final = 10.0
CONNECTION_LOST: Final = "scheduler-connection-lost"  # Dask's word


class Dask:
    """A Dask cluster, by the address of its scheduler.

    ``resources`` are those that a Dask worker must have free, as ``{"GPU": 1}``; ``security`` is
    the ``distributed.Security`` of a cluster with TLS.
    """

    def __init__(
        self,
        address: str,
        *,
        resources: Mapping[str, float] | None = None,
        security: "Security | None" = None,
    ) -> None:
        if "://" not in address:
            raise InvalidValue(f'Dask("{address}"): expected an address, as "tcp://scheduler:8786"')
        self._address = address
        self._resources = dict(resources or {})
        self._security = security

    async def keys(self, family: str) -> list[str]:
        async with self._client() as client:
            return [key for key in await client.list_datasets() if key.startswith(family)]

    async def start(self, job: EngineJob) -> bool:
        async with self._client() as client:
            if job.key in await client.list_datasets():
                return False
            future = client.submit(
                run_program,
                job.key,
                module=job.module,
                request=job.request,
                timeout=None if job.timeout is None else job.timeout.total_seconds(),
                grace=job.grace.total_seconds(),
                key=job.key,
                pure=False,
                resources=self._resources or None,
            )
            await client.publish_dataset(future, name=job.key, override=True)
            return True

    async def report(self, job: EngineJob) -> str:
        async with self._client() as client:
            try:
                future = await client.get_dataset(job.key)
            except KeyError:
                raise DaskTaskLost("Dask has dropped the task") from None
            async with _Lines(client, job):
                try:
                    return await self._report(future)
                finally:
                    if future.done():
                        await client.unpublish_dataset(job.key)

    async def end(self, key: str, grace: timedelta) -> None:
        """Drop the task; if its program runs, wait until it has ended."""
        from distributed import Future  # noqa: PLC0415

        running, ended = asyncio.Event(), asyncio.Event()

        def read(message: Message) -> None:
            (ended if message.get("ended") else running).set()

        async with self._client() as client:
            with _subscribed(client, key, read):
                await client.cancel([Future(key, client=client)], force=True)
                await client.unpublish_dataset(key)
                await _reread(client, key, read)
                if running.is_set() and not ended.is_set():
                    async with clock.Timeout(grace.total_seconds() + REPORTED_WITHIN):
                        await ended.wait()

    async def _report(self, future: "Future") -> str:
        from distributed.client import FutureCancelledError  # noqa: PLC0415

        try:
            report: str = await future
        except FutureCancelledError as error:
            if error.reason == CONNECTION_LOST:
                raise self._unavailable("the connection was lost") from None
            raise DaskTaskLost(f"Dask has dropped the task: {error.reason}") from None
        return report

    @asynccontextmanager
    async def _client(self) -> "AsyncIterator[Client]":
        try:
            from distributed import Client  # noqa: PLC0415 - it takes half a second
        except ImportError:
            raise EngineUnavailable('this worker has no Dask: pip install "duly[dask]"') from None
        client = Client(
            self._address,
            asynchronous=True,
            set_as_default=False,
            timeout=CONNECT_SECONDS,
            security=self._security,
        )
        try:
            await client
            yield client
        except (OSError, TimeoutError) as error:  # CommClosedError is an OSError
            raise self._unavailable(str(error)) from None
        finally:
            await client.close()

    def _unavailable(self, why: str) -> EngineUnavailable:
        return EngineUnavailable(f"the Dask scheduler at {self._address} is unavailable: {why}")


class DaskTaskLost(Exception):
    """Dask does not know the task any more, and it did not end."""


class _Lines:
    """Passes on the lines of a task: those that Dask has kept, and new ones as they come."""

    def __init__(self, client: "Client", job: EngineJob) -> None:
        self._client = client
        self._job = job
        self._seen: set[tuple[str, int]] = set()
        self._exit = contextlib.ExitStack()

    async def __aenter__(self) -> None:
        self._exit.enter_context(_subscribed(self._client, self._job.key, self._read))
        await _reread(self._client, self._job.key, self._read)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._exit.close()
        if kind is None:  # the last ones may still be on their way to the subscriber
            await _reread(self._client, self._job.key, self._read)

    def _read(self, message: Message) -> None:
        number = message["run"], message["number"]
        if number not in self._seen:
            self._seen.add(number)
            for line in message["lines"]:
                self._job.heard(line)


@contextlib.contextmanager
def _subscribed(client: "Client", key: str, read: Any) -> Iterator[None]:  # noqa: ANN401 - takes a Message
    def received(event: tuple[float, Message]) -> None:
        if event[1]["key"] == key:
            read(event[1])

    client.subscribe_topic(topic_of(key), received)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the connection is closed
            client.unsubscribe_topic(topic_of(key))


async def _reread(client: "Client", key: str, read: Any) -> None:  # noqa: ANN401 - takes a Message
    """Read the events that Dask has kept."""
    for _, message in await client.get_events(topic_of(key)):
        if message["key"] == key:
            read(message)
