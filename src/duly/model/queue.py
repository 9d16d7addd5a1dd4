"""A queue: a named line of jobs, with a pause switch and limits of its own."""

from dataclasses import dataclass

from duly.errors import InvalidValue
from duly.model.limit import Rate
from duly.model.payload import check_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    paused: bool = False
    note: str = ""
    concurrency: int | None = None  # jobs of it that run at once, in the whole cluster
    rate: Rate | None = None
    fair: bool = False  # tenants take turns

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        check_text(self.note, "note")
        concurrency = self.concurrency
        if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
            raise InvalidValue(
                f"concurrency={concurrency!r}: expected a whole number from 1, or None for no "
                "limit; to stop all jobs, pause the queue"
            )

    @property
    def plain(self) -> bool:
        """Return whether jobs are claimed without limits or fairness between tenants."""
        return self.concurrency is None and self.rate is None and not self.fair
