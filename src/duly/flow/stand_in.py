"""Stand-ins for values that are known only when a flow runs: results of steps, arguments.

A stand-in can only be passed on. A flow is traced once, when it is defined, so code that used such
a value would decide for all runs at once. Every such use is refused, with the name of the value.

Stand-ins may be whole arguments, or inside of lists and dicts. ``stand_ins_in`` finds the path to
each, and ``emptied`` puts null in their places.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Final, NoReturn, Protocol, TypeAlias

from duly.errors import InvalidValue
from duly.model.payload import DEEPEST, encode

_GOES_OVER: Final = "for … in it"
_LOOKS: Final = {
    "__iter__": _GOES_OVER,
    "__aiter__": "async for … in it",
    "__reversed__": "reversed(…)",
    "__next__": "next(…)",
    "__len__": "len(…)",
    "__contains__": "… in it",
    "__bool__": "if …",
    "__call__": "…()",
    "__str__": "str(…)",
    "__format__": 'f"{…}"',
    "__bytes__": "bytes(…)",
    "__int__": "int(…)",
    "__float__": "float(…)",
    "__complex__": "complex(…)",
    "__index__": "as a number",
    "__round__": "round(…)",
    "__abs__": "abs(…)",
    "__neg__": "-…",
    "__pos__": "+…",
    "__invert__": "~…",
    "__hash__": "as a key",
    "__await__": "await …",
    "__enter__": "with …",
    "__exit__": "with …",
    "__aenter__": "async with …",
    "__aexit__": "async with …",
    "__setitem__": "…[…] = …",
    "__delitem__": "del …[…]",
    "__setattr__": "….… = …",
    "__delattr__": "del ….…",
    "__eq__": "… == …",
    "__ne__": "… != …",
    "__lt__": "… < …",
    "__le__": "… <= …",
    "__gt__": "… > …",
    "__ge__": "… >= …",
}
_OPERATORS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "matmul": "@",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "divmod": "divmod",
    "pow": "**",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}


class Origin(Protocol):
    """The origin of the value; ``str`` of it is used in messages."""

    @property
    def flow(self) -> str: ...


class StandIn:
    __slots__ = ("_origin",)

    _origin: Origin

    def __init__(self, origin: Origin) -> None:
        object.__setattr__(self, "_origin", origin)

    def __repr__(self) -> str:
        return f"<{self._origin}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python and its tools ask any object for these
            raise AttributeError(name)
        _refuse(self, f"….{name}")

    def __getitem__(self, key: object) -> NoReturn:
        _refuse(self, f"…[{encode(key) if isinstance(key, str) else repr(key)}]")


def origin_of(stand_in: StandIn) -> Origin:
    return stand_in._origin  # noqa: SLF001 - every public name is refused


def _refuse(stand_in: StandIn, look: str) -> NoReturn:
    origin = origin_of(stand_in)
    instead = "write a task that takes it"
    if look == _GOES_OVER:
        instead = "task.map(…) runs a task for each item of it"
    raise InvalidValue(
        f"{origin.flow}: it reads {origin} ({look}), which has no value yet when the flow is "
        f"defined: {instead}"
    )


def _refusing(look: str) -> Callable[..., NoReturn]:
    def method(self: StandIn, *_: object, **__: object) -> NoReturn:
        _refuse(self, look)

    return method


for _name, _look in _LOOKS.items():
    setattr(StandIn, _name, _refusing(_look))
for _name, _sign in _OPERATORS.items():
    _shown = "divmod(…, …)" if _sign == "divmod" else f"… {_sign} …"
    setattr(StandIn, f"__{_name}__", _refusing(_shown))
    setattr(StandIn, f"__r{_name}__", _refusing(_shown))


Path: TypeAlias = tuple[str | int, ...]


def stand_ins_in(value: object, path: Path) -> Iterator[tuple[Path, StandIn]]:
    """Yield each stand-in with its path; raise ``InvalidValue`` where none is possible."""
    if isinstance(value, StandIn):
        yield path, value
    elif len(path) > DEEPEST:
        return  # encoding as JSON refuses it later
    elif isinstance(value, dict):
        yield from _in_dict(value, path)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from stand_ins_in(item, (*path, at))
    elif is_dataclass(value):
        _refuse_in_fields(value, path)


def emptied(value: object) -> object:
    """Return a copy of the value with None for every stand-in."""
    match value:
        case StandIn():
            return None
        case dict():
            return {key: emptied(item) for key, item in value.items()}
        case list() | tuple():
            return [emptied(item) for item in value]
        case _:
            return value


def shown_path(path: Path) -> str:
    """``rows[0].name``, as people write it."""
    first, *rest = path
    return f"{first}{''.join(f'[{at}]' if isinstance(at, int) else f'.{at}' for at in rest)}"


def _in_dict(value: dict[object, object], path: Path) -> Iterator[tuple[Path, StandIn]]:
    for key, item in value.items():
        for found in stand_ins_in(item, (*path, str(key))):
            if not isinstance(key, str):
                raise InvalidValue(
                    f"`{shown_path(path)}` has {found[1]!r} under the key {key!r}: the keys of "
                    "values that are filled in later must be strings"
                )
            yield found


def _refuse_in_fields(value: object, path: Path) -> None:
    held = vars(value) if hasattr(value, "__dict__") else {}
    for field in fields(value):  # type: ignore[arg-type]  # the caller checked is_dataclass
        found = held.get(field.name, getattr(value, field.name, None))
        for _, stand_in in stand_ins_in(found, (*path, field.name)):
            raise InvalidValue(
                f"`{shown_path(path)}` is a {type(value).__name__} that contains {stand_in!r}: a "
                "value that is filled in later must be an argument, or inside a list or dict: "
                "write a task that takes the value and builds the object"
            )
