"""A network that fails on demand, between a client and the PostgreSQL of a dsn.

    async with Proxy.before(pg_dsn) as proxy:
        database = PostgresDatabase(proxy.dsn)
        proxy.network = Network.BLACKHOLE

A connection is cut when what happens to it says so; ``cut()`` cuts them all, now.
"""

import asyncio
import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duly.clock import Timeout, sleep

CHUNK = 65_536


class Network(enum.Enum):
    PASS = "everything arrives"
    CUT = "whoever speaks or connects is cut off"
    BLACKHOLE = "everything is accepted and nothing arrives, either way"
    LOSE_COMMIT = "who says commit is cut off, and the server does not hear it"
    LOSE_ANSWER_TO_COMMIT = "the server hears commit, and its answer is lost with the connection"
    LOSE_ANSWER_AND_CUT = "the same, and from then on nobody gets through"
    SWALLOW_ANSWER_TO_COMMIT = "the server hears commit, and no answer ever comes"
    DEAF = "notifications do not arrive, as behind a pooler"


@dataclass(eq=False)
class Wire:
    """One connection of a client, and ours to the server on its behalf."""

    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    committing: bool = False
    forsaken: bool = False  # nothing arrives any more, either way

    def cut(self) -> None:
        self.client[1].transport.abort()
        self.server[1].transport.abort()


@dataclass
class Proxy:
    dsn: str
    target: str
    network: Network = Network.PASS
    committing: bytes = b"commit\0"  # what a client says, in small letters, when it commits
    connected: int = 0  # how many connections there have ever been
    lost: int = 0  # so many answers to a commit were lost
    another: asyncio.Condition = field(default_factory=asyncio.Condition)
    is_closed: bool = False
    wires: list[Wire] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    @asynccontextmanager
    async def before(cls, target: str) -> AsyncIterator[Self]:
        proxy = cls(dsn="", target=target)
        listening = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        # In clear text, so that the word commit can be seen.
        clear = {"sslmode": "disable", "gssencmode": "disable"}
        proxy.dsn = make_conninfo(target, host="127.0.0.1", port=port, **clear)
        try:
            yield proxy
        finally:
            listening.close()
            await accepted()
            proxy.is_closed = True
            proxy.cut()
            await asyncio.gather(*proxy.tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        words = conninfo_to_dict(self.dsn)
        place = f"postgresql://{words.pop('user')}@/{words.pop('dbname')}"
        return f"{place}?{'&'.join(f'{name}={value}' for name, value in words.items())}"

    def cut(self) -> None:
        while self.wires:
            self.wires.pop().cut()

    def forsake(self) -> None:
        """Let nothing arrive on today's connections ever again, as after a failover."""
        for wire in self.wires:
            wire.forsaken = True

    async def until_connected(self, count: int) -> None:
        """Return when there have been so many connections."""
        async with Timeout(10), self.another:
            await self.another.wait_for(lambda: self.connected >= count)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.tasks.add(task)
        async with self.another:
            self.connected += 1
            self.another.notify_all()
        try:
            wire = Wire((reader, writer), await self.to_the_server())
        except OSError:
            writer.transport.abort()
            return
        self.wires.append(wire)
        if self.is_closed:
            wire.cut()
        with suppress(OSError):
            await asyncio.gather(self.upstream(wire), self.downstream(wire))
        wire.cut()

    async def to_the_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        target = conninfo_to_dict(self.target)
        host, port = str(target["host"]), int(target.get("port") or 5432)
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def upstream(self, wire: Wire) -> None:
        while said := await wire.client[0].read(CHUNK):
            commits = self.committing in said.lower()
            match self.network:
                case Network.CUT:
                    break
                case Network.LOSE_COMMIT if commits:
                    break
                case _ if wire.forsaken or self.network is Network.BLACKHOLE:
                    continue
                case _:
                    wire.committing |= commits
                    wire.server[1].write(said)
        wire.cut()

    async def downstream(self, wire: Wire) -> None:
        while said := await wire.server[0].read(CHUNK):
            match self.network:
                case Network.CUT:
                    break
                case Network.LOSE_ANSWER_TO_COMMIT if wire.committing:
                    self.lost += 1
                    break
                case Network.LOSE_ANSWER_AND_CUT if wire.committing:
                    self.network = Network.CUT
                    self.cut()
                    break
                case Network.SWALLOW_ANSWER_TO_COMMIT if wire.committing:
                    continue
                case Network.DEAF if said.startswith(b"A"):
                    continue
                case _ if wire.forsaken or self.network is Network.BLACKHOLE:
                    continue
                case _:
                    wire.committing = False
                    wire.client[1].write(said)
        wire.cut()


async def accepted() -> None:
    """Let connections that a closed server has accepted come to its handler, which closes them.

    The loop takes a few turns from the one to the other. A connection that is dropped in between
    is found by the garbage collector, in another test.
    """
    for _ in range(5):
        await sleep(0)
