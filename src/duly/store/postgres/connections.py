"""A few connections, opened when needed.

Not a pool that heals itself in the background: after the database was away, the first call that
needs a connection opens one, at once, and says what is wrong if it cannot.

A call that is cancelled closes its connection. psycopg would ask the server to stop, over a second
connection, and wait for its answer: a server that does not answer would be waited for twice.
"""

import asyncio
import math
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

from psycopg import AsyncConnection, ProgrammingError, adapters, waiting
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextLoader

from duly.errors import InvalidValue, StoreUnavailable
from duly.store.database import Dialect, Row

T = TypeVar("T")

# How long to sleep for an answer before looking again. Never zero: that is not to sleep at all.
WAIT_SECONDS = 0.1

# A peer that vanished without a word is noticed within half a minute on an idle connection.
KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}

# How the server plans the statements of the store. A plan is kept for as long as the connection. It
# may have been made while a table was empty, when reading it whole looked cheapest: so an index is
# used wherever one fits, in its order, and not all of it as by a merge join. A scan that has no
# alternative counts as very expensive then, and would be compiled without jit=off.
PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}


def use_our_types(types: AdaptersMap) -> AdaptersMap:
    """Send and read values as the statements of the store want them.

    A number is always a bigint: psycopg would choose the smallest type that holds it, and the
    server would plan a statement anew for every combination of types. JSON stays text, as in
    SQLite.
    """
    types.register_dumper(int, Int8Dumper)
    types.register_loader("json", TextLoader)
    types.register_loader("jsonb", TextLoader)
    return types


_TYPES = use_our_types(AdaptersMap(adapters))


class Connection(AsyncConnection[Row]):
    """A connection that is closed when the task that waits for its answer is cancelled."""

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = WAIT_SECONDS,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's
    ) -> T:
        limits = {"interval": interval} | ({} if timeout is None else {"timeout": timeout})
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, **limits)
        except asyncio.CancelledError:
            await self.close()
            raise

    @property
    def usable(self) -> bool:
        """Return whether the connection can begin a transaction, without asking the server."""
        if self.closed or self.pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        # Nothing is said on an idle connection, except that it ends.
        return not _has_something_to_say(self.fileno())


class Connector:
    """Opens connections to one database."""

    def __init__(self, url: str, *, dialect: Dialect, deadline: timedelta) -> None:
        given = read_address(url)
        self.place = place_of(given)
        self._conninfo = make_conninfo("", **_parameters(given, dialect, deadline=deadline))
        # psycopg counts how often a statement was asked: at 1 the second time prepares it.
        self._prepare_threshold = 1 if dialect.session else None

    async def __call__(self) -> Connection:
        connection = await Connection.connect(
            self._conninfo,
            autocommit=True,
            prepare_threshold=self._prepare_threshold,
            context=_TYPES,
        )
        connection.prepared_max = 500  # more than there are statements: none is prepared twice
        return connection


class Connections:
    """A bounded set of connections; callers beyond the bound wait in order of arrival."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, at_most: int) -> None:
        self._connect = connect
        self._at_most = at_most
        self._places = asyncio.Semaphore(at_most)
        self._idle: list[Connection] = []
        self._closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Connection]:
        async with self._places:
            if self._closed:
                raise StoreUnavailable("the connections to the database were closed by close()")
            connection = await self._reused() or await self._connect()
            try:
                yield connection
            finally:
                await self._keep(connection)

    async def drop_idle(self) -> None:
        """Close idle connections: what broke one connection has probably broken them all."""
        while self._idle:
            await self._idle.pop().close()

    def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        """Close all connections; those in use are closed when they are returned."""
        self._closed = True
        for _ in range(self._at_most):
            await self._places.acquire()
        await self.drop_idle()
        for _ in range(self._at_most):
            self._places.release()

    async def _reused(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            await connection.close()
        return None

    async def _keep(self, connection: Connection) -> None:
        if connection.usable:
            self._idle.append(connection)
        else:
            await connection.close()


async def pause(seconds: float) -> None:
    """Wait between two attempts; no test and no guarantee depends on how long."""
    loop = asyncio.get_running_loop()
    rested = loop.create_future()
    timer = loop.call_later(seconds, rested.set_result, None)
    try:
        await rested
    finally:
        timer.cancel()


def read_address(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except ProgrammingError:
        # What libpq says contains the url, and the url may contain a password.
        raise InvalidValue(
            "the address of the database cannot be read;"
            " it is written as postgresql://user:password@host:5432/name"
        ) from None


def place_of(given: dict[str, Any]) -> str:
    """Return the address of the database for display, without a password."""
    host = given.get("host") or given.get("hostaddr") or "the default host"
    port = f":{given['port']}" if given.get("port") else ""
    return f"PostgreSQL database {given.get('dbname', '(default)')} at {host}{port}"


def settings(deadline: timedelta) -> dict[str, str]:
    """Return the server's settings for our statements, for a session or for one transaction."""
    milliseconds = str(deadline // timedelta(milliseconds=1))
    return {
        **PLANS,
        "statement_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
    }


def _parameters(given: dict[str, Any], dialect: Dialect, *, deadline: timedelta) -> dict[str, Any]:
    """Return the user's connection parameters, with duly's defaults for those not given."""
    wished = {
        **KEEPALIVES,
        "application_name": "duly",
        # Half, so that a second host can be tried; libpq allows no less than 2.
        "connect_timeout": max(2, math.ceil(deadline.total_seconds() / 2)),
        "tcp_user_timeout": deadline // timedelta(milliseconds=1),
    }
    if dialect.session:
        # One plan for all values: 45 % more single jobs than with a plan for each call.
        session = {"plan_cache_mode": "force_generic_plan", **settings(deadline)}
        options = " ".join(f"-c {name}={value}" for name, value in session.items())
        given = {**given, "options": f"{options} {given.get('options', '')}".strip()}
    return {**wished, **given}


def _has_something_to_say(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
