from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from duly.model.columns import read_rows
from duly.model.limit import NamedLimit
from duly.model.states import State
from duly.model.terms import NO_TERMS, Terms


@dataclass(frozen=True, kw_only=True)
class Inner:
    pid: int


@dataclass(frozen=True, kw_only=True)
class Example:
    number: int
    text: str | None
    at: datetime
    ended_at: datetime | None
    took: timedelta
    state: State | None
    tags: tuple[str, ...]
    needs: Mapping[str, int]
    limits: tuple[NamedLimit, ...]
    terms: Terms
    inner: Inner
    fair: bool = False


ROW = (7, "", 1_000_000, None, 5, "", '["a"]', None, None, None, '{"pid": 3}', 1)
MADE = Example(
    number=7,
    text="",
    at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    ended_at=None,
    took=timedelta(microseconds=5),
    state=None,
    tags=("a",),
    needs={},
    limits=(),
    terms=NO_TERMS,
    inner=Inner(pid=3),
    fair=True,
)


def test_each_column_is_read_by_the_type_of_its_field() -> None:
    assert read_rows(Example, [ROW]) == [MADE]


def test_columns_may_be_named_in_another_order() -> None:
    columns = "fair number text at ended_at took state tags needs limits terms inner"
    assert read_rows(Example, [(ROW[-1], *ROW[:-1])], columns) == [MADE]
