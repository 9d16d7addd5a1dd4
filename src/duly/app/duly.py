"""The app: what a program declares, and the way from there to jobs that run.

Nothing is opened or started when it is made: ``duly = Duly()`` stands at the top of modules that
are imported for all kinds of reasons. Settings are read when the first of them is needed.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Unpack

from duly.app.access import Audit, Tokens
from duly.app.capacity import Limits, Queues, Workers
from duly.app.declarations import Declarations, Scheduling
from duly.app.events import NOTHING, Events, aemit, emit, emitted
from duly.app.flows import FlowDecorator, wait_for
from duly.app.job import Job
from duly.app.jobs import Jobs
from duly.app.reactions import Reacting
from duly.app.schedules import Schedules
from duly.app.tasks import Call, Enqueuer, TaskDecorator
from duly.connection import LazyStore, configured, retention_of
from duly.engine.reconciler import DeclarationSet
from duly.errors import InvalidValue
from duly.flow.trace import Step
from duly.model.claimed import Claimed
from duly.registry import context
from duly.registry.app_loading import import_all
from duly.registry.context import Context
from duly.registry.definition import Definition
from duly.registry.option_values import Duration, length_of, name_of
from duly.registry.registry import JobTransaction, Registry
from duly.runtime.console import event_printer, shows_jobs
from duly.runtime.running import NodeLifecycle, NodeOptions, Running, serve
from duly.runtime.workers import LONGEST, WorkerWords, worker_options, worker_words
from duly.store.connect import place

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp

    from duly.model.access import User

R = TypeVar("R")
Auth: TypeAlias = (
    "Literal['token'] | Callable[[HTTPConnection], Awaitable[User | None] | User | None]"
)


class Duly:
    """``url`` is where jobs are kept, as "duly.db" or "postgresql://…".

    ``name`` is what the app is called where others use the same database; else it is the module
    and the name of this object, as "shop.tasks:duly". Apps of one name share their tasks.
    ``zone`` is for rules that name none. ``imports`` are modules that declare tasks of this app:
    whoever runs them imports those first. What is not said here is a setting: DULY_URL, or
    ``url = "…"`` in duly.toml, or ./duly.db.
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
            raise InvalidValue(f'imports="{imports}": several modules, as ("shop.tasks",)')
        self._app = None if name is None else name_of("name", name)
        self._zone = zone
        self._imports = tuple(imports)
        self.registry = Registry()
        self.registry.completion = _completion
        self.declarations = Declarations()
        self._lazy = LazyStore(url)
        self._enqueuer = Enqueuer(self.registry, self._lazy)
        self._birthplace: Mapping[str, Any] = sys._getframe(1).f_globals  # noqa: SLF001

    @property
    def url(self) -> str:
        """Where jobs are kept. Once it was asked for, it stays."""
        return self._lazy.url

    @property
    def zone(self) -> str | None:
        """The time zone of rules that name none."""
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
        """``@duly.schedule("Mon..Fri 02:00 Europe/Berlin")`` above a task; or with a call, alone.

        Of a task that needs arguments: ``duly.schedule("…", send.bind(7), name="…")``.
        """
        return Scheduling(self.declarations, self._zone)

    @property
    def flow(self) -> FlowDecorator:
        """``@duly.flow`` above a function that says ``task.step(…)``, and returns one of them."""
        return FlowDecorator(self._enqueuer)

    def wait_for(
        self, event: str, *, key: str | None = None, timeout: Duration | None = None
    ) -> Step[dict[str, Any]]:
        """In a flow, a step that waits for an event: ``wait_for("order.paid", key="{order_id}")``.

        Its result is what the event says. After the ``timeout`` it has failed.
        """
        return wait_for(event, key=key, timeout=timeout)

    @property
    def on(self) -> Reacting:
        """``@duly.on("invoice.paid")`` above a task or a flow, which takes fields of the event."""
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
        """Say that something happened: ``duly.emit("invoice.paid", {"invoice_id": 7})``.

        Its fields are what tasks take that react to it. ``key`` is for a step that waits for this
        very one. On a ``connection`` of yours it is part of your transaction. The number it gets.
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
        """Promise to run them all, in one go; or none of them.

        Whoever asks again under the same ``idempotency_key`` within a day gets the same jobs.
        """
        return self._enqueuer.enqueue(
            _all(calls),
            connection=connection,
            idempotency_key=idempotency_key,
            twin="duly.aenqueue_many()",
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

    # Ask.

    @property
    def jobs(self) -> Jobs:
        """Jobs by their numbers; failed ones by what they have in common."""
        return Jobs(self.registry, self._lazy)

    @property
    def schedules(self) -> Schedules:
        """What is to run when, as it stands in the store, and what became of it."""
        return Schedules(self._lazy, zone=self.zone)

    @property
    def events(self) -> Events:
        """What happened: list, get, replay."""
        return Events(self._lazy)

    @property
    def queues(self) -> Queues:
        """Lines of jobs: list, pause, resume, set."""
        return Queues(self._lazy)

    @property
    def limits(self) -> Limits:
        """How much at once and how often: list, set, reset."""
        return Limits(self._lazy)

    @property
    def workers(self) -> Workers:
        """Who runs jobs: list, drain, resume, stop."""
        return Workers(self._lazy)

    @property
    def tokens(self) -> Tokens:
        """Who may use the HTTP side: list, create, revoke."""
        return Tokens(self._lazy)

    @property
    def audit(self) -> Audit:
        """Who did what: list, verify."""
        return Audit(self._lazy)

    def current(self) -> Context:
        """The context of the job that this code runs in."""
        return context.current()

    # Run.

    def run(self, *, scheduler: bool = True, **options: Unpack[WorkerWords]) -> None:
        """Work here until SIGTERM or Ctrl-C: ``python tasks.py`` is then all that is needed.

        The first signal lets what runs come to its end, the second one does not.
        """
        _refuse_while_imported(sys._getframe(1), "run()")  # noqa: SLF001
        if threading.current_thread() is not threading.main_thread():
            raise InvalidValue("run() hears signals, in the main thread; here: duly.running()")
        asyncio.run(self._run(scheduler=scheduler, options=options))

    def running(
        self,
        *,
        worker: bool = True,
        scheduler: bool = True,
        grace: Duration = "30s",
        **options: Unpack[WorkerWords],
    ) -> Running:
        """Work beside other code: ``async with`` on its loop, ``with`` in a thread.

        On leaving, what runs comes to its end; what has not after the ``grace`` is stopped.
        """
        _refuse_while_imported(sys._getframe(1), "running()")  # noqa: SLF001

        def shift() -> NodeLifecycle:
            return NodeLifecycle(
                self._roles(worker=worker, scheduler=scheduler, dedicated=False, options=options)
            )

        return Running(shift, grace=length_of("grace", grace, longest=LONGEST, zero=True))

    @asynccontextmanager
    async def lifespan(self, app: object, /) -> AsyncIterator[None]:  # noqa: ARG002 - a framework's
        """``FastAPI(lifespan=duly.lifespan)``: works as long as the application does.

        In a sandbox it starts nothing: there, the test says what runs and when.
        """
        if self.url == ":memory:":
            yield
            return
        async with self.running():
            yield
        await self.aclose()

    def asgi(self, *, auth: "Auth") -> "ASGIApp":
        """The dashboard and the HTTP API, to be mounted: ``app.mount("/duly", duly.asgi(auth=…))``.

        ``auth="token"``: people and programs show tokens (``duly tokens``). Or a function, which
        may be async: it is given the request, and says who that is, as ``User("ada", "operator")``;
        None if nobody. What guards the application around it does not guard this.
        """
        # By its name: the web side is above us, and is imported when somebody wants it.
        mounting = import_module("duly.web.application")
        app: ASGIApp = mounting.mounted(self._lazy, self.registry, zone=self.zone, auth=auth)
        return app

    # Tidy up.

    async def aclose(self) -> None:
        """Close the store that was opened on this event loop. It would be, with the loop."""
        await self._lazy.aclose()

    def close(self) -> None:
        """Close the store of calls that were not awaited, and end their thread."""
        self._lazy.close()

    def __repr__(self) -> str:
        return f"<Duly {place(self.url)}>"

    async def _run(self, *, scheduler: bool, options: WorkerWords) -> None:
        roles = self._roles(worker=True, scheduler=scheduler, dedicated=True, options=options)
        _say(f"store: {place(self.url)}")
        await serve(NodeLifecycle(roles, event_printer(configured(), _say)), _say)

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
            scheduler=scheduler,
            target=self._target(),
            app=self.name or "",
            announcement=self._announced(whole=dedicated) if scheduler else None,
            stop_timeout=settings.stop_timeout if dedicated else None,
        )

    def _announced(self, *, whole: bool) -> DeclarationSet | None:
        """A program of its own declares all that it has; beside another one, it may be a part."""
        found = self.announcement()
        return None if found is None else replace(found, whole=whole)

    def announcement(self) -> DeclarationSet | None:
        """What its code declares, under the name of the app; None: it is nobody's by name."""
        app = self.name
        if app is None:
            if len(self.declarations):
                raise InvalidValue(
                    "this app declares schedules, and its name is part of theirs: make the Duly() "
                    "at the top of a module or script, under a name"
                )
            return None
        return self.declarations.announcement(app)

    @property
    def name(self) -> str | None:
        """``shop.tasks:duly``: the same in a script, a worker and the command."""
        if self._app is not None:
            return self._app
        target = self._target()
        if target is not None:
            place, _, name = target.rpartition(":")
            return f"{Path(place).stem if place.endswith('.py') else place}:{name}"
        birthplace = self._birthplace
        names = [name for name, value in birthplace.items() if value is self]
        # Typed into an interpreter: no other process can import it, and it has a name all the same.
        return (
            f"__main__:{names[0]}" if names and birthplace.get("__name__") == "__main__" else None
        )

    def _target(self) -> str | None:
        """What another process imports to find this app, if it can."""
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
    """Whoever imports the tasks, a worker or its children, would start a worker by it."""
    name = caller.f_globals.get("__name__")
    if caller.f_code.co_name == "<module>" and name != "__main__":
        raise InvalidValue(
            f'{what} was called while {name} was imported; put it under  if __name__ == "__main__":'
        )


def _all(calls: Iterable[Call[R]]) -> list[Call[R]]:
    found = list(calls)
    for call in found:
        if not isinstance(call, Call):
            raise InvalidValue(f"{call!r} is no call: say task.bind(…)")
        for word in ("connection", "idempotency_key"):
            if call.choices.get(word) is not None:
                raise InvalidValue(
                    f"{call!r} has a {word} of its own; give it once: enqueue_many(…, {word}=…)"
                )
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - it is the program then


def _completion(
    url: str, job: Claimed, definition: Definition, *, lease: timedelta
) -> JobTransaction:
    """Opened when the first task asks: what it needs takes time to import."""
    from duly.runtime.workers import completion  # noqa: PLC0415

    return completion(url, job, definition, lease=lease)
