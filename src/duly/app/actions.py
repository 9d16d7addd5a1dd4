"""Declare a method of the public API once: the blocking form, and its async variant.

The method checks its arguments and returns an ``Action``, the work to be done with a store::

    @blocking
    def pause(self, name: str, /, *, note: str = "") -> Action[Queue]: ...


    apause = awaitable(pause)

``queues.pause(name)`` does the work and waits; ``await queues.apause(name)`` does it on the loop.
"""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import (
    Any,
    ClassVar,
    Concatenate,
    ForwardRef,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
)

from duly.connection import LazyStore, awrite, write
from duly.store.caller_connection import Verb, Work

N = TypeVar("N", bound="StoreUser")
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


class StoreUser(Protocol):
    """An object whose methods use a store; ``_noun`` is its name in messages."""

    _noun: ClassVar[str]
    _lazy: LazyStore


class AppNoun:
    """A noun of the app, as ``duly.queues``."""

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
