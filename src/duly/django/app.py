"""The app of a Django project, and how it uses Django's connections.

Enqueueing writes on Django's own connection: inside ``transaction.atomic`` a job is there if the
block commits, and workers are notified by the commit. Every other call joins the transaction as
well if one is open. Otherwise it uses a connection of duly's own, which repeats what a lost
connection or a deadlock has undone.
"""

import inspect
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import close_old_connections, connections, transaction

from duly.app.declarations import Scheduling
from duly.app.duly import Duly
from duly.app.nouns import AppNouns
from duly.app.tasks import Call, EnqueuedJobs, Enqueuer
from duly.connection import SAID_BY_OPERATOR, LazyStore
from duly.django.conf import database_url, project
from duly.errors import InvalidValue, SchemaMismatch
from duly.model.access import Actor
from duly.model.job import JobRequest
from duly.registry.definition import Definition
from duly.registry.registry import Registry
from duly.store.caller_connection import Verb, Work, write_on
from duly.store.store import Store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

NAME: Final = "django"  # of the app, as the owner of its schedules
TARGET: Final = "duly.django.app:duly"
_JOINED: Final = Verb("duly", "call")


class DjangoDuly(Duly):
    """The app whose tasks are in the ``tasks.py`` of installed apps; see ``duly.django``."""

    def __init__(self) -> None:
        super().__init__(name=NAME)
        completion = self.registry.completion
        self.registry: Registry = JobRegistry()
        self.registry.completion = completion
        self.project_store: ProjectStore = ProjectStore()
        self._lazy = self.project_store
        self._enqueuer = TransactionalEnqueuer(self.registry, self._lazy)

    @property
    def imports(self) -> tuple[str, ...]:
        """Set Django up, which imports the ``tasks.py`` of installed apps; return other modules."""
        if not apps.ready:
            django.setup()
        return super().imports

    @property
    def schedule(self) -> Scheduling:
        return Scheduling(self.declarations, self.zone)


class ProjectStore(LazyStore):
    """The store in a database of the Django project."""

    def __init__(self) -> None:
        super().__init__(None)

    @property
    def url(self) -> str:
        """The address of Django's database; in tests, of the test database."""
        if self.instead is not None:
            return self.instead.url
        return os.environ.get(SAID_BY_OPERATOR) or database_url(project().database)

    @property
    def connection(self) -> Any:
        """Django's connection to the database with duly's tables, of this thread."""
        return connections[project().database]

    @property
    def is_joined(self) -> bool:
        """Return whether this thread uses Django's connection: in a transaction, or in memory."""
        connection = self.connection
        return self.instead is None and (
            bool(connection.in_atomic_block) or is_in_memory(connection)
        )

    async def store(self) -> Store:
        if self.instead is None and is_in_memory(self.connection):
            raise InvalidValue(
                "the project's database is in memory, and no other connection sees it: use a file, "
                "or in tests duly.django.testing"
            )
        with told_to_migrate():
            return await super().store()

    def call(self, work: Callable[[Store], Awaitable[T]], *, async_name: str) -> T:
        if not self.is_joined:
            return super().call(work, async_name=async_name)
        with told_to_migrate():
            return write_on(self.connection, cast(Work[T], work), _JOINED)


class TransactionalEnqueuer(Enqueuer):
    """Enqueues on Django's connection, in its transaction."""

    async def aenqueue(
        self,
        calls: Sequence[Call[R]],
        *,
        connection: object | None,
        idempotency_key: str | None,
    ) -> EnqueuedJobs[R]:
        if connection is not None or not isinstance(self.lazy, ProjectStore):
            return await super().aenqueue(
                calls, connection=connection, idempotency_key=idempotency_key
            )
        # Django's connections are for threads, and this is the thread of the caller's.
        return await sync_to_async(self.enqueue)(
            calls, connection=None, idempotency_key=idempotency_key, async_name=""
        )

    def _write(
        self,
        asked: Sequence[JobRequest],
        connection: object | None,
        idempotency_key: str | None,
        *,
        async_name: str,
    ) -> list[int]:
        lazy = self.lazy
        is_ours = isinstance(lazy, ProjectStore)  # and not the sandbox of a test
        if connection is None and isinstance(lazy, ProjectStore):
            if idempotency_key is None:
                connection = lazy.connection
            elif lazy.is_joined:
                raise InvalidValue(
                    "idempotency_key= in a transaction: the job is there if that commits; leave "
                    "the key out, or enqueue outside of transaction.atomic"
                )
        with told_to_migrate():
            numbers = super()._write(asked, connection, idempotency_key, async_name=async_name)
        if is_ours and hasattr(connection, "run_on_commit") and project().inline:
            run_after_commit(connection, self.registry)
        return numbers


class JobRegistry(Registry):
    """Tasks whose jobs close database connections that are too old or broken, as requests do."""

    def add(self, definition: Definition, *, local: bool = False) -> None:
        function = with_fresh_connections(definition.function, is_async=definition.is_async)
        super().add(replace(definition, function=function), local=local)


def with_fresh_connections(
    function: Callable[..., Any], *, is_async: bool = False
) -> Callable[..., Any]:
    """Wrap the function of a job, so that it begins with usable connections and leaves none."""

    @wraps(function)
    def plain(*args: Any, **kwargs: Any) -> object:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    @wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> object:
        # The connections of a coroutine are those of the thread that sync_to_async uses.
        await sync_to_async(close_old_connections)()
        try:
            return await function(*args, **kwargs)
        finally:
            await sync_to_async(close_old_connections)()

    return coroutine if is_async or inspect.iscoroutinefunction(function) else plain


class InlineRun:
    """A run of the ready jobs in this thread; its method is a hook for ``on_commit``."""

    def __init__(self, connection: Any, registry: Registry) -> None:
        self._connection = connection
        self._registry = registry

    def start(self) -> None:
        from duly.django.inline import run_ready  # noqa: PLC0415 - a worker is rarely needed here

        run_ready(self._connection, self._registry)


def run_after_commit(connection: Any, registry: Registry) -> None:
    """Run ready jobs once after the commit; a savepoint that is undone takes its hook with it."""
    hooks = (hook for _, hook, *_ in connection.run_on_commit)
    if not any(isinstance(getattr(hook, "__self__", None), InlineRun) for hook in hooks):
        hook = InlineRun(connection, registry).start
        transaction.on_commit(hook, using=connection.alias, robust=True)


def is_in_memory(connection: Any) -> bool:
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


@contextmanager
def told_to_migrate() -> Iterator[None]:
    """Name the remedy of a Django project in errors about missing tables."""
    try:
        yield
    except SchemaMismatch as error:
        if "upgrade duly" in str(error):
            raise  # the database is too new, and a migration would not help
        problem = str(error).partition(": run")[0].partition("; ")[0]
        raise SchemaMismatch(f"{problem}: run manage.py migrate") from None


class StaffApp(AppNouns):
    def __init__(self, user: Any) -> None:
        self.name: str = str(user.get_username())
        self.registry: Registry = duly.registry
        self._lazy = ActingStore(duly.project_store, Actor(self.name, "http"))

    @property
    def zone(self) -> str | None:
        return duly.zone

    def ask(
        self,
        question: Callable[Concatenate[Store, P], Awaitable[T]],
        *args: P.args,
        **words: P.kwargs,
    ) -> T:
        """Run a function whose first parameter is a store: ``app.ask(queue_list)``."""
        return self._lazy.call(lambda store: question(store, *args, **words), async_name="")


class ActingStore(LazyStore):
    """The store of the project; its changes are made in the name of an actor."""

    def __init__(self, inner: ProjectStore, actor: Actor) -> None:
        super().__init__(None)
        self._inner = inner
        self._actor = actor

    async def store(self) -> Store:
        return (await self._inner.store()).acting(self._actor)

    def call(self, work: Callable[[Store], Awaitable[T]], *, async_name: str) -> T:
        return self._inner.call(
            lambda store: work(store.acting(self._actor)), async_name=async_name
        )


duly: DjangoDuly = DjangoDuly()
