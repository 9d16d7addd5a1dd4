"""What one task gives and another takes: refused only where it is certainly wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest

from duly.registry.annotations import fits, inside, is_list, items_fit, takes_none


@dataclass
class Report:
    total: float


@dataclass
class Invoice:
    number: int


@dataclass
class Tree:
    name: str
    branches: "list[Tree]"


class Colour(Enum):
    RED = "red"


class Level(Enum):
    LOW = 1


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, int),
        (int, float),
        (int, int | None),
        (int | None, int),
        (int | str, str),
        (Any, int),
        (int, Any),
        (object, int),
        (list[int], list[float]),
        (list[int], Sequence[int]),
        (list[int], tuple[int, ...]),
        (list[int], tuple[int, int]),
        (list[int], set[int]),
        (list, list[int]),
        (list[Any], list[int]),
        (dict[str, int], dict[str, float]),
        (dict[str, Any], Report),
        (Report, dict[str, float]),
        (Report, Report),
        (date, str),
        (str, date),
        (UUID, str),
        (int, Decimal),
        (Colour, str),
        (str, Literal["a", "b"]),
        (Literal[1], int),
        (bytes, str),
        (Tree, Tree),
    ],
    ids=str,
)
def test_what_may_fit_is_accepted(given: object, wanted: object) -> None:
    assert fits(given, wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (str, int),
        (int, str),
        (float, int),
        (bool, int),
        (int, bool),
        (None, int),
        (int, None),
        (str | None, int),
        (list[int], float),
        (int, list[int]),
        (list[str], list[int]),
        (list[list[int]], list[int]),
        (dict[str, str], dict[str, int]),
        (dict[str, int], list[int]),
        (Report, Invoice),
        (Report, float),
        (datetime, date),
        (date, UUID),
        (Level, str),
        (Decimal, float),
        (Literal["a"], int),
    ],
    ids=str,
)
def test_what_is_certainly_wrong_is_refused(given: object, wanted: object) -> None:
    assert not fits(given, wanted)


def test_a_list_may_be_gone_over_and_nothing_else() -> None:
    assert all(map(is_list, (list[int], tuple[int, ...], set[int], list[int] | None, Any)))
    assert not any(map(is_list, (int, str, dict[str, int], None, Report)))


def test_items_are_compared_with_what_takes_one_of_them() -> None:
    assert items_fit(list[int], float)
    assert items_fit(tuple[int, str], str)
    assert items_fit(list[int] | None, int)
    assert items_fit(Any, int)
    assert not items_fit(list[str], int)
    assert not items_fit(tuple[str, ...] | None, int)


def test_none_is_taken_where_it_is_said_or_nothing_is() -> None:
    assert all(map(takes_none, (int | None, None, Any, object)))
    assert not any(map(takes_none, (int, list[int | None], Report)))


def test_inside_of_a_list_or_dict_is_what_it_holds() -> None:
    assert inside(list[int], 0) is int
    assert inside(dict[str, int], "a") is int
    assert inside(Report, "total") is Any
    assert inside(list, 0) is Any
