"""Dependencies of FastAPI that enqueue in the transaction of the request's session.

    Session = Annotated[AsyncSession, Depends(get_session, scope="function")]
    Enqueue = Annotated[AsyncEnqueue, Depends(aenqueue_in(Session))]

    @app.post("/orders")
    async def buy(session: Session, enqueue: Enqueue) -> None:
        ...
        await enqueue(confirm, order.id)

FastAPI makes one session for both parameters, because both are of the type ``Session``. The job is
there if that session commits. Nothing of FastAPI is imported here.
"""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from duly.app.job import Job
from duly.app.tasks import Enqueueable

P = ParamSpec("P")
R = TypeVar("R")


class SyncEnqueue:
    """``job = enqueue(send, 7)``, on the connection or session of the request."""

    def __init__(self, connection: object) -> None:
        self._connection = connection

    def __call__(self, task: Enqueueable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return task.using(connection=self._connection).enqueue(*args, **kwargs)


class AsyncEnqueue:
    """``job = await enqueue(send, 7)``, on the async connection or session of the request."""

    def __init__(self, connection: object) -> None:
        self._connection = connection

    async def __call__(
        self, task: Enqueueable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]:
        return await task.using(connection=self._connection).aenqueue(*args, **kwargs)


def enqueue_in(session: object) -> Callable[..., Awaitable[SyncEnqueue]]:
    """Return the dependency for a ``Session`` or another connection that blocks."""

    async def enqueue(connection: session) -> SyncEnqueue:  # type: ignore[valid-type]
        return SyncEnqueue(connection)

    return enqueue


def aenqueue_in(session: object) -> Callable[..., Awaitable[AsyncEnqueue]]:
    """Return the dependency for an ``AsyncSession`` or another connection that is awaited."""

    async def enqueue(connection: session) -> AsyncEnqueue:  # type: ignore[valid-type]
        return AsyncEnqueue(connection)

    return enqueue
