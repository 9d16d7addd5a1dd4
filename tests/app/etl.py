"""Tasks to make flows of, and the flow that everybody has: extract, transform, load."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from duly import Duly, Step

duly = Duly(zone="Europe/Berlin")
DAY = date(2027, 1, 1)


@dataclass
class Report:
    total: float


@duly.task
def extract(day: date) -> list[int]:
    raise NotImplementedError


@duly.task
def transform(row: int, *, factor: int = 1) -> float:
    raise NotImplementedError


@duly.task
def load(rows: list[float]) -> Report:
    raise NotImplementedError


@duly.task
def clean() -> None: ...
@duly.task
def count(text: str) -> int:
    raise NotImplementedError


@duly.task
def publish(report: Report | None, *, note: str = "") -> None: ...
@duly.task(keep_result=None)
def forget() -> object:
    raise NotImplementedError


@duly.task
def anything(what: Any) -> Any:  # noqa: ANN401 - as users do
    raise NotImplementedError


@duly.task
def only_by_name(*, row: int) -> int:
    raise NotImplementedError


@duly.task
def loose(**words: int) -> None: ...


@duly.flow
def etl(day: date) -> Step[Report]:
    rows = extract.step(day)
    parts = transform.map(rows.result, factor=2)
    done = load.step(parts.result)
    done >> clean.step()
    return done
