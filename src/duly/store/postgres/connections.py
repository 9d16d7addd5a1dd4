"""A few connections, opened when needed.

Not a pool that heals itself in the background: after the database was away, the first call that
needs a connection opens one, at once, and says what is wrong if it cannot.

A call that is cancelled closes its connection. psycopg would ask the server to stop, over a second
connection, and wait for its answer: a server that does not answer would be waited for twice.
"""

import asyncio
import math
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, ProgrammingError, abc, adapters, errors, generators, waiting
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextLoader

from duly.errors import Busy, InvalidValue, OutcomeUnknown, StoreUnavailable
from duly.store.database import Dialect, Row, Value
from duly.store.statements import NumberedStatement

T = TypeVar("T")

# How long to sleep for an answer before looking again. Never zero: that is not to sleep at all. The
# event loop says when an answer is there, and a look is a wake-up for nothing.
WAIT_SECONDS = 30.0

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

    prepares: bool = False  # whether statements are prepared, for as long as the connection

    async def rows(self, statement: NumberedStatement, values: Mapping[str, Value]) -> list[Row]:
        """Run a statement and return its rows, with half of the CPU time of psycopg's cursor.

        The second time prepares the statement.
        """
        types, libpq, prepared = self._types, self.pgconn, self._prepared_names
        given = types.dump_sequence(
            [values[name] for name in statement.names], [PyFormat.AUTO] * len(statement.names)
        )
        key = statement.text, types.types
        name = prepared.get(key)
        if name:
            libpq.send_query_prepared(name, given, types.formats)
        elif name is None or not self.prepares:
            prepared[key] = b""
            libpq.send_query_params(statement.text, given, types.types, types.formats)
        else:
            name = b"duly_%d" % sum(map(bool, prepared.values()))
            libpq.send_prepare(name, statement.text, types.types)
            await self._answer()
            prepared[key] = name
            libpq.send_query_prepared(name, given, types.formats)
        types.set_pgresult(result := await self._answer())
        return types.load_rows(0, result.ntuples, tuple)

    @cached_property
    def _types(self) -> abc.Transformer:
        return Transformer(self)

    @cached_property
    def _prepared_names(self) -> dict[tuple[bytes, tuple[int, ...] | None], bytes]:
        """The names of prepared statements; empty for one that was run once."""
        return {}

    async def _answer(self) -> PGresult:
        results: list[PGresult] = await self.wait(generators.execute(self.pgconn))
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise errors.error_from_result(result, encoding=self.info.encoding)
        return results[-1]

    async def wait(
        self,
        gen: abc.PQGen[T],
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
        self.place: str = place_of(given)
        self._conninfo = make_conninfo("", **_parameters(given, dialect, deadline=deadline))
        self._prepares = dialect.session

    async def __call__(self) -> Connection:
        connection = await Connection.connect(
            self._conninfo,
            autocommit=True,
            # What psycopg prepares it forgets with every rollback, and our statements with it.
            prepare_threshold=None,
            context=_TYPES,
        )
        connection.prepares = self._prepares
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
    defaults = {
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
    return {**defaults, **given}


def _has_something_to_say(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


# Errors after which the transaction may succeed if it is run again.
PASSING = (errors.SerializationFailure, errors.DeadlockDetected)

# Classes and codes of errors after which the connection is unusable.
_LOST = (
    "08",  # the connection itself
    "57P",  # stopping, starting, or an administrator ended us
    "25006",  # read only: a standby, or a primary that became one
    "0A000",  # it prepared a statement before a column of the result got another type
)

# A lock was not acquired in time.
_HELD = "55P03"

# … and of errors that mean that the database is unavailable now, but may recover soon.
_BUSY = (
    "42501",  # missing privilege of our role: an administrator can grant it
    "53",  # out of disk, memory or connections
    "57014",  # the statement took too long
    "58",  # the disk under the server
)


def is_lost(error: BaseException) -> bool:
    """Return whether the connection is unusable: it broke, or its server is read-only.

    An operational error without a code did not come from the server.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    fatal = error.diag.severity_nonlocalized != "ERROR"
    return fatal or error.sqlstate.startswith(_LOST)


def is_unknown(error: BaseException) -> bool:
    """Return whether a commit that failed with this error may have been done.

    Only a plain error says that the server is there and has rolled back; 40003 is the one by which
    it says that it does not know.
    """
    return not isinstance(error, psycopg.Error) or is_lost(error) or error.sqlstate == "40003"


def is_missing_partition(error: psycopg.Error) -> bool:
    # The message is translated into the server's language; only this one names no constraint.
    return (
        isinstance(error, errors.CheckViolation)
        and error.diag.constraint_name is None
        and error.diag.table_name is not None
    )


def translated(error: psycopg.Error, *, place: str, committing: bool) -> StoreUnavailable | None:
    """Return duly's error to raise instead; None if this one is a bug and is raised unchanged."""
    if committing:
        return outcome_unknown(place, said_by(error))
    if error.sqlstate == _HELD:
        return Busy(f"{place}: another open transaction holds a lock on the rows; nothing was done")
    if isinstance(error, PASSING) or is_lost(error) or (error.sqlstate or "").startswith(_BUSY):
        return unavailable(place, said_by(error))
    return None


def outcome_unknown(place: str, said: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{place} was lost during a commit, which may have succeeded; repeat the call to be sure: "
        f"{said}"
    )


def unavailable(place: str, said: str) -> StoreUnavailable:
    return StoreUnavailable(f"{place} is not available, and nothing was done: {said}")


def said_by(error: psycopg.Error) -> str:
    return error.diag.message_primary or " ".join(str(error).split())
