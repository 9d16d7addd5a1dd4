"""One declaration of a verb of the store.

A noun of the store (jobs, schedules, the ledger, …) is a class, and its verbs are the methods of
that class. The method is all there is: its signature is the protocol that callers are checked
against, and its decorator states which role may ask for it over HTTP. ``duly.remote`` makes its
proxy and its table of roles from these declarations.

``reads`` declares a verb that is one reading operation: the method returns the operation, and
callers await its result. ``reading`` makes such a verb of an operation that others use too.
``verb`` declares every other one, which is an ordinary coroutine. The
role ``None`` means that the verb is not offered over HTTP: only the engine asks for it, which
holds leases and fences and needs the database itself, or the web server, about its own users.
"""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from duly.model.access import Role
from duly.store.database import Operation
from duly.store.transactions import Transactions

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound="Noun")
P = ParamSpec("P")
T = TypeVar("T")

_DECLARED: Final = "__duly_verb__"


@dataclass(frozen=True, slots=True)
class VerbDeclaration:
    """The declaration of a verb, besides its signature."""

    role: Role | None  # None: not offered over HTTP
    changes: bool  # whether asking twice may differ from asking once
    is_long: bool  # whether it may take minutes


class Noun:
    """The verbs about one kind of thing, each in a transaction of its own."""

    def __init__(self, db: Transactions) -> None:
        self._db = db


def verb(role: Role | None, *, changes: bool = True, long: bool = False) -> Callable[[F], F]:
    """Declare a method as a verb."""

    def declare(method: F) -> F:
        setattr(method, _DECLARED, VerbDeclaration(role, changes, long))
        return method

    return declare


def reads(
    role: Role | None,
) -> Callable[
    [Callable[Concatenate[N, P], Operation[T]]], Callable[Concatenate[N, P], Coroutine[Any, Any, T]]
]:
    """Declare a method that returns a reading operation as a verb that runs it."""

    def declare(
        operation: Callable[Concatenate[N, P], Operation[T]],
    ) -> Callable[Concatenate[N, P], Coroutine[Any, Any, T]]:
        @verb(role, changes=False)
        @wraps(operation)
        async def read(noun: N, /, *args: P.args, **words: P.kwargs) -> T:
            return await noun._db.read(lambda: operation(noun, *args, **words))  # noqa: SLF001

        return read

    return declare


def reading(
    role: Role | None, operation: Callable[P, Operation[T]]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a verb that runs a reading operation."""

    @wraps(operation)
    def method(_noun: Noun, /, *args: P.args, **words: P.kwargs) -> Operation[T]:
        return operation(*args, **words)

    signature = inspect.signature(operation)
    noun = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[noun, *signature.parameters.values()]
    )
    return reads(role)(method)


def verbs_of(noun: type) -> dict[str, VerbDeclaration]:
    """Return the declared verbs of a noun, by name."""
    declared = {name: getattr(value, _DECLARED, None) for name, value in vars(noun).items()}
    return {name: found for name, found in declared.items() if found is not None}
