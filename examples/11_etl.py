"""Jobs that wait for jobs and hand results on: one for each row, and one for all of them.

The function is called once, when it is defined. A result of the wrong type is an error in the
editor, and when this file is imported; a failed night is retried from the step that failed.
"""

from dataclasses import dataclass
from datetime import date

from duly import Duly, Step

duly = Duly(zone="Europe/Berlin")


@dataclass
class Report:
    day: date
    total: float


@duly.task
def day_of_the_run() -> date:
    return duly.current().due_at.date()


@duly.task
def extract(day: date) -> list[int]:
    return [1, 2, day.day]


@duly.task
def transform(row: int, factor: int) -> float:
    return float(row * factor)


@duly.task
def load(day: date, rows: list[float]) -> Report:
    return Report(day, sum(rows))


@duly.task
def tell_ops() -> None: ...


@duly.schedule("02:00")
@duly.flow
def etl() -> Step[Report]:
    day = day_of_the_run.step()
    parts = transform.map(extract.step(day.result).result, factor=2)
    report = load.step(day.result, parts.result)
    report >> tell_ops.step().when("any_failed")
    return report
