"""Errors about arguments and results: the task, the argument, the expected and the given value.

msgspec's messages are about JSON (``Expected `int`, got `null` - at `$.to.zip```); these errors are
about the parameters of a Python function.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from duly.errors import PayloadError, SignatureChanged
from duly.model import payload
from duly.model.payload import DEEPEST, Json
from duly.registry import codecs
from duly.registry.codecs import ENCODER
from duly.registry.parameters import Parameters

ARGUMENTS: Final = "arguments"
_LONG_NUMBER = re.compile(rb"\d{19}")
_AT = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field (`.*`)")
_WRITTEN: Final = {
    "Invalid RFC3339 encoded date": "a date is written as 2026-03-05",
    "Invalid RFC3339 encoded datetime": "a moment is written as 2026-03-05T09:00:00Z",
    "Invalid RFC3339 encoded time": "a time is written as 09:00:00",
    "Invalid ISO8601 duration": "a length of time is written as PT1H30M",
    "Invalid UUID": "a UUID is written as 123e4567-e89b-12d3-a456-426614174000",
    "Invalid decimal string": "a decimal number is written as 12.50",
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
            return _at(task, name, "it holds a lone surrogate, which is no text")
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
    return SignatureChanged(f"the job has {_shown(text)}, the task is {parameters}: {spoken}")


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
