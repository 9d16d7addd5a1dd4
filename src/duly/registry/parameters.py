"""The parameters of a task, and binding the arguments of a call to them.

``inspect`` binds arguments ten times slower, so it is only used to explain an error.

Errors about arguments and results: the task, the argument, the expected and the given value.

msgspec's messages are about JSON (``Expected `int`, got `null` - at `$.to.zip```); these errors are
about the parameters of a Python function.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Final

import msgspec

from duly.errors import InvalidValue, PayloadError, SignatureChanged
from duly.model import payload
from duly.model.payload import DEEPEST, Json
from duly.registry import codecs
from duly.registry.annotations import RETURN
from duly.registry.codecs import ENCODER
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
            f"{task}: its signature cannot be inspected: wrap it in a function of your own"
        ) from None
    return [*signature.parameters.values()], signature.return_annotation


def _without_context(found: list[Parameter], task: str) -> list[Parameter]:
    if not found or found[0].kind not in (
        Parameter.POSITIONAL_ONLY,
        Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise InvalidValue(
            f"{task}: takes_context=True, but it has no first parameter for the context: def "
            f"{task}(context: Context, …)"
        )
    return found[1:]


def _refuse_context(found: list[Parameter], task: str) -> None:
    for each in found:
        if each.annotation is Context or each.annotation in ("Context", "duly.Context"):
            raise InvalidValue(
                f"{task}: parameter `{each.name}` is a Context, which callers cannot pass: set "
                "takes_context=True and make it the first parameter, or call current() inside"
            )


def _refuse_nameless(found: list[Parameter], task: str) -> None:
    for each in found:
        if each.kind is Parameter.VAR_POSITIONAL:
            raise InvalidValue(
                f"{task}: *{each.name}: arguments are stored by name, so a task cannot take "
                f"*args: take a list, {each.name}: list[…]"
            )
        if each.kind is Parameter.POSITIONAL_ONLY:
            raise InvalidValue(
                f"{task}: parameter `{each.name}` is positional-only, but arguments are stored by "
                'name: remove the "/"'
            )


class _Bare(str):
    """A string annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: object) -> object:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


ARGUMENTS: Final = "arguments"
_LONG_NUMBER = re.compile(rb"\d{19}")
_AT = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field (`.*`)")
_WRITTEN: Final = {
    "Invalid RFC3339 encoded date": "write a date as 2026-03-05",
    "Invalid RFC3339 encoded datetime": "write a time with its offset as 2026-03-05T09:00:00Z",
    "Invalid RFC3339 encoded time": "write a time of day as 09:00:00",
    "Invalid ISO8601 duration": "write a duration as PT1H30M",
    "Invalid UUID": "write a UUID as 123e4567-e89b-12d3-a456-426614174000",
    "Invalid decimal string": "write a decimal number as 12.50",
}
_MISSING = re.compile(r"Object missing required field (`.*`)")


def check_storable(data: bytes, value: object, *, what: str, longest: int) -> None:
    """Refuse values that a database or another language would not give back unchanged.

    In the encoded text NaN is null, NUL an escape, and a long integer just digits. Few texts hold
    these, so only a text that might is checked in full.
    """
    if (
        len(data) > longest
        or b"null" in data
        or b"\\u0000" in data
        or data.count(b"[") + data.count(b"{") > DEEPEST
        or _LONG_NUMBER.search(data)
    ):
        built = msgspec.to_builtins(value, enc_hook=codecs.written, str_keys=True)
        payload.encode(built, what=what, longest=longest)


def check_plain(task: str, name: str, value: object) -> None:
    """Refuse a value without a type that is not plain JSON: a datetime would come back as text."""
    if type(value) in (str, int, bool, type(None)):
        return
    try:
        payload.encode(value, what=name)
    except PayloadError as error:
        hint = "; annotate it with its type" if "plain JSON" in str(error) else ""
        raise misplaced(task, f"{error}{hint}") from None


def misplaced(task: str, sentence: str) -> PayloadError:
    """Return the error for a message of a ``payload`` check, ``arguments.to.zip: why``."""
    where, _, why = sentence.partition(": ")
    return _at(task, where.removeprefix(f"{ARGUMENTS}."), why)


def misfit(
    task: str, error: msgspec.ValidationError, *, argument: str | None = None
) -> PayloadError:
    """Return the error for arguments of a wrong type; ``argument`` if only one was checked."""
    why, where = _parted(error)
    if argument is not None:
        where = f"{argument}{'.' if where and where[0] != '[' else ''}{where or ''}"
    return _at(task, where or ARGUMENTS, in_python(why))


def unwritable(task: str, given: Mapping[str, object], error: Exception) -> PayloadError:
    for name, value in given.items():
        try:
            ENCODER.encode(value)
        except RecursionError:
            return _at(task, name, f"nested more than {DEEPEST} levels deep")
        except UnicodeEncodeError:
            return _at(task, name, "the text contains a lone surrogate, which is not valid Unicode")
        except Exception as found:  # noqa: BLE001 - any error of a codec goes into the message
            return _at(task, name, str(found) or type(found).__name__)
    return PayloadError(f"{task}: {error}")


def changed(parameters: Parameters, text: str, error: Exception) -> SignatureChanged:
    """Return the error for stored arguments that do not fit the function any more."""
    why, where = _parted(error)
    if where is None:
        why = _UNKNOWN.sub(r"it has no parameter \1", why)
        why = _MISSING.sub(r"the job has no \1", why)
    spoken = in_python(why) if where is None else f"argument `{where}`: {in_python(why)}"
    return SignatureChanged(f"the job has {_shown(text)}, but the task is {parameters}: {spoken}")


def in_python(why: str) -> str:
    """``expected int, got None`` for ``Expected `int`, got `null```."""
    if why in _WRITTEN:
        return _WRITTEN[why]
    if why.startswith("Expected "):
        why = why.replace("`null`", "`None`").replace("`array`", "`list`").replace("`", "")
    first = why.partition(" ")[0]
    return why[:1].lower() + why[1:] if first.istitle() else why


def _at(task: str, where: str, why: str) -> PayloadError:
    spoken = where if where == ARGUMENTS else f"argument `{where}`"
    return PayloadError(f"{task}: {spoken}: {why}")


def _parted(error: Exception) -> tuple[str, str | None]:
    found = _AT.fullmatch(str(error))
    return (found[1], found[2]) if found else (str(error), None)


def _shown(text: str) -> str:
    try:
        found = payload.decode(Json(text))
    except PayloadError:
        return text[:40]
    if not isinstance(found, dict):
        return text[:40]
    return ", ".join(f"`{name}`" for name in found) or "no arguments"
