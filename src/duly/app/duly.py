"""``Duly``, the app: declares tasks and schedules, enqueues jobs, runs workers.

Creating one opens and starts nothing, because ``duly = Duly()`` is at the top of modules that are
imported for all kinds of reasons. Settings are read when the first one is needed.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Unpack

from duly.app.declarations import Declarations, Reacting, Scheduling
from duly.app.events import NOTHING, aemit, emit, emitted
from duly.app.flows import FlowDecorator, wait_for
from duly.app.job import Job
from duly.app.nouns import AppNouns
from duly.app.tasks import Call, Enqueuer, ExternalTask, TaskDecorator
from duly.connection import LazyStore, configured, retention_of
from duly.engine.reconciler import DeclarationSet
from duly.errors import InvalidValue
from duly.flow.trace import Step
from duly.model.job import Claimed
from duly.registry import context
from duly.registry.app_loading import import_all
from duly.registry.context import Context
from duly.registry.definition import Definition
from duly.registry.option_values import Duration, length_of, name_of
from duly.registry.registry import JobTransaction, Registry
from duly.runtime.console import event_printer, json_records, log_writer, shows_jobs
from duly.runtime.node import LONGEST_DURATION, WorkerWords, worker_options, worker_words
from duly.runtime.running import NodeLifecycle, NodeOptions, Running, serve
from duly.store.connect import place

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp

    from duly.model.access import User

R = TypeVar("R")
Auth: TypeAlias = (
    "Literal['token'] | Callable[[HTTPConnection], Awaitable[User | None] | User | None]"
)
WsgiAuth: TypeAlias = "Literal['token'] | Callable[[WSGIEnvironment], User | None]"


class Duly(AppNouns):
    """An app. ``url`` is the database, as "duly.db" or "postgresql://…".

    ``name`` distinguishes apps on one database; by default it is the module and variable of this
    object, as "shop.tasks:duly". Apps of the same name share their tasks. ``zone`` is the default
    time zone of rules. ``imports`` are modules that declare tasks of this app; a worker imports
    them first. Parameters that are not given are settings: DULY_URL, or ``url = "…"`` in duly.toml,
    or ./duly.db.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str | None = None,
        zone: str | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        if isinstance(imports, str):
            raise InvalidValue(f'imports="{imports}": expected several modules, as ("shop.tasks",)')
        self._app = None if name is None else name_of("name", name)
        self._zone = zone
        self._imports = tuple(imports)
        self.registry: Registry = Registry()
        self.registry.completion = _completion
        self.declarations: Declarations = Declarations()
        self._lazy = LazyStore(url)
        self._enqueuer = Enqueuer(self.registry, self._lazy)
        self._birthplace: Mapping[str, Any] = sys._getframe(1).f_globals  # noqa: SLF001

    @property
    def url(self) -> str:
        """The database URL. It does not change after the first use."""
        return self._lazy.url

    @property
    def zone(self) -> str | None:
        """The default time zone of rules."""
        return self._zone or configured().zone

    @property
    def imports(self) -> tuple[str, ...]:
        """Modules that declare tasks of this app."""
        return (*self._imports, *configured().imports)

    # Declare.

    @property
    def task(self) -> TaskDecorator:
        """``@duly.task``, or ``@duly.task(retry=Retry(attempts=5), …)``."""
        return TaskDecorator(self._enqueuer)

    @property
    def schedule(self) -> Scheduling:
        """``@duly.schedule("Mon..Fri 02:00 Europe/Berlin")`` above a task.

        For a task that needs arguments: ``duly.schedule("…", send.bind(7), name="…")``.
        """
        return Scheduling(self.declarations, self._zone)

    @property
    def flow(self) -> FlowDecorator:
        """``@duly.flow`` above a function that creates steps (``task.step(…)``) and returns one."""
        return FlowDecorator(self._enqueuer)

    def external(
        self, task: str, /, *, target: str | None = None, options: Mapping[str, Any] = NOTHING
    ) -> ExternalTask:
        """Return a task of another system: its jobs are handed to the ``target`` of the settings.

        ``duly.external("shop.tasks.send", target="main").enqueue(7)``. Without a ``target``, it is
        the one for the queue of the job. ``options`` are the target's own, such as the queue there.
        """
        return ExternalTask.named(self._enqueuer, task, target=target, options=options)

    def wait_for(
        self, event: str, *, key: str | None = None, timeout: Duration | None = None
    ) -> Step[dict[str, Any]]:
        """Return a flow step that waits for an event: ``wait_for("order.paid", key="{order_id}")``.

        Its result is the payload. After the ``timeout`` it has failed.
        """
        return wait_for(event, key=key, timeout=timeout)

    @property
    def on(self) -> Reacting:
        """``@duly.on("invoice.paid")`` above a task or a flow, which gets the payload's fields."""
        return Reacting(self.schedule)

    # Do.

    def emit(
        self,
        event: str,
        payload: Mapping[str, Any] = NOTHING,
        /,
        *,
        key: str | None = None,
        connection: object | None = None,
    ) -> str:
        """Emit an event: ``duly.emit("invoice.paid", {"invoice_id": 7})``. Return its number.

        The payload's fields become the arguments of tasks that react to it. ``key`` is for a flow
        step that waits for this event. With your ``connection`` it is part of your transaction.
        """
        said = emitted(event, payload, key=key)
        return emit(self._lazy, said, connection=connection)

    async def aemit(
        self,
        event: str,
        payload: Mapping[str, Any] = NOTHING,
        /,
        *,
        key: str | None = None,
        connection: object | None = None,
    ) -> str:
        said = emitted(event, payload, key=key)
        return await aemit(self._lazy, said, connection=connection)

    def enqueue_many(
        self,
        calls: Iterable[Call[R]],
        /,
        *,
        idempotency_key: str | None = None,
        connection: object | None = None,
    ) -> Sequence[Job[R]]:
        """Enqueue all calls in one transaction.

        A second call with the same ``idempotency_key`` within a day returns the same jobs.
        """
        return self._enqueuer.enqueue(
            _all(calls),
            connection=connection,
            idempotency_key=idempotency_key,
            async_name="duly.aenqueue_many()",
        )

    async def aenqueue_many(
        self,
        calls: Iterable[Call[R]],
        /,
        *,
        idempotency_key: str | None = None,
        connection: object | None = None,
    ) -> Sequence[Job[R]]:
        return await self._enqueuer.aenqueue(
            _all(calls), connection=connection, idempotency_key=idempotency_key
        )

    def current(self) -> Context:
        """Return the context of the current job."""
        return context.current()

    # Run.

    def run(self, *, scheduler: bool = True, **options: Unpack[WorkerWords]) -> None:
        """Run scheduler and worker in this process until SIGTERM or Ctrl-C.

        The first signal lets running jobs finish, the second stops them.
        """
        _refuse_while_imported(sys._getframe(1), "run()")  # noqa: SLF001
        if threading.current_thread() is not threading.main_thread():
            raise InvalidValue(
                "run() installs signal handlers and must be called from the main thread; "
                "use duly.running() elsewhere"
            )
        asyncio.run(self._run(scheduler=scheduler, options=options))

    def running(
        self,
        *,
        worker: bool = True,
        scheduler: bool = True,
        grace: Duration = "30s",
        **options: Unpack[WorkerWords],
    ) -> Running:
        """Run scheduler and worker beside other code.

        ``async with`` runs them on the current loop, ``with`` in a thread. On exit,
        running jobs may finish; after ``grace`` they are stopped.
        """
        _refuse_while_imported(sys._getframe(1), "running()")  # noqa: SLF001

        def shift() -> NodeLifecycle:
            return NodeLifecycle(
                self._roles(worker=worker, scheduler=scheduler, dedicated=False, options=options)
            )

        return Running(shift, grace=length_of("grace", grace, longest=LONGEST_DURATION, zero=True))

    @asynccontextmanager
    async def lifespan(
        self,
        app: object,  # noqa: ARG002 - a framework's
        /,
        *,
        worker: bool = True,
        scheduler: bool = True,
        grace: Duration = "30s",
        **options: Unpack[WorkerWords],
    ) -> AsyncIterator[None]:
        """Run scheduler and worker while an application runs: ``FastAPI(lifespan=duly.lifespan)``.

        In a lifespan of your own: ``async with duly.lifespan(app, concurrency=4):``. Without
        ``worker`` and ``scheduler`` it only opens the database, for an application that enqueues.
        In a sandbox it starts nothing: the test decides what runs and when.
        """
        if self.url == ":memory:":
            yield
            return
        try:
            if worker or scheduler:
                async with self.running(worker=worker, scheduler=scheduler, grace=grace, **options):
                    yield
            else:
                await self._lazy.store()  # a database that cannot be used is reported at the start
                yield
        finally:
            await self.aclose()

    def asgi(self, *, auth: "Auth", tokens: bool = False) -> "ASGIApp":
        """Return the dashboard and HTTP API: ``app.mount("/duly", duly.asgi(auth=…))``.

        ``auth="token"`` accepts access tokens (``duly tokens``). Or a function, which may be async:
        it takes the request and returns the user, as ``User("ada", "operator")``, or None; with
        ``tokens``, access tokens are accepted besides. The guards of the outer application do not
        protect this one.
        """
        # By name: the package web is above this one, and imported only when needed.
        mounting = import_module("duly.web.application")
        app: ASGIApp = mounting.mounted(
            self._lazy, self.registry, zone=self.zone, auth=auth, tokens=tokens
        )
        return app

    def wsgi(self, *, auth: "WsgiAuth", tokens: bool = False) -> "WSGIApplication":
        """Return the dashboard and HTTP API for a WSGI server, as ``asgi`` does; pages poll.

        ``DispatcherMiddleware(app.wsgi_app, {"/duly": duly.wsgi(auth=…)})`` mounts it in Flask. A
        function as ``auth`` takes the WSGI environment, in the thread of the request.
        """
        mounting = import_module("duly.web.wsgi")
        app: WSGIApplication = mounting.WsgiDashboard(
            self._lazy, self.registry, zone=self.zone, auth=auth, tokens=tokens
        )
        return app

    # Tidy up.

    async def aclose(self) -> None:
        """Close the store of this event loop. It is also closed with the loop."""
        await self._lazy.aclose()

    def close(self) -> None:
        """Close the store of sync calls, and end its thread."""
        self._lazy.close()

    def __repr__(self) -> str:
        return f"<Duly {place(self.url)}>"

    async def _run(self, *, scheduler: bool, options: WorkerWords) -> None:
        roles = self._roles(worker=True, scheduler=scheduler, dedicated=True, options=options)
        settings = configured()
        say = log_writer(settings, _write)
        say(f"database: {place(self.url)}")
        with json_records(settings, say):
            await serve(NodeLifecycle(roles, event_printer(settings, say)), say)

    def _roles(
        self, *, worker: bool, scheduler: bool, dedicated: bool, options: WorkerWords
    ) -> NodeOptions:
        import_all(self.imports)
        settings = configured()
        words: WorkerWords = {**worker_words(settings), **options}
        chosen = worker_options(
            dedicated=dedicated, verbose=dedicated and shows_jobs(settings), **words
        )
        return NodeOptions(
            url=self.url,
            registry=self.registry,
            worker=chosen if worker else None,
            retention=retention_of(settings),
            alerts=settings.alerts,
            zone=settings.zone,
            scheduler=scheduler,
            target=self._target(),
            app=self.name or "",
            announcement=self.announcement(whole=dedicated) if scheduler else None,
            stop_timeout=settings.stop_timeout if dedicated else None,
        )

    def announcement(self, *, whole: bool = True) -> DeclarationSet | None:
        """Return the declared schedules under the app's name; None if the app has no name.

        ``whole`` says that this process surely imported all of them.
        """
        app = self.name
        if app is None:
            if len(self.declarations):
                raise InvalidValue(
                    "this app declares schedules, so it needs a name: assign Duly() to a variable "
                    "at the top of a module or script"
                )
            return None
        return self.declarations.announcement(app, whole=whole)

    @property
    def name(self) -> str | None:
        """``shop.tasks:duly``: the same in a script, a worker and the command; None if unknown."""
        if self._app is not None:
            return self._app
        target = self._target()
        if target is not None:
            place, _, name = target.rpartition(":")
            return f"{Path(place).stem if place.endswith('.py') else place}:{name}"
        birthplace = self._birthplace
        names = [name for name, value in birthplace.items() if value is self]
        # In an interactive interpreter: no other process can import it, but it has a name.
        return (
            f"__main__:{names[0]}" if names and birthplace.get("__name__") == "__main__" else None
        )

    def _target(self) -> str | None:
        """Return the import path under which another process finds this app, or None."""
        birthplace = self._birthplace
        name = next((name for name, value in birthplace.items() if value is self), None)
        module, file, spec = (
            birthplace.get("__name__"),
            birthplace.get("__file__"),
            birthplace.get("__spec__"),
        )
        if name is None or not module:
            return None
        if module != "__main__":
            return f"{module}:{name}" if module in sys.modules else None
        if spec is not None and spec.name != "__main__":
            return f"{spec.name}:{name}"
        return f"{Path(file).resolve()}:{name}" if file and Path(file).is_file() else None


def _refuse_while_imported(caller: FrameType, what: str) -> None:
    """Refuse to run while the module is imported: each worker and child would start a worker."""
    name = caller.f_globals.get("__name__")
    if caller.f_code.co_name == "<module>" and name != "__main__":
        raise InvalidValue(
            f'{what} was called while {name} was imported; put it under  if __name__ == "__main__":'
        )


def _all(calls: Iterable[Call[R]]) -> list[Call[R]]:
    found = list(calls)
    for call in found:
        if not isinstance(call, Call):
            raise InvalidValue(f"{call!r} is not a call: use task.bind(…)")
        for word in ("connection", "idempotency_key") if call.choices else ():
            if call.choices.get(word) is not None:
                raise InvalidValue(
                    f"{call!r} has a {word} of its own; give it once: enqueue_many(…, {word}=…)"
                )
    return found


def _write(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - it is the program then


def _completion(
    url: str, job: Claimed, definition: Definition, *, lease: timedelta
) -> JobTransaction:
    """Open a completion when the first task needs one: its imports are slow."""
    from duly.runtime.node import completion  # noqa: PLC0415

    return completion(url, job, definition, lease=lease)
