"""The definition of a task: a function, its name and its options.

Wrong options are refused here, when the task is declared, and not when a job is enqueued or runs.

An engine is a system outside of duly that runs the jobs of a task, as Dask or Kubernetes. The job
keeps its lease in duly. Its worker holds a coroutine that starts the remote job, waits for it and
reads its outcome. A remote job is found by its key, so that the worker after a lost one waits for
the same remote job instead of starting a second, or ends it if the job has ended meanwhile.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePath
from typing import Final, Literal, Protocol, TypeAlias

from duly.durations import show_duration
from duly.errors import InvalidValue
from duly.flow.graph import Graph
from duly.model.limit import MOST_LIMITS, Limit
from duly.model.payload import check_text
from duly.model.policies import LONGEST, choose
from duly.model.template import names_in, with_texts
from duly.policy.redaction import HIDDEN, is_secretive
from duly.policy.retry import Retry
from duly.registry.annotations import plain
from duly.registry.option_values import (
    Duration,
    Priority,
    length_of,
    memory_of,
    name_of,
    names_of,
    needs_of,
    priority_of,
    retry_of,
    task_of,
)
from duly.registry.parameters import Parameters
from duly.registry.signature import Signature

Executor: TypeAlias = Literal["async", "thread", "process"]

LONGEST_GRACE: Final = timedelta(hours=1)
DEFAULT_RETRY: Final = Retry()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineJob:
    """One try of a job, for an engine.

    ``request`` is everything that ``duly.engines.program`` needs to run it. ``heard`` takes each
    line that the remote job has written, and ``note`` a sentence of the engine itself.
    """

    key: str  # the same for each worker that comes to this try
    family: str  # the beginning of the keys of all tries of this job
    task: str
    module: str  # declares the task
    request: str
    timeout: timedelta | None
    grace: timedelta
    heard: Callable[[str], None] = field(repr=False)
    note: Callable[[str], None] = field(repr=False)


class Engine(Protocol):
    """A system that runs named remote jobs.

    The worker decides the order of the calls. A method raises ``EngineUnavailable`` if the system
    does not answer; the worker then begins again.
    """

    async def keys(self, family: str) -> Collection[str]:
        """Return the keys of the remote jobs of one job."""
        ...

    async def start(self, job: EngineJob) -> bool:
        """Start the remote job; return False if there is one with this key already."""
        ...

    async def report(self, job: EngineJob) -> str:
        """Wait until the remote job has ended; return what its program reported."""
        ...

    async def end(self, key: str, grace: timedelta) -> None:
        """End the remote job, if there is one, and return when it has ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Definition:
    name: str
    function: Callable[..., object]
    signature: Signature
    is_async: bool
    executor: Executor
    executor_named: bool  # whether the author chose the executor
    aliases: tuple[str, ...]
    title: str  # a template
    queue: str
    priority: int
    retry: Retry
    timeout: timedelta | None
    grace: timedelta
    memory: int | None  # bytes
    limits: tuple[Limit, ...]
    needs: Mapping[str, int]
    keep_result: timedelta | None  # None: not at all
    keep_failed: timedelta | None  # None: as the setting says
    takes_context: bool
    on_success: str | None
    on_failure: str | None
    on_cancelled: str | None
    file: str
    line: int
    graph: Graph | None = None  # of a flow
    engine: Engine | None = None  # None: the worker runs the function

    @property
    def where(self) -> str:
        """``tasks.py:12``."""
        return f"{PurePath(self.file).name}:{self.line}"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


def define(  # noqa: PLR0913 - all options of a task, by name
    function: Callable[..., object],
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    title: str | None = None,
    queue: str = "default",
    priority: Priority = 0,
    retry: Retry | None = DEFAULT_RETRY,
    timeout: Duration | None = None,
    grace: Duration = "10s",
    executor: Executor | None = None,
    engine: Engine | None = None,
    memory: str | None = None,
    limits: Sequence[Limit] = (),
    needs: Mapping[str, int] | None = None,
    keep_result: Duration | None = "7d",
    keep_failed: Duration | None = None,
    takes_context: bool = False,
    of_flow: bool = False,
    on_success: object = None,
    on_failure: object = None,
    on_cancelled: object = None,
) -> Definition:
    """Define a task; raise ``InvalidValue`` that names the task and the wrong option."""
    task = _name(function, name)
    try:
        is_async = _is_async(function)
        asked_timeout = None if timeout is None else length_of("timeout", timeout, longest=LONGEST)
        _check_engine(engine, executor)
        # The function of a flow does not run again, so a timeout needs no executor. For an engine,
        # a coroutine waits.
        opened = of_flow or is_async or engine is not None
        chosen = _executor(executor, is_async=opened, timeout=asked_timeout)
        parameters = Parameters.of(function, takes_context=takes_context, task=task)
        file, line = _place(function)
        return Definition(
            name=task,
            function=function,
            signature=Signature(parameters, keeps_result=keep_result is not None, of_flow=of_flow),
            is_async=is_async,
            executor=chosen,
            executor_named=executor is not None,
            engine=engine,
            aliases=tuple(alias for alias in names_of("aliases", aliases) if alias != task),
            title=_title(title, parameters),
            queue=name_of("queue", queue),
            priority=priority_of(priority),
            retry=retry_of(retry),
            timeout=asked_timeout,
            grace=length_of("grace", grace, longest=LONGEST_GRACE, zero=True),
            memory=_memory(memory, chosen),
            limits=_limits(limits, parameters),
            needs=needs_of({} if needs is None else needs),
            keep_result=_kept("keep_result", keep_result),
            keep_failed=_kept("keep_failed", keep_failed),
            takes_context=takes_context,
            on_success=task_of("on_success", on_success),
            on_failure=task_of("on_failure", on_failure),
            on_cancelled=task_of("on_cancelled", on_cancelled),
            file=file,
            line=line,
        )
    except InvalidValue as error:
        raise type(error)(_naming(task, error)) from None


def refuse_unkeepable(timeout: timedelta) -> None:
    """Refuse a timeout for a task that runs in a thread by default: threads cannot be stopped."""
    raise InvalidValue(
        'a thread cannot be stopped: use executor="process" (killed after '
        f'{show_duration(timeout)}), or executor="thread" (only reported), or make the function '
        "async"
    )


def _name(function: object, asked: str | None) -> str:
    if not callable(function):
        raise InvalidValue(f"{function!r} is not a function: a task must be one")
    found = asked if asked is not None else getattr(function, "__name__", None)
    if found is None or found == "<lambda>":
        raise InvalidValue(f"{function!r} has no name: give the task one with name=…")
    return name_of("name", found)


def _is_async(function: Callable[..., object]) -> bool:
    inner = plain(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise InvalidValue("it is a generator, and a task must return: return a list instead")
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(function)


def _executor(asked: Executor | None, *, is_async: bool, timeout: timedelta | None) -> Executor:
    if asked is None:
        if timeout is not None and not is_async:
            refuse_unkeepable(timeout)
        return "async" if is_async else "thread"
    choose("executor", asked, Executor)
    if asked == "async" and not is_async:
        raise InvalidValue(
            'executor="async" with a plain function would block every other task: make the '
            'function async, or use executor="thread" or executor="process"'
        )
    if asked == "thread" and is_async:
        raise InvalidValue(
            'executor="thread" with an async function, which runs on the event loop: leave '
            'executor out, or use executor="process"'
        )
    return asked


def _check_engine(engine: Engine | None, executor: Executor | None) -> None:
    if engine is None:
        return
    if executor is not None:
        raise InvalidValue(
            f'engine= and executor="{executor}" exclude each other: the function runs on the engine'
        )
    verbs = [getattr(engine, verb, None) for verb in ("keys", "start", "report", "end")]
    if isinstance(engine, type) or not all(callable(verb) for verb in verbs):
        raise InvalidValue(
            f'engine={engine!r}: expected an engine, as Dask("tcp://scheduler:8786")'
        )


def _title(asked: str | None, parameters: Parameters) -> str:
    if asked is None:
        return ""
    _check_template("title", check_text(asked, "title"), parameters)
    # A title is shown to everybody.
    secrets = [name for name in names_in(asked) if _is_secret(name, parameters)]
    return with_texts(asked, dict.fromkeys(secrets, HIDDEN)) if secrets else asked


def _is_secret(name: str, parameters: Parameters) -> bool:
    is_number = parameters.annotations.get(name) in (int, float, "int", "float")
    return is_secretive(name, "0" if is_number else "it")


def _memory(asked: str | None, executor: Executor) -> int | None:
    if asked is None:
        return None
    if executor != "process":
        raise InvalidValue(
            f'memory="{asked}": only a process can have a memory limit: use executor="process"'
        )
    return memory_of(asked)


def _limits(asked: Sequence[Limit], parameters: Parameters) -> tuple[Limit, ...]:
    found: object = asked
    if isinstance(found, str | Limit) or not isinstance(found, Sequence):
        raise InvalidValue(f'limits={found!r}: expected a list, as [Limit("crm", rate="50/s")]')
    if len(found) > MOST_LIMITS:
        raise InvalidValue(f"{len(found)} limits: a task can have at most {MOST_LIMITS}")
    for limit in found:
        if not isinstance(limit, Limit):
            raise InvalidValue(f'limits: {limit!r} is not a Limit, as Limit("crm", rate="50/s")')
        _check_template(f'Limit("{limit.name}")', limit.name, parameters)
    if len({limit.name for limit in found}) < len(found):
        raise InvalidValue("limits: two limits have the same name: merge them into one Limit")
    return tuple(found)


def _check_template(what: str, template: str, parameters: Parameters) -> None:
    for name in names_in(template):
        if name not in parameters.known and parameters.extra is None:
            raise InvalidValue(f'{what}: there is no parameter "{name}"; the task is {parameters}')


def _kept(what: str, asked: Duration | None) -> timedelta | None:
    return None if asked is None else length_of(what, asked, longest=LONGEST)


def _place(function: Callable[..., object]) -> tuple[str, int]:
    code = getattr(plain(function), "__code__", None)
    return ("?", 0) if code is None else (code.co_filename, code.co_firstlineno)


def _naming(task: str, error: InvalidValue) -> str:
    text = str(error)
    return text if text.startswith(task) else f"{task}: {text}"
