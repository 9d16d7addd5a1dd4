"""The JSON form of the store's values, derived from their annotations.

Every field is sent, whatever its default: the other side may be of another version with another
default. Unknown fields are ignored in stored values and refused in requests: a choice that is not
understood must not be lost.

A datetime is ISO 8601 with its offset, a duration is a number of microseconds. Where several types
are possible, the value is in an object under the name of its type: ``{"timedelta": 5000000}``.

Roles below operator receive no secrets (``hiding``): every text is redacted and every JSON document
hidden, in any record. So a field that is added later is covered.

JSON becomes a value that is checked like a new one, or trusted like a stored one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NewType,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from duly.errors import InvalidValue
from duly.model.job import Label
from duly.model.payload import Json
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.redaction import hidden, hidden_json, redacted

MICROSECOND: Final = timedelta(microseconds=1)
ANYTHING: Final[tuple[object, ...]] = (Any, object)
_SINGLE: Final[tuple[object, ...]] = (str, bool, int, float, None, NoneType)

Shape: TypeAlias = Literal[
    "single", "enum", "moment", "length", "optional", "several", "items", "row", "mapping",
    "record", "unknown",
]  # fmt: skip


def shape_of(kind: Any) -> Shape:  # noqa: ANN401, PLR0911 - a table would hide their order
    origin = get_origin(kind)
    if origin is Literal or isinstance(kind, NewType) or kind in (*_SINGLE, *ANYTHING):
        return "single"
    if origin in (Union, UnionType):
        has_none = NoneType in get_args(kind)
        return "optional" if has_none and len(get_args(kind)) == 2 else "several"
    if origin is tuple:
        return "items" if get_args(kind)[1:] == (...,) else "row"
    if origin in (list, Sequence, frozenset):
        return "items"
    if origin in (dict, Mapping):
        return "mapping"
    if not isinstance(kind, type):
        return "unknown"
    if issubclass(kind, Enum):
        return "enum"
    if kind in (datetime, timedelta):
        return "moment" if kind is datetime else "length"
    return "record" if is_dataclass(kind) or hasattr(kind, "_fields") else "unknown"


def members(kind: Any) -> list[Any]:  # noqa: ANN401
    return [member for member in get_args(kind) if member is not NoneType]


def plain_kind(kind: Any) -> Any:  # noqa: ANN401
    return kind.__supertype__ if isinstance(kind, NewType) else kind


def hints_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    hints = get_type_hints(kind)
    names = [one.name for one in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}


def required_of(kind: Any) -> set[str]:  # noqa: ANN401
    if not is_dataclass(kind):
        return set(kind._fields) - set(kind._field_defaults)
    return {
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING
    }


Write: TypeAlias = Callable[[Any], Any]


@cache
def writer(kind: Any, *, hiding: bool = False) -> Write:  # noqa: ANN401, C901, PLR0911 - a line for each shape
    """Return a function that converts values of this type to JSON; ``hiding``: without secrets."""

    def inner(kind: Any) -> Write:  # noqa: ANN401
        return writer(kind, hiding=hiding)

    match shape_of(kind):
        case "single":
            return _write_hidden(kind) if hiding else _as_it_is
        case "enum":
            return lambda value: value.value
        case "moment":
            return datetime.isoformat
        case "length":
            return lambda value: value // MICROSECOND
        case "optional":
            [some] = members(kind)
            write_some = inner(some)
            return lambda value: None if value is None else write_some(value)
        case "several":
            return _write_union({member: inner(member) for member in members(kind)})
        case "items":
            write_item = inner(get_args(kind)[0])
            return lambda value: [write_item(item) for item in value]
        case "row":
            return _write_row([inner(part) for part in get_args(kind)])
        case "mapping":
            return _write_mapping(*map(inner, get_args(kind)), named=get_args(kind)[0] is str)
        case "record":
            return _write_record(kind, hiding=hiding)
        case _:
            raise NotImplementedError(f"{kind!r} cannot be written as JSON")


def _as_it_is(value: Any) -> Any:  # noqa: ANN401
    return value


def _write_hidden(kind: Any) -> Write:  # noqa: ANN401
    if kind is Json:
        return lambda value: hidden_json("", value)
    if kind is str:
        return redacted
    return hidden if kind in ANYTHING else _as_it_is


def _write_union(writers: Mapping[Any, Write]) -> Write:
    def write(value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        kind = next(kind for kind in writers if isinstance(value, kind))
        return {kind.__name__: writers[kind](value)}

    return write


def _write_row(writers: Sequence[Write]) -> Write:
    return lambda value: [write(part) for write, part in zip(writers, value, strict=True)]


def _write_mapping(key: Write, value: Write, *, named: bool) -> Write:
    if named:
        return lambda found: {key(name): value(one) for name, one in found.items()}
    return lambda found: [[key(name), value(one)] for name, one in found.items()]


def _write_record(kind: Any, *, hiding: bool) -> Write:  # noqa: ANN401
    writers = {name: writer(hint, hiding=hiding) for name, hint in hints_of(kind).items()}
    is_call = hiding and issubclass(kind, Label)

    def write(value: Any) -> dict[str, Any]:  # noqa: ANN401
        # Of a plan that could not be read, not everything is there.
        there = {name: getattr(value, name, MISSING) for name in writers}
        plain = {name: writers[name](one) for name, one in there.items() if one is not MISSING}
        if isinstance(value, Plan) and value.unreadable:
            plain["unreadable"] = redacted(value.unreadable) if hiding else value.unreadable
        if is_call:  # where its secrets are depends on the task
            plain["args"] = hidden_json(value.task, value.args)
        return plain

    return write


Read: TypeAlias = Callable[[Any, str], Any]  # the second is where it was found, for people

MOST_SHOWN: Final = 40
LARGEST: Final = 2**63 - 1  # that a database keeps


@cache
def reader(kind: Any, *, trusting: bool = False) -> Read:  # noqa: ANN401, C901, PLR0911 - a line for each shape
    """Return a function that converts JSON to this type, or raises ``InvalidValue`` with the place.

    ``trusting``: the value was stored, and is not validated again.
    """

    def inner(kind: Any) -> Read:  # noqa: ANN401
        return reader(kind, trusting=trusting)

    match shape_of(kind):
        case "single":
            return _read_single(plain_kind(kind))
        case "enum":
            return _read_choice(kind, "one of " + ", ".join(str(one.value) for one in kind))
        case "moment":
            return _read_moment
        case "length":
            return _read_length
        case "optional":
            [some] = members(kind)
            read_some = inner(some)
            return lambda value, where: None if value is None else read_some(value, where)
        case "several":
            return _read_union({member.__name__: inner(member) for member in members(kind)})
        case "items":
            return _read_items(inner(get_args(kind)[0]), _maker(get_origin(kind)))
        case "row":
            return _read_row([inner(part) for part in get_args(kind)])
        case "mapping":
            return _read_mapping(*map(inner, get_args(kind)), named=get_args(kind)[0] is str)
        case "record":
            # A schedule that a client has seen is compared with the stored one and never written.
            return _read_record(kind, trusting=trusting or kind is StoredSchedule)
        case _:
            raise NotImplementedError(f"{kind!r} cannot be written as JSON")


def _maker(origin: Any) -> Callable[[list[Any]], Any]:  # noqa: ANN401
    """Return the type that collects items: a list, unless the annotation names another."""
    return frozenset if origin is frozenset else tuple if origin is tuple else list


def _read_single(kind: Any) -> Read:  # noqa: ANN401
    if kind in ANYTHING:
        return lambda value, _: value
    if get_origin(kind) is Literal:
        return _read_choice(
            {one: one for one in get_args(kind)}.__getitem__,
            "one of " + ", ".join(map(str, get_args(kind))),
        )
    if kind is None or kind is NoneType:
        kind, said = NoneType, "null"
    else:
        said = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}[kind]

    def read(value: Any, where: str) -> Any:  # noqa: ANN401
        # Not isinstance: true is no number here.
        fits = type(value) is kind or (kind is float and type(value) is int)
        if fits and _can_be_kept(value):
            return value
        raise _refusal(value, where, said)

    return read


def _can_be_kept(value: object) -> bool:
    """Return whether a database can store the value."""
    if isinstance(value, str):
        return "\0" not in value
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _read_choice(choose: Callable[[Any], Any], said: str) -> Read:
    def read(value: Any, where: str) -> Any:  # noqa: ANN401
        try:
            return choose(value)
        except (KeyError, TypeError, ValueError):
            raise _refusal(value, where, said) from None

    return read


def _read_moment(value: Any, where: str) -> datetime:  # noqa: ANN401
    try:
        moment = datetime.fromisoformat(value)
        _ = moment.tzinfo and moment.astimezone(UTC)  # year 1 or 9999 may not exist there
    except (TypeError, ValueError, OverflowError):
        moment = None
    if moment is None:
        raise _refusal(value, where, "a time, as 2026-03-05T02:00+00:00")
    if moment.tzinfo is None:
        raise _refusal(value, where, "naive; it needs a zone, as 2026-03-05T02:00+00:00")
    return moment


def _read_length(value: Any, where: str) -> timedelta:  # noqa: ANN401
    if type(value) is int and abs(value) <= LARGEST:
        return value * MICROSECOND
    raise _refusal(value, where, "a length, in microseconds")


def _read_union(readers: Mapping[str, Read]) -> Read:
    def read(value: Any, where: str) -> Any:  # noqa: ANN401
        if value is None:
            return None
        if isinstance(value, dict) and len(value) == 1:
            [(name, found)] = value.items()
            if name in readers:
                return readers[name](found, where)
        raise _refusal(value, where, f"an object with one of {', '.join(readers)}")

    return read


def _read_items(read_item: Read, make: Callable[[list[Any]], Any]) -> Read:
    def read(value: Any, where: str) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            raise _refusal(value, where, "a list")
        return make([read_item(item, f"{where}[{place}]") for place, item in enumerate(value)])

    return read


def _read_row(readers: Sequence[Read]) -> Read:
    def read(value: Any, where: str) -> Any:  # noqa: ANN401
        if not isinstance(value, list) or len(value) != len(readers):
            raise _refusal(value, where, f"a list of {len(readers)}")
        return tuple(
            one(part, f"{where}[{place}]")
            for place, (one, part) in enumerate(zip(readers, value, strict=True))
        )

    return read


def _read_mapping(key: Read, one: Read, *, named: bool) -> Read:
    pairs = _read_items(_read_row([key, one]), dict)

    def read(value: Any, where: str) -> Any:  # noqa: ANN401
        if not named:
            return pairs(value, where)
        if not isinstance(value, dict):
            raise _refusal(value, where, "an object")
        return {name: one(found, f"{where}.{name}") for name, found in value.items()}

    return read


def _read_record(kind: Any, *, trusting: bool) -> Read:  # noqa: ANN401
    hints = hints_of(kind)
    if trusting and kind is Plan:
        hints["unreadable"] = str
    readers = {name: reader(hint, trusting=trusting) for name, hint in hints.items()}
    required = required_of(kind)

    def read(value: Any, where: str) -> Any:  # noqa: ANN401
        if not isinstance(value, dict):
            raise _refusal(value, where, f"an object: {kind.__name__}")
        if missing := required - value.keys():
            raise InvalidValue(f"{where}: {', '.join(sorted(missing))} is missing")
        if not trusting and (unknown := value.keys() - readers.keys()):
            raise InvalidValue(
                f"{where}: {', '.join(sorted(unknown))}: unknown field; client and server run "
                "different versions of duly"
            )
        found = {
            name: readers[name](one, f"{where}.{name}")
            for name, one in value.items()
            if name in readers
        }
        return _remembered(kind, found) if trusting else kind(**found)

    return read


def _remembered(kind: Any, found: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the value as it was stored, without the validation of new ones."""
    if not is_dataclass(kind):
        return kind(**found)
    value = object.__new__(kind)  # type: ignore[arg-type]
    for one in fields(kind):
        if one.name not in found:
            made = one.default if one.default_factory is MISSING else one.default_factory()
            object.__setattr__(value, one.name, made)
    for name, part in found.items():
        if name == "unreadable":
            value.__dict__[name] = part
        else:
            object.__setattr__(value, name, part)
    return value


def _refusal(value: object, where: str, wanted: str) -> InvalidValue:
    shown = repr(value)
    if len(shown) > MOST_SHOWN:
        shown = f"{shown[:MOST_SHOWN]}…"
    return InvalidValue(f"{where}={shown}: {wanted}")
