"""The payload zoo: what is not plain JSON is refused where it stands, the rest comes back whole."""

import enum
import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import PayloadError
from duly.model.payload import DEEPEST, EMPTY, LONGEST_ARGS, Json, check_text, decode, encode

INFINITY = 1e400  # a literal that Python reads as infinity

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), inner
        )
    ),
    max_leaves=30,
)
any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.frozensets(st.integers())
    ),
    max_leaves=20,
)


class Colour(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    YES = "yes"


class Metres(float):
    def __repr__(self) -> str:
        return f"{float(self)} m"


class Point(NamedTuple):
    x: int
    y: int


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("not even this")


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def doubling(levels: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(levels - 1):
        value = [value, value]
    return value


def cyclic_list() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def cyclic_dict() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


BOTTOMLESS: dict[str, Callable[[], object]] = {
    "one level too many": lambda: deep(DEEPEST + 1),
    "a hundred thousand levels": lambda: deep(100_000),
    "a list in itself": cyclic_list,
    "a dictionary in itself": cyclic_dict,
}
NOVELS: dict[str, Callable[[], object]] = {
    "one text": lambda: "x" * 50_000_000,
    "many texts": lambda: ["x" * 1000] * 50_000,
    "one key": lambda: {"x" * 50_000_000: 1},
    "many values": lambda: [None] * (LONGEST_ARGS + 1),
    "two to the 63rd ones, in a few kilobytes of memory": lambda: doubling(DEEPEST),
}
KEPT: list[tuple[object, str]] = [
    ({}, EMPTY),
    (None, "null"),
    (True, "true"),  # and not 1
    (1, "1"),
    (-0.0, "-0.0"),
    (sys.float_info.max, "1.7976931348623157e+308"),
    (5e-324, "5e-324"),
    (2**63 - 1, "9223372036854775807"),
    (-(2**63), "-9223372036854775808"),
    ((1, (2, 3)), "[1,[2,3]]"),
    (Point(1, 2), "[1,2]"),
    (Colour.RED, "1"),
    (Word.YES, '"yes"'),
    (Metres(1.5), "1.5"),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    ("Grüße, 你好 \U0001f600", '"Grüße, 你好 \U0001f600"'),
    ('quote " back \\ line \n', '"quote \\" back \\\\ line \\n"'),
    ("\x01\x1f\x7f\u2028\ufffd\uffff", '"\\u0001\\u001f\x7f\u2028\ufffd\uffff"'),
]
NOT_JSON = {
    "nothing": "",
    "half": "{",
    "two": "{} {}",
    "not a number": "NaN",
    "infinity": "[-Infinity]",
    "a number too large": "[1e400]",
    "an integer too long": "9" * 5000,
    "a hundred thousand levels": "[" * 100_000,
    "a byte order mark": "\ufeff{}",
}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, "x\0y"]}, r"arguments\.a\[1\]: 'x\\x00y' contains a NUL"),
        ({"a\0": 1}, r"a key of arguments: 'a\\x00' contains a NUL"),
        (["\ud800"], r"arguments\[0\]: '\\ud800' contains a lone surrogate"),
        ({"\udfff": 1}, "a key of arguments: .* contains a lone surrogate"),
        ({"rate": math.nan}, r"arguments\.rate: nan is not a number in JSON"),
        ({"rate": INFINITY}, r"arguments\.rate: inf is not a number in JSON"),
        ([-math.inf], r"arguments\[0\]: -inf is not"),
        ([Metres("nan")], r"arguments\[0\]: .* is not a number in JSON"),
        ({"data": b"\0\1"}, r"arguments\.data: bytes is not plain JSON"),
        ({"ids": {1, 2}}, r"arguments\.ids: set is not plain JSON"),
        (datetime(2026, 11, 13, tzinfo=UTC), "arguments: datetime is not plain JSON"),
        ([Decimal("1.5")], r"arguments\[0\]: Decimal is not plain JSON"),
        ([1j], r"arguments\[0\]: complex is not plain JSON"),
        (Unshowable(), "arguments: Unshowable is not plain JSON"),
        ({"a": {1: "one"}}, r"arguments\.a: the key 1 is not text"),
        ({None: 1}, "the key None is not text"),
        ({("a", "b"): 1}, r"the key \('a', 'b'\) is not text"),
        ({Unshowable(): 1}, "the key a Unshowable is not text"),
        ([2**63], r"arguments\[0\]: 9223372036854775808 does not fit in 64 bits"),
        ([-(2**63) - 1], "does not fit in 64 bits"),
        ([10**5000], r"arguments\[0\]: a int does not fit in 64 bits"),
    ],
)
def test_what_is_not_plain_json_is_refused_where_it_stands(value: object, place: str) -> None:
    with pytest.raises(PayloadError, match=place):
        encode(value)


@pytest.mark.parametrize("name", BOTTOMLESS)
def test_what_is_bottomless_is_refused_without_overflowing_the_stack(name: str) -> None:
    with pytest.raises(PayloadError, match="nested more than 64 levels deep"):
        encode(BOTTOMLESS[name]())


def test_what_is_as_deep_as_may_be_comes_back() -> None:
    assert decode(encode(deep(DEEPEST))) == deep(DEEPEST)


@pytest.mark.parametrize("name", NOVELS)
def test_what_is_too_long_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(
        PayloadError, match=r"262,144 bytes.*store large values elsewhere"
    ) as refused:
        encode(NOVELS[name]())
    assert len(str(refused.value)) < 200


def test_length_is_counted_in_bytes_of_json_and_the_last_one_still_fits() -> None:
    assert encode("é" * 49, longest=100) == f'"{"é" * 49}"'
    with pytest.raises(PayloadError, match="102 bytes of JSON: the maximum is 100"):
        encode("é" * 50, longest=100)
    assert encode([1, 2, 3], longest=7) == "[1,2,3]"
    assert encode("", longest=2) == '""'


def test_a_refusal_does_not_repeat_a_novel() -> None:
    with pytest.raises(PayloadError) as refused:
        encode("x" * 200_000 + "\0")
    assert len(str(refused.value)) < 200


def test_a_refusal_names_what_was_refused() -> None:
    with pytest.raises(PayloadError, match=r"^result\.total: nan "):
        encode({"total": math.nan}, what="result")


def test_what_is_plain_json_is_written_short() -> None:
    for value, text in KEPT:
        assert encode(value) == text


@given(json_values)
def test_every_json_value_comes_back_as_it_was(value: object) -> None:
    found = decode(encode(value))
    assert found == value
    assert repr(found) == repr(value)  # True is not 1, and -0.0 is not 0.0


@given(any_values)
def test_any_value_is_written_as_storable_text_or_refused(value: object) -> None:
    try:
        text = encode(value)
    except PayloadError:
        return
    assert text.encode().decode() == text
    assert "\0" not in text
    assert r"\u0000" not in text.replace(r"\\", "")
    assert encode(decode(text)) == text


@pytest.mark.parametrize("name", NOT_JSON)
def test_a_stored_text_that_is_not_json_is_refused_in_short(name: str) -> None:
    with pytest.raises(PayloadError) as refused:
        decode(Json(NOT_JSON[name]))
    assert len(str(refused.value)) < 300


def test_postgresql_takes_whatever_is_let_in(pg_dsn: str) -> None:
    with psycopg.connect(pg_dsn) as connection:
        for value, text in KEPT:
            asked = "select %(text)s::text, %(text)s::text::jsonb is null"
            assert connection.execute(asked, {"text": encode(value)}).fetchone() == (text, False)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("x" * 501, "title: 501 characters: the maximum is 500"),
        ("a\0b", r"title: 'a\\x00b' contains a NUL character"),
        ("\ud83d", r"title: '\\ud83d' contains a lone surrogate"),
        (5, "title: 5 is not text"),
        (b"title", "title: b'title' is not text"),
        (None, "title: None is not text"),
    ],
)
def test_a_name_that_no_database_holds_is_refused(text: str, refusal: str) -> None:
    with pytest.raises(PayloadError, match=refusal):
        check_text(text, "title")


def test_a_name_of_any_language_is_a_name() -> None:
    assert check_text("日報 \U0001f4ca", "title") == "日報 \U0001f4ca"
