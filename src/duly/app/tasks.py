"""Tasks: functions that can be called here, or enqueued to run on a worker.

``send(7)`` calls the function. ``send.enqueue(7)`` enqueues a job. ``send.using(run_after="5m")``
is the task with other options, and ``send.bind(7)`` a call with arguments, to be enqueued later.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import update_wrapper
from hashlib import sha256
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from duly import clock
from duly.app.job import Job, PromisedJob
from duly.app.jobs import Jobs, reading_jobs
from duly.app.steps import Mappable, step_of
from duly.app.task_options import JobOptions, TaskOptions
from duly.connection import LazyStore, awrite, told_which_database, write
from duly.errors import InvalidValue
from duly.flow.trace import Step, refuse_while_tracing
from duly.model import job as model
from duly.registry.context import Context, Sending, current
from duly.registry.definition import Definition, define
from duly.registry.option_values import name_of, refuse_unknown
from duly.registry.registry import Registry
from duly.store.caller_connection import Verb, Work, aenqueue_on, enqueue_on
from duly.store.store import Store

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Enqueuer:
    """Enqueues calls; holds the registry of tasks and the store."""

    def __init__(self, registry: Registry, lazy: LazyStore) -> None:
        self.registry = registry
        self.lazy = lazy

    def enqueue(
        self,
        calls: Sequence["Call[R]"],
        *,
        connection: object | None,
        idempotency_key: str | None,
        async_name: str,
    ) -> "EnqueuedJobs[R]":
        with Sending(self.registry.instruments, _asked(calls)) as sending:
            numbers = self._write(
                sending.requests, connection, idempotency_key, async_name=async_name
            )
        return EnqueuedJobs(self.lazy, calls, sending.requests, numbers)

    def _write(
        self,
        asked: Sequence[model.JobRequest],
        connection: object | None,
        idempotency_key: str | None,
        *,
        async_name: str,
    ) -> list[int]:
        """Store the jobs, on the caller's connection if there is one; return their numbers."""
        if connection is None:
            return self.lazy.call(
                lambda store: _enqueued(store, asked, idempotency_key), async_name=async_name
            )
        _refuse_both(idempotency_key)
        with told_which_database(self.lazy, connection):
            return enqueue_on(connection, asked)

    async def aenqueue(
        self,
        calls: Sequence["Call[R]"],
        *,
        connection: object | None,
        idempotency_key: str | None,
    ) -> "EnqueuedJobs[R]":
        with Sending(self.registry.instruments, _asked(calls)) as sending:
            asked = sending.requests
            if connection is None:
                numbers = await _enqueued(await self.lazy.store(), asked, idempotency_key)
            else:
                _refuse_both(idempotency_key)
                with told_which_database(self.lazy, connection):
                    numbers = await aenqueue_on(connection, asked)
        return EnqueuedJobs(self.lazy, calls, asked, numbers)


class EnqueuedJobs(Sequence[Job[R_co]]):
    """The jobs of some calls. A handle is made when it is first asked for."""

    def __init__(
        self,
        lazy: LazyStore,
        calls: Sequence["Call[R_co]"],
        asked: Sequence[model.JobRequest],
        numbers: Sequence[int],
    ) -> None:
        self._lazy, self._now = lazy, clock.now()
        self._parts = list(zip(calls, asked, numbers, strict=True))
        self._handles: dict[int, Job[R_co]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, index: int, /) -> Job[R_co]: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[Job[R_co]]: ...
    def __getitem__(self, index: int | slice, /) -> Job[R_co] | list[Job[R_co]]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        if places not in self._handles:
            call, request, number = self._parts[places]
            promised = PromisedJob(request, self._now)
            made: Job[R_co] = Job(self._lazy, number, promised, call.definition)
            self._handles.setdefault(places, made)  # another thread may have asked meanwhile
        return self._handles[places]

    def __repr__(self) -> str:
        return repr(list(self))


def _asked(calls: Sequence["Call[R]"]) -> list[model.JobRequest]:
    """Return the checked calls for the store."""
    for call in calls[:1]:
        refuse_while_tracing(f"{call.task}.enqueue(…)", f"call {call.task}.step(…)")
    return [call.asked() for call in calls]


async def _enqueued(
    store: Store, asked: Sequence[model.JobRequest], idempotency_key: str | None
) -> list[int]:
    if idempotency_key is None:
        return await store.jobs.enqueue(asked)
    # The digest covers tasks and arguments only: run_after may differ when a call is repeated.
    said = repr([(call.task, call.args) for call in asked])
    mark = sha256(said.encode()).hexdigest()
    return await store.jobs.enqueue_once(asked, key=idempotency_key, mark=mark)


def _refuse_both(idempotency_key: str | None) -> None:
    if idempotency_key is not None:
        raise InvalidValue(
            "idempotency_key= and connection= exclude each other: a job enqueued in your own "
            "transaction exists if and only if that transaction commits; keep the key in a table "
            "of yours"
        )


class Call(Generic[R_co]):
    """A task with its arguments, not yet enqueued."""

    __slots__ = ("_args", "_enqueuer", "_given", "_kwargs", "_using", "definition")

    def __init__(
        self,
        enqueuer: Enqueuer,
        definition: Definition,
        using: JobOptions,
        *,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        # Checks names only: types may be defined further down in the module.
        self._given = definition.signature.parameters.bound(args, kwargs)
        self._enqueuer = enqueuer
        self._using = using
        self._args = args
        self._kwargs = kwargs
        self.definition: Definition = definition

    @property
    def task(self) -> str:
        return self.definition.name

    @property
    def choices(self) -> JobOptions:
        """The options of the job, from ``using``."""
        return self._using

    @property
    def connection(self) -> object | None:
        """The caller's database connection, in whose transaction the job is enqueued."""
        return self._using.get("connection")

    @property
    def idempotency_key(self) -> str | None:
        """The idempotency key; within a day, calls with the same key enqueue one job."""
        return self._using.get("idempotency_key")

    def enqueue(self) -> Job[R_co]:
        return self._enqueuer.enqueue(
            [self],
            connection=self.connection,
            idempotency_key=self.idempotency_key,
            async_name="aenqueue()",
        )[0]

    async def aenqueue(self) -> Job[R_co]:
        jobs = await self._enqueuer.aenqueue(
            [self], connection=self.connection, idempotency_key=self.idempotency_key
        )
        return jobs[0]

    def step(self) -> Step[R_co]:
        """Add a step to the flow that is being defined."""
        registry = self._enqueuer.registry
        return step_of(registry, self.definition, self._using, args=self._args, kwargs=self._kwargs)

    def asked(self) -> model.JobRequest:
        """Return the checked call for the store."""
        registry = self._enqueuer.registry
        if not self._using:
            return registry.plain_call(self.definition, self._given)
        choices = {
            name: value
            for name, value in self._using.items()
            if name not in ("connection", "idempotency_key")
            and not (name == "tenant" and value is None)
        }
        return registry.call(self.definition, (), self._given, **cast(dict[str, Any], choices))

    def __repr__(self) -> str:
        given = [repr(value) for value in self._args]
        given += [f"{name}={value!r}" for name, value in self._kwargs.items()]
        return f"<Call {self.task}({', '.join(given)})>"


_OF_CELERY = {"delay": "enqueue(…)", "apply_async": "using(…).enqueue(…)", "s": "bind(…)"}


class Enqueueable(Generic[P, R_co]):
    """The common part of tasks and flows."""

    def __init__(self, enqueuer: Enqueuer, definition: Definition, using: JobOptions) -> None:
        update_wrapper(cast(Any, self), definition.function)
        self._enqueuer = enqueuer
        self._using = using
        self.definition = definition

    if not TYPE_CHECKING:  # a type checker shall still refuse unknown attributes

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            """Raise an AttributeError that answers a method of Celery with the one of duly."""
            if name in _OF_CELERY:
                ours = f"{self.__dict__['definition'].name}.{_OF_CELERY[name]}"
                raise AttributeError(f"a task of duly has no {name}(): use {ours}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def name(self) -> str:
        return self.definition.name

    def using(self, **choices: Unpack[JobOptions]) -> Self:
        """Return the task with other options for its jobs."""
        refuse_unknown(choices, JobOptions.__annotations__, who="using()")
        return type(self)(self._enqueuer, self.definition, {**self._using, **choices})

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """Return the call with its arguments, to be enqueued later."""
        return Call(self._enqueuer, self.definition, self._using, args=args, kwargs=kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Enqueue a job. Once this returns, the job is stored durably."""
        call = self.bind(*args, **kwargs)
        return self._enqueuer.enqueue(
            [call],
            connection=call.connection,
            idempotency_key=call.idempotency_key,
            async_name=f"{self.name}.aenqueue()",
        )[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        return await self.bind(*args, **kwargs).aenqueue()

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[R_co]:
        """Add a step to the flow that is being defined; arguments may be results of other steps."""
        return self._step(args, kwargs)

    def map(
        self: Mappable[T, Q, R], over: Sequence[T], /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Step[list[R]]:
        """Add a step that runs the task for each item of a list, as its first argument."""
        own, given = cast("Enqueueable[..., R]", self), (over, *args)
        return own._step(given, kwargs, maps=True)  # noqa: SLF001 - it is our own

    def cancel(self, *, key: str, connection: object | None = None) -> bool:
        """Cancel the unfinished job with the key; return whether there was one."""
        mine = self._connection(connection)
        return write(self._enqueuer.lazy, self._cancelling(key), self._cancel, connection=mine)

    async def acancel(self, *, key: str, connection: object | None = None) -> bool:
        mine = self._connection(connection)
        return await awrite(
            self._enqueuer.lazy, self._cancelling(key), self._cancel, connection=mine
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _step(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], *, maps: bool = False
    ) -> Step[Any]:
        registry = self._enqueuer.registry
        return step_of(registry, self.definition, self._using, args=args, kwargs=kwargs, maps=maps)

    @property
    def _cancel(self) -> Verb:
        return Verb(self.name, "cancel", "key=…, connection=…", decides=False)

    def _cancelling(self, key: str) -> Work[bool]:
        return lambda store: store.jobs.cancel_key(self.name, key)

    def _connection(self, given: object | None) -> object | None:
        return self._using.get("connection") if given is None else given

    def _called(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Call the function, with the current context if it takes one."""
        refuse_while_tracing(f"{self.name}(…)", f"call {self.name}.step(…)")
        given = (current(), *args) if self.definition.takes_context else args
        return self.definition.function(*given, **kwargs)


class Task(Enqueueable[P, R_co]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return cast(R_co, self._called(args, kwargs))


class AsyncTask(Enqueueable[P, R_co]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        return cast(Coroutine[Any, Any, R_co], self._called(args, kwargs))


class ContextTaskDecorator:
    """Decorates a function whose first parameter is the context."""

    def __init__(self, enqueuer: Enqueuer, options: TaskOptions) -> None:
        self._enqueuer = enqueuer
        self._options = options

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine function is a function, too
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return _declared(self._enqueuer, function, self._options, takes_context=True)


class TaskDecorator:
    """``@duly.task``, and ``@duly.task(retry=…)``, which returns another decorator."""

    def __init__(self, enqueuer: Enqueuer, options: TaskOptions | None = None) -> None:
        self._enqueuer = enqueuer
        self._options: TaskOptions = options or {}

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine function is a function, too
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(
        self, /, *, takes_context: Literal[True], **options: Unpack[TaskOptions]
    ) -> ContextTaskDecorator: ...
    @overload
    def __call__(
        self, /, *, takes_context: Literal[False] = False, **options: Unpack[TaskOptions]
    ) -> "TaskDecorator": ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        takes_context: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Any:
        refuse_unknown(options, (*TaskOptions.__annotations__, "takes_context"), who="a task")
        if function is not None:
            return _declared(self._enqueuer, function, {**self._options, **options})
        chosen: TaskOptions = {**self._options, **options}
        kind = ContextTaskDecorator if takes_context else TaskDecorator
        return kind(self._enqueuer, chosen)


def _declared(
    enqueuer: Enqueuer,
    function: Callable[..., Any],
    options: TaskOptions,
    *,
    takes_context: bool = False,
) -> Enqueueable[..., Any]:
    if isinstance(function, Enqueueable):
        raise InvalidValue(f"{function.name} is a task already: one @duly.task is enough")
    function = reading_jobs(function, lambda: Jobs(enqueuer.registry, enqueuer.lazy))
    definition = define(function, takes_context=takes_context, **options)
    enqueuer.registry.add(definition)
    kind = AsyncTask if definition.is_async else Task
    return kind(enqueuer, definition, {})


class ExternalTask(Enqueueable[..., Any]):
    """A task that a target runs: a job of it is a job of ``duly.send``."""

    def __init__(
        self, enqueuer: Enqueuer, definition: Definition, using: JobOptions, sent: Mapping[str, Any]
    ) -> None:
        super().__init__(enqueuer, definition, using)
        self._sent = sent  # the target, the task there, and options

    @classmethod
    def named(
        cls, enqueuer: Enqueuer, task: str, *, target: str | None, options: Mapping[str, Any]
    ) -> Self:
        from duly.builtin import send_definitions  # noqa: PLC0415 - for those who hand jobs off

        sent: dict[str, Any] = {"task": name_of("task", task)}
        if target is not None:
            sent["target"] = name_of("target", target)
        if options:
            sent["options"] = dict(options)
        return cls(enqueuer, send_definitions()[0], {}, sent)

    @property
    def name(self) -> str:
        """The name of the task in the other system."""
        return str(self._sent["task"])

    def using(self, **choices: Unpack[JobOptions]) -> Self:
        """Return the task with other options for its jobs; ``timeout`` is for the outcome."""
        refuse_unknown(choices, JobOptions.__annotations__, who="using()")
        chosen: JobOptions = {**self._using, **choices}
        return type(self)(self._enqueuer, self.definition, chosen, self._sent)

    def bind(self, *args: Any, **kwargs: Any) -> Call[Any]:
        """Return the call with its arguments, to be enqueued later."""
        given = self._given(args, kwargs)
        return Call(self._enqueuer, self.definition, self._keyed(), args=(), kwargs=given)

    def cancel(self, *, key: str, connection: object | None = None) -> bool:
        """Cancel the unfinished job with the key; return whether there was one."""
        return super().cancel(key=f"{self.name}:{key}", connection=connection)

    async def acancel(self, *, key: str, connection: object | None = None) -> bool:
        return await super().acancel(key=f"{self.name}:{key}", connection=connection)

    def _step(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], *, maps: bool = False
    ) -> Step[Any]:
        return super()._step((), self._given(args, kwargs), maps=maps)

    def _given(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        return {**self._sent, "args": list(args), "kwargs": dict(kwargs)}

    def _keyed(self) -> JobOptions:
        """Return the options, with a key that is unique for the task there, not for all of them."""
        key = self._using.get("key")
        return self._using if key is None else {**self._using, "key": f"{self.name}:{key}"}
