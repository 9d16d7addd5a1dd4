"""The nouns of an app, as ``duly.schedules``: the same for a program and for a user of the web.

A method of a noun is declared once, in its blocking form; the async variant is made from it. The
method checks its arguments and returns an ``Action``, the work to be done with a store::

    @blocking
    def pause(self, name: str, /, *, note: str = "") -> Action[Queue]: ...


    apause = awaitable(pause)

``queues.pause(name)`` does the work and waits; ``await queues.apause(name)`` does it on the loop.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    ForwardRef,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
)

from duly.connection import LazyStore, OpenStore, awrite, write
from duly.registry.registry import Registry
from duly.store.caller_connection import Verb, Work
from duly.store.store import Store

# Imported when they are used: a worker needs none of them, nor the views behind them.
if TYPE_CHECKING:
    from duly.app.access import Audit, Tokens
    from duly.app.capacity import Limits, Queues, Workers
    from duly.app.events import Events
    from duly.app.jobs import Jobs
    from duly.app.schedules import Schedules

N = TypeVar("N", bound="AppNoun")
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Action(Generic[T]):
    """Work to be done with a store, inside the transaction of ``connection`` if given.

    ``decides``: the outcome depends on what others committed.
    """

    work: Work[T]
    connection: object | None = None
    decides: bool = True


class AppNoun:
    """A noun of the app, as ``duly.queues``; ``_noun`` is its name in messages."""

    _noun: ClassVar[str]

    def __init__(self, lazy: LazyStore) -> None:
        self._lazy = lazy


def blocking(method: Callable[Concatenate[N, P], Action[T]]) -> Callable[Concatenate[N, P], T]:
    """Return the method that does its action and waits for it."""

    @wraps(method)
    def call(noun: N, /, *args: P.args, **words: P.kwargs) -> T:
        action = method(noun, *args, **words)
        verb = Verb(noun._noun, method.__name__, decides=action.decides)  # noqa: SLF001
        return write(noun._lazy, action.work, verb, connection=action.connection)  # noqa: SLF001

    return _with_result(call)


def awaitable(
    method: Callable[Concatenate[N, P], T],
) -> Callable[Concatenate[N, P], Coroutine[Any, Any, T]]:
    """Return the async variant of a blocking method."""
    declared = cast("Callable[..., Action[T]]", inspect.unwrap(method))

    @wraps(declared)
    async def call(noun: N, /, *args: P.args, **words: P.kwargs) -> T:
        action = declared(noun, *args, **words)
        verb = Verb(noun._noun, declared.__name__, decides=action.decides)  # noqa: SLF001
        return await awrite(noun._lazy, action.work, verb, connection=action.connection)  # noqa: SLF001

    call.__name__, call.__doc__ = f"a{declared.__name__}", None
    return _with_result(call)


def _with_result(call: Callable[P, T]) -> Callable[P, T]:
    """Let ``help()`` show the result of the action, not the action."""
    signature = inspect.signature(call)
    [result] = get_args(signature.return_annotation)
    if isinstance(result, ForwardRef):
        result = result.__forward_arg__
    call.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
    return call


class AppNouns(ABC):
    """The nouns on one store; ``_tenant`` limits the jobs to one tenant."""

    registry: Registry
    _lazy: LazyStore
    _tenant: str | None = None

    @property
    @abstractmethod
    def zone(self) -> str | None:
        """The default time zone of rules."""

    @property
    def jobs(self) -> "Jobs":
        """Jobs: list, get, retry, cancel, remove; groups of similar failures."""
        from duly.app.jobs import Jobs  # noqa: PLC0415

        return Jobs(self.registry, self._lazy, tenant=self._tenant)

    @property
    def schedules(self) -> "Schedules":
        """Schedules in the database, and the history of their runs."""
        from duly.app.schedules import Schedules  # noqa: PLC0415

        return Schedules(self._lazy, zone=self.zone)

    @property
    def events(self) -> "Events":
        """Events: list, get, replay."""
        from duly.app.events import Events  # noqa: PLC0415

        return Events(self._lazy)

    @property
    def queues(self) -> "Queues":
        """Queues: list, pause, resume, set."""
        from duly.app.capacity import Queues  # noqa: PLC0415

        return Queues(self._lazy)

    @property
    def limits(self) -> "Limits":
        """Concurrency and rate limits: list, set, reset."""
        from duly.app.capacity import Limits  # noqa: PLC0415

        return Limits(self._lazy)

    @property
    def workers(self) -> "Workers":
        """Workers: list, drain, resume, stop."""
        from duly.app.capacity import Workers  # noqa: PLC0415

        return Workers(self._lazy)

    @property
    def tokens(self) -> "Tokens":
        """Access tokens: list, create, revoke."""
        from duly.app.access import Tokens  # noqa: PLC0415

        return Tokens(self._lazy)

    @property
    def audit(self) -> "Audit":
        """The audit log: list, verify."""
        from duly.app.access import Audit  # noqa: PLC0415

        return Audit(self._lazy)


class StoreNouns(AppNouns):
    """The nouns on an open store, for a command; changes are recorded under its actor's name."""

    def __init__(self, store: Store) -> None:
        self.registry: Registry = Registry()
        self._lazy = OpenStore(store)

    @property
    def zone(self) -> str | None:
        return None
