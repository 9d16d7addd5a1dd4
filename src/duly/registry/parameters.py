"""The parameters of a task, and binding the arguments of a call to them.

``inspect`` binds arguments ten times slower, so it is only used to explain an error.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Final

from duly.errors import InvalidValue, PayloadError
from duly.registry.annotations import RETURN
from duly.registry.context import Context

_LONGEST_SHOWN: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    task: str
    function: Callable[..., object]
    names: tuple[str, ...]
    positional: tuple[str, ...]
    known: frozenset[str]
    required: frozenset[str]
    defaults: Mapping[str, object]
    extra: str | None  # the name of **kwargs
    annotations: Mapping[str, object]  # as written, with that of the result
    signature: inspect.Signature

    @classmethod
    def of(cls, function: Callable[..., object], *, takes_context: bool, task: str) -> "Parameters":
        found, result = _found(function, task)
        if takes_context:
            found = _without_context(found, task)
        else:
            _refuse_context(found, task)
        _refuse_nameless(found, task)
        plain = [each for each in found if each.kind is not Parameter.VAR_KEYWORD]
        return cls(
            task=task,
            function=function,
            names=tuple(each.name for each in plain),
            positional=tuple(
                each.name for each in plain if each.kind is Parameter.POSITIONAL_OR_KEYWORD
            ),
            known=frozenset(each.name for each in plain),
            required=frozenset(each.name for each in plain if each.default is Parameter.empty),
            defaults={
                each.name: each.default for each in plain if each.default is not Parameter.empty
            },
            extra=next((each.name for each in found if each not in plain), None),
            annotations={each.name: each.annotation for each in found} | {RETURN: result},
            signature=inspect.Signature(
                [each.replace(annotation=_bare(each.annotation)) for each in found]
            ),
        )

    def bound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by name; raise ``PayloadError`` with Python's message."""
        given: dict[str, object] = dict(zip(self.positional, args, strict=False))
        given.update(kwargs)
        if (
            len(given) != len(args) + len(kwargs)
            or not self.required <= given.keys()
            or not (self.extra or given.keys() <= self.known)
        ):
            raise self._refusal(args, kwargs)
        return given

    def __str__(self) -> str:
        return f"{self.task}{self.signature}"[:_LONGEST_SHOWN]

    def _refusal(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> PayloadError:
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            return PayloadError(f"{self}: {error}")
        return PayloadError(f"{self}: these arguments do not fit")


def _found(function: Callable[..., object], task: str) -> tuple[list[Parameter], object]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidValue(
            f"{task}: nothing is known of its parameters: wrap it in a function of your own"
        ) from None
    return [*signature.parameters.values()], signature.return_annotation


def _without_context(found: list[Parameter], task: str) -> list[Parameter]:
    if not found or found[0].kind not in (
        Parameter.POSITIONAL_ONLY,
        Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise InvalidValue(
            f"{task}: takes_context=True, and it has no first parameter to take one: "
            f"def {task}(context: Context, …)"
        )
    return found[1:]


def _refuse_context(found: list[Parameter], task: str) -> None:
    for each in found:
        if each.annotation is Context or each.annotation in ("Context", "duly.Context"):
            raise InvalidValue(
                f"{task}: parameter `{each.name}` is a Context, which no caller can give: say "
                "takes_context=True and let it be the first, or ask current() inside"
            )


def _refuse_nameless(found: list[Parameter], task: str) -> None:
    for each in found:
        if each.kind is Parameter.VAR_POSITIONAL:
            raise InvalidValue(
                f"{task}: *{each.name} has no names, and arguments are kept by name: "
                f"take a list, {each.name}: list[…]"
            )
        if each.kind is Parameter.POSITIONAL_ONLY:
            raise InvalidValue(
                f"{task}: parameter `{each.name}` cannot be given by name, and arguments are kept "
                'by name: leave out the "/"'
            )


class _Bare(str):
    """A string annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: object) -> object:
    return _Bare(annotation) if isinstance(annotation, str) else annotation
