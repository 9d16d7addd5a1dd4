"""Arguments and results as JSON text, checked when they enter the system.

Accepted values can be stored by every database, read by every language and shown to people: no NaN,
no infinity, no NUL, no lone surrogate, limited nesting and limited size. The text is made once,
here, and then passed around without being parsed.
"""

import json
import math
import re
from functools import lru_cache
from typing import Any, NewType, NoReturn

from duly.errors import PayloadError

Json = NewType("Json", str)

EMPTY = Json("{}")
LONGEST_ARGS = 256 * 1024
LONGEST_RESULT = 1024 * 1024
LONGEST_TEXT = 64 * 1024
DEEPEST = 64
# SQLite's JSON functions know 64-bit integers and doubles; larger integers lose their last digits.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**63 - 1


def encode(value: object, *, what: str = "arguments", longest: int = LONGEST_ARGS) -> Json:
    """Return the value as compact JSON text; raise ``PayloadError`` that names the bad place."""
    _Door(what, longest).check(value, what, 0)
    text = _ENCODER.encode(value)
    size = len(text.encode())
    if size > longest:
        raise _too_long(what, f"{size:,} bytes of JSON: the maximum is {longest:,}")
    return Json(text)


def decode(text: Json) -> Any:  # noqa: ANN401 - JSON is any of its types
    """Return the value of JSON text; raise ``PayloadError`` if the text is not JSON."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise PayloadError(f"{_short(text)} is nested too deeply") from None
    except ValueError as error:
        raise PayloadError(f"{_short(text)} is not JSON: {error}") from None


def check_json(text: object, what: str, *, longest: int = LONGEST_ARGS) -> Json:
    """Return JSON text from elsewhere if it passes the checks of ``encode``, or refuse it."""
    if not isinstance(text, str):
        raise PayloadError(
            f"{what}: {_short(text)} is not JSON text; duly.model.payload.encode(…) makes some"
        )
    return (_once_checked if len(text) <= 1_000 else _checked)(text, what, longest)


def _checked(text: str, what: str, longest: int) -> Json:
    try:
        encode(decode(Json(text)), what=what, longest=longest)
    except PayloadError as error:
        raise PayloadError(str(error) if what in str(error) else f"{what}: {error}") from None
    return Json(text)


_once_checked = lru_cache(maxsize=1024)(_checked)


def check_text(text: str, what: str, *, longest: int = 500) -> str:
    """Return a name, title or key that every database can hold, or refuse it."""
    if not isinstance(text, str):
        raise PayloadError(f"{what}: {_short(text)} is not text")
    if len(text) > longest:
        raise PayloadError(f"{what}: {len(text):,} characters: the maximum is {longest}")
    if "\0" in text:
        raise PayloadError(
            f"{what}: {_short(text)} contains a NUL character, which databases cannot store"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PayloadError(
            f"{what}: {_short(text)} contains a lone surrogate, which is not valid Unicode"
        ) from None
    return text


def storable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the text in a form that every database takes, in at most ``longest`` bytes of UTF-8.

    NUL and lone surrogates become U+FFFD. A text that is too long keeps its beginning and its end:
    a traceback has its entry point at the top and the error at the bottom.
    """
    data = _UNSTORABLE.sub("\ufffd", text).encode()
    if len(data) <= longest:
        return data.decode()
    marker = f"\n… {len(data):,} bytes; the middle is left out …\n".encode()
    room = longest - len(marker)
    if room < 0:
        return data[:longest].decode(errors="ignore")
    end = room - room // 2
    return (
        data[: room // 2].decode(errors="ignore")
        + marker.decode()
        + data[len(data) - end :].decode(errors="ignore")
    )


class _Door:
    """Walks a value and raises at the first part that cannot be stored.

    It also stops as soon as the text must be too long: forty lists that each hold the next one
    twice are a short value and a terabyte of text.
    """

    def __init__(self, what: str, longest: int) -> None:
        self.what = what
        self.longest = longest
        self.room = longest

    def check(self, value: object, where: str, depth: int) -> None:
        self.take(1)
        match value:
            case None | bool():
                return
            case str():
                self.take(len(value))
                check_text(value, where, longest=self.longest)
            case int():
                if not _SMALLEST_INT <= value <= _LARGEST_INT:
                    raise PayloadError(f"{where}: {_short(value)} does not fit in 64 bits")
            case float():
                if not math.isfinite(value):
                    raise PayloadError(f"{where}: {value} is not a number in JSON")
            case dict() | list() | tuple():
                if depth == DEEPEST:
                    raise PayloadError(f"{where}: nested more than {DEEPEST} levels deep")
                self.check_items(value, where, depth)
            case _:
                raise PayloadError(
                    f"{where}: {type(value).__name__} is not plain JSON: "
                    "None, bool, int, float, str, list, dict"
                )

    def check_items(
        self,
        value: dict[object, object] | list[object] | tuple[object, ...],
        where: str,
        depth: int,
    ) -> None:
        if not isinstance(value, dict):
            for place, item in enumerate(value):
                self.check(item, f"{where}[{place}]", depth + 1)
            return
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadError(f"{where}: the key {_short(key)} is not text")
            self.take(len(key))
            check_text(key, f"a key of {where}", longest=self.longest)
            self.check(item, f"{where}.{key[:40]}", depth + 1)

    def take(self, size: int) -> None:
        """Count ``size`` bytes, the minimum that a value needs."""
        self.room -= size
        if self.room < 0:
            raise _too_long(self.what, f"more than the maximum of {self.longest:,} bytes of JSON")


def _too_long(what: str, found: str) -> PayloadError:
    return PayloadError(f"{what}: {found}; store large values elsewhere and pass a reference")


def _short(value: object) -> str:
    try:
        shown = repr(value[:41] if isinstance(value, str) else value)
    except Exception:  # noqa: BLE001 - a value that cannot be shown is still to be refused
        return f"a {type(value).__name__}"
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large for a number in JSON")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


# Made once: json.dumps and json.loads make a new one for every call with options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
